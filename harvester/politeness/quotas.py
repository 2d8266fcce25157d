"""Quotas that reach across runs: what sites allow in days, counted in MongoDB by all processes together.

Taking is one write to one document, so it is exact however many take at once. A request counts when it is sent, each
try of it: what was counted before a process died may be one too many, and never one too few.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from pymongo import ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection

COLLECTION = "quotas"
TRUST = timedelta(days=1)
"""How long a site is believed that a rolling quota is used up, of which more is left as far as is known here."""
Document = dict[str, Any]
Patiently = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Runs an operation until the server answers. It may run it again that was done, when the answer was lost."""


class Quota(NamedTuple):
    """So much of a site in so long. In a request's meta it is a list."""

    name: str
    """Whose it is, and of what: without secrets."""
    most: int
    use: str = ""
    """Given: it counts once in `window_s`, however often it is asked for. Empty: each request counts."""
    window_s: float = 0.0
    """That rolls along. 0: it is a day of `zone`."""
    zone: str = "UTC"
    """Name of the time zone at whose midnight a day's quota is new."""


class Quotas:
    """Those of a database. `now` is the clock."""

    def __init__(
        self,
        collection: AsyncCollection[Document],
        patiently: Patiently,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._collection, self._patiently, self._now = collection, patiently, now

    async def take(self, quota: Quota) -> datetime | None:
        """Counts a request that is about to be sent. None: it may be; else when there is room again."""
        now = self._now()
        return await (self._take_use(quota, now) if quota.window_s else self._take_of_day(quota, now))

    async def exhaust(self, quota: Quota) -> datetime:
        """Notes that the site itself says that it is used up, by others too; when it may be asked again."""
        now = self._now()
        until = now + TRUST if quota.window_s else midnight_after(now, quota.zone)
        held: Document = {"$set": {"until": until}}
        await self._patiently(lambda: self._collection.update_one({"_id": quota.name}, held, upsert=True))
        return until

    async def _take_of_day(self, quota: Quota, now: datetime) -> datetime | None:
        ends = midnight_after(now, quota.zone)
        is_today = {"$eq": ["$ends", ends]}
        used = {"$cond": [is_today, {"$ifNull": ["$used", 0]}, 0]}
        has_room = {"$and": [{"$lt": [used, quota.most]}, _is_free(now)]}
        change = [
            {"$set": {"used": {"$cond": [has_room, {"$add": [used, 1]}, used]}, "ends": ends, "had_room": has_room}}
        ]
        after = await self._change(quota, change)
        return None if after["had_room"] else ends

    async def _take_use(self, quota: Quota, now: datetime) -> datetime | None:
        since = now - timedelta(seconds=quota.window_s)
        uses = {"$filter": {"input": {"$ifNull": ["$uses", []]}, "cond": {"$gt": ["$$this.at", since]}}}
        use = {"$literal": quota.use}
        is_known = {"$in": [use, "$uses.use"]}
        has_room = {"$or": [is_known, {"$and": [{"$lt": [{"$size": "$uses"}, quota.most]}, _is_free(now)]}]}
        added = {"$concatArrays": ["$uses", [{"use": use, "at": now}]]}
        change: list[Document] = [
            {"$set": {"uses": uses}},
            {"$set": {"had_room": has_room}},
            {"$set": {"uses": {"$cond": [{"$and": ["$had_room", {"$not": is_known}]}, added, "$uses"]}}},
        ]
        after = await self._change(quota, change)
        if after["had_room"]:
            return None
        uses, held = after["uses"], after.get("until")
        full = min(use["at"] for use in uses) + timedelta(seconds=quota.window_s) if len(uses) >= quota.most else now
        return max(full, held or full)

    async def _change(self, quota: Quota, change: list[Document]) -> Document:
        """The document after it."""
        found: Document = await self._patiently(
            lambda: self._collection.find_one_and_update(
                {"_id": quota.name}, change, upsert=True, return_document=ReturnDocument.AFTER
            )
        )
        return found


def _is_free(now: datetime) -> Document:
    """Whether the site has not said that it is used up, or that is over."""
    return {"$lte": [{"$ifNull": ["$until", now]}, now]}


def midnight_after(now: datetime, zone: str) -> datetime:
    """When the day ends there, in UTC. Days of changes of the clock have 23 or 25 hours."""
    local = now.astimezone(ZoneInfo(zone))
    tomorrow = local.date() + timedelta(days=1)
    return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)

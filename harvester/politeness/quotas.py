"""Quotas of sites for days or longer, counted in MongoDB by all processes together, across runs.

To take a unit is one write to one document, so the count is exact with many processes. Each try of a request counts
when it is sent. When a process dies, the count may be one too high, and never one too low.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from pymongo import ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection

COLLECTION = "quotas"
TRUST = timedelta(days=1)
"""Time to believe a site that reports a rolling quota as used up, although the count here has some left."""
Document = dict[str, Any]
Patiently = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Runs an operation until the server answers. It may run an operation twice when the answer was lost."""


class Quota(NamedTuple):
    """A number of requests that a site allows in a time. A request's meta holds it as a list."""

    name: str
    """Name of the account and of the quota, without secrets."""
    most: int
    use: str = ""
    """Name of a use that counts once in `window_s`, however often it is requested. If empty, each request counts."""
    window_s: float = 0.0
    """Seconds of a rolling window; 0 for a day of `zone`."""
    zone: str = "UTC"
    """Name of the time zone; a daily quota starts at its midnight."""


class Quotas:
    """The quotas of a database. `now` is the clock."""

    def __init__(
        self,
        collection: AsyncCollection[Document],
        patiently: Patiently,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._collection, self._patiently, self._now = collection, patiently, now

    async def take(self, quota: Quota) -> datetime | None:
        """Counts a request that is about to be sent. Returns None if it may leave, else the time when there is room."""
        now = self._now()
        return await (self._take_use(quota, now) if quota.window_s else self._take_of_day(quota, now))

    async def exhaust(self, quota: Quota) -> datetime:
        """Records that the site itself reports the quota as used up. Returns the time of the next request."""
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
        """Applies the change. Returns the document after it."""
        found: Document = await self._patiently(
            lambda: self._collection.find_one_and_update(
                {"_id": quota.name}, change, upsert=True, return_document=ReturnDocument.AFTER
            )
        )
        return found


def _is_free(now: datetime) -> Document:
    """Returns a condition: the site has not reported the quota as used up, or that time is over."""
    return {"$lte": [{"$ifNull": ["$until", now]}, now]}


def midnight_after(now: datetime, zone: str) -> datetime:
    """Returns the end of the day in the zone, in UTC. A day has 23 or 25 hours when its clock changes."""
    local = now.astimezone(ZoneInfo(zone))
    tomorrow = local.date() + timedelta(days=1)
    return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)

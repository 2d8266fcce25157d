"""Reports changes of breakers to people: a document of `events` for each change, and an alert for each opening.

Redis hands a change to one worker, and to another one if the first does not confirm it in time (frontier/lua). A worker
claims the document before it sends the alert, so two workers with the same change send one alert.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pymongo
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from harvester.alerts.channels import Alert, send
from harvester.breaker.messages import extrapolation, reason, title
from harvester.breaker.states import BreakerChange
from harvester.config import Config
from harvester.exceptions import ServiceError
from harvester.shutdown import stop
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

Document = dict[str, Any]

DATABASE_S = 5
"""Seconds for one exchange with MongoDB, at most."""
AGAIN_S = 5.0
"""Seconds until a failed write is tried again."""
SENDING_S = 60
"""Seconds that a worker has to send an alert before another one does."""
LEAVE_S = 10.0
"""Seconds that the end of a run waits for the changes that are not reported yet."""

INDEXES = [
    IndexModel([("site", ASCENDING), ("at", DESCENDING)]),
    IndexModel([("spider", ASCENDING), ("at", DESCENDING)]),
]


class BreakerAlerts:
    """Reports changes one after the other while the crawl goes on. Calls `told` with the id of a reported change."""

    def __init__(self, config: Config, spider: str, told: Callable[[str], None]) -> None:
        self._config = config
        self._spider = spider
        self._told = told
        self._database: AsyncDatabase[Document] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._sent: set[str] = set()
        """Changes whose alert was sent, before MongoDB knows it."""

    def tell(self, changes: list[BreakerChange]) -> None:
        """Starts to report the changes, and does not wait for the end."""
        for change in changes:
            if change.id not in self._tasks:
                if change.after in ("open", "held"):
                    logger.warning("%s: %s %s", title(change), reason(change), extrapolation(change))
                else:
                    logger.info("%s: %s", title(change), reason(change))
                self._tasks[change.id] = asyncio.create_task(self._tell(change))

    async def close(self) -> None:
        """Waits for the open reports for a short time. Another worker, or the next run, reports the rest."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=LEAVE_S)
            await stop(*late)
        if self._database is not None:
            await mongodb.disconnect(self._database)

    async def _tell(self, change: BreakerChange) -> None:
        unreachable = False
        while True:
            try:
                async with self._one_at_a_time:
                    is_known = await self._write_and_send(change)
            except (PyMongoError, ServiceError) as error:
                if not unreachable:
                    logger.warning(
                        "An event of %s could not be written to MongoDB: %s", change.site, mongodb.said(error)
                    )
                unreachable = True
            else:
                if is_known:
                    self._told(change.id)
                    del self._tasks[change.id]
                    return
            await asyncio.sleep(AGAIN_S)

    async def _write_and_send(self, change: BreakerChange) -> bool:
        """Returns True once the change is written and its alert sent.

        Returns False while another worker sends the alert: that worker may die before it has.
        """
        event = document(self._spider, change)
        name = {"_id": event.pop("_id")}
        if self._database is None:
            self._database = await asyncio.to_thread(mongodb.connect, self._config)
        with pymongo.timeout(DATABASE_S):
            events = self._database["events"]
            await events.create_indexes(INDEXES)
            await events.update_one(name, {"$setOnInsert": event}, upsert=True)
            if not is_alarming(change):
                return True
            if change.id not in self._sent:
                now = datetime.now(UTC)
                unclaimed = {"alerting_at": None}, {"alerting_at": {"$lt": now - timedelta(seconds=SENDING_S)}}
                claim = {**name, "alerted_at": None, "$or": list(unclaimed)}
                claimed = await events.update_one(claim, {"$set": {"alerting_at": now}})
                if not claimed.modified_count:
                    return await events.count_documents({**name, "alerted_at": None}) == 0
        if change.id not in self._sent:
            await asyncio.to_thread(send, self._config, alert_of(change, event))
            self._sent.add(change.id)
        with pymongo.timeout(DATABASE_S):
            await events.update_one(name, {"$set": {"alerted_at": datetime.now(UTC)}})
        self._sent.remove(change.id)
        return True


def is_alarming(change: BreakerChange) -> bool:
    """Returns True if the change sends an alert: a closed breaker opened, and no person wanted it."""
    return change.before == "closed" and change.after == "open" and not change.by


def document(spider: str, change: BreakerChange) -> Document:
    """Returns the change as a document of MongoDB."""
    return {
        "_id": f"{spider} {change.id}",
        "spider": spider,
        "site": change.site,
        "tier": change.tier or None,
        "from": change.before,
        "to": change.after,
        "cause": change.cause,
        "by": change.by or None,
        "reason": reason(change),
        "extrapolation": extrapolation(change) or None,
        "evidence": change.said or None,
        "counts": change.outcomes,
        "tried": change.tried,
        "failed": change.failed,
        "left": change.left,
        "until": datetime.fromtimestamp(change.until, UTC) if change.until else None,
        "at": datetime.fromtimestamp(change.at, UTC),
    }


def alert_of(change: BreakerChange, event: Document) -> Alert:
    """Returns the alert for a breaker that opened."""
    meanwhile = f"Its requests ({change.left:,}) are parked, and cost nothing."
    if change.tier:
        meanwhile = "Its requests go by its other tiers, if they may, and wait if not."
    lines = [line for line in (reason(change), extrapolation(change)) if line]
    lines.append(
        f"{meanwhile} Probes go out from {event['until']:%Y-%m-%d %H:%M:%S} UTC on. "
        f"`harvester frontier status {event['spider']}` shows how it goes."
    )
    payload = {"event": "breaker"} | {
        key: value.isoformat() if isinstance(value, datetime) else value for key, value in event.items()
    }
    return Alert(f"harvester: {title(change)}", lines, None, payload)


async def write_down(config: Config, spider: str, change: BreakerChange) -> None:
    """Writes the change that a person made. Raises ServiceError."""
    database = await asyncio.to_thread(mongodb.connect, config)
    try:
        event = document(spider, change)
        with pymongo.timeout(DATABASE_S):
            await database["events"].update_one({"_id": event.pop("_id")}, {"$setOnInsert": event}, upsert=True)
    except PyMongoError as error:
        raise mongodb.unavailable(error) from None
    finally:
        with contextlib.suppress(PyMongoError):
            await mongodb.disconnect(database)

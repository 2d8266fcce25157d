"""The state of a spider's frontier as saved in MongoDB: its epoch, and whether work was left in it.

So a run that starts after Redis forgot everything, while no worker ran, is not mistaken for a first run. Collection
`frontiers`, one document for each spider: `_id`, `epoch`, `unfinished`, `since`, `starts`, `left`; for a spider with
jobs see `owner`.
"""

import logging
from datetime import UTC, datetime
from typing import Any, Self

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, PyMongoError
from scrapy.crawler import Crawler

from harvester.config import Config, load_config
from harvester.exceptions import FrontierLost, HarvesterError
from harvester.stores import mongodb
from harvester.stores.mongodb import MongoOutage

logger = logging.getLogger(__name__)

Document = dict[str, Any]
COLLECTION = "frontiers"


class SpiderDocument:
    """The document of this crawler's spider."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._patiently = MongoOutage(crawler, config)
        self._connected: AsyncDatabase[Document] | None = None

    async def close(self) -> None:
        """Closes the connection; to be called last."""
        if self._connected is not None:
            await mongodb.disconnect(self._connected)

    async def _try(self, asking: Any) -> Any:
        """Runs an operation without waiting out an outage, since the run is ending."""
        try:
            with mongodb.at_the_end(self._crawler):
                return await asking
        except PyMongoError as error:
            logger.warning("How the frontier was left could not be written to MongoDB: %s", mongodb.said(error))

    @property
    def _documents(self) -> Any:
        if self._connected is None:
            self._connected = mongodb.connect(self._config)
        return self._connected[COLLECTION]

    @property
    def _spider(self) -> str:
        assert self._crawler.spider
        return self._crawler.spider.name


class FrontierRecord(SpiderDocument):
    """The document of a spider without jobs, as an extension. The scheduler uses it."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    async def check(self, epoch: str) -> None:
        """Raises FrontierLost when the frontier that was left unfinished has another epoch."""
        known = await self._patiently(lambda: self._documents.find_one({"_id": self._spider}))
        if known and known.get("unfinished") and known["epoch"] != epoch:
            left = f" with {known['left']:,} requests" if known.get("left") else ""
            raise FrontierLost(f"Redis has forgotten the frontier that was left unfinished{left} ({_said(known)})")

    async def begin(self, epoch: str) -> None:
        """Saves that the frontier has work."""
        mine = {"_id": self._spider, "$or": [{"unfinished": False}, {"epoch": epoch}]}
        change = {
            "$set": {"epoch": epoch, "unfinished": True, "since": datetime.now(UTC)},
            "$inc": {"starts": 1},
            "$unset": {"left": ""},
        }
        try:
            await self._patiently(lambda: self._documents.update_one(mine, change, upsert=True))
        except DuplicateKeyError:
            pass  # the frontier is lost, and its workers report it
        except (PyMongoError, HarvesterError) as error:
            logger.warning("It could not be written to MongoDB that the frontier has work: %s", mongodb.said(error))

    async def starts(self) -> int:
        """Returns how many times the frontier got work."""
        known = await self._try(self._documents.find_one({"_id": self._spider}))
        return int(known["starts"]) if known else 0

    async def end(self, epoch: str, starts: int, left: int) -> None:
        """Saves how many requests a worker leaves. With 0 the frontier is finished, unless it got work since."""
        mine: Document = {"_id": self._spider, "epoch": epoch, "unfinished": True}
        if left:
            await self._try(self._documents.update_one(mine, {"$set": {"left": left, "since": datetime.now(UTC)}}))
        else:
            mine["starts"] = starts
            await self._try(self._documents.update_one(mine, {"$set": {"unfinished": False}, "$unset": {"left": ""}}))


async def forget(config: Config, spider: str) -> None:
    """Removes the document, so that a lost frontier is no longer reported. Raises ServiceError."""
    database = mongodb.connect(config)
    try:
        await database[COLLECTION].delete_one({"_id": spider})
    except PyMongoError as error:
        raise mongodb.unavailable(error) from None
    finally:
        await mongodb.disconnect(database)


def _said(known: Document) -> str:
    return f"{known['since']:%Y-%m-%d %H:%M:%S} UTC"

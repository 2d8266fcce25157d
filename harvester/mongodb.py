"""Connections to the MongoDB that holds records and ledger: the configured one, or the private one."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from pymongo.errors import ConnectionFailure, NotPrimaryError, WTimeoutError
from scrapy.crawler import Crawler

from harvester import services
from harvester.config import Config
from harvester.exceptions import ServiceError, StorageError

logger = logging.getLogger(__name__)
T = TypeVar("T")

OPTIONS: dict[str, Any] = {
    "tz_aware": True,
    "journal": True,
    "serverSelectionTimeoutMS": 5_000,
    "appname": "harvester",
}
"""Journalled: without waiting for the journal a killed server was seen to lose confirmed writes."""


def connect(config: Config) -> AsyncDatabase[dict[str, Any]]:
    """The database, for use on an event loop. Starts the private server when none is configured."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(services.mongodb_uri(config), **OPTIONS)
    return client[config.database]


def connect_sync(config: Config) -> Database[dict[str, Any]]:
    """The database, for commands. Starts the private server when none is configured."""
    client: MongoClient[dict[str, Any]] = MongoClient(services.mongodb_uri(config), **OPTIONS)
    return client[config.database]


class Patience:
    """Makes a MongoDB outage a pause: operations are tried until the server is back."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._waiting = 0

    async def __call__(self, operation: Callable[[], Awaitable[T]]) -> T:
        """The operation's result. Raises StorageError when the crawl is being stopped during an outage."""
        for attempt in itertools.count():
            try:
                result = await operation()
            except (ConnectionFailure, NotPrimaryError, WTimeoutError, ServiceError) as error:
                self._pause(attempt, error)
                if attempt and not self._wanted():
                    self._resume()
                    raise StorageError(f"MongoDB cannot be reached, and the crawl was told to stop: {error}") from None
                await asyncio.sleep(min(5.0, 0.2 * 2 ** min(attempt, 8)))
                with contextlib.suppress(ServiceError):
                    await asyncio.to_thread(services.mongodb_uri, self._config)
            else:
                if attempt:
                    self._resume()
                return result
        raise AssertionError

    def _wanted(self) -> bool:
        engine = self._crawler.engine
        return engine is not None and engine.running

    def _pause(self, attempt: int, error: Exception) -> None:
        if attempt == 0:
            self._waiting += 1
        if attempt == 0 and self._waiting == 1:
            logger.warning("MongoDB cannot be reached; the crawl pauses until it is back: %s", error)
            self._crawler.stats.set_value("harvester/waiting_for/mongodb", 1)
            if self._crawler.engine:
                self._crawler.engine.pause()

    def _resume(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            logger.info("MongoDB is back; the crawl goes on")
            self._crawler.stats.set_value("harvester/waiting_for/mongodb", 0)
            if self._crawler.engine:
                self._crawler.engine.unpause()

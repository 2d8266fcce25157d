"""Connections to the MongoDB that holds records and ledger: the configured one, or the private one."""

import asyncio
import contextlib
import itertools
import logging
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure, PyMongoError, WTimeoutError
from scrapy.crawler import Crawler

from harvester import services
from harvester.config import Config
from harvester.ending import is_ending
from harvester.exceptions import ServiceError, StorageError, UsageError

logger = logging.getLogger(__name__)
T = TypeVar("T")

OPTIONS: dict[str, Any] = {
    "tz_aware": True,
    "journal": True,
    "serverSelectionTimeoutMS": 5_000,
    "appname": "harvester",
}
"""Journalled: without waiting for the journal a killed server was seen to lose confirmed writes."""
_REFUSED = (13, 18)
"""Unauthorized, AuthenticationFailed."""
_UNKNOWN_TO_A_STANDALONE = 20
"""IllegalOperation: pymongo may take a server that has just started again for a member of a replica set."""
_STOPPING = frozenset({91, 189, 10107, 11600, 11602, 13435, 13436})
"""ShutdownInProgress, PrimarySteppedDown, InterruptedAtShutdown and their like, in the errors of a bulk write."""
_EXAMPLE = "Give an address like mongodb://user:password@db.example:27017/?authSource=admin (% signs in it as %25)"
_REMEDY = "Check HARVESTER_MONGODB_URI and that the server runs, or unset it: harvester then runs a private one."


def connect(config: Config) -> AsyncDatabase[dict[str, Any]]:
    """The database, for use on an event loop. Starts the private server when none is configured."""
    with _address_is_checked():
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(services.mongodb_uri(config), **OPTIONS)
    return client[config.database]


def connect_sync(config: Config) -> Database[dict[str, Any]]:
    """The database, for commands. Starts the private server when none is configured."""
    with _address_is_checked():
        client: MongoClient[dict[str, Any]] = MongoClient(services.mongodb_uri(config), **OPTIONS)
    return client[config.database]


def check(config: Config) -> None:
    """Asks MongoDB once, before anything is begun. Raises ServiceError; UsageError when its address is none."""
    database = connect_sync(config)
    with database.client:
        try:
            database.list_collection_names()
        except PyMongoError as error:
            raise unavailable(error) from None


def unavailable(error: PyMongoError) -> ServiceError:
    """What a command says and ends with when MongoDB fails it."""
    what = "refuses harvester" if isinstance(error, OperationFailure) else "cannot be reached"
    return ServiceError(f"MongoDB {what}: {_said(error)}. {_REMEDY}")


@contextlib.contextmanager
def _address_is_checked() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # options that pymongo does not know
        try:
            yield
        except (PyMongoError, ValueError, UserWarning) as error:
            said = _said(error).partition('"')[0]  # what it quotes may be a part of the password
            raise UsageError(f"HARVESTER_MONGODB_URI cannot be used: {said}. {_EXAMPLE}") from None


class _Outage:
    """What all users of MongoDB in one crawler share while it cannot be reached."""

    def __init__(self) -> None:
        self.reached = False
        """Whether MongoDB ever answered."""
        self.waiting = 0
        """Operations that wait for it."""
        self.given_up = ""
        """Why nothing is tried any more: the run is ending, and it was waited for long enough."""


_outages: WeakKeyDictionary[Crawler, _Outage] = WeakKeyDictionary()


class Patience:
    """Makes a MongoDB outage a pause: operations are tried until the server is back."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._outage = _outages.setdefault(crawler, _Outage())

    async def __call__(self, operation: Callable[[], Awaitable[T]]) -> T:
        """The operation's result.

        Raises ServiceError when MongoDB cannot be had from the start or refuses the login, and StorageError when
        the crawl is stopped during an outage.
        """
        if self._outage.given_up:
            raise StorageError(self._outage.given_up)
        waited = False
        try:
            for attempt in itertools.count():
                try:
                    result = await operation()
                except (PyMongoError, ServiceError) as error:
                    if isinstance(error, OperationFailure) and error.code in _REFUSED:
                        raise ServiceError(f"MongoDB refuses harvester: {_said(error)}") from None
                    if not _passes(error):
                        raise
                    if waited:
                        self._check_wanted(error)
                    else:
                        waited = True
                        self._pause(error)
                    await asyncio.sleep(min(5.0, 0.2 * 2 ** min(attempt, 8)))
                    with contextlib.suppress(ServiceError):
                        await asyncio.to_thread(services.mongodb_uri, self._config)
                else:
                    self._outage.reached = True
                    return result
            raise AssertionError
        finally:
            if waited:
                self._resume()

    def _check_wanted(self, error: Exception) -> None:
        if not is_ending(self._crawler):
            return
        if not self._outage.reached:
            raise ServiceError(f"MongoDB cannot be reached: {_said(error)}")
        self._outage.given_up = f"MongoDB cannot be reached, and the crawl was told to stop: {_said(error)}"
        raise StorageError(self._outage.given_up)

    def _pause(self, error: Exception) -> None:
        self._outage.waiting += 1
        if self._outage.waiting == 1:
            logger.warning("MongoDB cannot be reached; the crawl pauses until it is back: %s", _said(error))
            self._crawler.stats.set_value("harvester/waiting_for/mongodb", 1)
            if self._crawler.engine:
                self._crawler.engine.pause()

    def _resume(self) -> None:
        self._outage.waiting -= 1
        if self._outage.waiting == 0:
            engine = self._crawler.engine
            self._crawler.stats.set_value("harvester/waiting_for/mongodb", 0)
            if engine:
                engine.unpause()
                if engine.running:
                    logger.info("MongoDB is back; the crawl goes on")


def _passes(error: PyMongoError | ServiceError) -> bool:
    """Whether it says that the server is gone or going."""
    if isinstance(error, BulkWriteError):
        errors = error.details["writeErrors"] + error.details["writeConcernErrors"]
        return any(each["code"] in _STOPPING for each in errors)
    if isinstance(error, OperationFailure) and error.code == _UNKNOWN_TO_A_STANDALONE:
        return "retryable writes" in str(error)
    return isinstance(error, (ConnectionFailure, WTimeoutError, ServiceError))


def _said(error: Exception) -> str:
    """The error's text without pymongo's description of the topology."""
    return str(error).partition(" (configured timeouts")[0].partition(", full error")[0].rstrip(".")

"""Connects to the MongoDB that holds records and ledger: the configured one, or the private one."""

import asyncio
import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pymongo
from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure, PyMongoError, WTimeoutError
from scrapy.crawler import Crawler

from harvester.config import Config, variable_of
from harvester.exceptions import ServiceError, StorageError, UsageError
from harvester.stores import servers
from harvester.stores.descriptors import SMALL, allowed
from harvester.stores.outage import Outage, is_given_up

OPTIONS: dict[str, Any] = {"tz_aware": True, "journal": True}
"""Options of all clients. Without waiting for the journal, a killed server lost confirmed writes in a test."""
DEFAULTS: dict[str, Any] = {
    "serverSelectionTimeoutMS": 5_000,
    "appname": "harvester",
    "serverMonitoringMode": "poll",  # default auto: each client constantly waits for news, and measures the round trip
}
"""Options that the address may override. pymongo would prefer them to the address."""
GIVEN_UP_S = 0.5
"""Seconds to wait for final operations on a MongoDB that may be down."""
FEW_CONNECTIONS = 8
"""Maximum number of connections for a process that may open few files."""
_REFUSED = (13, 18)
"""Unauthorized, AuthenticationFailed."""
_UNKNOWN_TO_A_STANDALONE = 20
"""IllegalOperation: pymongo may take a server that has just restarted for a member of a replica set."""
_STOPPING = frozenset({91, 189, 10107, 11600, 11602, 13435, 13436})
"""ShutdownInProgress, PrimarySteppedDown, InterruptedAtShutdown and similar codes, in the errors of a bulk write."""
_EXAMPLE = "Give an address like mongodb://user:password@db.example:27017/?authSource=admin (% signs in it as %25)"
_SETTING = "mongodb_uri"


def connect(config: Config) -> AsyncDatabase[dict[str, Any]]:
    """Returns the database, for use on an event loop. Starts the private server if none is configured."""
    uri = servers.mongodb_uri(config)
    options = _options(uri) | ({"maxPoolSize": FEW_CONNECTIONS} if allowed() < SMALL else {})
    with _address_is_checked():
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri, **options)
    return client[config.database]


async def disconnect(database: AsyncDatabase[Any]) -> None:
    """Closes the database's client.

    pymongo sends the server a message first, and would wait for a server that is down.
    """
    with pymongo.timeout(GIVEN_UP_S):
        await database.client.close()


def connect_sync(config: Config) -> Database[dict[str, Any]]:
    """Returns the database, for commands. Starts the private server if none is configured."""
    uri = servers.mongodb_uri(config)
    with _address_is_checked():
        client: MongoClient[dict[str, Any]] = MongoClient(uri, **_options(uri))
    return client[config.database]


def _options(uri: str) -> dict[str, Any]:
    given = {option.partition("=")[0].lower() for option in re.split("[&;]", uri.partition("?")[2])}
    return OPTIONS | {name: value for name, value in DEFAULTS.items() if name.lower() not in given}


def check(config: Config) -> None:
    """Sends MongoDB a request before other work starts. Raises ServiceError, or UsageError for an invalid address."""
    # Not with MongoClient: its threads sleep for half a second, and a process that ends earlier waits for them.
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(_check(config))


async def _check(config: Config) -> None:
    database = connect(config)
    try:
        await database.list_collection_names()
    except PyMongoError as error:
        raise unavailable(error) from None
    finally:
        await disconnect(database)


def unavailable(error: PyMongoError) -> ServiceError:
    """Returns the error that ends a command when MongoDB fails."""
    what = "refuses harvester" if isinstance(error, OperationFailure) else "cannot be reached"
    remedy = f"Check {variable_of(_SETTING)} and that the server runs, or unset it: harvester then runs a private one."
    return ServiceError(f"MongoDB {what}: {said(error)}. {remedy}")


@contextlib.contextmanager
def _address_is_checked() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # raised for options that pymongo does not know
        try:
            yield
        except (PyMongoError, ValueError, UserWarning) as error:
            fault = said(error).partition('"')[0]  # the quoted part may belong to the password
            raise UsageError(f"{variable_of(_SETTING)} cannot be used: {fault}. {_EXAMPLE}") from None


class MongoOutage(Outage):
    """Turns a MongoDB outage into a pause."""

    SERVER = "MongoDB"
    ERRORS = (PyMongoError,)
    start_private = staticmethod(servers.mongodb_uri)

    def refusal(self, error: Exception) -> ServiceError | None:
        if isinstance(error, OperationFailure) and error.code in _REFUSED:
            return ServiceError(f"MongoDB refuses harvester: {said(error)}")
        return None

    def passes(self, error: Exception) -> bool:
        if isinstance(error, BulkWriteError):
            errors = error.details["writeErrors"] + error.details["writeConcernErrors"]
            return any(each["code"] in _STOPPING for each in errors)
        if isinstance(error, OperationFailure) and error.code == _UNKNOWN_TO_A_STANDALONE:
            return "retryable writes" in str(error)
        return isinstance(error, (ConnectionFailure, WTimeoutError, ServiceError))

    def condition(self, error: Exception) -> str:
        return "MongoDB cannot be reached"

    def said(self, error: Exception) -> str:
        return said(error)

    def surrender(self, error: Exception, *, reached: bool) -> ServiceError | StorageError:
        if reached:
            return StorageError(f"MongoDB cannot be reached, and the crawl was told to stop: {said(error)}")
        return ServiceError(f"MongoDB cannot be reached: {said(error)}")


@contextlib.contextmanager
def at_the_end(crawler: Crawler) -> Iterator[None]:
    """Limits the time of operations at the end of a run. They do not wait for a server that the run has given up."""
    with pymongo.timeout(GIVEN_UP_S) if is_given_up(crawler, MongoOutage.SERVER) else contextlib.nullcontext():
        yield


def said(error: Exception) -> str:
    """Returns the error's text without pymongo's description of the topology."""
    text = " ".join(str(error).split())
    for beginning in (" (configured timeouts", ", Timeout: ", ", Topology Description: ", ", full error"):
        text = text.partition(beginning)[0]
    return text.rstrip(".")

"""Connections to the MongoDB that holds records and ledger: the configured one, or the private one."""

from typing import Any

from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database

from harvester import services
from harvester.config import Config

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

"""The servers and folders that a harvest needs: their availability, size and free space."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import pymongo
from pymongo.errors import OperationFailure, PyMongoError
from redis.exceptions import RedisError

from harvester.exceptions import HarvesterError
from harvester.formatting import without_userinfo
from harvester.jobs.service import JobService
from harvester.masking import mask
from harvester.stores import redis as stores
from harvester.stores.mongodb import said

ANSWER_S = 5.0
"""Seconds to wait for a server; after that it counts as down."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """MongoDB or Redis."""

    name: str
    place: str
    """The address of the server, without user and password."""
    up: bool
    said: str
    """The error; empty if the server is up."""
    version: str
    answer_ms: float
    up_s: int
    """Seconds since the server started."""
    clients: int
    bytes: int
    """Bytes that it holds: in memory for Redis, on disk and of this database only for MongoDB."""
    most_bytes: int
    """Bytes of memory that Redis may use. 0: no limit (always so for MongoDB)."""
    entries: int
    """Number of keys in Redis, or of documents in the database."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Where harvester writes to."""

    name: str
    path: str
    free_bytes: int
    total_bytes: int
    """Both sizes are 0 if the folder does not exist yet."""


@dataclass(frozen=True, slots=True)
class Servers:
    """How they are."""

    servers: list[ServerReport]
    folders: list[Folder]


@dataclass(frozen=True, slots=True)
class _Found:
    version: str
    up_s: int
    clients: int
    bytes: int
    entries: int
    most_bytes: int = 0


class ServerStatus:
    """The servers and folders of this installation."""

    def __init__(self, service: JobService) -> None:
        self._config = service.config
        self._database = service.database

    async def read(self) -> Servers:
        """Returns the state of all servers and folders. Never raises: an unreachable server is reported as down."""
        config = self._config
        private = f"a private one in {config.state_dir.absolute()}"
        mongodb = _place(config.mongodb_uri.get_secret_value()) if config.mongodb_uri else private
        servers = await asyncio.gather(
            _asked("MongoDB", mongodb, self._mongodb), _asked("Redis", stores.named(config), self._redis)
        )
        places = [("data", config.data_dir), ("state", config.state_dir)]
        if "://" not in config.images_location:
            places.append(("images", Path(config.images_location)))
        return Servers([*servers], [await asyncio.to_thread(_folder, name, path) for name, path in places])

    async def _mongodb(self) -> _Found:
        with pymongo.timeout(ANSWER_S):
            version = (await self._database.client.server_info())["version"]
            stats = await self._database.command("dbStats")
            status = await self._server_status()
        clients = int(status.get("connections", {}).get("current", 0))
        return _Found(version, int(status.get("uptime", 0)), clients, int(stats["totalSize"]), int(stats["objects"]))

    async def _server_status(self) -> dict[str, Any]:
        """Returns MongoDB's serverStatus; empty if the user lacks the permission."""
        try:
            return await self._database.client.admin.command({"serverStatus": 1, "repl": 0, "metrics": 0})
        except OperationFailure:
            return {}

    async def _redis(self) -> _Found:
        redis = await asyncio.to_thread(stores.connect, self._config)
        try:
            async with asyncio.timeout(ANSWER_S):
                information: dict[str, Any] = await redis.info()
                keys = int(await redis.dbsize())
        finally:
            await redis.aclose()
        names = ("uptime_in_seconds", "connected_clients", "used_memory")
        up_s, clients, used = (int(information.get(name, 0)) for name in names)
        version = str(information.get("valkey_version") or information["redis_version"])
        return _Found(version, up_s, clients, used, keys, int(information.get("maxmemory", 0)))


async def _asked(name: str, place: str, ask: Callable[[], Awaitable[_Found]]) -> ServerReport:
    began = monotonic()
    try:
        found = await ask()
    except (PyMongoError, RedisError, OSError, HarvesterError) as error:
        text = said(error) if isinstance(error, PyMongoError) else str(error) or "it does not answer"
        return ServerReport(name, place, False, mask(text, 500), "", 0.0, 0, 0, 0, 0, 0)
    return ServerReport(
        name=name,
        place=place,
        up=True,
        said="",
        version=found.version,
        answer_ms=round(1000 * (monotonic() - began), 1),
        up_s=found.up_s,
        clients=found.clients,
        bytes=found.bytes,
        most_bytes=found.most_bytes,
        entries=found.entries,
    )


def _place(uri: str) -> str:
    """Returns the address without user, password and options."""
    return without_userinfo(uri.partition("?")[0])


def _folder(name: str, path: Path) -> Folder:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return Folder(name, str(path.absolute()), 0, 0)
    return Folder(name, str(path.absolute()), usage.free, usage.total)

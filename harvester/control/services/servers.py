"""The servers and folders that a harvest needs: whether they are there, how large they are, how much room is left."""

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
"""A server that takes longer to answer counts as away."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """MongoDB or Redis."""

    name: str
    place: str
    """Its address, without what opens it."""
    up: bool
    said: str
    """What is wrong; empty when it is up."""
    version: str
    answer_ms: float
    up_s: int
    """For how long it has been running."""
    clients: int
    bytes: int
    """Of what it holds: in memory, of Redis; on disk, of this database of MongoDB."""
    most_bytes: int
    """What Redis may take in memory. 0: no limit is set, or it has none."""
    entries: int
    """Keys of Redis, documents of the database."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Where harvester writes to."""

    name: str
    path: str
    free_bytes: int
    total_bytes: int
    """Both 0 when it is not there yet."""


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
    """Of this installation."""

    def __init__(self, service: JobService) -> None:
        self._config = service.config
        self._database = service.database

    async def read(self) -> Servers:
        """Raises nothing: a server that is away is said to be so."""
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
        """Empty for a user who may not ask."""
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
    """Without user, password and options."""
    return without_userinfo(uri.partition("?")[0])


def _folder(name: str, path: Path) -> Folder:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return Folder(name, str(path.absolute()), 0, 0)
    return Folder(name, str(path.absolute()), usage.free, usage.total)

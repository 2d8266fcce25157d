"""The private MongoDB and Redis of all runs under harvester: a database of each for every run."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from pymongo import MongoClient
from pymongo.database import Database
from redis import Redis

from harvester.config import Config
from harvester.items.other import item_kind
from harvester.stores import servers
from harvester.stores.servers.kinds import SERVERS
from harvester.stores.servers.state import ServerState, running_in

_DATABASES = 15
"""Of Redis, but for the first."""


class Servers:
    """Hands out databases."""

    def __init__(self, config: Config) -> None:
        self._mongodb_uri, self._redis_url = servers.mongodb_uri(config), servers.redis_url(config)
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for number in range(1, _DATABASES + 1):
            self._free.put_nowait(number)

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Self]:
        """They stop at the end."""
        with TemporaryDirectory(prefix="harvester-projects-") as folder:
            config = Config(state_dir=Path(folder).resolve())
            yield cls(config)
            servers.leave()
            for name in SERVERS:
                if supervisor := running_in(
                    config.state_dir / name, ServerState.read(config.state_dir / name).supervisor_pid
                ):
                    supervisor.wait(240)

    @asynccontextmanager
    async def databases(self, folder: Path) -> AsyncIterator["Databases"]:
        """Empty ones, for a run that has a folder for its files."""
        number = await self._free.get()
        url = f"{self._redis_url.removesuffix('0')}{number}"
        with Redis.from_url(url) as redis, MongoClient[dict[str, Any]](self._mongodb_uri) as client:
            redis.flushdb()
            client.drop_database(f"projects-{number}")
            try:
                yield Databases(client[f"projects-{number}"], self._mongodb_uri, url, folder)
            finally:
                self._free.put_nowait(number)


class Databases:
    """Those of a run."""

    def __init__(self, mongodb: Database[dict[str, Any]], mongodb_uri: str, redis_url: str, folder: Path) -> None:
        self._mongodb = mongodb
        self.variables = {
            "HARVESTER_MONGODB_URI": mongodb_uri,
            "HARVESTER_REDIS_URL": redis_url,
            "HARVESTER_DATABASE": mongodb.name,
            "HARVESTER_STATE_DIR": str(folder / "state"),
            "HARVESTER_DATA_DIR": str(folder / "data"),
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_CONTACT": "mailto:stand-in@example.org",
        }
        """What the run needs in its environment."""

    def stored(self, spider: str) -> int:
        """Returns how many items of the spider MongoDB holds."""
        return self._mongodb[item_kind(spider)].count_documents({})

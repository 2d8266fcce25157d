"""The private MongoDB and Redis of all runs under harvester: a database of each for every run."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from pymongo import MongoClient
from redis import Redis

from harvester.config import Config
from harvester.stores import servers
from harvester.stores.servers.kinds import SERVERS
from harvester.stores.servers.state import State, running_in

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
                    config.state_dir / name, State.read(config.state_dir / name).supervisor_pid
                ):
                    supervisor.wait(240)

    @asynccontextmanager
    async def databases(self, folder: Path) -> AsyncIterator[dict[str, str]]:
        """The variables of a run that has empty databases and a folder for its files."""
        number = await self._free.get()
        name = f"projects-{number}"
        url = f"{self._redis_url.removesuffix('0')}{number}"
        with Redis.from_url(url) as redis, MongoClient[dict[str, Any]](self._mongodb_uri) as client:
            redis.flushdb()
            client.drop_database(name)
            try:
                yield {
                    "HARVESTER_MONGODB_URI": self._mongodb_uri,
                    "HARVESTER_REDIS_URL": url,
                    "HARVESTER_DATABASE": name,
                    "HARVESTER_STATE_DIR": str(folder / "state"),
                    "HARVESTER_DATA_DIR": str(folder / "data"),
                    "HARVESTER_REQUESTS_PER_SECOND": "0",
                    "HARVESTER_CONTACT": "mailto:stand-in@example.org",
                }
            finally:
                self._free.put_nowait(number)

"""Sees which breakers are open while a crawl goes on."""

import asyncio
import threading
import time
from types import TracebackType
from typing import NamedTuple, Self

from pydantic import SecretStr

from harvester.config import Config
from harvester.frontier.messages import DeadLetter, FrontierStatus
from harvester.frontier.store import Frontier
from harvester.stores.redis import connect

LOOK_S = 0.5
"""Breakers must be open for longer."""


class Open(NamedTuple):
    """A breaker was open. Times on the monotonic clock."""

    site: str
    since: float
    until: float
    """It was not half open before."""


class Watch:
    """`with Watch(redis, database) as watch: ...`; `watch.openings` afterwards."""

    def __init__(self, redis: str, database: str) -> None:
        self._redis, self._database = redis, database
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._look()))
        self.openings: set[Open] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    async def _look(self) -> None:
        behind = time.time() - time.monotonic()
        client = connect(Config(redis_url=SecretStr(self._redis)))
        frontier = Frontier(client, "street", self._database)
        while not self._ended.is_set():
            for site, seen in (await frontier.status()).breakers.items():
                if seen.state == "open" and seen.until:
                    self.openings.add(Open(site, seen.since - behind, seen.until - behind))
            await asyncio.sleep(LOOK_S)
        await client.aclose()


def asked(redis: str, database: str) -> tuple[FrontierStatus, list[DeadLetter]]:
    """The frontier's figures, and what was given up."""

    async def ask() -> tuple[FrontierStatus, list[DeadLetter]]:
        client = connect(Config(redis_url=SecretStr(redis)))
        try:
            frontier = Frontier(client, "street", database)
            return await frontier.status(), await frontier.dead()
        finally:
            await client.aclose()

    return asyncio.run(ask())

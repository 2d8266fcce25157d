"""A worker without Scrapy: a feeder's side of a real frontier, and fetching of what it is given."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from zlib import crc32

from scrapy import Request

from harvester.breaker.states import BreakerState
from harvester.frontier.messages import (
    AllParked,
    Done,
    EndedAck,
    Exchange,
    FeedItems,
    ItemEnded,
    ItemRef,
    Leased,
    Operation,
    Push,
)
from harvester.frontier.store import Frontier

_numbers = count()


class Side:
    """What a feeder needs, each operation sent with the next exchange."""

    def __init__(self, frontier: Frontier, *, worker: str = "") -> None:
        self.frontier = frontier
        self.worker = worker or f"worker-{next(_numbers)}"
        self.outgoing: list[Operation] = []
        self.waiting: list[asyncio.Future[None]] = []
        self.held: list[Leased] = []
        self.on_ended: Callable[[list[ItemEnded]], None] = lambda _: None
        self.shut_sites: dict[str, BreakerState] = {}
        self.parked = 0
        self.at = 0.0
        self.left: AllParked | None = None

    @property
    def epoch(self) -> str:
        return self.frontier.epoch

    def now(self) -> float:
        return self.at

    def shut(self) -> Mapping[str, BreakerState]:
        return self.shut_sites

    def is_at(self, job: str | None) -> bool:
        return any(job in (None, leased.job) for leased in self.held)

    def all_parked(self) -> AllParked | None:
        return self.left

    def feed(self, items: Sequence[ItemRef], requests: Sequence[Request], deadline: float) -> Awaitable[None]:
        pushes = tuple(
            Push(
                crc32(request.url.encode()),
                request.url.encode(),
                f"{items[0].id}:{items[0].attempt}:{index}",
                request.url,
                job=items[0].job,
                site=str(request.meta.get("site", "")),
                filtered=False,
                rooted=False,
                items=tuple(items),
            )
            for index, request in enumerate(requests)
        )
        known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.outgoing.append(FeedItems(tuple(items), pushes, deadline))
        self.waiting.append(known)
        return known

    def acknowledge(self, items: Sequence[ItemRef]) -> None:
        self.outgoing.append(EndedAck(tuple(items)))

    async def unknown_items(self, items: Sequence[ItemRef]) -> list[ItemRef]:
        return await self.frontier.unknown_items(items)

    async def workers(self) -> set[str]:
        return set(await self.frontier.workers())

    async def open_items(self, jobs: Sequence[str]) -> dict[str, int]:
        return await self.frontier.open_items(jobs)

    async def exchange(self, wanted: int = 0) -> Exchange:
        """Tells what is to be told, and takes requests and ended items."""
        outgoing, waiting = self.outgoing[:], self.waiting[:]
        told = await self.frontier.exchange(self.worker, outgoing, wanted, per_site=10_000)
        del self.outgoing[: len(outgoing)], self.waiting[: len(waiting)]
        for each in waiting:
            each.set_result(None)
        self.at = told.now
        self.held += told.leased
        if told.ended:
            self.on_ended(told.ended)
        return told

    def fetch_all(self, outcomes: Mapping[str, str] | None = None) -> list[str]:
        """Ends all that it holds; `outcomes` by the address, ok unless it is there. The addresses.

        `rejected`: the page was read, and a record of it was rejected.
        """
        held, self.held = self.held, []
        urls = [leased.payload.decode() for leased in held]
        for leased, url in zip(held, urls, strict=True):
            outcome = (outcomes or {}).get(url, "ok")
            said: dict[str, Any] = {} if outcome == "ok" else {"reason": f"{url} says {outcome}"}
            if outcome == "rejected":
                outcome, said = "ok", {"rejected": 1}
            self.outgoing.append(Done(leased.id, outcome, records=1, **said))
        return urls

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Exchanges all the time meanwhile."""
        over = False

        async def serve() -> None:
            while not over:
                await self.exchange()
                await asyncio.sleep(0.005)

        serving = asyncio.create_task(serve())
        try:
            yield
        finally:
            over = True  # not cancelled: redis-py may lose that
            await serving

"""Ledger, feeders, workers and frontier together: whatever dies or is lost, every item ends, and none too early.

The ledger is a dict here, and the workers fetch pages that are numbers. Feeders and workers speak the protocol as they
do in harvester.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast
from uuid import uuid4

import msgspec
import pytest
from redis.exceptions import ConnectionError

from harvester.exceptions import FrontierLost
from harvester.frontier.fingerprints import of_attempts
from harvester.frontier.messages import (
    Dead,
    Done,
    EndedAck,
    Exchange,
    ItemEnded,
    ItemRef,
    Leased,
    Operation,
    Push,
    Requeue,
)
from harvester.frontier.store import Frontier
from tests.frontier.items import JOB, check_items, feed, histories, item
from tests.frontier.pushes import push
from tests.frontier.test_store import Deaf

ITEMS, STEPS, HISTORIES = 30, 300, 6
SHARED = 10_000
"""Number of the first page to which several items lead."""


def links_of(page: int) -> list[int]:
    """Item n has the pages 100 n (the first) to 100 n + 4, and one that it shares with others."""
    number, place = divmod(page, 100)
    if page >= SHARED:
        return []
    return {0: [page + 1, page + 2, SHARED + number % 4], 1: [page + 2, page + 3], 2: [page - 1]}.get(place, [])


class Ledger:
    """What MongoDB would know."""

    def __init__(self) -> None:
        self.states = {item(number).id: "waiting" for number in range(ITEMS)}
        self.attempts = dict.fromkeys(self.states, 0)
        self.stored: set[int] = set()
        """Pages."""
        self.events: Counter[str] = Counter()

    def claim(self, most: int) -> list[ItemRef]:
        """Begins an attempt at some items that wait."""
        claimed = [name for name, state in self.states.items() if state == "waiting"][:most]
        for name in claimed:
            self.states[name] = "active"
            self.attempts[name] += 1
        return [ItemRef(name, self.attempts[name]) for name in claimed]

    def active(self) -> list[ItemRef]:
        return [ItemRef(name, self.attempts[name]) for name, state in self.states.items() if state == "active"]

    def end(self, ended: ItemEnded) -> None:
        """Only the latest attempt counts."""
        if self.states[ended.id] != "active" or self.attempts[ended.id] != ended.attempt:
            self.events["an end of an earlier attempt"] += 1
        elif ended.outcomes and set(ended.outcomes) == {"ok"}:
            self.states[ended.id] = "done"
            first = 100 * int(ended.id.rpartition(":")[2])
            assert self.stored.issuperset(range(first, first + 5)), "it ended before all was stored"
        else:
            self.states[ended.id] = "waiting"
            self.events["another attempt"] += 1

    def lose(self, ref: ItemRef) -> None:
        if self.states[ref.id] == "active" and self.attempts[ref.id] == ref.attempt:
            self.states[ref.id] = "waiting"
            self.events["lost"] += 1


@dataclass
class Worker:
    """A process: its part of the frontier, and what it has to tell."""

    name: str
    frontier: Frontier
    outgoing: list[Operation] = field(default_factory=list)
    leased: list[Leased] = field(default_factory=list)


class Run:
    """A random history of all of them."""

    def __init__(self, redis: Deaf, seed: int) -> None:
        self.redis: Any = redis
        self.chance = random.Random(seed)
        self.spider = f"test-{uuid4().hex[:12]}"
        self.ledger = Ledger()
        self.names = (f"w{number}" for number in count())
        self.workers = [self._new() for _ in range(3)]
        self.asleep: list[Worker] = []
        """Processes that were stopped. Others were given their names' work."""
        self.snapshot: dict[bytes, bytes] = {}
        self.now = 0.0

    def _new(self) -> Worker:
        return Worker(next(self.names), Frontier(self.redis, self.spider, lease_timeout_s=1000, max_deliveries=50))

    @property
    def prefix(self) -> str:
        return self.workers[0].frontier.prefix

    async def step(self) -> None:
        """Mostly work; now and then a calamity."""
        self.redis.deaf = False
        worker = self.chance.choice(self.workers)
        what = self.chance.random()
        if what < 0.15:
            self._feed(worker)
        elif what < 0.6:
            self._work(worker)
            await self._talk(worker)
        elif what < 0.8:
            await self._talk(worker)
        elif what < 0.85:
            await self._find_lost(worker)
        elif what < 0.88:
            await self._tell_again()
        elif what < 0.92:
            await self._die(worker)
        elif what < 0.94:
            self.asleep.append(worker)
            await self._die(worker)
        elif what < 0.96 and self.asleep:
            self.ledger.events["woke"] += 1
            await self._talk(self.chance.choice(self.asleep))
        elif what < 0.97:
            self.snapshot = {key: await self.redis.dump(key) for key in await self._keys()}
        elif what < 0.98 and self.snapshot:
            await self._go_back()
        elif what > 0.985:
            await self._forget()

    async def finish(self) -> None:
        """Nothing goes wrong any more: all is done soon."""
        self.redis.deaf = False
        worker = self.workers[0]
        for _ in range(100):
            await self._reap(worker, *await self.redis.zrange(f"{self.prefix}workers", 0, -1))
            status = await worker.frontier.status()
            left = status.ready + status.waiting + status.leased + status.ended
            if set(self.ledger.states.values()) == {"done"} and not (worker.outgoing or left):
                break
            await self._find_lost(worker)
            await self._tell_again()
            self._feed(worker, most=10)
            self._work(worker, calmly=True)
            await self._talk(worker, wanted=200, calmly=True)
        assert set(self.ledger.states.values()) == {"done"}
        shared = {SHARED + number % 4 for number in range(ITEMS)}
        assert self.ledger.stored == {100 * n + place for n in range(ITEMS) for place in range(5)} | shared

    # Feeders ----------------------------------------------------------------------------------------------

    def _feed(self, worker: Worker, most: int = 3) -> None:
        claimed = self.ledger.claim(most)
        while claimed:
            together = claimed[: self.chance.choice([1, 1, 2])]
            claimed = claimed[len(together) :]
            requests = [self._request(100 * int(ref.id.rpartition(":")[2]), [ref]) for ref in together]
            deadline = self.now + self.chance.choice([0.02, 60, 60, 60])
            worker.outgoing.append(feed(together, *requests, deadline=deadline))

    async def _find_lost(self, worker: Worker) -> None:
        """Also of feeds that are under way: their attempts are over then, whenever they come."""
        for ref in await worker.frontier.unknown_items(self.ledger.active()):
            self.ledger.lose(ref)

    async def _tell_again(self) -> None:
        for key in ("ended", "waiting"):
            for name in await self.redis.zrange(f"{self.prefix}{key}", 0, -1):
                await self.redis.zadd(f"{self.prefix}{key}", {name: 1})

    # Workers ----------------------------------------------------------------------------------------------

    def _request(self, page: int, refs: Sequence[ItemRef]) -> Push:
        number = of_attempts(page, refs)
        payload = msgspec.msgpack.encode((page, refs))
        return push(number, items=tuple(refs), job=JOB, site=f"s{page % 3}", payload=payload, rooted=False)

    def _work(self, worker: Worker, *, calmly: bool = False) -> None:
        """Fetches some pages, stores what they show, and has that told."""
        self.chance.shuffle(worker.leased)
        for _ in range(len(worker.leased) if calmly else self.chance.randrange(1 + len(worker.leased))):
            leased = worker.leased.pop()
            page, refs = msgspec.msgpack.decode(leased.payload, type=tuple[int, tuple[ItemRef, ...]])
            what = 1.0 if calmly else self.chance.random()
            if what < 0.03:
                worker.outgoing.append(Dead(leased.id, "dns", "no such host"))
            elif what < 0.1:
                worker.outgoing.append(Requeue(leased.id, leased.payload, "", "s1", 0, "timeout", ""))
            else:
                self.ledger.stored.add(page)
                worker.outgoing += [self._request(link, refs) for link in links_of(page)]
                worker.outgoing.append(Done(leased.id, records=1))

    async def _talk(self, worker: Worker, wanted: int = 9, *, calmly: bool = False) -> None:
        """An exchange, with some of what is to be told; its answer may be lost."""
        operations = worker.outgoing[: None if calmly else self.chance.randrange(1, 30)]
        self.redis.deaf = not calmly and self.chance.random() < 0.2
        try:
            told = await worker.frontier.exchange(worker.name, operations, wanted, 50)
        except FrontierLost:
            await self._begin_anew(worker)
        except ConnectionError:
            self.ledger.events["deaf"] += 1
        else:
            self._hear(worker, told)
            del worker.outgoing[: len(operations)]
            if told.lost or told.damaged:
                await self._begin_anew(worker)

    async def _begin_anew(self, worker: Worker) -> None:
        self.redis.deaf = False
        self.ledger.events["put back"] += 1
        await worker.frontier.put_back()
        await worker.frontier.leave(worker.name)
        await worker.frontier.begin_anew()
        worker.leased.clear()

    def _hear(self, worker: Worker, told: Exchange) -> None:
        """What has ended is written down, then acknowledged: not, when the process dies in between."""
        self.now = told.now
        worker.leased += told.leased
        written = told.ended[: len(told.ended) if self.chance.random() < 0.8 else 1]
        for ended in written:
            self.ledger.end(ended)
        if written and self.chance.random() < 0.9:
            worker.outgoing.append(EndedAck(tuple(ended.ref for ended in written)))

    async def _die(self, worker: Worker) -> None:
        """Its leases go to others. What it had to tell is not told, feeds included."""
        self.ledger.events["died"] += 1
        new = self._new()
        if worker in self.workers:
            self.workers[self.workers.index(worker)] = new
        await self._reap(new, worker.name.encode())

    async def _reap(self, worker: Worker, *silent: bytes) -> None:
        """As if the others had been silent for long."""
        if silent:
            await self.redis.zadd(f"{self.prefix}workers", dict.fromkeys(silent, 1), xx=True)
        await self.redis.hset(f"{self.prefix}counts", "since", 0)
        try:
            await worker.frontier.reap(worker.name)
        except FrontierLost:
            await self._begin_anew(worker)

    # Redis ------------------------------------------------------------------------------------------------

    async def _keys(self) -> list[bytes]:
        keys: list[bytes] = await self.redis.keys(f"{self.prefix}*")
        return keys

    async def _forget(self) -> None:
        self.ledger.events["forgot"] += 1
        keys = sorted(await self._keys())
        if self.chance.random() < 0.5:
            keys = [key for key in keys if b":job:" not in key]  # counts that nothing depends on
            keys = self.chance.sample(keys, min(2, len(keys)))
        for key in keys:
            await self.redis.delete(key)

    async def _go_back(self) -> None:
        self.ledger.events["went back"] += 1
        for key in await self._keys():
            await self.redis.delete(key)
        for key, value in self.snapshot.items():
            await self.redis.restore(key, 0, value)


@pytest.fixture
async def deaf(redis_url: str) -> AsyncIterator[Deaf]:
    async with Deaf.from_url(redis_url) as client:
        yield cast(Deaf, client)


CONTAINED = (
    "an end of an earlier attempt",
    "another attempt",
    "lost",
    "deaf",
    "woke",
    "died",
    "put back",
    "forgot",
    "went back",
)


async def test_every_item_ends_and_none_before_all_of_it_is_stored(deaf: Deaf) -> None:
    events: Counter[str] = Counter()
    for seed in histories(HISTORIES, CONTAINED, events):
        run = Run(deaf, seed)
        try:
            for _ in range(STEPS):
                await run.step()
            await run.finish()
            frontier = run.workers[0].frontier
            assert (await frontier.exchange("at last", [], wanted=9)).leased == []
            status = await frontier.status()
            assert (status.ready, status.waiting, status.leased, status.items, status.balanced) == (0, 0, 0, 0, True)
            await check_items(frontier)
        except Exception as error:
            error.add_note(f"in the history {seed}")
            raise
        events += run.ledger.events
        await frontier.drop()

"""Job items under any mixture of operations: beside the frontier runs a model of it, and they agree after each step."""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from harvester.frontier.keys import entry_id
from harvester.frontier.messages import (
    Dead,
    Done,
    EndedAck,
    Ending,
    Exchange,
    FeedItems,
    ItemEnded,
    ItemRef,
    Operation,
    Push,
    Release,
    Requeue,
    Skip,
)
from harvester.frontier.store import Frontier
from harvester.sites.breaker import SiteBreaker
from tests.frontier.items import FAR, check_items, feed, histories, item
from tests.frontier.pushes import push

HISTORIES, STEPS = 2, 250
MOST_DELIVERIES = 2
JOBS = ("one", "two")
WORKERS = ("w0", "w1", "w2")
SITES = ("s0", "s1", "s2")


@dataclass
class Attempt:
    """At an item, as the frontier should know it."""

    number: int
    deadline_ms: int
    state: str = "open"
    here: set[str] = field(default_factory=set)
    requests: int = 0
    records: int = 0
    new: int = 0
    rejected: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    tellings: int = 0
    is_told: bool = False
    """Lately: nobody else is told."""

    def shown(self) -> dict[str, Any]:
        """As the frontier keeps it. There, an empty table of Lua is a list."""
        if self.state == "over":
            return {"state": self.state, "number": self.number}
        counts = {"requests": self.requests, "records": self.records, "new": self.new, "rejected": self.rejected}
        said: dict[str, Any] = {"outcomes": dict(self.outcomes) or [], "reasons": self.reasons or []}
        return {"state": self.state, "number": self.number, "here": len(self.here), **counts, **said}


class Model:
    """What the frontier should know of items, after what it was told and what it answered."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.belongs: dict[str, tuple[ItemRef, ...]] = {}
        self.queued: set[str] = set()
        """Ids of all requests that were ever queued."""
        self.held: defaultdict[str, set[str]] = defaultdict(set)
        self.deliveries: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        """What has happened, to see that the histories contain it."""

    def apply(self, worker: str, operations: Sequence[Operation], told: Exchange, there: set[str]) -> None:
        """An exchange. `there`: ids of all requests that are in the frontier after it."""
        for operation in operations:
            if isinstance(operation, Push):
                its = self._open(operation.items)
                if its or not operation.items:
                    self._queue(operation, its)
                else:
                    self.events["stale push"] += 1
            elif isinstance(operation, FeedItems):
                self._feed(operation, round(told.now * 1000))
            elif isinstance(operation, EndedAck):
                self._acknowledge(operation, round(told.now * 1000))
            elif isinstance(operation, Ending):
                self._end(worker, operation, there)
        for name in self.belongs.keys() - there:  # it was redirected to what another asked for
            self._leave(name, "ok")
            self.events["redirected"] += 1
        self.settle()
        self.held[worker] |= {leased.id for leased in told.leased}

    def lose(self, worker: str) -> None:
        """The worker is taken for dead. To be followed by `settle`."""
        for name in self.held.pop(worker, set()):
            self.deliveries[name] += 1
            number = self.deliveries[name]
            if number > MOST_DELIVERIES and name in self.belongs:
                self._leave(name, "worker_lost", f"{number} workers ended while they held it, the last was {worker}")
                self.events["worker_lost"] += 1

    def unknown(self, refs: Sequence[ItemRef]) -> list[ItemRef]:
        known = {ItemRef(name, each.number) for name, each in self.attempts.items() if each.state != "over"}
        return [ref for ref in refs if ref not in known]

    def _open(self, refs: Sequence[ItemRef]) -> tuple[ItemRef, ...]:
        found = ((ref, self.attempts.get(ref.id)) for ref in refs)
        return tuple(ref for ref, each in found if each and each.state == "open" and each.number == ref.attempt)

    def _queue(self, request: Push, its: tuple[ItemRef, ...]) -> None:
        name = entry_id(request.fingerprint, request.job, "" if request.filtered else request.token)
        if name in self.queued:
            self.events["duplicate"] += 1
            return
        self.queued.add(name)
        if its:
            self.belongs[name] = its
        for ref in its:
            self.attempts[ref.id].here.add(name)
            self.attempts[ref.id].requests += 1

    def _feed(self, fed: FeedItems, now_ms: int) -> None:
        deadline_ms = int(fed.deadline * 1000)
        if now_ms > deadline_ms:
            self.events["late feed"] += 1
            return
        begun = set()
        for ref in fed.items:
            known = self.attempts.get(ref.id)
            if known is None or known.number < ref.attempt:
                self.events[f"begun, {known.state if known else 'unknown'} before"] += 1
                self.attempts[ref.id] = Attempt(ref.attempt, max(deadline_ms, known.deadline_ms if known else 0))
                begun.add(ref)
            else:
                self.events[f"fed again, {known.state} before"] += 1
        for request in fed.requests:
            if its := tuple(ref for ref in request.items if ref in begun):
                self._queue(request, its)

    def _acknowledge(self, ack: EndedAck, now_ms: int) -> None:
        for ref in ack.items:
            known = self.attempts.get(ref.id)
            if known and known.state == "ended" and known.number == ref.attempt:
                self.events["acknowledged"] += 1
                if known.deadline_ms >= now_ms:
                    known.state = "over"
                else:
                    del self.attempts[ref.id]

    def _end(self, worker: str, end: Ending, there: set[str]) -> None:
        if end.id not in self.held[worker]:
            self.events["stale end"] += 1
            return
        self.held[worker].remove(end.id)
        if end.id not in self.belongs:
            return
        self.events[type(end).__name__] += 1
        if isinstance(end, Done):
            self._leave(end.id, end.outcome, end.reason, end.records, end.rejected, end.new)
        elif isinstance(end, Skip) or (isinstance(end, Dead) and end.id not in there):
            self._leave(end.id, end.outcome, end.reason)

    def _leave(
        self, name: str, outcome: str, reason: str = "", records: int = 0, rejected: int = 0, new: int = 0
    ) -> None:
        for ref in self._open(self.belongs.pop(name)):
            attempt = self.attempts[ref.id]
            attempt.here.remove(name)
            attempt.records += records
            attempt.new += new
            attempt.rejected += rejected
            attempt.outcomes[outcome] += 1
            if reason:
                attempt.reasons.setdefault(outcome, reason)

    def settle(self) -> None:
        """Ends what is to end after one step of the frontier."""
        for attempt in self.attempts.values():
            if attempt.state == "open" and not attempt.here:
                attempt.state = "ended"
                self.events["ended"] += 1


class History:
    """A random one: three workers that die, sleep and say things twice or too late, and a feeder like that."""

    def __init__(self, redis: Redis, seed: int) -> None:
        self.chance = random.Random(seed)
        self.redis: Any = redis  # its annotations mix answers of bytes and of str
        self.frontier = self._new(f"test-{uuid4().hex[:12]}")
        self.model = Model()
        self.strangers: set[str] = set()
        """Workers whose process has died since they were heard."""
        self.latest: Counter[str] = Counter()
        """Item -> the last attempt that was fed."""
        self.deadlines: dict[ItemRef, float] = {}
        """Of the feed of each attempt: what comes later has the same, so that nothing is begun that was forgotten."""
        self.sent: list[Operation] = []
        self.now = 0.0
        self.numbers = iter(range(10**9))

    def _new(self, spider: str) -> Frontier:
        return Frontier(self.redis, spider, lease_timeout_s=1000, max_deliveries=MOST_DELIVERIES)

    async def step(self) -> None:
        worker = self.chance.choice(WORKERS)
        match self.chance.randrange(16):
            case 0:
                self.frontier = self._new(self.frontier.spider)
                self.strangers = set(WORKERS)
            case 1:
                await self.frontier.leave(worker)
                self.model.held.pop(worker, None)
            case 2:
                known = {name for name in self.model.held[worker] if self.chance.random() < 0.5}
                await self.frontier.reconcile(worker, known)
                self.model.held[worker] = known
            case 3:
                await self._reap(worker)
            case 4:
                state, rules = self.chance.choice(["open", "closed", "held"]), SiteBreaker(open_seconds=0.01).rules()
                await self.frontier.set_breaker(self.chance.choice(SITES), rules, state, "a person")
            case 5:
                for name in await self.redis.zrange(self.frontier.prefix + "waiting", 0, -1):
                    await self.redis.zadd(self.frontier.prefix + "waiting", {name: 1})
            case 6:
                for name in await self.redis.zrange(self.frontier.prefix + "ended", 0, -1):
                    await self.redis.zadd(self.frontier.prefix + "ended", {name: 1})
                for attempt in self.model.attempts.values():
                    attempt.is_told = False
            case _:
                operations = self._operations(worker)
                for _ in range(self.chance.choice([1, 1, 1, 2])):
                    await self._exchange(worker, operations)
                self.sent = (self.sent + operations)[-40:]
        await self.check()

    async def finish(self) -> None:
        """All that is left is done and acknowledged."""
        for site in SITES:
            await self.frontier.set_breaker(site, SiteBreaker().rules(), "closed", "a person")
        for worker in WORKERS:
            await self._exchange(worker, [])
            await self.frontier.leave(worker)
            self.model.held.pop(worker, None)
        while self.model.belongs or any(each.state == "ended" for each in self.model.attempts.values()):
            for name in await self.redis.zrange(self.frontier.prefix + "waiting", 0, -1):
                await self.redis.zadd(self.frontier.prefix + "waiting", {name: 1})
            told = await self._exchange("w0", [], wanted=100)
            ended = [ItemRef(name, each.number) for name, each in self.model.attempts.items() if each.state == "ended"]
            await self._exchange("w0", [*(Done(leased.id) for leased in told.leased), EndedAck(tuple(ended))], wanted=0)
            await self.check()
        assert {each.state for each in self.model.attempts.values()} <= {"over"}
        assert not await self.redis.exists(self.frontier.prefix + "belongs")

    async def check(self) -> None:
        """The frontier knows what it should, and the equations hold."""
        status = await self.frontier.status()
        known = await check_items(self.frontier, status)
        for name in self.model.attempts.keys() - known.keys():  # forgotten: its feed can come no more
            assert self.model.attempts[name].state == "over"
            assert self.model.attempts.pop(name).deadline_ms < time.time() * 1000 + 1
        shown = {name: each.shown() for name, each in self.model.attempts.items()}
        assert shown == {name: {key: each[key] for key in shown[name]} for name, each in known.items()}
        refs = [ItemRef(name, number) for name, last in self.latest.items() for number in range(1, last + 2)]
        assert await self.frontier.unknown_items(refs) == self.model.unknown(refs)
        here = status.waiting + status.leased + status.parked + status.ready + status.dead
        assert status.queued == status.done + status.skipped + here
        assert status.balanced
        assert status.queued == len(self.model.queued)
        assert status.ended == sum(each.state == "ended" for each in self.model.attempts.values())
        self.model.events["most parked"] = max(self.model.events["most parked"], status.parked)

    async def _exchange(self, worker: str, operations: Sequence[Operation], wanted: int | None = None) -> Exchange:
        if worker in self.strangers:
            self.model.lose(worker)
            self.strangers.remove(worker)
        wanted = self.chance.randrange(15) if wanted is None else wanted
        most_ended = self.chance.choice([0, 3, 500])
        told = await self.frontier.exchange(worker, operations, wanted, 8, most_ended=most_ended)
        there = {name.decode() for name in await self.redis.hkeys(self.frontier.prefix + "entries")}
        self.model.apply(worker, operations, told, there)
        self.now = told.now
        self._check_told(told.ended, most_ended)
        return told

    def _check_told(self, ended: list[ItemEnded], most: int) -> None:
        for each in ended:
            known = self.model.attempts[each.id]
            assert (each.attempt, "ended") == (known.number, known.state)
            counts = (known.requests, known.records, known.new, known.rejected, known.outcomes, known.reasons)
            assert (each.requests, each.records, each.new, each.rejected, each.outcomes, each.reasons) == counts
            assert each.job == each.id.partition(":")[0]
            self.model.events["told again" if known.tellings else "told"] += 1
            known.tellings += 1
            known.is_told = True
        untold = [name for name, each in self.model.attempts.items() if each.state == "ended" and not each.is_told]
        assert not untold or len(ended) == most

    async def _reap(self, worker: str) -> None:
        """The worker was silent for long."""
        if await self.redis.zscore(self.frontier.prefix + "workers", worker) is None:
            return
        await self.redis.zadd(self.frontier.prefix + "workers", {worker: 1})
        await self.redis.hset(self.frontier.prefix + "counts", "since", 0)
        taken = await self.frontier.reap("another")
        if self.model.held[worker] and taken:
            self.model.events["reaped"] += 1
        self.model.lose(worker)
        self.model.settle()

    # What is said -----------------------------------------------------------------------------------------

    def _operations(self, worker: str) -> list[Operation]:
        chance = self.chance
        mine = set() if worker in self.strangers else self.model.held[worker]
        others = {name for held in self.model.held.values() for name in held} - mine
        names = chance.sample(sorted(mine), min(chance.randrange(8), len(mine)))
        operations: list[Operation] = []
        for name in names:
            operations += [self._follow_up(name) for _ in range(chance.choice([0, 0, 1, 2]))]
            operations.append(self._ending(name))
        if others and chance.random() < 0.2:  # a lease that it lost long ago
            name = chance.choice(sorted(others))
            operations += [self._follow_up(name), self._ending(name)]
        if chance.random() < 0.6:
            operations.append(self._feed())
        if chance.random() < 0.5:
            operations.append(self._ack())
        operations += [push(next(self.numbers), site=chance.choice(SITES)) for _ in range(chance.randrange(2))]
        if self.sent and chance.random() < 0.2:  # late, and once more
            operations.append(chance.choice(self.sent))
        if chance.random() < 0.3:
            chance.shuffle(operations)
        return operations

    def _ending(self, name: str) -> Operation:
        chance = self.chance
        later = chance.choice([0.0, 0.0, time.time() + 3600])
        site = chance.choice(SITES)
        target = chance.choice([None, *range(10**9, 10**9 + 6)])
        redirect = Requeue(name, b"r", "", site, 0, "redirected", "", later, attempt=False, target=target)
        records, rejected = chance.randrange(30), chance.randrange(3)
        endings: list[Operation] = [
            Done(name, "ok", rejected, records, new=records // 3),
            Done(name, "ok", rejected, records, new=records // 3),
            Done(name, "not_found", 0, 0, f"HTTP 404 of {name}"),
            Skip(name, "policy_denied", "robots"),
            Dead(name, "dns", f"no such host as of {name}"),
            Requeue(name, b"x", "", site, 0, "timeout", "", later),
            redirect,
            Release(name),
        ]
        return chance.choice(endings)

    def _follow_up(self, name: str) -> Push:
        """Of the request's items, or some of them; some were asked for before."""
        its = self.model.belongs.get(name, ())
        if len(its) > 1 and self.chance.random() < 0.3:
            its = its[:1]
        number = self.chance.choice([next(self.numbers), self.chance.randrange(10**6, 10**6 + 60)])
        return self._request(number, its, filtered=self.chance.random() < 0.8)

    def _feed(self) -> FeedItems:
        chance = self.chance
        job = chance.choice(JOBS)
        refs: list[ItemRef] = []
        for key in chance.sample(range(12), chance.randrange(1, 4)):
            name = item(key, job=job).id
            last = self.latest[name]
            number = max(1, last + chance.choice([1, 1, 1, 0, -1]))
            self.latest[name] = max(last, number)
            refs.append(ItemRef(name, number))
        requests = []
        for _ in range(chance.randrange(4)):
            its = tuple(chance.sample(refs, chance.randrange(1, len(refs) + 1)))
            requests.append(self._request(next(self.numbers), its, filtered=False))
        deadline = chance.choice([FAR, FAR, FAR, self.now + 0.05, self.now - 1])
        deadline = min([deadline, *(self.deadlines[ref] for ref in refs if ref in self.deadlines)])
        self.deadlines |= dict.fromkeys(refs, deadline)
        return feed(refs, *requests, deadline=deadline)

    def _ack(self) -> EndedAck:
        """Of what has ended, and of what has not."""
        chance = self.chance
        some = chance.sample(sorted(self.latest.items()), min(6, len(self.latest)))
        guesses = [ItemRef(name, max(1, last - chance.randrange(2))) for name, last in some]
        told = [ItemRef(name, each.number) for name, each in self.model.attempts.items() if each.is_told]
        return EndedAck(tuple(guesses + told[: chance.randrange(4)]))

    def _request(self, number: int, its: tuple[ItemRef, ...], *, filtered: bool) -> Push:
        job = its[0].job if its else self.chance.choice(JOBS)
        return push(number, items=its, job=job, site=self.chance.choice(SITES), filtered=filtered, rooted=False)


CONTAINED = (
    *(
        "Done",
        "Skip",
        "Dead",
        "Requeue",
        "Release",
        "redirected",
        "worker_lost",
        "reaped",
        "ended",
        "told",
        "told again",
    ),
    *("stale push", "stale end", "duplicate", "late feed", "acknowledged", "most parked"),
    *(f"begun, {state} before" for state in ("unknown", "open", "ended", "over")),
    *(f"fed again, {state} before" for state in ("open", "ended", "over")),
)


@pytest.mark.slow
async def test_the_frontier_knows_of_items_what_it_should_whatever_happens(redis: Redis) -> None:
    contained: Counter[str] = Counter()
    for seed in histories(HISTORIES, CONTAINED, contained):
        history = History(redis, seed)
        for number in range(STEPS):
            try:
                await history.step()
            except AssertionError as error:
                error.add_note(f"step {number} of the history {seed}")
                raise
        await history.finish()
        contained += history.model.events
        await history.frontier.drop()

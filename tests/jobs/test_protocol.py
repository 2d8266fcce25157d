"""The protocol of ledger, feeder, frontier and outbox, under histories that hypothesis makes up.

Two processes feed and fetch one job. Each may die, or stop and wake later, between any two of its operations on MongoDB
and Redis; messages come late and twice; Redis loses everything; people retry, pause and resume. After every step the
equations hold, and in the end every item has ended, and every record is there.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, ClassVar, NamedTuple, TypeVar
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from redis.asyncio import Redis
from scrapy import Request
from scrapy.utils.test import get_crawler

from harvester.exceptions import FrontierLost
from harvester.frontier.messages import (
    Dead,
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
from harvester.items import Batch, Found, ItemResult
from harvester.jobs.control import Control
from harvester.jobs.documents import UNFINISHED, Item, ItemState, JobItem, JobState, read_item
from harvester.jobs.feeder import Feeder
from harvester.jobs.ledger import Ledger, now
from harvester.jobs.missing import Listing
from tests.frontier.items import check_items
from tests.jobs.conftest import Killed, nowhere
from tests.jobs.side import Side

T = TypeVar("T")
Document = dict[str, Any]

PAGES = 12
"""The tree of pages: below n are 2n and 2n + 1."""
EXAMPLES = int(os.environ.get("HISTORIES", "8"))
STEPS = 40
MOST_ROUNDS = 60
"""After which a job that nobody disturbs any more must be finished."""
_numbers = count()


class Process:
    """One worker: it feeds and fetches. Its operations are counted; it dies or stops when it has done so many."""

    def __init__(self, world: "World") -> None:
        self.left = 10**9
        self.stops = False
        """Whether it stops, instead of dying, when no operation is left."""
        self.gate, self.has_stopped = asyncio.Event(), asyncio.Event()
        self.name = f"process-{next(_numbers)}"
        self.ledger = Ledger(world.database, self.operate)
        self.side = ModelSide(self, world)
        self.world = world
        self.feeder = Feeder(self.ledger, self.side, ModelSpider(world.name), world.stats, worker=self.name)
        self.side.on_ended = self.hear
        self.task: asyncio.Task[None] | None = None
        """What it was doing when it stopped."""

    async def operate(self, operation: Callable[[], Awaitable[T]]) -> T:
        """One operation on MongoDB or Redis."""
        if self.left <= 0:
            if not self.stops:
                raise Killed
            self.has_stopped.set()
            await self.gate.wait()
        self.left -= 1
        return await operation()

    def hear(self, ended: list[ItemEnded]) -> None:
        self.world.told += ended
        self.feeder.hear(ended)

    async def step(self) -> None:
        """One of the feeder, which finds that it is time to look at everything."""
        self.feeder._jobs_at = -1e9
        await self.side.exchange()
        await self.feeder.step()
        await self.side.exchange()

    async def fetch(self, wanted: int, bad: int) -> None:
        """Some requests; every so manieth fails for a passing reason."""
        await self.side.exchange(wanted)
        held, self.side.held = self.side.held, []
        for number, leased in enumerate(held, 1):
            await self.side.fetch(leased, fails=bool(bad) and number % bad == 0)
        await self.side.exchange()


class ModelSide(Side):
    """Its operations are those of its process. What is fed is told when it is awaited."""

    def __init__(self, process: Process, world: "World") -> None:
        super().__init__(Frontier(world.redis, world.name), worker=process.name)
        self.process = process
        self.world = world
        self.lock = asyncio.Lock()

    def feed(self, items: Sequence[ItemRef], requests: Sequence[Request], deadline: float) -> Awaitable[None]:
        pushes = [self.push(request.url, tuple(items), f"{deadline}:{index}") for index, request in enumerate(requests)]
        feed = FeedItems(tuple(items), tuple(each._replace(filtered=False) for each in pushes), deadline)
        self.outgoing.append(feed)
        self.world.sent.append(feed)
        return self.told(feed)

    async def told(self, feed: Operation) -> None:
        async with self.lock:
            if feed in self.outgoing:
                await self.exchange_now()

    def push(self, url: str, items: tuple[ItemRef, ...], token: str) -> Push:
        payload = json.dumps([url, items]).encode()
        of_attempts = f"{url} {[item.attempt for item in items]}".encode()
        return Push(crc32(of_attempts), payload, token, url, job=items[0].job, rooted=False, items=items)

    def acknowledge(self, items: Sequence[ItemRef]) -> None:
        super().acknowledge(items)
        self.world.sent.append(EndedAck(tuple(items)))

    async def unknown_items(self, items: Sequence[ItemRef]) -> list[ItemRef]:
        return await self.process.operate(lambda: self.frontier.unknown_items(items))

    async def workers(self) -> set[str]:
        return set(await self.process.operate(self.frontier.workers))

    async def open_items(self, jobs: Sequence[str]) -> dict[str, int]:
        return await self.process.operate(lambda: self.frontier.open_items(jobs))

    async def exchange(self, wanted: int = 0) -> Exchange:
        async with self.lock:
            return await self.exchange_now(wanted)

    async def exchange_now(self, wanted: int = 0) -> Exchange:
        while True:
            outgoing = self.outgoing[:]
            try:
                exchange = partial(self.frontier.exchange, self.worker, outgoing, wanted, 10_000)
                told = await self.process.operate(exchange)
            except FrontierLost:  # as FrontierClient does it: what this process had of items is fed again
                await self.process.operate(self.frontier.put_back)
                await self.process.operate(lambda: self.frontier.leave(self.worker))
                await self.process.operate(self.frontier.begin_anew)
                self.held.clear()
                continue
            del self.outgoing[: len(outgoing)]
            self.at = told.now
            self.held += told.leased
            if told.ended:
                self.on_ended(told.ended)
            return told

    async def fetch(self, leased: Leased, *, fails: bool) -> None:
        """A page: its records, what it leads to, its end; in the order that is safe."""
        url, refs = json.loads(leased.payload)
        if fails:
            self.outgoing.append(Dead(leased.id, "timeout", "late"))
            return
        await self.process.operate(lambda: self.world.store(url))
        items = tuple(ItemRef(*ref) for ref in refs)
        what, _, number = url.removeprefix("https://site.example/").partition("/")
        if what == "page":
            found = tuple(Found("page", str(n)) for n in (2 * int(number), 2 * int(number) + 1) if n <= PAGES)
            self.world.keys.update(each.key for each in found)
            await self.process.ledger.note([Batch([], (), leased.job, items, found)], nowhere)
            self.outgoing.append(self.push(f"https://site.example/behind/{number}", items, f"behind {number}"))
        else:
            said = tuple(ItemResult(each.id, "done", "ok", said_in(each.attempt)) for each in items)
            await self.process.ledger.note([Batch([], (), leased.job, items, said=said)], nowhere)
        self.outgoing.append(Done(leased.id, records=1))


def said_in(attempt: int) -> str:
    """What the callback of an attempt's last page says of its items."""
    return f"seen in attempt {attempt}"


class ModelSpider:
    """Asks for a page of each item."""

    ITEMS_A_REQUEST: ClassVar[int | Mapping[str, int]] = 1
    CHECKED_AS: ClassVar[Mapping[str, str]] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def requests_of(self, items: Sequence[JobItem]) -> Iterator[Request]:
        for item in items:
            yield Request(f"https://site.example/page/{item.key}")

    def listings_of(self, item: Item) -> Iterable[Listing]:
        return ()


class World:
    """What outlives processes: the servers, and what is known of them."""

    def __init__(self, database: AsyncDatabase[Document], redis: Redis) -> None:
        self.database = database
        self.redis = redis
        self.name = f"model{next(_numbers)}"
        stats = get_crawler().stats
        assert stats
        self.stats = stats
        self.ledger = Ledger(database, _at_once)
        self.control = Control(self.ledger)
        self.frontier = Frontier(redis, self.name)
        self.records: set[str] = set()
        self.keys: set[str] = set()
        """Of all items that were ever to be added."""
        self.attempts: dict[str, int] = {}
        self.sent: list[Operation] = []
        self.told: list[ItemEnded] = []
        self.gone: list[str] = []
        """Processes that are dead, or were silent for longer than a lease."""
        self.job = ""

    async def store(self, url: str) -> None:
        self.records.add(url)

    async def add(self, key: int, depth: int = 0) -> None:
        self.keys.add(str(key))
        await self.ledger.add(self.job, [Found("page", str(key), depth=depth)], nowhere)

    async def items(self) -> dict[str, Item]:
        rows = await self.ledger.items.find({"job": self.job}).to_list()
        assert len({row["key"] for row in rows}) == len(rows)
        return {row["key"]: read_item(row) for row in rows}

    async def lose_redis(self) -> None:
        """All at once, as when a server dies: what a killed process has sent comes before or after."""
        script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end"
        redis: Any = self.redis
        await redis.eval(script, 0, f"*{{{self.name}:*")

    async def retell(self) -> None:
        """The outbox tells again what was not acknowledged: as after the time of a lease."""
        key = self.frontier.prefix + "ended"
        redis: Any = self.redis
        for name in await redis.zrange(key, 0, -1):
            await redis.zadd(key, {name: 0})

    async def pass_time(self) -> None:
        """So much that feeds can come no more, and that what waits is due."""
        ours = {"job": self.job}
        long_ago = now() - timedelta(hours=1)
        await self.ledger.items.update_many(ours | {"state": "active"}, {"$set": {"fed_at": long_ago}})
        await self.ledger.items.update_many(ours | {"due_at": {"$type": "date"}}, {"$set": {"due_at": long_ago}})

    async def take_back(self) -> None:
        """The leases of those who are gone."""
        for name in self.gone:
            await self.frontier.leave(name)
        self.gone.clear()


async def _at_once(operation: Callable[[], Awaitable[Any]]) -> Any:
    return await operation()


class Servers(NamedTuple):
    """What histories happen on."""

    runner: asyncio.Runner
    database: AsyncDatabase[Document]
    redis: Redis


class Protocol(RuleBasedStateMachine):
    """What may happen, in any order."""

    servers: Servers

    def run(self, awaitable: Any) -> Any:
        return self.servers.runner.run(awaitable)

    @initialize()
    def begin(self) -> None:
        self.world = World(self.servers.database, self.servers.redis)
        self.cancelled = False

        async def begin() -> None:
            opened = await self.world.ledger.open_job(self.world.name, "scope", attempts=10**6, backoff_s=600.0)
            self.world.job = opened.job.id
            await self.world.add(1)
            self.processes = [Process(self.world) for _ in range(2)]

        self.run(begin())

    def replace(self, number: int) -> None:
        """It is dead, and another takes its place."""
        self.world.gone.append(self.processes[number].name)
        self.processes[number] = Process(self.world)

    def work(self, number: int, work: Callable[[Process], Awaitable[None]], operations: int, stops: bool) -> None:
        """Has a process do something until the end, or until so many operations are done. One that stopped goes on."""
        process = self.processes[number]

        async def run() -> None:
            if process.task:
                process.gate.set()
                process.left = 10**9
                await asyncio.wait([process.task])
            else:
                process.left, process.stops = operations, stops
                process.gate.clear()
                process.has_stopped.clear()
                process.task = asyncio.ensure_future(work(process))
                waiting = asyncio.ensure_future(process.has_stopped.wait())
                await asyncio.wait([process.task, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
            process.left = 10**9

        self.run(run())
        if process.task and process.task.done():
            error = process.task.exception()
            process.task = None
            if isinstance(error, Killed):
                self.replace(number)
            elif error:
                raise error

    processes_ = st.integers(0, 1)
    operations = st.one_of(st.just(10**9), st.integers(0, 25))

    @rule(number=processes_, operations=operations, stops=st.booleans())
    def feed(self, number: int, operations: int, stops: bool) -> None:
        self.work(number, Process.step, operations, stops)

    @rule(
        number=processes_,
        operations=operations,
        stops=st.booleans(),
        wanted=st.integers(1, 8),
        bad=st.sampled_from([0, 0, 1, 2, 3]),
    )
    def fetch(self, number: int, operations: int, stops: bool, wanted: int, bad: int) -> None:
        self.work(number, lambda process: process.fetch(wanted, bad), operations, stops)

    @rule(number=processes_)
    def kill(self, number: int) -> None:
        process = self.processes[number]
        if process.task:
            process.task.cancel()
            self.run(asyncio.sleep(0))
        self.replace(number)

    @rule(number=processes_)
    def is_silent(self, number: int) -> None:
        """For so long that others take its leases; it knows nothing of that."""
        self.world.gone.append(self.processes[number].name)

    @rule()
    def leases_end(self) -> None:
        self.run(self.world.take_back())

    @rule()
    def redis_loses_everything(self) -> None:
        self.run(self.world.lose_redis())

    @rule()
    def outbox_tells_again(self) -> None:
        self.run(self.world.retell())

    @rule()
    def time_passes(self) -> None:
        self.run(self.world.pass_time())
        for process in self.processes:
            process.feeder._lost_at = -1e9

    @rule(number=processes_, which=st.integers(0, 10**6))
    def message_comes_again(self, number: int, which: int) -> None:
        """One that was sent once, in the hands of a process that has not stopped."""
        process = self.processes[number]
        if process.task is None and self.world.sent:
            process.side.outgoing.append(self.world.sent[which % len(self.world.sent)])

    @rule(number=processes_, which=st.integers(0, 10**6))
    def end_is_told_again(self, number: int, which: int) -> None:
        if self.world.told:
            self.processes[number].feeder.hear([self.world.told[which % len(self.world.told)]])

    @rule(key=st.integers(1, PAGES), depth=st.integers(0, 4))
    def item_is_added(self, key: int, depth: int) -> None:
        self.run(self.world.add(key, depth))

    @rule(outcome=st.sampled_from(["timeout", "ok", None]))
    def person_retries(self, outcome: str | None) -> None:
        self.run(self.world.control.retry(self.world.job, outcome=outcome))

    @rule()
    def person_pauses_and_resumes(self) -> None:
        if not self.run(self.world.control.pause(self.world.job)):
            self.run(self.world.control.resume(self.world.job))

    @precondition(lambda self: len(self.world.told) > 8)
    @rule()
    def person_cancels(self) -> None:
        self.cancelled = True
        self.run(self.world.control.cancel(self.world.job))

    @invariant()
    def frontier_is_balanced(self) -> None:
        async def check() -> None:
            await check_items(self.world.frontier)
            assert (await self.world.frontier.status()).balanced

        self.run(check())

    @invariant()
    def every_item_has_one_state_and_a_fate_that_follows_from_what_happened(self) -> None:
        items = self.run(self.world.items())
        assert items.keys() <= self.world.keys
        for key, item in items.items():
            assert item.attempts >= self.world.attempts.get(key, 0), "an attempt's number went down"
            self.world.attempts[key] = item.attempts
            ended = [each.attempt for each in item.history]
            assert ended == sorted(set(ended)), "an attempt ended twice"
            assert not ended or ended[-1] <= item.attempts
            assert item.state is not ItemState.ACTIVE or item.attempts not in ended
            for each in item.history:
                assert each.outcome != "ok" or each.reason == said_in(each.attempt), "what its callback said is lost"
            assert item.failures <= item.attempts
        job = self.run(self.world.ledger.job(self.world.job))
        if job.state is JobState.FINISHED:
            assert not any(item.state in UNFINISHED for item in items.values())

    def teardown(self) -> None:
        """Nobody disturbs it any more: everything comes to its end."""
        for number in (0, 1):
            if self.processes[number].task:
                self.work(number, Process.step, 10**9, False)
            self.processes[number].side.held.clear()  # what is left of those is delivered again
            self.world.gone.append(self.processes[number].name)
        self.run(self.world.control.resume(self.world.job))
        for round_ in range(MOST_ROUNDS):
            self.run(self.world.take_back())
            self.run(self.world.retell())
            self.time_passes()
            self.work(round_ % 2, Process.step, 10**9, False)
            self.work(round_ % 2, lambda process: process.fetch(100, 0), 10**9, False)
            self.frontier_is_balanced()
            items = self.run(self.world.items())
            if not any(item.state in UNFINISHED for item in items.values()):
                break
        self.every_item_has_one_state_and_a_fate_that_follows_from_what_happened()
        assert not any(item.state in UNFINISHED for item in items.values()), items
        if not self.cancelled:
            assert {item.state for item in items.values()} == {ItemState.DONE}
            assert set(items) == self.world.keys == _closure(self.world.keys)
            kinds = ("page", "behind")
            assert self.world.records == {f"https://site.example/{kind}/{key}" for kind in kinds for key in items}
            self.work(0, Process.step, 10**9, False)
            assert self.run(self.world.ledger.job(self.world.job)).state is JobState.FINISHED
        self.run(self.world.lose_redis())


def _closure(keys: set[str]) -> set[str]:
    numbers = {int(key) for key in keys}
    while below := {n for number in numbers for n in (2 * number, 2 * number + 1) if n <= PAGES} - numbers:
        numbers |= below
    return {str(number) for number in numbers}


def nobody_waits_for_the_killed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A killed process leaves tasks that nobody asks how they ended: that is no error, any other is."""
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


@pytest.mark.timeout(1800)
def test_whatever_happens_the_equations_hold_and_every_item_ends_with_its_records(
    mongodb_uri: str, mongodb: Database[Document], own_redis: str
) -> None:
    with asyncio.Runner() as runner:

        async def connect() -> tuple[AsyncMongoClient[Document], Redis]:
            client: AsyncMongoClient[Document] = AsyncMongoClient(mongodb_uri, tz_aware=True)
            await Ledger(client[mongodb.name], _at_once).make_indexes()
            return client, Redis.from_url(own_redis)

        client, redis = runner.run(connect())
        runner.get_loop().set_exception_handler(nobody_waits_for_the_killed)
        machine = type("Machine", (Protocol,), {"servers": Servers(runner, client[mongodb.name], redis)})
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    derandomize="HISTORIES" not in os.environ,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                    print_blob=False,
                ),
            )
        finally:
            runner.run(redis.aclose())
            runner.run(client.close())

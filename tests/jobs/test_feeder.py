"""The feeder, with a real frontier and a real ledger, and with neither Scrapy nor a site."""

import asyncio
import contextlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from pymongo.errors import OperationFailure
from redis.asyncio import Redis
from scrapy import Request
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from harvester.breaker.states import BreakerState
from harvester.config import Config
from harvester.exceptions import ServiceError
from harvester.frontier.store import Frontier
from harvester.items import Batch, ItemResult, Stage
from harvester.items.bluesky import Follow
from harvester.jobs import feeder as feeder_module
from harvester.jobs.control import Control
from harvester.jobs.documents import Item, ItemState, Job, JobItem, JobState, to_document
from harvester.jobs.feeder import Feeder
from harvester.jobs.ledger import now
from harvester.jobs.missing import Listing
from harvester.jobs.runs import Run
from tests.jobs.conftest import Killed, Ledgers, OneLedger, moments, nowhere, pages
from tests.jobs.side import Side


class Spider:
    """Asks for a page of each item."""

    ITEMS_A_REQUEST: ClassVar[int | Mapping[str, int]] = 1
    CHECKED_AS: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        ask: Callable[[Sequence[JobItem]], Iterable[Request | ItemResult]] | None = None,
        looks: Callable[[Item], Iterable[Listing]] = lambda _: (),
    ) -> None:
        self.name = "flat"
        self.ask = ask or self._ask
        self.given: list[JobItem] = []
        self.looks = looks

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request | ItemResult]:
        self.given += items
        return self.ask(items)

    def listings_of(self, item: Item) -> Iterable[Listing]:
        return self.looks(item)

    def _ask(self, items: Sequence[JobItem]) -> Iterator[Request]:
        yield Request("https://site.example/" + ",".join(item.key for item in items))


class SpiderOfMany(Spider):
    """Asks for pages of several items."""

    ITEMS_A_REQUEST = {"page": 3}  # noqa: RUF012


class Worker:
    """A feeder with its side of the frontier, which is served meanwhile."""

    def __init__(self, ledger: OneLedger, frontier: Frontier, spider: Spider, stats: StatsCollector) -> None:
        self.side = Side(frontier)
        self.ledger = ledger
        self.feeder = Feeder(ledger, self.side, spider, stats, worker=self.side.worker)
        self.side.on_ended = self.feeder.hear

    async def step(self) -> int:
        """One of the feeder; it sees all that is changed meanwhile."""
        self.feeder._jobs_at = -1e9
        async with self.side.served():
            number = await self.feeder.step()
        await self.side.exchange()  # what it acknowledged last
        return number

    async def round(self, outcomes: dict[str, str] | None = None) -> list[str]:
        """Feeds, fetches what is there, and hears how it ended; the addresses."""
        await self.step()
        await self.side.exchange(wanted=10_000)
        urls = self.side.fetch_all(outcomes)
        await self.side.exchange()
        await self.step()
        return urls

    async def rounds(self, number: int) -> None:
        for _ in range(number):
            await self.round()


class Workers:
    """Makes them, of one spider's frontier."""

    def __init__(self, ledgers: Ledgers, redis: Redis) -> None:
        self.ledgers = ledgers
        self.redis = redis
        self.name = f"test-{uuid4().hex[:12]}"
        stats = get_crawler().stats
        assert stats
        self.stats = stats

    async def another(self, spider: Spider | None = None, operations: float = 1e9) -> Worker:
        frontier = Frontier(self.redis, self.name)
        worker = Worker(self.ledgers.another(operations), frontier, spider or Spider(), self.stats)
        await worker.side.exchange()
        return worker


@pytest.fixture
async def workers(ledgers: Ledgers, own_redis: str) -> AsyncIterator[Workers]:
    async with Redis.from_url(own_redis) as redis:
        yield Workers(ledgers, redis)


async def job_with(ledgers: Ledgers, *keys: str | int, **fields: Any) -> Job:
    job = await ledgers.job(**fields)
    await ledgers.another().add(job.id, pages(*keys), nowhere)
    return job


async def test_items_are_fed_fetched_and_written_down_as_they_ended(ledgers: Ledgers, workers: Workers) -> None:
    await job_with(ledgers, "good", "gone", "bad", attempts=1)
    worker = await workers.another()
    at = "https://site.example/"
    urls = await worker.round({f"{at}gone": "gone", f"{at}bad": "invalid"})
    assert sorted(urls) == [f"{at}bad", f"{at}gone", f"{at}good"]
    items = await ledgers.items()
    assert {key: (item.state, item.outcome, item.reason) for key, item in items.items()} == {
        "good": (ItemState.DONE, "ok", ""),
        "gone": (ItemState.DONE, "gone", f"{at}gone says gone"),
        "bad": (ItemState.FAILED, "invalid", f"{at}bad says invalid"),
    }
    assert items["good"].counts == {"requests": 1, "records": 1, "new": 0, "rejected": 0}
    status = await worker.side.frontier.status()
    assert (status.items, status.ended) == (0, 0)


def looking(item: Item) -> Iterator[Listing]:
    """Of an item that is done, its follows were looked through."""
    if item.state is ItemState.DONE:
        yield Listing(Follow, {"did": item.key})


async def earlier_job(ledgers: Ledgers) -> None:
    """One of the same spider that is finished. Without one, nothing can be gone."""
    long_ago = now() - timedelta(days=2)
    job = Job(id="earlier", spider="flat", scope="another", number=1, state=JobState.FINISHED, created_at=long_ago)
    await ledgers.database["jobs"].insert_one(to_document(job))


def known(key: str, crawl: str, at: datetime, **fields: Any) -> dict[str, Any]:
    """A stored record, of an item with the first letter of its key."""
    return {"_id": key, "did": key[0], "provenance": {"crawl": crawl, "fetched_at": at}, **fields}


async def test_what_a_look_to_the_end_does_not_find_any_more_is_marked_with_its_beginning(
    ledgers: Ledgers, workers: Workers
) -> None:
    await earlier_job(ledgers)
    job = await job_with(ledgers, "a", "b", "c", "d", attempts=1)
    worker = await workers.another(Spider(looks=looking))
    ago = now() - timedelta(days=1)
    records = [
        known("a not seen", "earlier", ago),
        known("a seen by another of the job", job.id, ago),
        known("a seen since then", "another", now() + timedelta(hours=1)),
        known("a gone long ago", "earlier", ago, gone_at=ago),
        known("b of a failed look", "earlier", ago),
        known("c of a look with an unchanged page", "earlier", ago),
        known("d of a look with a rejected record", "earlier", ago),
        known("e nobody looked", "earlier", ago),
    ]
    await ledgers.database["follows"].insert_many(records)
    at = "https://site.example/"
    await worker.round({f"{at}b": "invalid", f"{at}c": "unchanged", f"{at}d": "rejected"})
    began = (await ledgers.items())["a"].fed_at
    gone = {
        row["_id"]: row["gone_at"] async for row in ledgers.database["follows"].find({"gone_at": {"$exists": True}})
    }
    assert gone == {"a not seen": began, "a gone long ago": ago}
    assert workers.stats.get_value("harvester/records/gone/follow") == 1


@pytest.mark.parametrize("operations", moments(4, 12))
async def test_a_feeder_killed_anywhere_leaves_marked_what_another_would_have(
    ledgers: Ledgers, workers: Workers, operations: int
) -> None:
    await earlier_job(ledgers)
    await job_with(ledgers, "a")
    await ledgers.database["follows"].insert_one(known("a not seen", "earlier", now() - timedelta(days=1)))
    worker = await workers.another(Spider(looks=looking), operations)
    with contextlib.suppress(Killed):
        await worker.rounds(3)
    item = (await ledgers.items())["a"]
    marked = await ledgers.database["follows"].find_one()
    assert marked
    assert item.state is not ItemState.DONE or marked["gone_at"] == item.fed_at, "nobody would look again"
    other = await workers.another(Spider(looks=looking))
    await other.side.frontier.leave(worker.side.worker)
    for _ in range(3):
        await retell(other)
        await other.round()
    assert (await ledgers.states()) == {"a": ItemState.DONE}
    assert (await ledgers.database["follows"].find_one() or {})["gone_at"] <= now()


async def test_items_of_a_kind_share_requests_as_the_spider_says(ledgers: Ledgers, workers: Workers) -> None:
    await job_with(ledgers, *range(5))
    spider = SpiderOfMany()
    worker = await workers.another(spider)
    urls = await worker.round()
    assert Counter(url.count(",") + 1 for url in urls) == {3: 1, 2: 1}
    assert set((await ledgers.states()).values()) == {ItemState.DONE}
    assert {item.attempt for item in spider.given} == {1}


async def test_no_more_than_a_window_is_in_the_frontier(
    ledgers: Ledgers, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder_module, "WINDOW", 20)
    job = await job_with(ledgers, *range(100))
    worker = await workers.another()
    most = 0
    while await worker.ledger.is_left(job.id):
        await worker.step()
        most = max(most, (await worker.side.open_items([job.id]))[job.id])
        await worker.side.exchange(wanted=5)
        worker.side.fetch_all()
        await worker.side.exchange()
    assert 15 <= most <= 20
    assert set((await ledgers.states()).values()) == {ItemState.DONE}


async def test_jobs_have_equal_shares_of_the_window_and_a_small_one_waits_for_no_large_one(
    ledgers: Ledgers, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder_module, "WINDOW", 20)
    large = await job_with(ledgers, *range(200))
    worker = await workers.another()
    await worker.step()
    small, _ = await worker.ledger.open_job("flat", "another scope")
    await worker.ledger.add(small.id, pages(*range(1000, 1030)), nowhere)
    fetched: list[str] = []
    while await worker.ledger.is_left(small.id):
        await worker.step()
        await worker.side.exchange(wanted=4)
        fetched += worker.side.fetch_all()
        await worker.side.exchange()
    assert len(fetched) <= 100  # both alike, after the window that was full
    assert await worker.ledger.is_left(large.id)


async def test_a_job_that_is_paused_or_cancelled_is_not_fed(ledgers: Ledgers, workers: Workers) -> None:
    job = await job_with(ledgers, "a")
    worker = await workers.another()
    control = Control(worker.ledger)
    await control.pause(job.id)
    assert await worker.round() == []
    await control.cancel(job.id)
    await worker.ledger.add(job.id, pages("late"), nowhere)
    assert await worker.round() == []
    assert await ledgers.states() == {"a": ItemState.SKIPPED, "late": ItemState.SKIPPED}


async def test_what_failed_for_a_passing_reason_is_fed_again_when_it_is_due(ledgers: Ledgers, workers: Workers) -> None:
    await job_with(ledgers, "a", backoff_s=0, attempts=3)
    worker = await workers.another()
    url = "https://site.example/a"
    for _ in range(2):
        assert await worker.round({url: "timeout"}) == [url]
    assert await worker.round() == [url]
    item = (await ledgers.items())["a"]
    assert (item.state, item.attempts, item.failures) == (ItemState.DONE, 3, 2)
    assert [each.outcome for each in item.history] == ["timeout", "timeout", "ok"]


async def test_items_of_a_site_that_is_left_alone_are_fed_to_find_out_whether_it_is_well(
    ledgers: Ledgers, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder_module, "MOST_PROBES", 2)
    job = await ledgers.job()
    worker = await workers.another()
    await worker.ledger.add(job.id, pages(*range(10)), lambda _: "refusing")
    await worker.ledger.add(job.id, pages("well"), lambda _: "other")
    worker.side.shut_sites = {"refusing": BreakerState("open", 1, None)}
    assert await worker.round() == ["https://site.example/well"]
    for trial in (1, 2):
        worker.side.shut_sites = {"refusing": BreakerState("half_open", trial, None)}
        assert len(await worker.round()) == 2
        assert await worker.round() == []
    worker.side.shut_sites = {}
    assert len(await worker.round()) == 6


async def test_an_item_that_the_spider_cannot_begin_with_says_why_and_costs_only_itself(
    ledgers: Ledgers, workers: Workers
) -> None:
    def ask(items: Sequence[JobItem]) -> Iterator[Request]:
        if any(item.key == "bad" for item in items):
            raise KeyError("url")
        yield Request("https://site.example/" + ",".join(item.key for item in items))

    await job_with(ledgers, "a", "bad", "c")
    worker = await workers.another(SpiderOfMany(ask))
    assert sorted(await worker.round()) == ["https://site.example/a", "https://site.example/c"]
    items = await ledgers.items()
    assert {key: item.state for key, item in items.items()} == {"a": "done", "bad": "failed", "c": "done"}
    assert (items["bad"].outcome, items["bad"].reason) == ("invalid", "KeyError: 'url'")


async def test_what_a_spider_says_of_an_item_that_it_cannot_begin_with_need_not_be_utf_8(
    ledgers: Ledgers, workers: Workers
) -> None:
    def ask(items: Sequence[JobItem]) -> Iterator[Request]:
        if items[0].key == "bad":
            raise ValueError("there is no place \ud800")
        yield Request("https://site.example/a")

    await job_with(ledgers, "a", "bad")
    worker = await workers.another(Spider(ask))
    assert await worker.round() == ["https://site.example/a"]
    item = (await ledgers.items())["bad"]
    assert (item.state, item.reason) == (ItemState.FAILED, "ValueError: there is no place ?")


async def test_an_item_is_not_blamed_for_what_mongodb_refuses_to_write_down_of_it(
    ledgers: Ledgers, workers: Workers
) -> None:
    def ask(items: Sequence[JobItem]) -> Iterator[ItemResult]:
        return (ItemResult(item.id, "skipped", "opt_out", "it says so") for item in items)

    await job_with(ledgers, "a")
    worker = await workers.another(Spider(ask))
    await ledgers.database.command("collMod", "job_items", validator={"said": {"$exists": False}})
    with pytest.raises(OperationFailure):
        await worker.step()
    item = (await ledgers.items())["a"]
    assert (item.state, item.outcome, item.reason, item.history) == (ItemState.ACTIVE, "", "", ())
    await ledgers.database.command("collMod", "job_items", validator={})
    await worker.side.frontier.leave(worker.side.worker)
    other = await workers.another(Spider(ask))
    assert await other.round() == []
    item = (await ledgers.items())["a"]
    assert (item.state, item.outcome, item.reason, item.failures) == (ItemState.SKIPPED, "opt_out", "it says so", 0)


async def test_an_item_is_not_blamed_for_a_server_that_its_spider_cannot_reach(
    ledgers: Ledgers, workers: Workers
) -> None:
    def ask(_: Sequence[JobItem]) -> Iterator[Request]:
        raise ServiceError("MongoDB cannot be reached")

    await job_with(ledgers, "a", "b")
    worker = await workers.another(SpiderOfMany(ask))
    with pytest.raises(ServiceError):
        await worker.step()
    assert {(item.state, item.history) for item in (await ledgers.items()).values()} == {(ItemState.ACTIVE, ())}
    await worker.side.frontier.leave(worker.side.worker)
    assert len(await (await workers.another()).round()) == 2
    assert {(item.state, item.failures) for item in (await ledgers.items()).values()} == {(ItemState.DONE, 0)}


async def test_a_spider_that_speaks_of_another_item_than_it_was_given_costs_that_item_only(
    ledgers: Ledgers, workers: Workers
) -> None:
    def ask(items: Sequence[JobItem]) -> Iterator[Request | ItemResult]:
        for item in items:
            if item.key == "bad":
                yield ItemResult("job:page:another", "done", "ok")
            yield Request(f"https://site.example/{item.key}")

    await job_with(ledgers, "a", "bad", "c")
    worker = await workers.another(SpiderOfMany(ask))
    assert sorted(await worker.round()) == ["https://site.example/a", "https://site.example/c"]
    items = await ledgers.items()
    assert {key: item.state for key, item in items.items()} == {"a": "done", "bad": "failed", "c": "done"}
    assert "job:page:another" in items["bad"].reason


async def test_an_item_for_which_there_is_nothing_to_ask_is_done(ledgers: Ledgers, workers: Workers) -> None:
    await job_with(ledgers, "a")
    worker = await workers.another(Spider(lambda _: []))
    assert await worker.round() == []
    item = (await ledgers.items())["a"]
    assert (item.state, item.outcome) == (ItemState.DONE, "empty")


async def test_an_item_begins_with_a_bounded_number_of_requests(
    ledgers: Ledgers, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder_module, "MOST_REQUESTS", 3)
    await job_with(ledgers, "a")
    worker = await workers.another(Spider(lambda _: (Request(f"https://site.example/{n}") for n in range(10**9))))
    assert await worker.round() == []
    assert re.match(r"ValueError: .*\b3\b", (await ledgers.items())["a"].reason)


async def test_two_feeders_feed_every_item_once(ledgers: Ledgers, workers: Workers) -> None:
    await job_with(ledgers, *range(300))
    first, second = await workers.another(), await workers.another()
    urls: list[str] = []
    for _ in range(6):
        for fetched in await asyncio.gather(first.round(), second.round()):
            urls += fetched
    assert len(urls) == len(set(urls)) == 300
    items = (await ledgers.items()).values()
    assert {(item.state, item.attempts) for item in items} == {(ItemState.DONE, 1)}


@pytest.mark.parametrize("operations", moments(2, 16))
async def test_a_feeder_killed_anywhere_leaves_nothing_behind(
    ledgers: Ledgers, workers: Workers, operations: int
) -> None:
    await job_with(ledgers, *range(5), limits={"page": 4})
    worker = await workers.another(operations=operations)
    with pytest.raises(Killed):
        await worker.rounds(3)
    other = await workers.another()
    await other.side.frontier.leave(worker.side.worker)
    await retell(other)
    for _ in range(3):
        await other.round()
        await retell(other)
    states = Counter((await ledgers.states()).values())
    assert states == {ItemState.DONE: 4, ItemState.SKIPPED: 1}


async def test_items_that_a_dead_feeder_claimed_wait_again_when_its_feed_can_come_no_more(
    ledgers: Ledgers, workers: Workers
) -> None:
    job = await job_with(ledgers, "dead")
    worker = await workers.another()
    await worker.ledger.claim(job, 1, "a feeder that dies now")
    worker.feeder._epoch = worker.side.epoch  # it has looked for such when it began
    assert await worker.round() == []
    worker.feeder._lost_at = -1e9
    assert await worker.round() == []
    worker.feeder._lost_at = -1e9
    long_ago = now() - timedelta(seconds=2 * feeder_module.FEED_S)
    await worker.ledger.items.update_one({"key": "dead"}, {"$set": {"fed_at": long_ago}})
    assert await worker.round() == ["https://site.example/dead"]
    assert (await ledgers.items())["dead"].attempts == 2


async def test_a_feeder_that_begins_takes_at_once_what_one_that_is_gone_told_no_frontier_of(
    ledgers: Ledgers, workers: Workers
) -> None:
    await job_with(ledgers, "alive", "dead")
    worker = await workers.another()
    await worker.step()
    await worker.ledger.items.update_one(
        {"key": "dead"}, {"$set": {"attempts": 2}}
    )  # an attempt that nobody was told of
    await worker.side.frontier.leave(worker.side.worker)
    other = await workers.another()
    await other.step()
    assert {key: item.attempts for key, item in (await ledgers.items()).items()} == {"alive": 1, "dead": 3}


async def test_what_callbacks_say_counts_though_another_feeder_took_the_attempt_for_lost(
    ledgers: Ledgers, workers: Workers
) -> None:
    job = await job_with(ledgers, "a")
    silent, other = [await workers.another() for _ in range(2)]
    deadline = silent.side.now() + feeder_module.FEED_S
    (item,) = claimed = await silent.ledger.claim(job, 1, silent.side.worker)
    await silent.side.frontier.leave(silent.side.worker)
    await Control(ledgers.another()).pause(job.id)
    await other.step()
    assert await ledgers.states() == {"a": ItemState.WAITING}
    async with silent.side.served():  # it wakes in time
        await silent.feeder._send(claimed, deadline)
    await silent.side.exchange(wanted=1)
    said, stage = ItemResult(item.id, "failed", "private", "it is private"), Stage(item.id, "seen")
    await silent.ledger.note([Batch([], (), job.id, ((item.id, 1),), stages=(stage,), said=(said,))], nowhere)
    silent.side.fetch_all()
    await silent.side.exchange()
    await silent.step()
    item = (await ledgers.items())["a"]
    assert (item.state, item.outcome, item.reason, item.stage) == (ItemState.FAILED, "private", "it is private", "seen")
    assert [(each.attempt, each.outcome) for each in item.history] == [(1, "private")]


async def test_a_feeder_that_begins_leaves_to_others_what_they_are_about_to_feed(
    ledgers: Ledgers, workers: Workers
) -> None:
    job = await job_with(ledgers, "theirs", "left behind")
    alive, dead, third = [await workers.another() for _ in range(3)]
    for worker in (alive, dead):
        assert len(await worker.ledger.claim(job, 1, worker.side.worker)) == 1
    await dead.side.frontier.leave(dead.side.worker)
    assert len(await third.round()) == 1
    items = {item.attempts: item for item in (await ledgers.items()).values()}
    assert (items[2].state, items[1].state) == (ItemState.DONE, ItemState.ACTIVE)
    assert items[1].feeder.startswith(alive.side.worker)


async def test_what_a_process_of_this_machine_claimed_before_it_was_killed_is_fed_by_those_that_go_on(
    ledgers: Ledgers, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder_module, "LOST_S", 0.0)
    job = await job_with(ledgers, "first")
    worker = await workers.another()
    assert len(await worker.round()) == 1
    naming = "from harvester.frontier.workers import own_name; print(own_name())"
    ended = (await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", naming])).decode().strip()
    await ledgers.another().add(job.id, pages("theirs", "whose"), nowhere)
    for name in (ended, "elsewhere:1:token:another machine"):
        assert len(await ledgers.another().claim(job, 1, name)) == 1
    assert await worker.round() == ["https://site.example/theirs"]
    assert {key: item.attempts for key, item in (await ledgers.items()).items()} == {
        "first": 1,
        "theirs": 2,
        "whose": 1,
    }


async def test_a_run_at_all_jobs_does_not_end_before_it_has_heard_of_the_frontier(
    ledgers: Ledgers, workers: Workers, config: Config
) -> None:
    await job_with(ledgers, "a")
    worker = await workers.another()
    worker.side.frontier.epoch = ""

    class Fed(Exception):
        """The run goes on."""

    async def pause() -> None:
        if worker.feeder.jobs:
            raise Fed

    run = Run(worker.ledger, worker.side, worker.feeder, config, workers.stats)
    async with worker.side.served():
        with pytest.raises(Fed):
            await run.work(lambda: False, pause)
    assert await ledgers.states() == {"a": ItemState.ACTIVE}


async def test_whether_a_job_is_over_is_asked_only_by_a_process_that_holds_no_request_of_it(
    ledgers: Ledgers, workers: Workers, config: Config
) -> None:
    job = await job_with(ledgers, "a")
    worker = await workers.another()
    await worker.step()
    await worker.side.exchange(wanted=1)
    run = Run(worker.ledger, worker.side, worker.feeder, config, workers.stats, job=job.id)
    worker.ledger.left = 0  # operations
    assert await run._end() is None
    worker.side.fetch_all()
    with pytest.raises(Killed):
        await run._end()


async def test_all_is_fed_again_that_redis_has_forgotten(ledgers: Ledgers, workers: Workers) -> None:
    await job_with(ledgers, *range(5))
    worker = await workers.another()
    await worker.step()
    await workers.redis.flushdb()
    worker.side.frontier.epoch = ""
    worker.side.frontier._heard.clear()
    worker.side.held.clear()
    await worker.side.exchange()
    assert len(await worker.round()) == 5
    items = (await ledgers.items()).values()
    assert {(item.state, item.attempts, item.failures) for item in items} == {(ItemState.DONE, 2, 0)}


async def test_a_feed_that_comes_late_is_refused_and_its_items_wait_again(
    ledgers: Ledgers, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await job_with(ledgers, "a")
    worker = await workers.another()
    monkeypatch.setattr(worker.side, "now", lambda: worker.side.at - 2 * feeder_module.FEED_S)
    assert await worker.round() == []
    assert await ledgers.states() == {"a": ItemState.ACTIVE}
    monkeypatch.undo()
    await worker.side.frontier.leave(worker.side.worker)
    other = await workers.another()
    assert await other.round() == ["https://site.example/a"]
    assert (await ledgers.items())["a"].attempts == 2


async def retell(worker: Worker) -> None:
    """Has the frontier tell again what it told a worker that did not acknowledge it."""
    redis: Any = worker.side.frontier._redis
    key = f"{worker.side.frontier.prefix}ended"
    for name in await redis.zrange(key, 0, -1):
        await redis.zadd(key, {name: 0})

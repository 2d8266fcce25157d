"""What a spider asks for job items belongs to them all the way, through Scrapy and through a loss of Redis."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis
from scrapy import Request, Spider
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from harvester.frontier.client import FrontierClient
from harvester.frontier.codec import UnserialisableRequestError, encode
from harvester.frontier.feeder_client import Feeding
from harvester.frontier.fingerprints import of_attempts
from harvester.frontier.messages import Done, ItemEnded, ItemRef, Push
from harvester.frontier.store import Frontier
from harvester.internal_meta import ITEMS
from tests.crawling import LONGEST_S, until
from tests.frontier.crawl import crawl
from tests.frontier.items import FAR, JOB, check_items, feed, item, of
from tests.frontier.pushes import push
from tests.frontier.test_client import patiently
from tests.frontier.test_scheduler import ANSWERS, Page

ITEM_ENDS: dict[str, tuple[dict[str, int], str]] = {
    "/copies": ({"ok": 4}, ""),
    "/fine": ({"ok": 2}, ""),
    "/forbidden": ({"ok": 1, "blocked": 1}, "HTTP 403"),
    "/law": ({"ok": 1, "policy_denied": 1}, "HTTP 451"),
    "/links": ({"ok": 3}, ""),
    "/missing": ({"ok": 1, "not_found": 1}, "HTTP 404"),
    "/missing-handled": ({"ok": 3}, ""),  # its errback asks for something else instead
    "/raises-midway": ({"ok": 2, "invalid": 1}, "KeyError: 'owner'"),
    "/redirect": ({"ok": 2}, ""),
    "/retried": ({"ok": 2}, ""),
    "/strangers": ({"ok": 1, "invalid": 1}, "belong"),
}
"""Path -> how the requests of its item end, and why one ends badly. A further one belongs to all items."""
LINKED = ("both", "copies", "links", "errback", "redirect", "raises-midway")


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, redis_url: str) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "0")
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")


@pytest.mark.usefixtures("settings")
async def test_items_end_when_all_that_followed_from_them_has_and_a_later_attempt_asks_for_all_of_it_again(
    frontier: Frontier, tmp_path: Path
) -> None:
    async with Page(ANSWERS) as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, *ITEM_ENDS, module="tests.frontier.fed")
        asked = {name: site.count(f"/linked?from={name}") for name in LINKED}
        assert site.count("/never") == 0
    assert crawled.reason == "finished", crawled.log
    ended = msgspec.json.decode(crawled.stats["ended"], type=list[ItemEnded])
    assert sorted((each.attempt, each.id) for each in ended) == [
        (attempt, f"{JOB}:path:{path}") for attempt in (1, 2) for path in sorted(ITEM_ENDS)
    ]
    for each in ended:
        outcomes, reason = ITEM_ENDS[each.id.rpartition(":")[2]]
        assert (each.id, each.outcomes, each.requests) == (each.id, outcomes, sum(outcomes.values()))
        assert list(each.reasons) == [outcome for outcome in outcomes if outcome != "ok"]
        assert all(reason in said for said in each.reasons.values()), each
        assert (each.job, each.rejected) == (JOB, 0)
    assert {each.records for each in ended if each.id.endswith("/links")} == {3}
    assert asked == dict.fromkeys(LINKED, 2)
    belong = Counter(crawled.items)
    assert belong["/linked?from=both for /copies"] == belong["/linked?from=errback for /missing-handled"] == 2
    assert belong[f"/both for {' '.join(sorted(ITEM_ENDS))}"] == 2
    status = await frontier.status()
    assert (status.dead, status.items, status.ended, status.ready, status.leased) == (0, 0, 0, 0, 0)
    assert (status.balanced, {*status.jobs}) == (True, {JOB})
    await check_items(frontier)


def test_a_later_attempt_asks_for_other_requests_than_the_ones_before() -> None:
    """Of one item or of several, however they are put together."""
    a, b = item("a"), item("b")
    assert of_attempts(5, [a]) == of_attempts(5, [a, b]) == 5
    again, more = a._replace(attempt=2), a._replace(attempt=3)
    together = [[again], [more], [a, b._replace(attempt=2)], [b, again], [item("c"), again], [again, item("d", 3)]]
    assert len({5, *(of_attempts(5, each) for each in together)}) == 1 + len(together)
    assert of_attempts(5, [b, again]) == of_attempts(5, [[*again], [*b]])


# Its conversation with the frontier -----------------------------------------------------------------------


class Worker:
    """A conversation whose spider is fed."""

    def __init__(self, frontier: Frontier) -> None:
        told: dict[str, Any] = {"on_change": lambda: None, "on_breakers": lambda _: None, "lease_seconds": 30}
        stats = StatsCollector(get_crawler())
        self.client = FrontierClient(frontier, "worker", patiently, stats, record=None, heals=True, **told)
        self.failures: list[BaseException] = []
        self.ended: list[ItemEnded] = []
        self.feeding = Feeding(frontier, self.client, patiently, self._push)
        self.feeding.listen(self.ended.extend)

    async def feed(self, ref: ItemRef) -> None:
        await self.feeding.feed([ref], [Request("https://site.example/")], FAR)

    def finish(self) -> None:
        """Says that all is done that it was given."""
        while leased := self.client.take():
            self.client.finish(Done(leased.id), leased.id)

    async def acknowledges_all(self, *refs: ItemRef) -> None:
        async with asyncio.timeout(LONGEST_S):
            while not {each.ref for each in self.ended}.issuperset(refs):
                self.finish()
                await asyncio.sleep(0.02)
            self.feeding.acknowledge([each.ref for each in self.ended])
            while await self.feeding.unknown_items(refs) != list(refs):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    def _push(self, request: Request, items: tuple[ItemRef, ...]) -> Push:
        request.meta[ITEMS] = [list(each) for each in items]
        payload = encode(request, Spider("s"))
        its = () if "none" in request.url else items
        return push(7, payload=payload, items=its, filtered=False, job=JOB, rooted=False)


@pytest.fixture
async def worker(redis: Redis, frontier: Frontier) -> AsyncIterator[Worker]:
    worker = Worker(Frontier(redis, frontier.spider))
    worker.client.start(worker.failures.append)
    yield worker
    await worker.client.close()
    assert worker.failures == []


async def test_a_feed_is_heard_and_its_end_is_told(worker: Worker) -> None:
    a, b = item("a"), item("b")
    assert (worker.feeding.now(), worker.feeding.epoch) == (0, "")
    await worker.feed(a)
    assert worker.feeding.now() == pytest.approx(time.time(), abs=60)
    assert worker.feeding.epoch
    assert await worker.feeding.open_items([JOB, "other"]) == {JOB: 1, "other": 0}
    assert await worker.feeding.unknown_items([a, b]) == [b]
    await worker.acknowledges_all(a)
    assert [each.ref for each in worker.ended] == [a]


async def test_a_feed_that_cannot_be_kept_is_refused_and_nothing_is_told(worker: Worker) -> None:
    fine = Request("https://site.example/1")
    for bad in (Request("https://site.example/none"), Request("https://site.example/", callback=print)):
        with pytest.raises(UnserialisableRequestError):
            worker.feeding.feed([item("a")], [fine, bad], FAR)
    await worker.feed(item("b"))
    assert await worker.feeding.open_items([JOB]) == {JOB: 1}


async def test_whoever_waits_for_a_feed_does_not_wait_for_ever(worker: Worker) -> None:
    before = asyncio.ensure_future(worker.feed(item("a")))
    await asyncio.sleep(0)
    worker.client._task.cancel()  # type: ignore[union-attr]
    await asyncio.wait_for(before, LONGEST_S)
    await asyncio.wait_for(worker.feed(item("b")), LONGEST_S)


@pytest.mark.parametrize("part", ["*", "counts", "entries", "items", "belongs"])
async def test_a_fed_spider_goes_on_when_redis_has_forgotten_and_every_item_ends(
    worker: Worker, frontier: Frontier, redis: Redis, part: str
) -> None:
    """What it had leased is not put back: it is fed again with what is unknown."""
    latest = {ref.id: ref for ref in (item(number) for number in range(5))}
    for ref in latest.values():
        await worker.feed(ref)
    await until(lambda: len(worker.client._ready) == 5)
    epoch = worker.feeding.epoch
    for key in await redis.keys(frontier.prefix + part):
        await redis.delete(key)
    async with asyncio.timeout(LONGEST_S):
        while not {each.ref for each in worker.ended}.issuperset(latest.values()):
            for ref in await worker.feeding.unknown_items([*latest.values()]):
                if ref not in [each.ref for each in worker.ended]:
                    latest[ref.id] = ref._replace(attempt=ref.attempt + 1)
                    await worker.feed(latest[ref.id])
            worker.finish()
            await asyncio.sleep(0.02)
    assert (worker.feeding.epoch != epoch) == (part in ("*", "counts"))
    await worker.acknowledges_all(*latest.values())
    async with asyncio.timeout(LONGEST_S):
        while not (status := await frontier.status()).balanced or status.items:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert (status.ready, status.leased, status.lost, status.dead) == (0, 0, 0, 0)
    await check_items(frontier)


async def test_requests_of_items_are_not_put_back(frontier: Frontier, redis: Redis) -> None:
    worker = Worker(Frontier(redis, frontier.spider))
    worker.client.push(push(1))
    worker.client.push(of(2, item("a")))
    worker.client.feed(feed([item("b")], of(3, item("b"))))
    fed = worker._push(Request("https://site.example/"), (item("c"),))
    told = await frontier.exchange("worker", [push(4), feed([item("c")], fed)], wanted=9)
    worker.client._held.update((leased.id, leased) for leased in told.leased)
    assert [each.id for each in worker.client._mine()] == ["4", "1"]

"""Slots, permits and pauses between workers on one event loop, with a real Redis."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from time import monotonic
from types import SimpleNamespace
from typing import Any, Protocol, cast
from uuid import uuid4

import pytest
from pydantic import SecretStr
from redis import Redis
from scrapy import Spider
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.exceptions import StateGone
from harvester.politeness import host_queue, limiter
from harvester.politeness.host_queue import HostQueue, Slot, SlotAnswer
from harvester.politeness.limiter import HostLimiter
from harvester.politeness.local_limiter import Limiter, LocalLimiter
from harvester.shutdown import RunEnding
from harvester.sites.politeness import Limits
from tests.crawling import until
from tests.politeness.throttle.workers import most_within


class Join(Protocol):
    """Makes one more worker."""

    def __call__(
        self, per_second: float = 1000, at_once: int = 4, window: tuple[int, float] = (0, 0)
    ) -> HostLimiter: ...


@pytest.fixture
def host() -> str:
    """A host that no other test asks."""
    return f"{uuid4().hex[:12]}.example"


@pytest.fixture
async def join(redis_url: str) -> AsyncIterator[Join]:
    async with AsyncExitStack() as stack:

        def make(per_second: float = 1000, at_once: int = 4, window: tuple[int, float] = (0, 0)) -> HostLimiter:
            crawler = get_crawler(Spider)
            crawler.engine = cast(Any, SimpleNamespace(running=True, _slot=None))
            limits = Limits(1 / per_second, at_once, *window)
            worker = HostLimiter(
                crawler, Config(redis_url=SecretStr(redis_url)), lambda name: limits, lambda name, seconds: None
            )
            stack.push_async_callback(worker.close)
            return worker

        yield make


class Asked:
    """What a host sees of its workers."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.times: list[float] = []
        self.by_worker: Counter[int] = Counter()
        self.at_once = self.most_at_once = 0

    async def request(self, worker: HostLimiter, takes: Callable[[], float]) -> None:
        await worker.acquire(self.host)
        self.times.append(monotonic())
        self.by_worker[id(worker)] += 1
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(takes())
        self.at_once -= 1
        worker.release(self.host)

    async def requests(self, worker: HostLimiter, count: int, takes: Callable[[], float] = lambda: 0.0) -> None:
        await asyncio.gather(*(self.request(worker, takes) for _ in range(count)))


def counting(worker: HostLimiter, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts its round trips."""
    trips: Counter[str] = Counter()
    send: Callable[..., Awaitable[None]] = worker._send

    async def counted(*arguments: Any) -> None:
        trips["trips"] += 1
        await send(*arguments)

    monkeypatch.setattr(worker, "_send", counted)
    return trips


def lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slot is too late and no lease ends, however slow this process is."""
    for name in ("GRACE_S", "BEAT_S", "PERMIT_LEASE_S"):
        monkeypatch.setattr(host_queue, name, 600)


@pytest.mark.parametrize(("workers", "at_once"), [(2, 1), (3, 4), (6, 2)])
async def test_permits_are_never_more_than_allowed_however_workers_come_and_go(
    join: Join, host: str, workers: int, at_once: int
) -> None:
    """And all come to their slots, those too for whom there is no permit at first."""
    asked = Asked(host)

    async def one(worker: HostLimiter) -> None:
        for _ in range(3):
            await asked.requests(worker, random.randint(1, 12), lambda: random.uniform(0, 0.05))
            await asyncio.sleep(random.uniform(0, 0.2))
        await worker.close()

    await asyncio.gather(*(one(join(at_once=at_once)) for _ in range(workers)))
    assert len(asked.by_worker) == workers
    assert asked.most_at_once <= at_once


@pytest.mark.parametrize(("workers", "per_second"), [(1, 100), (3, 100), (4, 10)])
async def test_slots_of_all_workers_are_spaced(join: Join, host: str, workers: int, per_second: int) -> None:
    asked, began = Asked(host), monotonic()
    each = 3 * per_second // workers
    await asyncio.gather(*(asked.requests(join(per_second, 16), each) for _ in range(workers)))
    assert all(at >= began + number / per_second for number, at in enumerate(asked.times))


async def test_no_window_wherever_it_begins_holds_more_than_allowed(join: Join, host: str) -> None:
    asked = Asked(host)
    await asyncio.gather(*(asked.requests(join(1000, 16, (7, 0.8)), 10) for _ in range(3)))
    assert len(asked.times) == 30
    assert most_within(asked.times, 0.8) <= 7


async def test_slots_that_were_not_used_leave_room_in_the_window(join: Join, host: str, redis_url: str) -> None:
    worker = join(4, 8, (12, 60))
    requests = asyncio.create_task(Asked(host).requests(worker, 6))
    await until(lambda: bool(worker._hosts) and not worker._hosts[host].must_ask(monotonic()))
    for _ in range(3):
        await asyncio.sleep(0.3)
        worker.pause(host, 1.1)
    await requests
    await worker.close()
    with Redis.from_url(redis_url) as redis:
        assert redis.llen(f"harvester:{{{host}}}:window") == 6
        assert 60_000 < redis.pttl(f"harvester:{{{host}}}:window") < 130_000


@pytest.mark.parametrize(("overtaken_by", "left"), [("pause", 1), ("cancellation", 0)])
async def test_a_slot_that_was_given_too_late_for_its_request_leaves_room_in_the_window(
    join: Join, host: str, redis_url: str, monkeypatch: pytest.MonkeyPatch, overtaken_by: str, left: int
) -> None:
    """What overtakes it comes after the slot was given, and before the request hears of it."""
    worker, serve = join(4, 8, (12, 60)), HostQueue.serve
    overtaken: list[float] = []

    def served(queue: HostQueue, now: float) -> float | None:
        again_at = serve(queue, now)
        if queue._under_way and not overtaken:
            overtaken.append(now)
            if overtaken_by == "pause":
                queue.pause(monotonic() + 1.1)
            else:
                request.cancel()
        return again_at

    monkeypatch.setattr(HostQueue, "serve", served)
    request = asyncio.create_task(worker.acquire(host))
    await asyncio.gather(request, return_exceptions=True)
    await worker.close()
    with Redis.from_url(redis_url) as redis:
        assert overtaken
        assert redis.llen(f"harvester:{{{host}}}:window") == left


async def test_slots_that_were_not_used_are_told_until_redis_has_answered(host: str) -> None:
    queue = HostQueue(host, Limits(0.1, 4, 12, 60))
    queue.not_used(Slot(1000.0, 1000.2, 5))
    assert queue.ask(1000.3)[-1] == "5"
    queue.not_used(Slot(1000.1, 1000.3, 6))
    queue.hear(SlotAnswer(0, 0, 0, 100_000, 0, 0, 0, 0, 0, 1), 1000.3, 1000.4)
    assert queue.ask(1000.5)[-1] == "6"
    assert queue.ask(1001.0)[-1] == "6", "the connection was lost"


async def test_the_slowest_pace_that_a_worker_knows_of_is_that_of_all(join: Join, host: str) -> None:
    asked, began = Asked(host), monotonic()
    quick, slow = join(per_second=200, at_once=16), join(per_second=10, at_once=16)
    await slow.acquire(host)
    await asyncio.gather(asked.requests(quick, 15), asked.requests(slow, 15))
    slow.release(host)
    assert all(at >= began + number / 10 for number, at in enumerate(asked.times, 1))


async def test_a_pace_is_forgotten_with_the_worker_that_knew_of_it(
    join: Join, host: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_queue, "PERMIT_LEASE_S", 1.0)
    quick, slow = join(per_second=50, at_once=16), join(per_second=1, at_once=16)
    await Asked(host).requests(slow, 1)
    await slow.close()
    await Asked(host).requests(quick, 60)
    with Redis.from_url(redis_url) as redis:
        assert redis.hget(f"harvester:{{{host}}}:turns", "pace") == b"20000"


async def test_a_pause_is_told_once(host: str) -> None:
    """Though it is heard of on the channel, a little later and so a little longer, before the answer comes."""
    queue = HostQueue(host, Limits(0.1, 4))
    queue.pause(1010.0)
    queue.untold = True
    queue.ask(1000.0)
    queue.pause(1010.3)
    queue.hear(SlotAnswer(0, 0, 0, 100_000, 0, 9_900_000, 0, 0, 0, 1), 1000.0, 1000.1)
    assert not queue.untold
    assert not queue.must_ask(1000.2)


async def test_a_host_may_lose_its_rate(host: str) -> None:
    """As one without a rate does whose Crawl-delay is taken back."""
    queue = HostQueue(host, Limits(5.0, 4))
    queue.adapt(Limits(0.0, 4))
    queue.join()
    interval, wanted, *_ = queue.ask(1000.0)
    assert int(interval) > 0
    queue.hear(SlotAnswer(0, 0, int(wanted), int(interval), 0, 0, 1, 1, 0, 1), 1000.0, 1000.0)
    queue.serve(1000.0)
    assert not queue.waiting
    assert queue.ask(1000.1)


async def test_who_can_wait_elsewhere_does_so_when_others_lack_the_room(join: Join, host: str) -> None:
    """So a site that is asked once in ten seconds does not fill a worker; nor is anyone sent away without need."""
    worker = join(0.1)
    downloader = SimpleNamespace(active=set(range(20)), total_concurrency=40)
    cast(Any, worker._crawler.engine).downloader = downloader
    waiting = [asyncio.create_task(worker.acquire(host, patient=False)) for _ in range(30)]
    await waiting[0]
    assert sum(task.done() for task in waiting) == 1, "all others wait here"
    downloader.active.add(20)
    away = [await asyncio.gather(worker.acquire(host, patient=False), return_exceptions=True) for _ in range(30)]
    seconds = [pause.seconds for [pause] in away if isinstance(pause, limiter.HostPaused)]
    assert len(seconds) == 30
    assert min(seconds) > host_queue.QUEUE_S / 2
    assert seconds == sorted(seconds), "they do not come back all at once"
    free = f"free.{host}"  # nobody waits for it
    await worker.acquire(free, patient=False)
    for task in waiting[1:]:
        task.cancel()
    await asyncio.wait(waiting)


async def test_one_worker_alone_asks_redis_less_often_than_the_host(
    join: Join, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the rate that is configured when nothing else is."""
    lose_nothing(monkeypatch)
    worker = join(per_second=8)
    trips = counting(worker, monkeypatch)
    await Asked(host).requests(worker, 40)
    assert trips["trips"] < 40 / 2


async def test_a_pause_reaches_those_who_hold_slots(
    join: Join, host: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, not only with their next question."""
    monkeypatch.setattr(host_queue, "BEAT_S", 3600)
    told, other = join(), join()
    for worker in (told, other):
        await worker.acquire(host)
    with Redis.from_url(redis_url) as redis:
        await until(lambda: redis.pubsub_numsub(limiter.CHANNEL)[0][1] >= 2)
    trips = counting(other, monkeypatch)
    told.pause(host, 3)
    assert told.is_paused(host)
    await until(lambda: other.is_paused(host))
    assert not trips


async def test_a_slot_given_before_a_pause_is_not_used_in_it(join: Join, host: str) -> None:
    worker = join(at_once=2)
    await worker.acquire(host)
    slot = asyncio.create_task(worker.acquire(host))
    await until(lambda: not worker._hosts[host].waiting and not slot.done())
    began = monotonic()
    worker.pause(host, 1)
    await slot
    assert monotonic() - began >= 1


@pytest.mark.parametrize("is_shared", [True, False])
async def test_who_has_a_permit_and_asks_again_goes_before_all_others(join: Join, host: str, is_shared: bool) -> None:
    shared = join(at_once=1)
    local = LocalLimiter(shared._crawler, lambda name: Limits(0.0, 1), lambda name, seconds: None)
    worker: Limiter = shared if is_shared else local
    await worker.acquire(host)
    others = [asyncio.create_task(worker.acquire(host)) for _ in range(3)]
    await asyncio.sleep(0)
    for _ in range(2):
        await worker.acquire(host, again=True)
    assert not any(other.done() for other in others)
    for other in others:
        worker.release(host)
        await other


async def test_questions_of_one_moment_travel_together(join: Join, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter, "CHECK_S", 3600)  # no beat, however long the connection takes
    worker = join()
    trips = counting(worker, monkeypatch)
    names = [f"{number}.{host}" for number in range(50)]
    await asyncio.gather(*(worker.acquire(name) for name in names))
    assert trips["trips"] == 1


async def test_slots_at_high_rates_come_in_blocks(join: Join, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_nothing(monkeypatch)
    worker = join(per_second=500, at_once=64)
    trips = counting(worker, monkeypatch)
    await Asked(host).requests(worker, 500)
    assert trips["trips"] < 500 / 5


async def test_permits_that_redis_forgot_are_not_given_twice(join: Join, host: str, redis_url: str) -> None:
    """After an outage those who ask first wait until all have been heard of."""
    asked, first, second = Asked(host), join(at_once=2), join(at_once=2)
    for _ in range(2):
        await first.acquire(host)
    waiting = asyncio.create_task(asked.requests(second, 2))
    with Redis.from_url(redis_url) as redis:
        permits = f"harvester:{{{host}}}:places"
        await until(lambda: redis.hlen(permits) == 2)
        redis.delete(permits)
        await until(lambda: redis.hlen(permits) == 2)
        await asyncio.sleep(1)
    assert not asked.times
    for _ in range(2):
        first.release(host)
    await waiting


@pytest.mark.parametrize("when", ["waiting", "given"])
async def test_a_request_that_is_given_up_gives_its_permit_back(
    join: Join, host: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = join(at_once=1)
    await worker.acquire(host)
    given_up = asyncio.create_task(worker.acquire(host))
    await asyncio.sleep(0)
    slot, serve = worker._hosts[host].waiting[0], worker._serve

    def serve_and_give_up(queue: HostQueue) -> None:
        serve(queue)
        if slot.done():
            given_up.cancel()  # it has its slot, and has not gone on yet

    if when == "given":
        monkeypatch.setattr(worker, "_serve", serve_and_give_up)
    else:
        given_up.cancel()
    worker.release(host)
    await asyncio.wait([given_up])
    assert given_up.cancelled()
    await asyncio.wait_for(worker.acquire(host), 240)


async def test_hosts_that_are_asked_no_more_are_forgotten(join: Join, host: str, redis_url: str) -> None:
    worker = join()
    await Asked(host).requests(worker, 3)
    with Redis.from_url(redis_url) as redis:
        assert redis.exists(f"harvester:{{{host}}}:places")
        await until(lambda: not worker._hosts)
        assert not redis.exists(f"harvester:{{{host}}}:places")


async def test_a_process_that_is_always_late_comes_to_its_slots(host: str) -> None:
    """A slot that was missed is lost; but not every one."""
    queue = HostQueue(host, Limits(0.1, 4))
    slot = queue.join()
    answer = SlotAnswer(
        start=100_000, mark=0, slots=1, pace=100_000, again=0, pause=0, permits=1, share=1, lacking=0, alone=0
    )
    now, tries = 1000.0, 0
    while not slot.done():
        tries += 1
        assert queue.must_ask(now)
        queue.ask(now)
        queue.hear(answer, now, now)
        meant_at = queue.serve(now)
        assert meant_at is not None
        assert meant_at > now
        now = meant_at + 0.6  # the event loop was busy
        queue.was_late(0.6)
        queue.serve(now)
    assert tries == 2


async def test_a_run_whose_private_redis_is_gone_ends_as_that_and_not_as_one_to_be_continued(
    join: Join, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: Any) -> None:
        raise StateGone("The folder was removed while it was in use.")

    ended: list[str] = []

    async def close(reason: str) -> None:
        ended.append(reason)

    worker = join()
    worker._crawler.engine = cast(Any, SimpleNamespace(running=True, _slot=None, spider=True, close_spider_async=close))
    monkeypatch.setattr(worker, "_retrying", gone)
    with pytest.raises(RunEnding):
        await worker.acquire(host)
    await until(lambda: bool(ended))
    assert ended == ["state_gone"]

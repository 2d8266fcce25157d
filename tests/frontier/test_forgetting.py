"""A Redis that forgets is noticed: whatever it forgets, no worker takes what is left for the whole."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis
from scrapy import Request, Spider
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.exceptions import FrontierLost
from harvester.frontier import operations
from harvester.frontier.client import FrontierClient
from harvester.frontier.codec import encode
from harvester.frontier.messages import Dead, Done, FeedItems, Held, ItemRef, Push, Skip
from harvester.frontier.store import Frontier
from harvester.internal_meta import ITEMS
from harvester.sites import load_sites
from tests.crawling import until
from tests.frontier.pushes import push
from tests.frontier.test_client import patiently

ONE, TWO = "worker-1", "worker-2"


async def _forget(frontier: Frontier, redis: Redis) -> None:
    """As FLUSHALL does, but for the keys of other tests."""
    async for key in redis.scan_iter(match=f"{frontier.prefix}*"):
        await redis.delete(key)


def held(request: Push, attempts: int = 0) -> Held:
    """As a worker that has it puts it back."""
    name = f"{request.job}:{request.fingerprint}" if request.job else str(request.fingerprint)
    where = (request.priority, request.job, request.site, attempts)
    return Held(name, request.payload, request.token, request.url, *where)


async def test_a_frontier_that_is_gone_is_noticed_by_each_worker_and_nothing_is_applied(
    frontier: Frontier, redis: Redis
) -> None:
    other = Frontier(redis, frontier.spider)
    await frontier.exchange(ONE, [push(n) for n in range(5)], wanted=2)
    await other.exchange(TWO, [], wanted=2)
    await _forget(frontier, redis)
    for each, worker, name in ((frontier, ONE, "0"), (other, TWO, "2")):
        for _ in range(2):
            with pytest.raises(FrontierLost, match="Redis"):
                await each.exchange(worker, [Done(name), push(99)], wanted=5)
    assert [key async for key in redis.scan_iter(match=f"{frontier.prefix}*")] == []


async def test_what_workers_have_is_put_back_once_each(frontier: Frontier, redis: Redis) -> None:
    other, requests = Frontier(redis, frontier.spider), [push(n, site="s", job="j", priority=n) for n in range(4)]
    await frontier.exchange(ONE, requests, wanted=2)
    await other.exchange(TWO, [], wanted=2)
    await _forget(frontier, redis)
    unfiltered = Held("7#t", b"seven", "t", "https://site.example/7", 0, "", "s")
    assert await frontier.put_back([*map(held, requests[:2]), unfiltered]) == 3
    with pytest.raises(FrontierLost):
        await other.exchange(TWO, [])
    assert await other.put_back([held(each, attempts=3) for each in requests[1:]]) == 2
    assert await other.put_back([held(each) for each in requests[1:]]) == 0, "the answer was lost, and it is sent again"
    status = await frontier.status()
    assert (status.queued, status.ready, status.balanced) == (5, 5, True)
    told = await Frontier(redis, frontier.spider).exchange("later", [requests[3]], wanted=9)
    assert {each.id: (each.payload, each.attempts) for each in told.leased} == {
        "j:0": (b"request 0", 0),
        "j:1": (b"request 1", 0),
        "j:2": (b"request 2", 3),
        "j:3": (b"request 3", 3),
        "7#t": (b"seven", 0),
    }
    assert (await frontier.status()).queued == 5, "what was put back is not queued again"


async def test_a_worker_that_comes_new_makes_a_new_epoch_and_the_old_ones_notice(
    frontier: Frontier, redis: Redis
) -> None:
    await frontier.exchange(ONE, [push(1)], wanted=1)
    await _forget(frontier, redis)
    new = Frontier(redis, frontier.spider)
    await new.exchange(TWO, [push(2)])
    assert new.epoch != frontier.epoch
    with pytest.raises(FrontierLost):
        await frontier.exchange(ONE, [Done("1")])
    await new.exchange(TWO, [], wanted=1)


async def _snapshot(frontier: Frontier, redis: Redis) -> Callable[[], Awaitable[None]]:
    """Its keys as they are; what is returned has Redis go back to them."""
    before = {key: await redis.dump(key) async for key in redis.scan_iter(match=f"{frontier.prefix}*")}

    async def restore() -> None:
        await _forget(frontier, redis)
        for key, value in before.items():
            await redis.restore(key, 0, value or b"")

    return restore


async def test_a_redis_that_went_back_lost_what_no_lease_brings_again(frontier: Frontier, redis: Redis) -> None:
    other = Frontier(redis, frontier.spider)
    await frontier.exchange(ONE, [push(1)], wanted=1)
    await other.exchange(TWO, [])
    restore = await _snapshot(frontier, redis)
    await frontier.exchange(ONE, [push(2, rooted=False), Done("1")], wanted=1)
    await other.exchange(TWO, [push(3)])
    await restore()
    told = await frontier.exchange(ONE, [Done("2")], wanted=9)
    assert told.stale == 1, "the lease of a page that Redis does not know"
    assert (await frontier.exchange(ONE, [], wanted=9)).leased[0].id == "1", "it is done again, and leads to 2 again"
    with pytest.raises(FrontierLost, match="gone back") as caught:
        await other.exchange(TWO, [])
    assert caught.value.heals, "with each run a spider asks for what it begins with"
    assert (await frontier.status()).balanced


async def test_a_page_is_done_again_when_redis_went_back_before_what_it_led_to(
    frontier: Frontier, redis: Redis
) -> None:
    await frontier.exchange(ONE, [push(1)], wanted=1)
    restore = await _snapshot(frontier, redis)
    await frontier.exchange(ONE, [push(2, rooted=False)])
    await restore()
    told = await frontier.exchange(ONE, [Done("1")], wanted=9)
    assert [leased.id for leased in told.leased] == ["1"]
    told = await frontier.exchange(ONE, [push(2, rooted=False), Done("1")], wanted=9)
    assert [leased.id for leased in told.leased] == ["2"]
    status = await frontier.status()
    assert (status.done, status.leased, status.balanced) == (1, 1, True)


def _client(frontier: Frontier, *, heals: bool) -> FrontierClient:
    stats = StatsCollector(get_crawler())
    told: dict[str, Any] = {"on_change": lambda: None, "on_breakers": lambda _: None}
    return FrontierClient(frontier, ONE, patiently, stats, lease_seconds=30, record=None, heals=heals, **told)


async def test_a_page_that_is_done_again_since_redis_went_back_is_not_safe_before(
    frontier: Frontier, redis: Redis
) -> None:
    """Else its validator would be kept: asked for again it would be unchanged, and lead nowhere."""
    client, safe = _client(frontier, heals=False), list[str]()
    client.push(push(1))
    await client._exchange()
    restore = await _snapshot(frontier, redis)
    client.push(push(2, rooted=False))
    await client._exchange()
    await restore()
    client.finish(Done("1"), "1", lambda: safe.append("at first"))
    await client._exchange()
    assert [leased.id for leased in iter(client.take, None)][-1] == "1"
    assert safe == []
    client.push(push(2, rooted=False))
    client.finish(Done("1"), "1", lambda: safe.append("again"))
    await client._exchange()
    assert safe == ["again"]


@pytest.mark.parametrize("ended", [True, False], ids=["ended before", "ends later"])
async def test_a_page_of_an_attempt_that_redis_has_forgotten_is_never_safe(
    frontier: Frontier, redis: Redis, ended: bool
) -> None:
    client, safe, failures = _client(frontier, heals=True), list[str](), list[BaseException]()
    item = ItemRef("job:page:a", 1)
    client.start(failures.append)
    request = encode(Request("https://site.example/1", meta={ITEMS: [[*item]]}), Spider("any"))
    asked = push(1, payload=request, filtered=False, job="job", items=(item,))
    await client.feed(FeedItems((item,), (asked,), time.time() + 60))
    await until(lambda: client.is_at("job"))
    leased = client.take()
    assert leased
    epoch = frontier.epoch
    await _forget(frontier, redis)
    done = Done(leased.id), leased.id, lambda: safe.append("though its attempt is over")
    if ended:
        client.finish(*done)
    client.feed(FeedItems((), (), 0.0))  # so that it hears of the loss now
    await until(lambda: client.epoch != epoch)
    if not ended:
        client.finish(*done)
    await client.feed(FeedItems((), (), 0.0))
    await client.close()
    assert (safe, failures) == ([], [])


async def test_a_worker_that_was_taken_for_dead_loses_nothing_by_it(frontier: Frontier, redis: Redis) -> None:
    await frontier.exchange(ONE, [push(1)], wanted=1)
    await redis.zrem(f"{frontier.prefix}workers", ONE)
    await frontier.leave(ONE)  # as if it was reaped
    assert (await frontier.exchange(ONE, [Done("1")])).stale == 1


async def _is_noticed(frontier: Frontier) -> bool:
    """Whether a worker that looks for work hears of it."""
    try:
        for _ in range(9):
            told = await frontier.exchange(TWO, [], wanted=9)
            if told.lost or told.damaged:
                return True
            await frontier.reap(TWO)
    except FrontierLost:
        return True
    return False


PARTS = [
    "entries",
    "payloads",
    "ready:j\0s",
    "waiting",
    "dead",
    "leases:worker-1",
    "jobs",
    "sites:j",
    "workers",
    "counts",
]


@pytest.mark.parametrize("part", PARTS)
async def test_each_deleted_key_is_noticed_and_what_is_left_is_one_whole(
    frontier: Frontier, redis: Redis, part: str
) -> None:
    """Whatever it is: no script fails, a worker hears of it before it finds nothing to do, and the equation holds."""
    later = 2_000_000_000.0
    fields = {"job": "j", "site": "s", "rooted": False}
    requests = [push(n, **fields, not_before=0.0 if n < 8 else later) for n in range(10)]
    await frontier.exchange(ONE, requests, wanted=5)
    await frontier.exchange(ONE, [Dead("j:0", "dns", "gone"), Skip("j:1", "policy_denied", "robots")])
    await frontier.exchange(TWO, [], wanted=1)
    assert await redis.delete(f"{frontier.prefix}{part}")
    assert await _is_noticed(frontier)
    await frontier.put_back([held(each) for each in requests[2:5]])
    assert await frontier.replay() <= 1
    for worker in (ONE, TWO):
        await frontier.leave(worker)
    status = await frontier.status()
    assert status.balanced
    assert status.leased == 0
    assert status.ready + status.waiting + status.dead >= 3
    told = await frontier.exchange("later", [], wanted=99)
    assert {"j:2", "j:3", "j:4"} <= {each.id for each in told.leased}
    assert len(told.leased) == status.ready
    await frontier.begin_anew()
    told = await frontier.exchange("later", [Done(each.id) for each in told.leased], wanted=9)
    status = await frontier.status()
    assert (status.balanced, status.ready, status.leased, status.lost) == (True, 0, 0, 0)
    assert (told.lost, told.damaged) == (0, False)


async def test_what_was_lost_is_waited_for_until_all_jobs_are_begun_anew(
    frontier: Frontier, redis: Redis, config: Config, redis_url: str
) -> None:
    ours, jobs = config.model_copy(update={"redis_url": SecretStr(redis_url)}), ("", "a", "b")
    frontier = Frontier(redis, frontier.spider, config.database)
    await frontier.exchange(ONE, [push(n, job=job) for job in jobs for n in range(3)])
    await redis.delete(f"{frontier.prefix}entries")
    await frontier.put_back()
    assert await operations.forget_all(ours, frontier.spider, "a") == 3
    assert (await frontier.exchange(ONE, [])).lost == 9
    assert await operations.forget_all(ours, frontier.spider) == 6
    told = await frontier.exchange(ONE, [push(n, job=job) for job in jobs for n in range(3)])
    assert (told.lost, told.accepted) == (0, 9)


@pytest.mark.parametrize(
    "part", ["held:worker-1", "scopes", "job:j", "clock", "breakers", "shut", "parked", "seen:j:0"]
)
async def test_a_deleted_key_of_another_kind_stops_nobody(frontier: Frontier, redis: Redis, part: str) -> None:
    await frontier.exchange(ONE, [push(n, job="j", site="s") for n in range(6)], wanted=3)
    rules = load_sites().named("other").breaker.rules()
    await frontier.set_breaker("other", rules, "open", "a person")
    await frontier.exchange(ONE, [push(n, site="other") for n in range(6, 9)])
    assert await redis.delete(f"{frontier.prefix}{part}")
    await frontier.status()
    await frontier.exchange(ONE, [Done(f"j:{n}") for n in range(3)], wanted=9)
    told = await frontier.exchange(TWO, [], wanted=9)
    assert (await frontier.reap(TWO), told.stale) == (0, 0)
    await frontier.set_breaker("other", rules, "closed", "a person")
    await frontier.put_back()
    await frontier.leave(ONE)
    status = await frontier.status()
    assert status.queued == 9
    assert status.done == 3


@pytest.mark.parametrize("forgotten", ["leases", "request"])
async def test_a_worker_whose_leases_were_forgotten_is_given_others_of_their_site(
    frontier: Frontier, redis: Redis, forgotten: str
) -> None:
    """It holds so many of a site at most, and what it no longer holds counts no more."""
    requests = [push(number, site="s") for number in range(3)]
    (leased,) = (await frontier.exchange(ONE, requests, wanted=9, per_site=1)).leased
    if forgotten == "leases":
        await redis.delete(f"{frontier.prefix}leases:{ONE}")
        assert (await frontier.exchange(ONE, [], wanted=9, per_site=1)).damaged
        await frontier.put_back()
    else:
        await redis.hdel(f"{frontier.prefix}entries", leased.id)
        await redis.hdel(f"{frontier.prefix}payloads", leased.id)
        await frontier.exchange(ONE, [Done(leased.id)])
    assert len((await frontier.exchange(ONE, [], wanted=9, per_site=1)).leased) == 1
    assert (await frontier.status()).balanced

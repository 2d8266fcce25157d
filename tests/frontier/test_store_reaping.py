"""What becomes of a worker's leases when it is heard of no more."""

import asyncio
from collections.abc import Callable
from time import monotonic

import pytest
from redis.asyncio import Redis

from harvester.frontier.messages import Done, Leased
from harvester.frontier.store import Frontier
from tests.frontier.pushes import push

ONE, TWO = "worker-1", "worker-2"
TIMEOUT_S = 2.0


@pytest.fixture
def quick(frontier: Frontier, redis: Redis) -> Frontier:
    """A frontier that takes silent workers for dead soon."""
    return Frontier(redis, frontier.spider, lease_timeout_s=TIMEOUT_S, max_deliveries=2)


async def _reap(frontier: Frontier, worker: str, enough: Callable[[int], bool] = bool) -> int:
    """Has the worker live and reap until it took enough; returns how many leases."""
    taken = 0
    async with asyncio.timeout(240):
        while not enough(taken):
            await frontier.exchange(worker, [])
            taken += await frontier.reap(worker)
            await asyncio.sleep(TIMEOUT_S / 20)
    return taken


async def test_the_leases_of_a_silent_worker_go_to_others(quick: Frontier) -> None:
    await quick.exchange(ONE, [push(n, site="s") for n in range(1500)], wanted=1200, per_site=5000)
    assert await _reap(quick, TWO) == 1200
    told = await quick.exchange(TWO, [], wanted=1500, per_site=5000)
    assert [leased.id for leased in told.leased] == [str(n) for n in range(1500)]
    assert [leased.deliveries for leased in told.leased] == 1200 * [1] + 300 * [0]
    status = await quick.status()
    assert (status.redelivered, set(status.workers)) == (1200, {TWO})
    assert status.balanced
    assert (await quick.exchange(ONE, [Done("0")])).stale == 1, "the worker was only slow, and its lease is another's"
    fate = await quick.look_up(0)
    assert fate is not None
    assert [(event.event, event.outcome, event.reason) for event in fate.history] == [
        ("redelivered", "worker_lost", ONE)
    ]


async def test_other_workers_are_those_heard_of_within_the_time_of_a_lease(quick: Frontier, redis: Redis) -> None:
    assert await quick.others(ONE) == 0
    await quick.exchange(ONE, [])
    assert (await quick.others(ONE), await quick.others(TWO)) == (0, 1)
    await quick.exchange(TWO, [])
    assert (await quick.others(ONE), await quick.others(TWO)) == (1, 1)
    await redis.zincrby(quick.prefix + "workers", -TIMEOUT_S * 1000, TWO)  # as if it were silent since then
    assert (await quick.others(ONE), await quick.others(TWO)) == (0, 1)
    await quick.leave(ONE)
    assert await quick.others(TWO) == 0


async def test_the_leases_of_a_worker_that_has_ended_go_to_others_at_once(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(n, site="s") for n in range(1500)], wanted=1200, per_site=5000)
    await frontier.note_blocked(ONE, "0", "the callback parse")
    assert set(await frontier.workers()) == {ONE}
    assert await frontier.reap(TWO) == 0
    assert await frontier.reap(TWO, [ONE, "another"]) == 1200
    told = await frontier.exchange(TWO, [], wanted=1500, per_site=5000)
    assert [leased.deliveries for leased in told.leased] == 1200 * [1] + 300 * [0], "a request may have ended it"
    status = await frontier.status()
    assert (status.redelivered, set(status.workers), status.balanced) == (1200, {TWO}, True)
    fate = await frontier.look_up(0)
    assert fate is not None
    assert [(event.event, event.outcome) for event in fate.history] == [("redelivered", "worker_lost")]


async def test_a_worker_that_is_heard_keeps_its_leases(quick: Frontier) -> None:
    await quick.exchange(ONE, [push(1)], wanted=1)
    silent = await quick.exchange("silent", [push(2)], wanted=1)
    assert len(silent.leased) == 1
    taken = 0
    async with asyncio.timeout(240):
        while not taken:
            await quick.exchange(ONE, [])
            taken = await quick.reap(TWO)
            await asyncio.sleep(TIMEOUT_S / 20)
    status = await quick.status()
    assert taken == 1
    assert status.workers[ONE].leased == 1


async def test_a_request_that_keeps_killing_workers_becomes_a_dead_letter(quick: Frontier) -> None:
    await quick.exchange(ONE, [push(1)])
    for death in range(3):
        leased = await _lease(quick, f"victim-{death}")
        assert (leased.id, leased.deliveries) == ("1", death)
        await _reap(quick, ONE)
    (letter,) = await quick.dead()
    assert (letter.id, letter.outcome, letter.deliveries) == ("1", "worker_lost", 3)
    assert "victim-2" in letter.reason
    status = await quick.status()
    assert (status.dead, status.ready, status.redelivered, status.balanced) == (1, 0, 2, True)
    await quick.replay()
    assert (await _lease(quick, ONE)).deliveries == 0


async def test_a_callback_that_blocks_its_worker_is_told_as_that_and_no_other_request_is_blamed(
    quick: Frontier, redis: Redis
) -> None:
    await quick.exchange(TWO, [push(n) for n in range(3)])
    for death in range(3):
        victim = f"victim-{death}"
        await quick.exchange(victim, [], wanted=3)
        await quick.note_blocked(victim, "never leased", "what")
        assert await _reap_blocked(quick, victim, "1") == 3
    (letter,) = await quick.dead()
    assert (letter.id, letter.outcome, letter.deliveries) == ("1", "callback_blocked", 3)
    assert ("parse (shop.py:7)" in letter.reason, letter.reason.endswith(" victim-2")) == (True, True)
    fate, other = await quick.look_up(1), await quick.look_up(0)
    assert fate is not None
    assert other is not None
    assert [(event.event, event.outcome, event.reason.rpartition(" ")[2]) for event in fate.history[:2]] == [
        ("redelivered", "callback_blocked", f"victim-{death}") for death in range(2)
    ]
    assert [(event.outcome, event.reason.partition(",")[0]) for event in other.history] == [
        ("worker_blocked", f"victim-{death}") for death in range(3)
    ]
    told = await quick.exchange(TWO, [], wanted=3)
    assert [(leased.id, leased.deliveries) for leased in told.leased] == [("0", 0), ("2", 0)]
    status = await quick.status()
    assert (status.dead, status.leased, status.redelivered, status.balanced) == (1, 2, 8, True)
    assert not await redis.exists(quick.prefix + "blocked")


async def test_a_worker_that_is_heard_after_its_callback_blocked_and_then_dies_was_lost(
    quick: Frontier, redis: Redis
) -> None:
    await quick.exchange(ONE, [push(1)], wanted=1)
    await quick.note_blocked(ONE, "1", "its callback parse")
    assert await redis.hexists(quick.prefix + "blocked", ONE)
    await quick.exchange(ONE, [])
    assert not await redis.exists(quick.prefix + "blocked")
    await quick.note_blocked(ONE, "1", "its callback parse")  # and it is killed before its lease has run out
    await _reap(quick, TWO)
    fate = await quick.look_up(1)
    assert fate is not None
    assert [event.outcome for event in fate.history] == ["worker_lost"]


async def _reap_blocked(frontier: Frontier, worker: str, request: str) -> int:
    """The worker is silent, and its watchdog says why as long as it holds the request."""
    taken = 0
    async with asyncio.timeout(240):
        while not taken:
            await frontier.exchange(TWO, [])
            await frontier.note_blocked(worker, request, "its callback parse (shop.py:7)")
            taken = await frontier.reap(TWO)
            await asyncio.sleep(TIMEOUT_S / 20)
    return taken


async def test_after_an_outage_of_redis_nobody_is_taken_for_dead_at_once(quick: Frontier) -> None:
    await quick.exchange(ONE, [push(1), push(2)], wanted=1)
    await quick.exchange(TWO, [], wanted=1)
    await asyncio.sleep(TIMEOUT_S * 1.2)  # nobody is heard: so it looks during an outage
    assert (await quick.status()).workers[ONE].silent_s > TIMEOUT_S
    await quick.exchange(TWO, [])
    assert await quick.reap(TWO) == 0
    told = await quick.exchange(ONE, [Done("1")])
    assert told.stale == 0
    until = monotonic() + TIMEOUT_S * 2
    while monotonic() < until:
        await quick.exchange(ONE, [])
        await quick.exchange(TWO, [])
        assert await quick.reap(TWO) == 0
        await asyncio.sleep(TIMEOUT_S / 20)
    status = await quick.status()
    assert (status.redelivered, status.done, status.leased) == (0, 1, 1)


async def test_a_process_that_follows_one_of_its_name_does_not_inherit_its_leases(
    quick: Frontier, redis: Redis
) -> None:
    await quick.exchange(ONE, [push(1)], wanted=1)
    follower = Frontier(redis, quick.spider, max_deliveries=2)
    told = await follower.exchange(ONE, [Done("1")], wanted=1)
    assert told.stale == 1
    assert [(leased.id, leased.deliveries) for leased in told.leased] == [("1", 1)]


async def _lease(frontier: Frontier, worker: str) -> Leased:
    (leased,) = (await frontier.exchange(worker, [], wanted=1)).leased
    return leased

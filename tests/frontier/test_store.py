"""The frontier's promises to workers: one lease each, nothing twice, nothing lost with an answer."""

import asyncio
import time
from typing import Any, cast

import pytest
from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import ConnectionError

from harvester.frontier.messages import Dead, Done, Exchange, Operation, Release, Requeue, Skip
from harvester.frontier.store import Frontier
from tests.breaker.worker import QUICK
from tests.frontier.pushes import push

ONE, TWO = "worker-1", "worker-2"


def again(name: str, *, not_before: float = 0.0, attempt: bool = True) -> Requeue:
    """A retry of that request."""
    return Requeue(name, b"again", "https://site.example/again", "", 0, "timeout", "slow", not_before, attempt)


async def test_a_request_travels_as_it_was_pushed(frontier: Frontier) -> None:
    payload = bytes(range(256)) * 300
    told = await frontier.exchange(ONE, [push(-(2**63), payload=payload, job="j", site="näh")], wanted=5)
    (leased,) = told.leased
    assert leased == (f"j:{-(2**63)}", payload, 0, 0, "j", "näh", False)
    assert (told.accepted, told.ready, told.leased_total, told.held) == (1, 0, 1, 1)


async def test_a_request_is_leased_to_one_worker_only(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(n) for n in range(200)])
    answers = await asyncio.gather(*(frontier.exchange(f"w{n % 4}", [], wanted=13) for n in range(20)))
    ids = [leased.id for told in answers for leased in told.leased]
    assert sorted(ids) == sorted(map(str, range(200)))


async def test_a_seen_request_is_not_queued_again(frontier: Frontier) -> None:
    told = await frontier.exchange(ONE, [push(1), push(1), push(2), push(1, job="other")], wanted=9)
    assert (told.accepted, told.duplicates, len(told.leased)) == (3, 1, 3)
    told = await frontier.exchange(ONE, [Done("1"), push(1)], wanted=9)
    assert (told.accepted, told.duplicates, told.leased) == (0, 1, [])


async def test_an_unfiltered_request_is_queued_each_time_it_is_pushed(frontier: Frontier) -> None:
    first, second = push(1, filtered=False), push(1, filtered=False)
    told = await frontier.exchange(ONE, [push(1), first, second, first], wanted=9)
    assert (told.accepted, told.duplicates) == (4, 0)
    assert {leased.id for leased in told.leased} == {"1", f"1#{first.token}", f"1#{second.token}"}
    told = await frontier.exchange(ONE, [Done(f"1#{first.token}"), first], wanted=9)
    assert told.leased == [], "the first push was sent again after its request was done"


@pytest.mark.parametrize(
    "operation",
    [Done("1"), Skip("1", "policy_denied", "robots"), Dead("1", "dns", "no such host"), again("1"), Release("1")],
    ids=lambda operation: type(operation).__name__,
)
async def test_what_is_sent_twice_happens_once(frontier: Frontier, operation: Operation) -> None:
    child = push(2, site="child")
    await frontier.exchange(ONE, [push(1)], wanted=1)
    first = await frontier.exchange(ONE, [child, operation])
    before = await frontier.status()
    second = await frontier.exchange(ONE, [child, operation])
    after = await frontier.status()
    assert (first.accepted, first.stale, second.accepted, second.stale) == (1, 0, 1, 1)
    assert before._replace(exchanges=0, workers={}, memory_bytes=0) == after._replace(
        exchanges=0, workers={}, memory_bytes=0
    )
    assert after.balanced


class Deaf(Redis):
    """Executes scripts, and hears no answer while it is deaf."""

    deaf = False

    async def evalsha(self, *args: Any) -> Any:
        answer = await super().evalsha(*args)
        if self.deaf:
            raise ConnectionError("the answer was lost")
        return answer


async def test_leases_in_a_lost_answer_come_with_the_next(frontier: Frontier, redis_url: str) -> None:
    async with cast("Deaf", Deaf.from_pool(ConnectionPool.from_url(redis_url))) as redis:
        deaf = Frontier(redis, frontier.spider)
        told = await deaf.exchange(ONE, [push(n) for n in range(10)], wanted=2)
        redis.deaf = True
        operations: list[Operation] = [again("0"), Done("1"), push(10)]
        for _ in range(3):
            with pytest.raises(ConnectionError):
                await deaf.exchange(ONE, operations, wanted=5)
        redis.deaf = False
        told = await deaf.exchange(ONE, operations, wanted=99)
    assert [leased.id for leased in told.leased] == [str(n) for n in (0, *range(2, 11))]
    assert [leased.attempts for leased in told.leased] == [1] + 9 * [0], "the retry was applied more than once"
    assert not any(leased.deliveries for leased in told.leased)
    status = await frontier.status()
    assert (status.done, status.queued, status.leased, status.redelivered) == (1, 11, 10, 0)
    assert status.balanced


async def test_leases_that_a_worker_does_not_know_are_given_back(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(n) for n in range(5)], wanted=5)
    assert await frontier.reconcile(ONE, {"0", "3", "77"}) == 3
    told = await frontier.exchange(TWO, [], wanted=9)
    assert {leased.id for leased in told.leased} == {"1", "2", "4"}
    assert (await frontier.status()).workers[ONE].leased == 2


async def test_what_a_killed_redis_forgot_is_made_good(frontier: Frontier, redis: Redis) -> None:
    await frontier.exchange(ONE, [push(n) for n in range(5)], wanted=3)
    before = {key: await redis.dump(key) async for key in redis.scan_iter(match=f"{frontier.prefix}*")}
    await frontier.exchange(ONE, [Done("0"), Done("1")])
    for key, value in before.items():
        await redis.restore(key, 0, value or b"", replace=True)
    await frontier.exchange(ONE, [])
    status = await frontier.status()
    assert (status.ready, status.leased, status.done, status.balanced) == (4, 1, 0, True)
    told = await frontier.exchange(ONE, [Done("2")], wanted=9)
    assert [leased.id for leased in told.leased] == ["0", "1", "3", "4"]


async def test_leases_are_not_forgotten_when_the_connection_breaks_while_others_are_given_back(
    frontier: Frontier, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await frontier.exchange(ONE, [push(n) for n in range(5)], wanted=3)
    before = {key: await redis.dump(key) async for key in redis.scan_iter(match=f"{frontier.prefix}*")}
    await frontier.exchange(ONE, [Done("0"), Done("1")])
    for key, value in before.items():
        await redis.restore(key, 0, value or b"", replace=True)

    async def breaks(*_: Any) -> int:
        raise ConnectionError("the connection broke")

    with monkeypatch.context() as broken:
        broken.setattr(frontier, "_in_chunks", breaks)
        with pytest.raises(ConnectionError):
            await frontier.exchange(ONE, [], wanted=1)
    leased = (await frontier.exchange(ONE, [], wanted=9)).leased + (await frontier.exchange(ONE, [], wanted=9)).leased
    assert sorted(each.id for each in leased) == ["0", "1", "3", "4"]


async def test_a_worker_that_leaves_gives_all_back_unspent(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(n) for n in range(2500)], wanted=2500, per_site=5000)
    await frontier.leave(ONE)
    status = await frontier.status()
    assert (status.ready, status.leased, status.workers, status.sites) == (
        2500,
        0,
        {},
        {"": {"ready": 2500, "parked": 0, "leased": 0}},
    )
    told = await frontier.exchange(TWO, [], wanted=2)
    assert [(leased.id, leased.deliveries) for leased in told.leased] == [("0", 0), ("1", 0)]


async def test_operations_on_the_leases_of_others_are_stale(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(1)], wanted=1)
    operations: list[Operation] = [
        Done("1"),
        Skip("1", "blocked", ""),
        Dead("1", "dns", ""),
        again("1"),
        Release("1"),
        Done("unheard of"),
    ]
    assert (await frontier.exchange(TWO, operations)).stale == 6
    told = await frontier.exchange(ONE, [Done("1"), Done("1")])
    assert told.stale == 1
    assert (await frontier.status()).done == 1


async def test_a_waiting_request_is_ready_when_its_time_has_come(frontier: Frontier) -> None:
    due = time.time() + 1
    told = await frontier.exchange(ONE, [push(1, not_before=due), push(2, not_before=due + 3600)], wanted=5)
    assert (told.leased, told.waiting) == ([], 2)
    assert told.next_due == pytest.approx(due, abs=30)
    told = await _until_leased(frontier)
    assert [leased.id for leased in told.leased] == ["1"]
    assert told.now >= due - 0.002
    assert (told.waiting, told.leased_total) == (1, 1)
    told = await frontier.exchange(ONE, [again("1", not_before=time.time() + 3600)], wanted=5)
    assert (told.leased, told.waiting) == ([], 2)


async def test_the_clock_of_a_worker_does_not_matter(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    real, ahead = time.time, 50_000.0
    monkeypatch.setattr("harvester.frontier.store.time.time", lambda: real() + ahead)
    told = await frontier.exchange(
        ONE, [push(1, not_before=real() + ahead - 1), push(2, not_before=real() + ahead + 900)]
    )
    assert (told.ready, told.waiting) == (1, 1)
    assert told.next_due == pytest.approx(real() + ahead + 900, abs=30)
    fate = await frontier.look_up(2)
    assert fate is not None
    assert fate.until == pytest.approx(real() + 900, abs=30)


async def test_a_retry_spends_an_attempt_and_a_redirect_does_not(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(1)], wanted=1)
    (retried,) = (await frontier.exchange(ONE, [again("1")], wanted=1)).leased
    assert (retried.payload, retried.attempts) == (b"again", 1)
    (redirected,) = (await frontier.exchange(ONE, [again("1", attempt=False)], wanted=1)).leased
    assert redirected.attempts == 1
    await frontier.exchange(ONE, [again("1", attempt=False)], wanted=1)  # it waits once more for the same reason
    fate = await frontier.look_up(1)
    assert fate is not None
    assert [(event.event, event.outcome, event.reason) for event in fate.history] == [
        ("retry", "timeout", "slow"),
        ("redirect", "timeout", "slow"),
    ]
    status = await frontier.status()
    assert (status.queued, status.leased, status.retried) == (1, 1, 1)


async def test_the_history_of_a_request_is_bounded(frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(1)], wanted=1)
    for _ in range(15):
        await frontier.exchange(ONE, [again("1")], wanted=1)
    fate = await frontier.look_up(1)
    assert fate is not None
    assert (len(fate.history), fate.attempts) == (10, 15)


async def test_a_slow_site_cannot_fill_a_worker(frontier: Frontier) -> None:
    pushes = [push(n, site="slow" if n < 50 else "b") for n in range(60)]
    await frontier.exchange(ONE, pushes)
    told = await frontier.exchange(ONE, [], wanted=30, per_site=5)
    assert [leased.site for leased in told.leased].count("slow") == 5
    assert [leased.site for leased in told.leased].count("b") == 5
    held = [leased.id for leased in told.leased if leased.site == "b"]
    done: list[Operation] = [Done(name) for name in held]
    told = await frontier.exchange(ONE, done, wanted=30, per_site=5)
    assert {leased.site for leased in told.leased} == {"b"}
    told = await frontier.exchange(TWO, [], wanted=3, per_site=5)
    assert {leased.site for leased in told.leased} == {"slow"}


async def test_an_answer_is_bounded_in_bytes(frontier: Frontier) -> None:
    large, huge = bytes(3 * 2**20), bytes(9 * 2**20)
    for number in range(6):
        await frontier.exchange(ONE, [push(number, payload=huge if number == 3 else large, site="ab"[number % 2])])
    leased = [(await frontier.exchange(ONE, [], wanted=6)).leased for _ in range(4)]
    assert [len(each) for each in leased] == [2, 2, 1, 1], "one that is larger than the bound travels alone"
    assert {lease.id for each in leased for lease in each} == set("012345")
    status = await frontier.status()
    assert (status.leased, status.ready, status.balanced) == (6, 0, True)


async def test_probes_that_do_not_fit_into_an_answer_stay_probes(frontier: Frontier) -> None:
    await frontier.set_breaker("s", QUICK.rules(), "open", "a person")
    for number in range(4):
        await frontier.exchange(ONE, [push(number, payload=bytes(5 * 2**20), site="s")])
    await frontier._redis.zadd(frontier.prefix + "shut", {"s": 1})
    leased = [(await frontier.exchange(ONE, [], wanted=6)).leased for _ in range(3)]
    assert [[lease.probe for lease in each] for each in leased] == [[1], [1], []]
    assert (await frontier.status()).balanced


async def test_the_scripts_are_sent_again_when_redis_has_forgotten_them(frontier: Frontier, redis: Redis) -> None:
    await frontier.exchange(ONE, [push(1)])
    await redis.script_flush()
    assert (await frontier.exchange(ONE, [push(2)])).ready == 2
    await redis.script_flush()
    assert (await frontier.status()).ready == 2


async def test_a_full_redis_still_takes_what_makes_room(redis: Redis, frontier: Frontier) -> None:
    await frontier.exchange(ONE, [push(n) for n in range(10)], wanted=5)
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(Exception, match="maxmemory"):
            await frontier.exchange(ONE, [Done("0"), push(99)])
        told = await frontier.exchange(ONE, [Done("0"), Done("1")])
    finally:
        await redis.config_set("maxmemory", 0)
    assert (told.stale, told.held) == (0, 3), "the refused exchange was applied in part"
    status = await frontier.status()
    assert (status.queued, status.done, status.balanced) == (10, 2, True)


async def _until_leased(frontier: Frontier) -> Exchange:
    async with asyncio.timeout(240):
        while True:
            told = await frontier.exchange(ONE, [], wanted=5)
            if told.leased:
                return told
            await asyncio.sleep(0.05)

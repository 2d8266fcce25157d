"""What is kept of what has come to its end is bounded, and the equation holds all the same."""

import asyncio
from typing import Any

from harvester.frontier.messages import Dead, Done, Skip
from harvester.frontier.store import Frontier
from tests.frontier.pushes import push

ONE = "worker-1"
MOST_SKIPPED = 100_000
DAYS_MS = 31 * 24 * 3_600_000


async def test_why_requests_were_skipped_is_known_of_the_newest(frontier: Frontier, redis: Any) -> None:
    skipped, order = f"{frontier.prefix}skipped", f"{frontier.prefix}skipped:order"
    for first in range(0, MOST_SKIPPED - 1, 1000):
        names = [f"old-{n}" for n in range(first, min(first + 1000, MOST_SKIPPED - 1))]
        await redis.hset(skipped, mapping=dict.fromkeys(names, "why"))
        await redis.rpush(order, *names)
    await frontier.exchange(ONE, [push(n) for n in range(3)], wanted=3)
    await frontier.exchange(ONE, [Skip(str(n), "policy_denied", "robots") for n in range(3)])
    assert await redis.hlen(skipped) == await redis.llen(order) == MOST_SKIPPED
    assert await redis.hmget(skipped, ["old-0", "old-1", "old-2"]) == [None, None, b"why"]
    fate = await frontier.look_up(2)
    assert fate is not None
    assert fate.reason == "robots"
    status = await frontier.status()
    assert (status.skipped, status.balanced) == (3, True)


async def test_a_job_in_which_nothing_is_left_is_forgotten_after_a_month(frontier: Frontier, redis: Any) -> None:
    quick = Frontier(redis, frontier.spider, lease_timeout_s=0.2)
    jobs = {"done": 1500, "waits": 1, "died": 1, "young": 1}
    await quick.exchange(ONE, [push(n, job=job) for job, number in jobs.items() for n in range(number)], 2000, 2000)
    later = [Done(f"done:{n}") for n in range(1500)]
    await quick.exchange(ONE, [*later, Dead("died:0", "dns", "gone"), Done("young:0")])
    for job in ("done", "waits", "died"):
        await redis.zincrby(f"{quick.prefix}touched", -DAYS_MS, job)
    async with asyncio.timeout(60):
        while "done" in (await quick.status()).jobs:
            await quick.exchange(ONE, [])
            await quick.reap(ONE)
            await asyncio.sleep(0.02)
    status = await quick.status()
    assert set(status.jobs) == {"waits", "died", "young"}
    assert (status.queued, status.done, status.dead, status.leased, status.balanced) == (1503, 1501, 1, 1, True)
    assert [key async for key in redis.scan_iter(match=f"{quick.prefix}*done*")] == []
    told = await quick.exchange(ONE, [push(0, job="done"), push(0, job="young")])
    assert (told.accepted, told.duplicates) == (1, 1), "a page of the old job may be asked for again"


async def test_a_job_that_is_being_forgotten_can_be_forgotten_at_once(frontier: Frontier, redis: Any) -> None:
    """It takes many steps, and it may be begun again in between."""
    job = f"{frontier.prefix}job:large"
    await frontier.exchange(ONE, [push(n, job="large") for n in range(9)], 9)
    await frontier.exchange(ONE, [Done(f"large:{n}") for n in range(9)])
    await redis.hset(job, mapping={"size": 1024, "split": 7})
    await redis.zincrby(f"{frontier.prefix}touched", -DAYS_MS, "large")
    await redis.hset(f"{frontier.prefix}counts", "since", 0)  # as if workers had been heard for long
    await frontier.reap(ONE)
    assert 0 < sum(map(int, await redis.hmget(job, "size", "split"))) < 1024
    await frontier.exchange(ONE, [push(n, job="large") for n in range(9)], 9)
    async with asyncio.timeout(60):
        await frontier.forget_all("large")
    assert await redis.hmget(job, "size", "split") == [b"1", b"0"]

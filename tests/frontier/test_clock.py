"""A clock of Redis's host that is set back changes nothing: nobody waits for an hour to pass twice.

No clock is set here. For the scripts it is the same when all times that Redis has written down are an hour later.
"""

import asyncio
import time
from typing import Any
from uuid import uuid4

import pytest

from harvester.frontier.messages import Done
from harvester.frontier.start_list import StartList
from harvester.frontier.store import Frontier
from harvester.stores import lua
from tests.frontier.pushes import push
from tests.frontier.test_store import again

ONE, TWO = "worker-1", "worker-2"
HOUR_MS = 3_600_000


async def set_back(frontier: Frontier, redis: Any, by_ms: int = HOUR_MS) -> None:
    """The host's clock, by an hour."""
    prefix = frontier.prefix
    for name in ("workers", "waiting", "start:workers"):
        for member, at in await redis.zrange(prefix + name, 0, -1, withscores=True):
            await redis.zadd(prefix + name, {member: at + by_ms})
    for name, fields in (("counts", ("beat", "since")), ("clock", ("last",))):
        for field in fields:
            if await redis.hexists(prefix + name, field):
                await redis.hincrby(prefix + name, field, by_ms)


@pytest.fixture
def quick(frontier: Frontier, redis: Any) -> Frontier:
    return Frontier(redis, frontier.spider, lease_timeout_s=0.6)


async def test_reaping_and_waiting_go_on_and_it_is_told_once(quick: Frontier, redis: Any) -> None:
    await quick.exchange(ONE, [push(1), push(2)], wanted=1)
    await quick.exchange(TWO, [], wanted=1)
    told = await quick.exchange(TWO, [again("2", not_before=time.time() + 0.3)])
    assert (told.went_back_s, told.waiting) == (0, 1)
    await set_back(quick, redis)
    told = await quick.exchange(TWO, [])
    assert 3500 < told.went_back_s <= 3600
    assert (await quick.exchange(TWO, [])).went_back_s == 0
    ids: set[str] = set()
    async with asyncio.timeout(60):
        while len(ids) < 2:
            await quick.reap(TWO)
            ids |= {leased.id for leased in (await quick.exchange(TWO, [], wanted=5)).leased}
            await asyncio.sleep(0.02)
    status = await quick.status()
    assert (status.redelivered, status.leased, status.balanced) == (1, 2, True)
    assert max(worker.silent_s for worker in status.workers.values()) < 60


async def test_a_clock_that_is_set_right_again_gives_no_lease_to_others(quick: Frontier, redis: Any) -> None:
    await quick.exchange(ONE, [push(1), push(2)], wanted=1)
    await quick.exchange(TWO, [], wanted=1)
    await quick.exchange(TWO, [again("2", not_before=time.time() + 1000)])
    await set_back(quick, redis)
    await quick.exchange(TWO, [])
    await set_back(quick, redis, -HOUR_MS)
    assert await quick.reap(TWO) == 0
    told = await quick.exchange(TWO, [], wanted=5)
    assert (told.leased, told.waiting, await quick.reap(TWO)) == ([], 1, 0), "it is not an hour later"
    assert (await quick.exchange(ONE, [Done("1")])).stale == 0


async def test_what_a_silent_worker_had_of_the_start_list_comes_back(frontier: Frontier, redis: Any) -> None:
    one, two = (StartList(redis, frontier.spider, lease_seconds=0.3) for _ in range(2))
    await one.push([b"entry"])
    assert (await one.take(5)).entries == [b"entry"]
    await set_back(frontier, redis)
    async with asyncio.timeout(60):
        while not (await two.take(5)).entries:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await two.confirm()


async def test_a_pause_ends_and_slots_go_on(redis: Any) -> None:
    keys = [f"harvester:{{clock-{uuid4().hex}}}:{name}" for name in ("turns", "places", "window")]

    async def ask(wait_us: int = 0) -> list[int]:
        """One worker wants a slot: until the first one, its mark, how many; further how long the pause lasts."""
        said = [50_000, 1, 200_000, 4, 0, 0, 1, 0, 5_000_000, wait_us]
        window = [2, 1_000_000, 1_000_000, "", "channel", "host"]
        answer: list[int] = await redis.eval(
            lua.load("harvester.politeness", "slots").text, 3, *keys, "worker", *said, *window
        )
        return answer

    assert (await ask())[2] == 1
    assert 0 < (await ask(wait_us=300_000))[5] <= 300_000
    for field in ("last_at", "silent_until", "settled_at", "pace_until", "seen_at"):
        await redis.hincrby(keys[0], field, HOUR_MS * 1000)
    for index, until in enumerate(await redis.lrange(keys[2], 0, -1)):
        await redis.lset(keys[2], index, str(int(until) + HOUR_MS * 1000))
    for name, held in (await redis.hgetall(keys[1])).items():
        granted, demand, at = held.split()
        await redis.hset(keys[1], name, b"%s %s %d" % (granted, demand, int(at) + HOUR_MS * 1000))
    answer = await ask()
    assert answer[5] <= 300_000, "the pause lasts no hour longer"
    async with asyncio.timeout(30):
        while not (await ask())[2]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

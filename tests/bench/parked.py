"""`make bench`: what an exchange costs while many sites are left alone.

    python -m tests.bench parked

One worker asks SITES sites that fail all at once, as in an outage of its own: their breakers open, their requests are
parked, given out as probes, and come back. Of each hundred scripts ninety-nine may hold Redis for MOST_MS at most. The
time of an exchange with FEW sites parked is compared with that of one with SITES: exchanges of both take turns.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from redis.asyncio import Redis

from harvester.frontier.messages import Done, Operation
from harvester.frontier.store import Frontier
from harvester.outcomes import Outcome
from tests.bench.servers import own_redis
from tests.breaker.test_parked import Crowd
from tests.frontier.pushes import push

FEW, SITES = 10, 20_000
EXCHANGES = 400
MOST_RATIO = 1.5
MOST_MS = 50.0


def main() -> int:
    with own_redis() as url:
        return asyncio.run(_measure(url))


async def _measure(url: str) -> int:
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(Redis.from_url(url))
        many, few = (Crowd(Frontier(redis, f"crowd-{sites}"), sites) for sites in (SITES, FEW))
        slowest = {}
        await _slowest(redis)
        began = time.perf_counter()
        await few.are_left_alone(each=2)
        await many.are_left_alone(each=2)
        slowest["they open, and their requests are parked"] = await _slowest(redis)
        newcomer = Crowd(many.frontier, 0, name="worker-2")
        await newcomer.until_told()
        assert len(newcomer.breakers._shut) == SITES
        slowest["a worker joins"] = await _slowest(redis)
        times = await _alternate(few, many)
        slowest["exchanges meanwhile"] = await _slowest(redis)
        for _ in range(5):
            status = await many.frontier.status()
        assert status.balanced
        slowest["status"] = await _slowest(redis)
        await many.make_due()
        await _come_back(many)
        slowest["they are probed, and close"] = await _slowest(redis)
        status = await many.frontier.status()
        assert (status.parked, status.balanced) == (0, True)
        seconds = time.perf_counter() - began
    medians = {sites: statistics.median(rows) * 1000 for sites, rows in times.items()}
    ratio = medians[SITES] / medians[FEW]
    print(f"\n{SITES:,} sites that fail at once, in {seconds:.0f} s")
    print(f"  an exchange with {FEW} sites parked {medians[FEW]:.2f} ms, with {SITES:,} {medians[SITES]:.2f} ms")
    print(f"  ratio {ratio:.2f} (at most {MOST_RATIO} is wanted)")
    print(f"  ms of Redis that 99 of 100 scripts take at most (at most {MOST_MS:.0f} is wanted)")
    for name, ms in slowest.items():
        print(f"    {name:44}{ms:6.1f}")
    return int(ratio > MOST_RATIO or max(slowest.values()) > MOST_MS)


async def _slowest(redis: Redis) -> float:
    """Milliseconds of Redis that all but the longest hundredth of the scripts since the last call took at most."""
    rows = await redis.slowlog_get(2000)
    stats = await redis.info("commandstats")
    await redis.config_set("slowlog-max-len", 2000)
    await redis.config_set("slowlog-log-slower-than", 1000)
    await redis.slowlog_reset()
    await redis.config_resetstat()
    longest = sorted((row["duration"] / 1000 for row in rows if row["command"].startswith(b"EVAL")), reverse=True)
    left_out = stats.get("cmdstat_evalsha", {"calls": 0})["calls"] // 100
    return longest[left_out] if left_out < len(longest) else 1.0


async def _alternate(*crowds: Crowd) -> dict[int, list[float]]:
    """How long exchanges of each take that do something: they push, lease and end some."""
    times: dict[int, list[float]] = {len(crowd.sites): [] for crowd in crowds}
    done: dict[int, Sequence[Operation]] = {}
    for number in range(EXCHANGES):
        for crowd in crowds:
            sites = len(crowd.sites)
            pushes = [push(-number * 20 - i - 1, site=f"fine{i}") for i in range(20)]
            crowd.see(crowd.sites[number % sites], Outcome.OK)
            began = time.perf_counter()
            told = await crowd.exchange([*done.get(sites, ()), *pushes], wanted=20)
            times[sites].append(time.perf_counter() - began)
            done[sites] = [Done(lease.id) for lease in told.leased]
    for crowd in crowds:
        await crowd.exchange(done[len(crowd.sites)])
    return times


async def _come_back(crowd: Crowd) -> None:
    done: list[Operation] = []
    shut = crowd.frontier.prefix + "shut"
    while await crowd.frontier._redis.zcard(shut):
        told = await crowd.exchange(done, wanted=128)
        done = []
        for lease in told.leased:
            if lease.site.startswith("s"):
                crowd.see(crowd.sites[int(lease.site[1:])], Outcome.OK, probe=lease.probe)
            done.append(Done(lease.id))
    await crowd.exchange(done)


if __name__ == "__main__":
    sys.exit(main())

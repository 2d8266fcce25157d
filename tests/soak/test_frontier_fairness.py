"""A job of ten requests does not wait for one of a hundred thousand that came before it."""

import secrets
from collections import Counter

import pytest
from redis.asyncio import Redis

from harvester.frontier.messages import Done, Operation, Push
from harvester.frontier.store import Frontier

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

BIG, SMALL = 100_000, 10
STARTED_AT = 0.1
"""The share of the big job's work that is done when the small one comes."""
MOST_SHARE = 0.02
BATCH = 128
"""What a worker leases at once."""
SITES = 20


def pushes(job: str, count: int, sites: int) -> list[Operation]:
    """Requests of a job, spread over sites."""
    return [
        Push(
            secrets.randbits(63),
            b"x" * 200,
            secrets.token_hex(8),
            f"https://site-{number % sites}.example/{job}/{number}",
            job=job,
            site=f"site-{number % sites}.example",
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("sites", [1, SITES])
async def test_the_small_job_ends_within_2_percent_of_the_big_ones_work(redis_url: str, sites: int) -> None:
    async with Redis.from_url(redis_url) as redis:
        frontier = Frontier(redis, f"fairness-{sites}")
        await frontier.drop()
        waiting = pushes("big", BIG, sites)
        for first in range(0, BIG, 1000):
            await frontier.exchange("worker", waiting[first : first + 1000])
        done: Counter[str] = Counter()
        finished: list[Operation] = []
        small_came_at = None
        while done["small"] < SMALL:
            if small_came_at is None and done["big"] >= BIG * STARTED_AT:
                small_came_at = done["big"]
                finished += pushes("small", SMALL, sites)
            exchange = await frontier.exchange("worker", finished, wanted=BATCH, per_site=BATCH)
            assert exchange.leased, f"nothing was leased, {exchange.ready} are ready"
            finished = [Done(leased.id) for leased in exchange.leased]
            done.update(leased.job for leased in exchange.leased)
        assert small_came_at is not None
        share = (done["big"] - small_came_at) / BIG
        print(f"{sites} sites: the small job ended within {share:.2%} of the big one's work")
        assert share <= MOST_SHARE
        await frontier.exchange("worker", finished)
        status = await frontier.status()
        assert status.balanced
        assert status.done == sum(done.values())
        await frontier.drop()

"""`python -m tests.jobs.looking <MongoDB uri> <database> <Redis url> <name> <hours>` feeds a standing job.

Each step of it, and of any other, turns the clock on by STEP_S: the clock is a number in Redis. It fetches nothing:
whatever is leased is done. It ends when so many hours are over, unless it is killed.
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import AsyncMongoClient
from redis.asyncio import Redis
from scrapy.utils.test import get_crawler

from harvester.frontier.store import Frontier
from harvester.frontier.workers import own_name
from harvester.jobs.feeder import Feeder
from tests.jobs.conftest import Ledgers
from tests.jobs.side import Side
from tests.jobs.test_feeder import Spider

START = datetime(2026, 3, 1, tzinfo=UTC)
STEP_S = 30


async def main(uri: str, database: str, redis_url: str, name: str, hours: str) -> None:
    stats = get_crawler().stats
    assert stats
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client, Redis.from_url(redis_url) as redis:
        ledgers = Ledgers(client[database])
        at = START
        ledgers.clock = lambda: at
        ledger = ledgers.another()
        side = Side(Frontier(redis, name), worker=own_name())
        feeder = Feeder(ledger, side, Spider(), stats, worker=side.worker)
        side.on_ended = feeder.hear
        await side.exchange()
        async with side.served():
            while at < START + timedelta(hours=float(hours)):
                at = START + timedelta(seconds=await redis.incrby(f"{name}-clock", STEP_S))
                feeder._jobs_at = feeder._lost_at = -1e9  # it looks each time: for it a second is an hour
                await feeder.step()
                told = await side.frontier.exchange(side.worker, [], 100, per_site=10_000)
                side.held += told.leased
                side.fetch_all()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

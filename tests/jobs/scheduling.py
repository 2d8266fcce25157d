"""`python -m tests.jobs.scheduling <MongoDB uri> <database>` begins what schedules say until it is killed.

It prints what it has begun.
"""

import asyncio
import sys
from typing import Any

from pymongo import AsyncMongoClient

from harvester.jobs.scheduling import Schedules
from tests.jobs.conftest import Ledgers


async def main(uri: str, database: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        schedules = Schedules(Ledgers(client[database]).another())
        while True:
            for begun in await schedules.begin_due():
                print(begun.schedule, begun.job, flush=True)
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

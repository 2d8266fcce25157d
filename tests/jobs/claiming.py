"""`python -m tests.jobs.claiming <MongoDB uri> <database>` claims items and ends every second one, until it is killed.

It prints the number of each claim that it begins.
"""

import asyncio
import sys
from itertools import count
from typing import Any

from pymongo import AsyncMongoClient

from harvester.jobs.transitions import Ended
from tests.jobs.conftest import Ledgers


async def main(uri: str, database: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True, appname=database) as client:
        ledgers = Ledgers(client[database])
        job, ledger = await ledgers.job(), ledgers.another()
        for number in count():
            print(number, flush=True)
            claimed = await ledger.claim(job, 50, "claiming")
            if not claimed:
                return
            await ledger.apply([(item.id, Ended(item.attempts, "ok")) for item in claimed[::2]])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

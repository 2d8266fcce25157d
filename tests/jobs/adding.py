"""`python -m tests.jobs.adding <MongoDB uri> <database> <items>` adds items to the job until it is killed or done."""

import asyncio
import sys
from typing import Any

from pymongo import AsyncMongoClient

from tests.jobs.conftest import Ledgers, nowhere, pages


async def main(uri: str, database: str, number: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True, appname=database) as client:
        ledgers = Ledgers(client[database])
        job = await ledgers.job()
        print("adding", flush=True)
        added = await ledgers.another().add(job.id, pages(*range(int(number))), nowhere)
        print(*added, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

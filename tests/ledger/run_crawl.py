"""`python -m tests.ledger.run_crawl <MongoDB uri> <database>` holds a crawl, with an account, until it is killed."""

import asyncio
import json
import sys
from typing import Any

from pymongo import AsyncMongoClient

from tests.ledger.conftest import Runs, found


async def main(uri: str, database: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        ledger = await Runs(client[database]).next()
        await ledger.confirm([found("ann")])
        assert await ledger.next_accounts(1)
        print(json.dumps({"crawl": ledger.crawl}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

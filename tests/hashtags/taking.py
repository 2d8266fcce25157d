"""Takes of two quotas, as much as it can at once: `python -m tests.hashtags.taking URI DATABASE NUMBER`."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from pymongo import AsyncMongoClient

from harvester.politeness.quotas import Quota, Quotas

TAGS, OF_A_DAY = 40, 40
"""That it asks for."""


async def at_once(operation: Callable[[], Awaitable[Any]]) -> Any:
    return await operation()


async def take(uri: str, database: str, process: int) -> None:
    """Prints the tags that it was given, and how much of the day's quota."""
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        quotas = Quotas(client[database]["quotas"], at_once)
        names = [f"tag{(process * 10 + number) % TAGS}" for number in range(TAGS)]
        taken = await asyncio.gather(*(quotas.take(Quota("of tags", 30, name, 600.0)) for name in names))
        of_day = await asyncio.gather(*(quotas.take(Quota("of a day", 100)) for _ in range(OF_A_DAY)))
    given = [name for name, until in zip(names, taken, strict=True) if until is None]
    print(*given, sum(until is None for until in of_day))


if __name__ == "__main__":
    asyncio.run(take(sys.argv[1], sys.argv[2], int(sys.argv[3])))

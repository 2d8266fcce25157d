"""What waits to go to Redis is bounded in bytes, however large the requests are, and so are the messages."""

import asyncio
from typing import Any

from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from harvester.frontier.entries import Exchange, Push
from harvester.frontier.traffic import MOST_EXCHANGE_BYTES, MOST_WAITING_BYTES, Traffic

SIZE = 1024 * 1024


class FakeFrontier:
    """Hears what is sent."""

    def __init__(self) -> None:
        self.heard: list[list[Any]] = []

    async def exchange(self, worker: str, operations: list[Any], *others: Any) -> Exchange:
        self.heard.append(list(operations))
        lists: dict[str, Any] = {"leased": [], "stranded": [], "changes": [], "shut": None, "next_due": None}
        return Exchange(**dict.fromkeys(Exchange._fields, 0) | lists)

    async def leave(self, worker: str) -> None:
        pass


async def patiently(operation: Any) -> Any:
    return await operation()


async def test_requests_that_are_large_wait_for_room_and_travel_a_few_at_a_time() -> None:
    frontier, stats = FakeFrontier(), StatsCollector(get_crawler())
    told: dict[str, Any] = {"lease_seconds": 30, "on_change": lambda: None, "on_breakers": lambda _: None}
    traffic = Traffic(frontier, "worker", patiently, stats, **told)  # type: ignore[arg-type]
    pushed = 0
    while True:
        room = asyncio.ensure_future(traffic.room())
        await asyncio.sleep(0)
        if not room.done():
            break
        traffic.push(Push(pushed, bytes(SIZE), f"{pushed}", "http://county.example/"))
        pushed += 1
    assert pushed == MOST_WAITING_BYTES // SIZE
    failures: list[BaseException] = []
    traffic.start(failures.append)
    await asyncio.wait_for(room, 30)
    await traffic.close()
    assert failures == []
    assert sum(map(len, frontier.heard)) == pushed
    assert max(sum(len(each.payload) for each in heard) for heard in frontier.heard) <= MOST_EXCHANGE_BYTES

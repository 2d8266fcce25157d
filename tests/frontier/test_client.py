"""What waits to go to Redis is bounded in bytes, however large the requests are, and so are the messages."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from harvester.frontier.client import MOST_EXCHANGE_BYTES, MOST_WAITING_BYTES, FrontierClient
from harvester.frontier.messages import Exchange, Operation, Push
from harvester.frontier.store import Frontier

SIZE = 1024 * 1024


async def patiently(operation: Any) -> Any:
    return await operation()


async def test_requests_that_are_large_wait_for_room_and_travel_a_few_at_a_time(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    exchange = frontier.exchange

    async def listen(worker: str, operations: Sequence[Operation], *others: Any) -> Exchange:
        heard.append(sum(len(each.payload) for each in operations if isinstance(each, Push)))
        return await exchange(worker, operations, *others)

    monkeypatch.setattr(frontier, "exchange", listen)
    stats = StatsCollector(get_crawler())
    told: dict[str, Any] = {"on_change": lambda: None, "on_breakers": lambda _: None}
    client = FrontierClient(frontier, "worker", patiently, stats, lease_seconds=30, record=None, **told)
    pushed = 0
    while True:
        room = asyncio.ensure_future(client.room())
        await asyncio.sleep(0)
        if not room.done():
            break
        client.push(Push(pushed, bytes(SIZE), f"{pushed}", "http://county.example/"))
        pushed += 1
    assert pushed == MOST_WAITING_BYTES // SIZE
    failures: list[BaseException] = []
    client.start(failures.append)
    await asyncio.wait_for(room, 30)
    await client.close()
    assert failures == []
    assert sum(heard) == pushed * SIZE
    assert max(heard) <= MOST_EXCHANGE_BYTES

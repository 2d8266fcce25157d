"""MongoDB knows of each frontier whether it was left with work in it, whichever workers come and go."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo.database import Database
from redis.asyncio import Redis
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.frontier.client import FrontierClient
from harvester.frontier.frontier_record import COLLECTION, FrontierRecord
from harvester.frontier.messages import Done
from harvester.frontier.store import Frontier
from tests.frontier.pushes import push


async def patiently(operation: Any) -> Any:
    return await operation()


class Patient(FrontierRecord):
    """With a MongoDB that answers when it is told to."""

    answers: asyncio.Event
    asked = 0
    """How many writes it was asked for and did not answer yet."""

    async def begin(self, epoch: str) -> None:
        Patient.asked += 1
        await self.answers.wait()
        await super().begin(epoch)
        Patient.asked -= 1


@pytest.mark.parametrize("slow", [False, True])
async def test_work_that_comes_after_a_worker_left_nothing_behind_is_known(
    slow: bool, frontier: Frontier, redis: Redis, config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    records, workers, Patient.answers, Patient.asked = [], [], asyncio.Event(), 0
    if not slow:
        Patient.answers.set()
    failures: list[BaseException] = []
    for name in ("stays", "leaves"):
        crawler = get_crawler()
        crawler.spider = SimpleNamespace(name=frontier.spider)  # type: ignore[assignment]
        records.append(Patient(crawler, config))
        told: dict[str, Any] = {"on_change": lambda: None, "on_breakers": lambda _: None, "lease_seconds": 30}
        ours = Frontier(redis, frontier.spider)
        workers.append(FrontierClient(ours, name, patiently, StatsCollector(crawler), record=records[-1], **told))
    stays, leaves = workers
    async with asyncio.timeout(60):
        stays.start(failures.append)
        stays.push(push(1))
        while not (leased := stays.take()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        leaves.start(failures.append)
        stays.finish(Done(leased.id), leased.id)
        while not stays.is_done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        Patient.answers.set()
        while Patient.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await leaves.close()
        assert mongodb[COLLECTION].find_one({}, {"unfinished": 1, "_id": 0}) == {"unfinished": False}
        stays.push(push(2))
        await stays.close()
    for record in records:
        await record.close()
    assert failures == []
    left = mongodb[COLLECTION].find_one({"_id": frontier.spider})
    assert left is not None
    assert (left["unfinished"], left["left"]) == (True, 1)

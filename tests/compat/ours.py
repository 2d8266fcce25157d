"""pytest plugin: the same as `theirs`, with harvester's scheduler and its taking of entries in scrapy-redis's place.

What differs by design is said here: the scheduler works on an event loop, which runs while it is called. A request that
it hands out is worked on until the engine has finished with it, which is said at once. What SCHEDULER_PERSIST = False
does there, a person does here, with `harvester frontier drop`.
"""

import asyncio
from typing import Any, Self
from unittest import mock

import scrapy_redis.scheduler
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy_redis.spiders import RedisMixin

from harvester.config import load_config
from harvester.frontier.scheduler import Scheduler
from harvester.frontier.start_list import StartList
from harvester.frontier.store import Frontier
from harvester.spiders.stock import kind_of
from harvester.stores.redis import connect
from tests.compat.theirs import pytest_runtest_logreport, pytest_sessionfinish

__all__ = ["pytest_runtest_logreport", "pytest_sessionfinish"]


class BlockingScheduler(Scheduler):
    """harvester's, as one that blocks."""

    persist = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    def open(self, spider: Spider) -> None:  # type: ignore[override]
        self._loop = asyncio.new_event_loop()
        self._crawler.engine = mock.MagicMock()
        self._crawler.engine._slot.closing = None
        self.spider = spider
        self._loop.run_until_complete(self._open())
        self._loop.run_until_complete(self._hear())

    def close(self, reason: str) -> None:  # type: ignore[override]
        self._loop.run_until_complete(self._close())
        if not self.persist:
            self._loop.run_until_complete(_drop(self.spider.name))
        self._loop.close()

    def __len__(self) -> int:
        return self._loop.run_until_complete(_length(self.spider.name))

    def enqueue_request(self, request: Request) -> bool:
        queued = super().enqueue_request(request)
        self._loop.run_until_complete(self._hear())
        return queued

    def has_pending_requests(self) -> bool:
        self._loop.run_until_complete(self._hear())
        return super().has_pending_requests()

    def next_request(self) -> Request | None:
        request = super().next_request()
        if lease := self.lease_of(request):
            assert request
            lease.exhausted = True
            self._crawler.engine._slot.remove_request(request)  # type: ignore[union-attr]
            self._loop.run_until_complete(self._hear())
        return request

    async def _hear(self) -> None:
        """Until the frontier has heard of everything, and has said what it has."""
        for _ in range(2):
            await self.feeding.heard()


async def _length(spider: str) -> int:
    async with connect(load_config()) as redis:
        status = await Frontier(redis, spider, load_config().database).status()
    return status.ready + status.leased + status.waiting


async def _drop(spider: str) -> None:
    async with connect(load_config()) as redis:
        await Frontier(redis, spider, load_config().database).drop()


async def _take(spider: str, name: str, kind: Any, most: int) -> list[bytes]:
    async with connect(load_config()) as redis:
        start_list = StartList(redis, spider, name=name, kind=kind)
        entries = (await start_list.take(most)).entries
        await start_list.confirm()
    return entries


def _setup_redis(spider: Any, crawler: Any = None, setup: Any = RedisMixin.setup_redis) -> None:
    setup(spider, crawler)
    settings = (crawler or spider.crawler).settings
    spider.fetch_data = lambda key, most: asyncio.run(_take(spider.name, key, kind_of(settings), most))


RedisMixin.setup_redis = _setup_redis
scrapy_redis.scheduler.Scheduler = BlockingScheduler

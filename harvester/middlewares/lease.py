"""Spider middleware: notes what became of a leased request, and checks the requests that a callback yields."""

from collections.abc import AsyncIterator
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.misc import load_object

from harvester.frontier.scheduler import Scheduler


class LeaseMiddleware:
    """Nearest the engine: a callback counts as exhausted when all that it yielded has passed the other middlewares.

    A callback that yields faster than the frontier takes waits here, so that memory stays flat.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not issubclass(load_object(crawler.settings["SCHEDULER"]), Scheduler):
            raise NotConfigured  # the requests are not in the frontier; with a sentence Scrapy would log a warning
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in start:
            if isinstance(output, Request):
                await self._scheduler.room()
            yield output

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        lease = self._scheduler.lease_of(response.request)
        try:
            async for output in result:
                if isinstance(output, Request):
                    self._scheduler.prepare(output)
                    await self._scheduler.room()
                yield output
        except Exception as error:
            self._note(response, error)
            raise
        if lease:
            lease.exhausted = True

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """Hears of a callback that raises before it yields."""
        self._note(response, exception)

    def _note(self, response: Response, error: Exception) -> None:
        lease = self._scheduler.lease_of(response.request)
        if lease:
            lease.failed_by(error)

    @property
    def _scheduler(self) -> Scheduler:
        assert self._crawler.engine
        scheduler = self._crawler.engine.scheduler
        assert isinstance(scheduler, Scheduler)
        return scheduler

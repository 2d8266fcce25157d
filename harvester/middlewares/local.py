"""Downloader middleware: sends nothing while this machine has a fault; requests of the frontier go back."""

import time
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler

from harvester.download.local_health import LocalHealth, here_of
from harvester.frontier.waiting import wait_in_frontier
from harvester.internal_meta import LEASE
from harvester.outcomes import Outcome
from harvester.shutdown import CHECK_S, pause


class LocalMiddleware:
    """Stands near the engine: other workers may be healthy, and take the requests that go back."""

    def __init__(self, crawler: Crawler, here: LocalHealth) -> None:
        self._crawler = crawler
        self._here = here

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, here_of(crawler))

    async def process_request(self, request: Request) -> Request | None:
        if self._here.is_sick and LEASE in request.meta:
            return wait_in_frontier(request, max(time.time(), self._here.until), Outcome.LOCAL, self._here.reason)
        while self._here.is_sick:
            await pause(self._crawler, CHECK_S)
        return None

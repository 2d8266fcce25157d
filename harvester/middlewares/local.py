"""Downloader middleware: while this machine has a fault, nothing is asked for; requests of the frontier go back."""

import time
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler

from harvester.download.here import Here, here_of
from harvester.frontier.leases import LEASE, NOT_BEFORE, WHY
from harvester.outcomes import Outcome
from harvester.shutdown import CHECK_S, pause


class LocalMiddleware:
    """Stands near the engine: other workers may be well, and take what goes back."""

    def __init__(self, crawler: Crawler, here: Here) -> None:
        self._crawler = crawler
        self._here = here

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, here_of(crawler))

    async def process_request(self, request: Request) -> Request | None:
        if self._here.is_sick and LEASE in request.meta:
            again = request.replace(dont_filter=True)
            again.meta[NOT_BEFORE] = max(time.time(), self._here.until)
            again.meta[WHY] = (Outcome.LOCAL, self._here.reason, False)
            return again
        while self._here.is_sick:
            await pause(self._crawler, CHECK_S)
        return None

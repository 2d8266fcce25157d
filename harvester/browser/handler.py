"""Download handler that renders pages in the browser."""

import asyncio
import time

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.browser.pool import BrowserPool
from harvester.browser.render_options import render_options_of
from harvester.exceptions import BrowserLost, NavigationError
from harvester.internal_meta import BROWSERS_LOST
from harvester.shutdown import CHECK_S, RunEnding, is_ending
from harvester.sites import load_sites

BROWSER = "browser"
"""Value of meta[HANDLER] for requests to render."""
ENDING_S = 3.0
"""Seconds that pages under way still have when the run is ending."""
MOST_LOST = 3
"""Browsers that may end under a page by chance; after more, the page counts as the cause."""


class BrowserDownloadHandler:
    """Renders pages. The first page starts the browser."""

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._pool = BrowserPool.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "BrowserDownloadHandler":
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        page = asyncio.ensure_future(self._render(request))
        until = float("inf")
        try:
            while not page.done() and time.monotonic() < until:
                await asyncio.wait([page], timeout=CHECK_S)
                if until == float("inf") and is_ending(self._crawler):
                    until = time.monotonic() + ENDING_S
        finally:
            page.cancel()
        await asyncio.wait([page])
        if page.cancelled():
            raise RunEnding("the crawl is being stopped")
        return page.result()

    async def _render(self, request: Request) -> Response:
        site = load_sites().of(request.url)
        try:
            return await self._pool.render(request, site, render_options_of(request, site))
        except BrowserLost as error:
            if (lost := request.meta.get(BROWSERS_LOST, 0)) >= MOST_LOST:
                raise NavigationError(f"{lost + 1} browsers in a row ended under the page") from error
            raise

    async def close(self) -> None:
        await self._pool.close()

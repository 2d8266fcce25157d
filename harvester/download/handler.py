"""Scrapy's only download handler for http and https: it chooses the real handler for a request."""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Self

from scrapy import Request
from scrapy.core.downloader.handlers import DownloadHandlerProtocol
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.misc import build_from_crawler, load_object

from harvester.download.local_health import here_of
from harvester.download.reading import reader_of
from harvester.meta import HANDLER
from harvester.shutdown import RunEnding
from harvester.sites import load_sites
from harvester.stores.descriptors import connections, raise_limit

HANDLERS = {
    "": "harvester.download.http1.Http1DownloadHandler",
    "http2": "harvester.download.http2.Http2DownloadHandler",
    "browser": "harvester.browser.handler.BrowserDownloadHandler",
}


class DispatchingHandler:
    """Starts each handler with its first request, and separates faults of this machine from those that sites cause."""

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._handlers: dict[str, DownloadHandlerProtocol] = {}
        self._here = here_of(crawler)
        raise_limit()
        wanted = crawler.settings.getint("CONCURRENT_REQUESTS")
        places = connections(wanted)
        self._places: AbstractAsyncContextManager[None] = nullcontext()
        if places < wanted:
            self._places = asyncio.Semaphore(places)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        await reader_of(self._crawler).wait_for_room()
        async with self._places:  # no timeout runs while a request waits here
            left_at = self._here.asks(request)
            try:
                response = await self._speak(request)
            except RunEnding:
                raise
            except Exception as error:
                fault = await self._here.failed(request, error, left_at)
                if fault is not None:
                    error.local_fault = fault  # type: ignore[attr-defined]  # see LocalFault.behind
                raise
        self._here.answered(request, response)
        return response

    async def _speak(self, request: Request) -> Response:
        name = request.meta.get(HANDLER) or _by_site(request.url)
        handler = self._handlers.get(name)
        if handler is None:
            handler = self._handlers[name] = build_from_crawler(load_object(HANDLERS[name]), self._crawler)
        return await handler.download_request(request)

    async def close(self) -> None:
        self._here.close()
        for handler in self._handlers.values():
            await handler.close()


def _by_site(url: str) -> str:
    return "http2" if url.startswith("https:") and load_sites().of(url).http.http2 else ""

"""Downloader middleware: sends requests to sites with identities as one of these, and hides their secrets.

Cookies, tokens and headers are added when a request has passed all middlewares, and removed as soon as its response
arrives, before any middleware sees it. So they are in no queue, redirect, retry or record.
"""

from collections.abc import AsyncIterator
from typing import Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from harvester.frontier.attempts import Attempts, attempts_of
from harvester.frontier.waiting import wait_in_frontier
from harvester.identities.chains import OF_ONE_REQUEST, end_chain, stay_in_session  # noqa: F401  spiders import it from here, too
from harvester.identities.crawl_identities import CrawlIdentities, get_identities


class IdentitiesMiddleware:
    """Off when no site has identities, and the spider has neither an account nor sites with sessions."""

    def __init__(self, crawler: Crawler, identities: CrawlIdentities) -> None:
        self.identities = identities
        connect = crawler.signals.connect
        connect(identities.put_on, signals.request_reached_downloader)
        connect(identities.take_off, signals.response_downloaded)
        connect(identities.take_off, signals.request_left_downloader)
        connect(identities.let_go, signals.request_scheduled)
        connect(identities.save, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not (identities := get_identities(crawler)):
            raise NotConfigured
        return cls(crawler, identities)

    async def process_request(self, request: Request) -> Request | None:
        wait = await self.identities.before(request)
        return wait_in_frontier(request, *wait) if wait else None

    def process_response(self, request: Request, response: Response) -> Response:
        self.identities.after(request, response)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self.identities.take_off(request)
        self.identities.let_go(request)


class ChainMiddleware:
    """Spider middleware: requests that a callback yields for the response's chain stay in its session.

    Off under the same conditions as IdentitiesMiddleware.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not get_identities(crawler):
            raise NotConfigured
        return cls(attempts_of(crawler))

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        request = response.request
        is_page = self._attempts.final(response) is None  # for refused responses, errbacks decide themselves
        async for output in result:
            if isinstance(output, Request) and is_page:
                # Spiders often pass on the whole meta of a response.
                for key in OF_ONE_REQUEST:
                    output.meta.pop(key, None)
                if request:
                    stay_in_session(output, request)
            yield output

"""Downloader middleware: sends requests through proxies, for sites whose entry names some.

Credentials are added when a request leaves, and removed when it has left the downloader: on Scrapy's signals, where
no middleware stands between. So they are never in a queue, a retry or a redirect, nor in a response that a callback
sees.
"""

from typing import Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from harvester.breaker.breakers import Breakers
from harvester.config import Config, load_config
from harvester.frontier.waiting import wait_in_frontier
from harvester.internal_meta import LEAST_TIER, TIER, TIER_PROBE
from harvester.middlewares.breaker import BreakerMiddleware
from harvester.proxies.routes import ProxyRoutes
from harvester.sites import Registry, load_sites


class ProxyMiddleware:
    """Off when no site's entry names a tier of proxies."""

    def __init__(self, crawler: Crawler, config: Config, sites: Registry) -> None:
        if not any(site.proxy.is_proxied for site in sites.having("proxy")):
            raise NotConfigured
        self._crawler = crawler
        self._sites = sites
        self.routes = ProxyRoutes(crawler, config, self._breakers)
        connect = crawler.signals.connect
        connect(self.routes.put_on, signals.request_reached_downloader)
        connect(self.routes.take_off, signals.request_left_downloader)
        connect(self.routes.add_bytes, signals.bytes_received)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config(), load_sites())

    async def process_request(self, request: Request) -> Request | None:
        site = self._sites.of(request.url)
        if not site.proxy.is_proxied:
            for name in (TIER, TIER_PROBE, LEAST_TIER):
                request.meta.pop(name, None)
            return None
        wait = await self.routes.before(request, site)
        return wait_in_frontier(request, *wait) if wait else None

    def process_response(self, request: Request, response: Response) -> Response:
        self.routes.after(request, response)
        return response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        wait = self.routes.failed(request, exception)
        return wait_in_frontier(request, *wait) if wait else None

    def _breakers(self) -> Breakers | None:
        """Returns the breakers; None if the requests are not from the frontier."""
        middleware = self._crawler.get_downloader_middleware(BreakerMiddleware)
        return middleware.breakers if middleware else None

"""A real crawl with the project's downloader middlewares: `python -m tests.identities.bluesky.crawl <address>...`.

It prints one JSON object: what each request came to, the stats, and any Authorization header seen where none
may be. The log goes to stderr, at level DEBUG.
"""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any, Self
from urllib.parse import urljoin

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import Response
from scrapy.settings import default_settings
from twisted.python.failure import Failure

from harvester import settings
from harvester.config import load_config
from harvester.identities.bluesky import account_of
from harvester.identities.crawl_identities import account_origin
from harvester.identities.credentials import SpiderAccount


class Probe(Spider):
    name = "probe"
    targets: tuple[str, ...] = ()
    results: tuple[list[dict[str, Any]], ...] = ([],)
    account: SpiderAccount | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        probe = super().from_crawler(crawler, *args, **kwargs)
        probe.account = account_of(load_config())
        return probe

    async def start(self) -> AsyncIterator[Any]:
        self.crawler.signals.connect(self._scheduled, signal=signals.request_scheduled)
        origin = await account_origin(self.crawler)
        for target in self.targets:
            address = urljoin(origin or "http://127.0.0.1:9", target)
            meta = {"authenticate": True}
            yield Request(address, self.parse, errback=self.failed, meta=meta, dont_filter=True)

    def parse(self, response: Response, **kwargs: Any) -> None:
        self._note(response.request, status=response.status)

    def failed(self, failure: Failure) -> None:
        verdict = getattr(failure.value, "verdict", None)
        self._note(getattr(failure, "request", None), outcome=verdict and str(verdict.outcome), said=str(failure.value))

    def _scheduled(self, request: Request) -> None:
        if "Authorization" in request.headers:
            self._note(request, leak="scheduled")

    def _note(self, request: Request | None, **what: Any) -> None:
        if request is not None and "Authorization" in request.headers:
            what["leak"] = "callback"
        self.results[0].append({"url": request.url if request else None} | what)


def main(targets: list[str]) -> None:
    process = AsyncCrawlerProcess(
        {
            "ADDONS": settings.ADDONS,
            "SCHEDULER": default_settings.SCHEDULER,
            "LOG_LEVEL": default_settings.LOG_LEVEL,
            "LOG_FORMATTER": default_settings.LOG_FORMATTER,
            "DOWNLOAD_HANDLERS_BASE": default_settings.DOWNLOAD_HANDLERS_BASE,
            "EXTENSIONS_BASE": default_settings.EXTENSIONS_BASE,
            "ITEM_PIPELINES_BASE": {},
            "SPIDER_MIDDLEWARES_BASE": {"harvester.middlewares.httperror.HttpErrorMiddleware": 50},
            "ROBOTSTXT_OBEY": False,
            "REMOTE_CONTROL_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "COOKIES_ENABLED": False,
            "CONCURRENT_REQUESTS": 64,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
        }
    )
    crawler = process.create_crawler(Probe)
    process.crawl(crawler, targets=tuple(targets))
    process.start()
    stats = {key: value for key, value in crawler.stats.get_stats().items() if isinstance(value, (str, int, float))}
    print(json.dumps({"results": Probe.results[0], "stats": stats}))


if __name__ == "__main__":
    main(sys.argv[1:])

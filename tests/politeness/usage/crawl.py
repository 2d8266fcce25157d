"""A crawl of sites by their sitemaps, in a process of its own: `python -m tests.politeness.usage.crawl <site> ...`.

It prints the addresses that were collected with the usage in their provenance, the failures, and the stats, as JSON.
"""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
from scrapy import Request
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings
from twisted.python.failure import Failure

from harvester.parsers.web.sitemap import SitemapEntry
from harvester.spiders.base import SpiderArguments
from harvester.spiders.sitemaps import SitemapSpider


class ListedArguments(SpiderArguments):
    """Which sites."""

    sites: str


class ListedSpider(SitemapSpider):
    """Every page that the sitemaps list."""

    name = "listed"
    Arguments = ListedArguments
    arguments: ListedArguments
    told: dict[str, Any]

    async def start(self) -> AsyncIterator[Any]:
        self.told = {}
        for request in self.sitemap_requests(*self.arguments.sites.split()):
            yield request

    def page_request(self, entry: SitemapEntry) -> Request | None:
        return None if entry.url.endswith("/left-out") else Request(entry.url, self.parse, errback=self.failed)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        self.told[response.url] = msgspec.to_builtins(self.provenance(response)).get("usage")
        if response.url.endswith("/leads"):
            yield response.request.replace(url=f"{response.url}-on")  # type: ignore[union-attr]

    def failed(self, failure: Failure) -> None:
        self.told[failure.request.url] = str(failure.value)  # type: ignore[attr-defined]


def main() -> None:
    settings = Settings()
    settings.setmodule("harvester.settings")
    settings.setdict(
        {
            "ITEM_PIPELINES_BASE": {},
            "SPIDER_MIDDLEWARES_BASE": {"harvester.middlewares.httperror.HttpErrorMiddleware": 50},
            "LOG_LEVEL": "INFO",
        },
        "cmdline",
    )
    settings.set("EXTENSIONS_BASE", {"scrapy.extensions.corestats.CoreStats": 0}, "cmdline")
    settings.set("SCHEDULER", "scrapy.core.scheduler.Scheduler", "cmdline")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(ListedSpider)
    process.crawl(crawler, sites=" ".join(sys.argv[1:]))
    process.start()
    stats = {name: value for name, value in crawler.stats.get_stats().items() if isinstance(value, (str, int, float))}
    assert isinstance(crawler.spider, ListedSpider)
    print(json.dumps([crawler.spider.told, stats]))


if __name__ == "__main__":
    main()

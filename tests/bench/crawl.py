"""One crawl of the tree of pages, measured in its own process.

    python -m tests.bench.crawl <side> <addresses of the sites>

Redis is at REDIS_URL. Prints one line of JSON: pages, records, CPU seconds of this process from the spider's start to
its end, and the seconds from the first page to the last. The sides:

stock      Scrapy's own settings and scrapy-redis as its manual sets it up, but for the log level
tuned      the same scheduler with what harvester sets for speed: uvloop, aiohttp, few tasks, quiet logs
frontier   harvester's settings without its pipelines: as on the sides above, records are kept nowhere
harvester  harvester's settings and pipelines: records are staged and stored in MongoDB
"""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings

from harvester.addon import COMPONENTS, SETTINGS
from harvester.spiders.base import TASTES, HarvesterSpider, SpiderArguments

STOCK = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "LOG_LEVEL": "INFO",  # at its default every page and item is printed
    "TELNETCONSOLE_ENABLED": False,  # a port that another run may hold
    "REMOTE_CONTROL_ENABLED": False,  # likewise
}
SPEED = (
    "TWISTED_REACTOR",
    "ASYNCIO_EVENT_LOOP",
    "CONCURRENT_ITEMS",
    "WARN_ON_GENERATOR_RETURN_VALUE",
    "STATS_DUMP",
    "LOG_FORMATTER",
    "COOKIES_ENABLED",
    "REFERRER_POLICY",
    "CONCURRENT_REQUESTS",
    "CONCURRENT_REQUESTS_PER_DOMAIN",
)
"""Settings of harvester that make Scrapy faster, whichever frontier it has."""


class Pages(Spider):
    """Follows the links of each page and yields its record."""

    name = "bench_tree"
    sites: str
    """Comma-separated. Page k is fetched from one after the other."""

    async def start(self) -> AsyncIterator[Any]:
        self.cpu_began = time.process_time()
        self.pages, self.first_at = 0, 0.0
        self.addresses = self.sites.split(",")
        yield self.page(0)

    def parse(self, response: Response) -> Iterator[Any]:
        self.last_at = time.monotonic()
        self.first_at = self.first_at or self.last_at
        self.pages += 1
        page = json.loads(response.body)
        yield page["record"]
        for link in page["links"]:
            yield self.page(int(link.rpartition("/")[2]))

    def page(self, number: int) -> Request:
        return Request(f"{self.addresses[number % len(self.addresses)]}/page/{number}")

    def closed(self, reason: str) -> None:
        cpu = time.process_time() - self.cpu_began
        records = self.crawler.stats.get_value("item_scraped_count", 0)
        measured = {"pages": self.pages, "records": records, "cpu": cpu, "seconds": self.last_at - self.first_at}
        print(json.dumps(measured | {"reason": reason}), flush=True)


class TreeArguments(SpiderArguments):
    """Where the pages are."""

    sites: str


class Tree(Pages, HarvesterSpider):
    """The same as a spider of harvester."""

    Arguments = TreeArguments
    arguments: TreeArguments

    @property
    def sites(self) -> str:  # type: ignore[override]
        return self.arguments.sites


def settings_of(side: str) -> Settings:
    """The settings of a side."""
    if side == "stock":
        return Settings(STOCK | {"REDIS_URL": os.environ["REDIS_URL"]})
    if side == "tuned":
        ours = SETTINGS | TASTES
        speed = {name: ours[name] for name in SPEED} | {
            "DOWNLOAD_HANDLERS": COMPONENTS["DOWNLOAD_HANDLERS"],
            "SPIDER_MIDDLEWARES_BASE": {"scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": 50},
        }
        return Settings(STOCK | {"REDIS_URL": os.environ["REDIS_URL"]} | speed)
    from harvester import settings as module

    settings = Settings()
    settings.setmodule(module, priority="project")
    if side == "frontier":
        settings.set("ITEM_PIPELINES_BASE", {}, priority="cmdline")
    return settings


if __name__ == "__main__":
    _, _side, _sites = sys.argv
    process = AsyncCrawlerProcess(settings_of(_side))
    process.crawl(Pages if _side in ("stock", "tuned") else Tree, sites=_sites)
    process.start()

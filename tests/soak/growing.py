"""A crawl whose frontier grows far faster than it is worked off, for the memory test.

    python -m tests.soak.growing <address of a site> <requests to queue>

Redis and the settings are taken from the environment. Half of the requests come from start(), half from pages.
"""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

from scrapy import Request
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.utils.project import get_project_settings

from harvester.spiders.base import HarvesterSpider, SpiderArguments

LINKS = 1000
"""On every page."""


class GrowingArguments(SpiderArguments):
    """Where the pages are, and how many of them."""

    site: str
    pages: int


class Growing(HarvesterSpider):
    """Every page has a thousand links."""

    name = "growing"
    Arguments = GrowingArguments
    arguments: GrowingArguments

    async def start(self) -> AsyncIterator[Any]:
        self._numbers = count()
        for _ in range(self.arguments.pages // 2):
            yield self._next()

    def parse(self, response: Response) -> Iterator[Any]:
        for _ in range(LINKS):
            yield self._next()

    def _next(self) -> Request:
        return Request(f"{self.arguments.site}/page/{next(self._numbers)}")


if __name__ == "__main__":
    os.environ["SCRAPY_SETTINGS_MODULE"] = "harvester.settings"
    process = AsyncCrawlerProcess(get_project_settings())
    process.crawl(Growing, site=sys.argv[1], pages=sys.argv[2])
    process.start()

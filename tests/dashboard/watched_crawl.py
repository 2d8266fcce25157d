"""A crawl to be watched by tests: python -m tests.dashboard.watched_crawl PAGES [FILE [FIRST]]

It fetches `data:` addresses, so it needs no server. With FILE every page, or each from FIRST on, waits until that file
exists.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response

FILE = sys.argv[2] if len(sys.argv) > 2 else ""
FIRST = int(sys.argv[3]) if len(sys.argv) > 3 else 1
SETTINGS = {
    "EXTENSIONS": {
        "harvester.dashboard.live.LiveView": 600,
        "scrapy.extensions.logstats.LogStats": None,
        "scrapy.extensions.telnet.TelnetConsole": None,
    },
    "DOWNLOADER_MIDDLEWARES": {"tests.dashboard.watched_crawl.HoldBack": 500},
    "LOG_FORMATTER": "harvester.dashboard.logformatter.QuietLogFormatter",
    "LOG_LEVEL": "INFO",
    "REMOTE_CONTROL_ENABLED": False,
    "STATS_DUMP": False,
    "TELNETCONSOLE_ENABLED": False,
}


class HoldBack:
    """Downloader middleware that keeps requests in flight until the file exists."""

    async def process_request(self, request: Request) -> None:
        while FILE and request.cb_kwargs["page"] >= FIRST and not os.path.exists(FILE):  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.05)


class WatchedSpider(Spider):
    """Each page is an account with ten posts, and every third one is logged. The seventh breaks the callback."""

    name = "watched"

    async def start(self) -> AsyncIterator[Any]:
        pages = int(sys.argv[1])
        stats = self.crawler.stats
        stats.set_value("harvester/job", "watched-1")
        stats.set_value("harvester/items/account/waiting", pages)
        stats.set_value("harvester/waiting/api.example", time.time() + 60)
        for page in range(1, pages + 1):
            yield Request(f"data:,{page}", dont_filter=True, cb_kwargs={"page": page})
            await asyncio.sleep(0.02)

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        page = kwargs["page"]
        stats = self.crawler.stats
        stats.inc_value("harvester/pages")
        stats.inc_value("harvester/records/stored/post", 10)
        stats.inc_value("harvester/items/account/waiting", -1)
        stats.inc_value("harvester/items/account/done")
        if page % 3 == 0:
            self.logger.warning("Line %d begins %s line %d ends", page, "x" * 100, page)
        if page == 7:
            raise ValueError("seven mongodb://user:secret@host/ " + "y" * 1000)
        yield {"page": page, "text": "z" * 50}


if __name__ == "__main__":
    process = AsyncCrawlerProcess(SETTINGS)
    process.crawl(WatchedSpider)
    process.start()

"""The spider `bluesky` with the project's own settings, and its CPU time printed.

python -m tests.bench.measured name=value ...
"""

import json
import os
import sys
import time
from typing import Self

from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.utils.project import get_project_settings


class CpuTime:
    """Prints the process's CPU time from the spider's start to its end, and the posts stored."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._began = 0.0
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _opened(self) -> None:
        self._began = time.process_time()

    def _closed(self) -> None:
        posts = self._crawler.stats.get_value("harvester/records/stored/post")
        print(json.dumps({"cpu": time.process_time() - self._began, "posts": posts}), flush=True)


if __name__ == "__main__":
    os.environ["SCRAPY_SETTINGS_MODULE"] = "harvester.settings"
    settings = get_project_settings()
    settings["EXTENSIONS"][CpuTime] = 1
    process = AsyncCrawlerProcess(settings)
    process.crawl("bluesky", **dict(argument.split("=", 1) for argument in sys.argv[1:]))
    process.start()

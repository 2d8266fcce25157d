"""Crawls by Scrapy's own process: `python -m tests.chaos.stock_crawl crawl SPIDER [-a NAME=VALUE] [-s NAME=VALUE]`.

harvester's command refuses a queue that loses the requests of a worker that is killed; this is what shows that it does.
"""

import argparse

from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.project import get_project_settings


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["crawl"])
    parser.add_argument("spider")
    parser.add_argument("-a", dest="arguments", action="append", default=[])
    parser.add_argument("-s", dest="settings", action="append", default=[])
    given = parser.parse_args()
    settings = get_project_settings()
    settings.setdict(dict(each.split("=", 1) for each in given.settings), "cmdline")
    process = AsyncCrawlerProcess(settings)
    process.crawl(given.spider, **dict(each.split("=", 1) for each in given.arguments))
    process.start()


if __name__ == "__main__":
    main()

"""`scrapy crawl`, with arguments checked first, and an exit code that means something."""

import argparse
import sys
from typing import Any

from scrapy.commands.crawl import Command as ScrapyCrawl
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import UsageError

from harvester import mongodb
from harvester.config import load_config
from harvester.exceptions import HarvesterError
from harvester.monitors.summary import INTERRUPTED_REASONS
from harvester.spiders.arguments import print_arguments
from harvester.spiders.base import HarvesterSpider

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells use it, and after a limit that was set for the run."""


class Command(ScrapyCrawl):
    """Exit codes: see docs/operating.md. `-a help` prints a spider's arguments."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        self._help = "help" in opts.spargs
        opts.spargs = [argument for argument in opts.spargs if argument != "help"]
        super().process_options(args, opts)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("name one spider: scrapy crawl <spider>", print_help=False)
        spider = self._spider(args[0])
        if self._help:
            print_arguments(spider)
            return
        try:
            spider.parse_arguments(opts.spargs)
            mongodb.check(load_config())
            self.exitcode = self._crawl(args[0], opts)
        except HarvesterError as error:
            print(error, file=sys.stderr)
            self.exitcode = error.exit_code

    def _spider(self, name: str) -> type[HarvesterSpider]:
        assert self.crawler_process
        try:
            spider = self.crawler_process.spider_loader.load(name)
        except KeyError:
            known = ", ".join(sorted(self.crawler_process.spider_loader.list()))
            raise UsageError(f"there is no spider {name!r}; there are: {known}", print_help=False) from None
        assert issubclass(spider, HarvesterSpider)
        return spider

    def _crawl(self, name: str, opts: argparse.Namespace) -> int:
        """Runs the spider; returns the exit code. Raises what kept it from beginning."""
        process = self.crawler_process
        assert isinstance(process, AsyncCrawlerProcess)
        crawler = process.create_crawler(name)
        task = process.crawl(crawler, **opts.spargs)
        process.start()
        stats = crawler.stats.get_stats()
        error = task.exception() if task.done() and not task.cancelled() else None
        if error and "harvester/exit_code" not in stats:
            raise error
        return exit_code(stats, int(process.bootstrap_failed))


def exit_code(stats: dict[str, Any], otherwise: int) -> int:
    """What the run says of itself: the cause it named, an interruption, or its monitors' verdict."""
    if stated := stats.get("harvester/exit_code"):
        return int(stated)
    if stats.get("finish_reason") in INTERRUPTED_REASONS:
        return INTERRUPTED
    return otherwise

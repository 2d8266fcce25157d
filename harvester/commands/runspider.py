"""`scrapy runspider`, which stores nothing except the output of `-o`."""

import argparse

from scrapy import Spider
from scrapy.commands.runspider import Command as ScrapyRunSpider
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError

from harvester.commands.standalone import be_alone, know_formats


class RunspiderCommand(ScrapyRunSpider):
    """Scrapy's command, which refuses spiders that take items of jobs."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings
        know_formats(self.settings)
        super().process_options(args, opts)
        be_alone(self.settings)

    def _create_crawler(self, spidercls: type[Spider] | str) -> Crawler:
        if hasattr(spidercls, "requests_of"):
            raise UsageError(
                f"{spidercls.__name__} takes items of jobs, which are kept in MongoDB: put its module into"  # type: ignore[union-attr]
                " SPIDER_MODULES, and call scrapy crawl.",
                print_help=False,
            )
        return super()._create_crawler(spidercls)

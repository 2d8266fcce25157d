"""`scrapy import`: reads staged lines back into MongoDB."""

import argparse

from scrapy import Spider

from harvester.commands.crawl import CrawlCommand as Crawl
from harvester.commands.staged import StagedSpider


class ImportCommand(Crawl):
    """`scrapy import PATH... [-a spider=NAME]`; all else works like `scrapy crawl`."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        opts.spargs.setdefault("paths", ",".join(args))
        super().run([StagedSpider.name], opts)

    def _spider(self, name: str) -> type[Spider]:
        return StagedSpider

"""`scrapy bench`: how fast Scrapy itself is here."""

import argparse
from typing import ClassVar

from scrapy.commands.bench import Command as ScrapyBench

from harvester.commands.alone import Alone, be_alone


class Plain(Alone):
    """Add-on: leaves nothing but Scrapy's own. LogStats tells the rate."""

    BASE: ClassVar = {name: {} for name in Alone.BASE}


class Command(ScrapyBench):
    """As Scrapy's: its server is on this machine, where harvester's own downloads do not go."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings, Plain, DOWNLOAD_HANDLERS={}, ROBOTSTXT_OBEY=False, DOWNLOAD_DELAY=0)

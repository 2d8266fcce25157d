"""`scrapy fetch`, which leaves nothing behind."""

import argparse

from scrapy.commands.fetch import Command as ScrapyFetch

from harvester.commands.alone import be_alone


class Command(ScrapyFetch):
    """As Scrapy's."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings)

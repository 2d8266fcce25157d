"""`scrapy fetch`, which leaves nothing behind."""

import argparse

from scrapy.commands.fetch import Command as ScrapyFetch

from harvester.commands.standalone import be_alone


class FetchCommand(ScrapyFetch):
    """As Scrapy's."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings)

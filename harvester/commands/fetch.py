"""`scrapy fetch`, which stores nothing."""

import argparse

from scrapy.commands.fetch import Command as ScrapyFetch

from harvester.commands.standalone import be_alone


class FetchCommand(ScrapyFetch):
    """Scrapy's command, without the frontier and MongoDB."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings)

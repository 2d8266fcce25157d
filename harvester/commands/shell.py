"""`scrapy shell`, which leaves nothing behind."""

import argparse

from scrapy.commands.shell import Command as ScrapyShell

from harvester.commands.alone import be_alone


class Command(ScrapyShell):
    """As Scrapy's."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings)

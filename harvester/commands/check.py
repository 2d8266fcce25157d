"""`scrapy check`, which leaves nothing behind."""

import argparse

from scrapy.commands.check import Command as ScrapyCheck

from harvester.commands.standalone import be_alone


class CheckCommand(ScrapyCheck):
    """As Scrapy's: requests of contracts have callbacks that no frontier can keep."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings)

"""`scrapy check`, which stores nothing."""

import argparse

from scrapy.commands.check import Command as ScrapyCheck

from harvester.commands.standalone import be_alone


class CheckCommand(ScrapyCheck):
    """Scrapy's command without the frontier, which cannot save the callbacks of contract requests."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings)

"""`scrapy genspider`, which writes into the project that calls it."""

import argparse

from scrapy.commands.genspider import Command as ScrapyGenspider


class GenspiderCommand(ScrapyGenspider):
    """As Scrapy's; a project whose NEWSPIDER_MODULE is none of its SPIDER_MODULES has the file in the current folder.

    It would be a module of harvester itself for a project that takes over harvester's settings.
    """

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        if self.settings["NEWSPIDER_MODULE"] not in self.settings.getlist("SPIDER_MODULES"):
            self.settings.set("NEWSPIDER_MODULE", "", priority="cmdline")

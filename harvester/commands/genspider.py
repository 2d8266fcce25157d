"""`scrapy genspider`, which writes into the calling project."""

import argparse

from scrapy.commands.genspider import Command as ScrapyGenspider


class GenspiderCommand(ScrapyGenspider):
    """Writes into the current folder when NEWSPIDER_MODULE is not one of SPIDER_MODULES.

    Otherwise a project that takes over harvester's settings would get the file inside the harvester package.
    """

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        if self.settings["NEWSPIDER_MODULE"] not in self.settings.getlist("SPIDER_MODULES"):
            self.settings.set("NEWSPIDER_MODULE", "", priority="cmdline")

"""`scrapy view`, which stores nothing."""

import argparse

from scrapy.commands.view import Command as ScrapyView

from harvester.commands.standalone import be_alone


class ViewCommand(ScrapyView):
    """Scrapy's command, without the frontier and MongoDB."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(self.settings)

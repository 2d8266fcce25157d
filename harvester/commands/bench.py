"""`scrapy bench`: measures how fast Scrapy itself is on this machine."""

import argparse

from scrapy.commands.bench import Command as ScrapyBench
from scrapy.settings import default_settings

from harvester.commands.standalone import be_alone


class BenchCommand(ScrapyBench):
    """Scrapy's command with Scrapy's own downloader. harvester's would refuse the benchmark's local server."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings
        be_alone(
            self.settings,
            DOWNLOADER_MIDDLEWARES_BASE=default_settings.DOWNLOADER_MIDDLEWARES_BASE,
            DOWNLOAD_HANDLERS_BASE=default_settings.DOWNLOAD_HANDLERS_BASE,
            EXTENSIONS_BASE=default_settings.EXTENSIONS_BASE,  # LogStats prints the rate
            ROBOTSTXT_OBEY=False,
            DOWNLOAD_DELAY=0,
        )

"""`scrapy parse`, which shows records and stores nothing."""

import argparse
from collections.abc import Iterable
from typing import Any

from scrapy.commands.parse import Command as ScrapyParse

from harvester.commands.standalone import be_alone, know_formats, shown


class ParseCommand(ScrapyParse):
    """Scrapy's command, which also shows harvester's records."""

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings
        know_formats(self.settings)
        super().process_options(args, opts)
        be_alone(self.settings)

    def _get_items_and_requests(self, spider_output: Iterable[Any], *rest: Any) -> Any:
        return super()._get_items_and_requests(shown(spider_output), *rest)

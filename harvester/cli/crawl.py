"""The commands `harvester crawl` and `harvester import`, which Scrapy reads and runs."""

import os
from typing import Annotated

import typer

from harvester.cli.completing import spider_names


def crawl_command(
    words: Annotated[list[str] | None, typer.Argument(metavar="SPIDER", autocompletion=spider_names)] = None,
) -> None:
    """Crawl as `scrapy crawl` does, in any folder: SPIDER or FILE.py, -a NAME=VALUE, -s SETTING=VALUE, -o FILE."""
    _leave_to_scrapy()


def import_command() -> None:
    """Read staged files into MongoDB again: PATH..., segments or folders of them; -a spider=NAME if they were moved."""
    _leave_to_scrapy()


def _leave_to_scrapy() -> None:
    from scrapy import cmdline
    from scrapy.utils.conf import closest_scrapy_cfg

    from harvester.project import SETTINGS_MODULE

    if not closest_scrapy_cfg():
        os.environ.setdefault(SETTINGS_MODULE, "harvester.settings")
    cmdline.execute()

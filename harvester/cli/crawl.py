"""The commands that Scrapy parses and runs: `harvester crawl`, `harvester import`, and Scrapy's developer tools."""

import os
from typing import Annotated

import typer

from harvester.cli.completion import spider_names


def crawl_command(
    words: Annotated[list[str] | None, typer.Argument(metavar="SPIDER", autocompletion=spider_names)] = None,
) -> None:
    """Crawl as `scrapy crawl` does, in any folder: SPIDER or FILE.py, -a NAME=VALUE, -s SETTING=VALUE, -o FILE."""
    _refuse_plain()
    _leave_to_scrapy()


SCRAPY_TOOLS = {
    "shell": "Try selectors on a page: [URL], --spider NAME.",
    "parse": "Show what a callback yields for a page: URL, --spider NAME, -c CALLBACK, -d DEPTH.",
    "check": "Check the contracts in the docstrings of callbacks: [SPIDER].",
    "fetch": "Print a page as a spider gets it: URL, --headers.",
    "view": "Show a page in a browser as a spider gets it: URL.",
    "list": "Name the spiders.",
    "runspider": "Run the spider of a file, keeping nothing but what -o writes: FILE, -a NAME=VALUE.",
    "startproject": "Begin a project: NAME.",
    "genspider": "Begin a spider: NAME URL, -t TEMPLATE.",
    "edit": "Open a spider in the editor: SPIDER.",
    "settings": "Print a setting of the project: --get NAME.",
    "bench": "Measure how fast Scrapy is here.",
}
"""Help texts by name of the Scrapy command."""


def scrapy_command() -> None:
    _leave_to_scrapy()


def import_command() -> None:
    """Read staged files into MongoDB again: PATH..., segments or folders of them; -a spider=NAME if they were moved."""
    _refuse_plain()
    _leave_to_scrapy()


def _refuse_plain() -> None:
    """Raises UsageError in a project without the add-on, which plain Scrapy would crawl."""
    from scrapy.utils.conf import closest_scrapy_cfg

    if closest_scrapy_cfg():
        from harvester.project import brought_settings

        brought_settings()


def _leave_to_scrapy() -> None:
    from scrapy import cmdline
    from scrapy.utils.conf import closest_scrapy_cfg

    from harvester.project import SETTINGS_MODULE

    if not closest_scrapy_cfg():
        os.environ.setdefault(SETTINGS_MODULE, "harvester.settings")
    cmdline.execute()

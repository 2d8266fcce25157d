"""harvester's settings with an extension whose spider opens slowly: it says so, and waits until it may go on."""

import asyncio
from pathlib import Path
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler

from harvester.settings import *  # noqa: F403

OPENING, GO = Path("opening"), Path("go")


class SlowOpening:
    """Told of when the spider opens."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        slow = cls()
        crawler.signals.connect(slow.opened, signals.spider_opened)
        return slow

    async def opened(self) -> None:
        OPENING.touch()  # noqa: ASYNC240
        while not GO.exists():  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)


SPIDER_MODULES = ["tests.worker.spiders"]
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0, "tests.cli.starting.SlowOpening": 500}

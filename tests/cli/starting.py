"""harvester's settings, and a spider that opens slowly: it says so, and when it hears a signal, and waits to go on."""

import asyncio
import signal
from pathlib import Path
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler

from harvester.settings import *  # noqa: F403

OPENING, HEARD, GO = Path("opening"), Path("heard"), Path("go")


class SlowOpening:
    """Told of when the spider opens."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        slow = cls()
        crawler.signals.connect(slow.opened, signals.spider_opened)
        return slow

    async def opened(self) -> None:
        handler = signal.getsignal(signal.SIGINT)
        OPENING.touch()  # noqa: ASYNC240
        while not GO.exists():  # noqa: ASYNC240
            if signal.getsignal(signal.SIGINT) != handler:  # that of the second
                HEARD.touch()  # noqa: ASYNC240
            await asyncio.sleep(0.01)


SPIDER_MODULES = ["tests.worker.spiders"]
EXTENSIONS_BASE: dict[str, int] = {}
EXTENSIONS = {"scrapy.extensions.corestats.CoreStats": 0, "tests.cli.starting.SlowOpening": 500}

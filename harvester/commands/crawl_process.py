"""The process of one crawl, which notes signals and closes what it has begun."""

import asyncio
import gc
from typing import Any

from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.settings import Settings

from harvester.shutdown import SIGNAL
from harvester.worker.interrupts import note

POLL_S = 0.05


class CrawlProcess(AsyncCrawlerProcess):
    """Scrapy's process for one crawl. Scrapy only logs a signal, and stops only the parts that are open by then."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._stops = 0
        self.crawler: Crawler | None = None
        self.opening: asyncio.Task[None] | None = None
        """The task of the crawl."""

    def begin(self, crawler: Crawler, **arguments: Any) -> asyncio.Task[None]:
        """Begins the crawl. Returns its task."""
        self.crawler = crawler
        gc.disable()
        self.opening = self.crawl(crawler, **arguments)
        self.opening.get_loop().call_soon(_look_for_garbage)  # when all is loaded, before anything is waited for
        return self.opening

    async def stop(self) -> None:
        """Stops the crawl when it is open, so that everything it has begun is closed. A second call does not wait."""
        self._stops += 1
        while self._stops == 1 and not self._is_open:  # noqa: ASYNC110  no event tells of it
            await asyncio.sleep(POLL_S)
        await super().stop()

    @property
    def _is_open(self) -> bool:
        if self.crawler is None or self.opening is None or self.opening.done():
            return True
        return bool(self.crawler._engine and self.crawler._engine.running)

    def _signal_shutdown(self, signum: int, _: Any) -> None:
        """Stores the signal in the crawl's stats, too."""
        note(signum)
        if stats := getattr(self.crawler, "stats", None):
            stats.set_value(SIGNAL, signum)
        super()._signal_shutdown(signum, _)


def _look_for_garbage() -> None:
    """Lets Python look for garbage from now on, but not among what is loaded, which stays."""
    gc.freeze()
    gc.enable()

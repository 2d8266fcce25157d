"""Scrapy extension: publishes during a crawl. It is on when HARVESTER_PUBLISH_FILE is set."""

import asyncio
import logging
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from harvester.config import Config, load_config
from harvester.formatting import counted
from harvester.project import loader_of
from harvester.publish.relay import EventRelay
from harvester.publish.sinks import Sinks, load_sinks
from harvester.shutdown import fault_of, stop
from harvester.stores import mongodb

logger = logging.getLogger(__name__)

LEAVE_S = 10.0
"""Seconds that the end of a run has to send the last pages' events."""


class Publishing:
    """Runs a relay from the opening of the spider to its end."""

    def __init__(self, crawler: Crawler, config: Config, sinks: Sinks) -> None:
        assert crawler.stats
        self._crawler = crawler
        self._stats = crawler.stats
        self._config = config
        self._sinks = sinks
        self._running: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        config = load_config()
        sinks = load_sinks(config)
        if sinks is None:
            raise NotConfigured  # without a text, because Scrapy would log it as a warning
        sinks.check_names(loader_of(crawler.settings).list())
        publishing = cls(crawler, config, sinks)
        crawler.signals.connect(publishing.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(publishing.spider_closed, signal=signals.spider_closed)
        return publishing

    def spider_opened(self) -> None:
        self._database = mongodb.connect(self._config)
        self._relay = EventRelay(self._config, self._sinks, self._database)
        self._running = asyncio.create_task(self._relay.run())
        self._running.add_done_callback(_tell_of_fault)

    async def spider_closed(self) -> None:
        """Sends the last events; all records are stored by now. Another process, or the next run, sends the rest."""
        if self._running is None:
            return
        if self._relay.is_leading:
            last = asyncio.create_task(self._relay.wait_until_idle())
            await asyncio.wait([last, self._running], timeout=LEAVE_S, return_when=asyncio.FIRST_COMPLETED)
            await stop(last)
        await stop(self._running)
        with mongodb.at_the_end(self._crawler):
            await self._relay.leave()
        for sink, number in self._relay.delivered.items():
            self._stats.set_value(f"harvester/publish/delivered/{sink}", number)
            logger.info("%s: %s sent; `harvester publish status` says what waits", sink, counted(number, "event"))
        await mongodb.disconnect(self._database)


def _tell_of_fault(running: asyncio.Task[None]) -> None:
    """Logs a programming error in the relay. The crawl continues, and another process or run sends its events."""
    if not running.cancelled() and (fault := running.exception()):
        logger.error("This run publishes nothing any more: %s", fault_of(fault), exc_info=fault)

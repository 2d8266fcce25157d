"""Reports unreachable hosts within seconds, and ends a run when none has ever answered."""

import asyncio
import logging
import time
from typing import Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.config import Config, load_config
from harvester.download.addresses import host_of
from harvester.exceptions import LEFT
from harvester.formatting import duration
from harvester.outcomes import Outcome, get_policy
from harvester.shutdown import end, stop

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""Seconds between two checks of the stats."""
_ERRORS = "harvester/errors/"
_SAID = "harvester/said/"


class Reachability:
    """Watches whether the hosts of a run answer.

    A run that waits for more work, as a worker of a service does, is reported and continues.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._waits_for_work = bool(config.idle_seconds)
        self._config = config
        self._answered: set[str] = set()
        self._told: set[str] = set()
        self._answered_at = time.monotonic()
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Connects the extension to the crawler's signals."""
        extension = cls(crawler, load_config())
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.response_received, signal=signals.response_received)
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        """Starts to watch."""
        self._answered_at = time.monotonic()
        self._watching = asyncio.ensure_future(self._watch())

    def response_received(self, response: Response, request: Request, spider: Spider) -> None:
        """Records that a host answers, with any response."""
        self._answered_at = time.monotonic()
        self._answered.update((host_of(response.url), host_of(request.url)))

    async def spider_closed(self) -> None:
        """Stops watching."""
        await stop(self._watching)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            silent = self._silent_hosts()
            for host, said in silent.items():
                if host not in self._told:
                    self._told.add(host)
                    self._tell(host, said)
            if self._is_over(silent):
                host, said = next(iter(silent.items()))
                end(
                    self._crawler,
                    "unreachable",
                    LEFT,
                    f"Nothing has answered for {duration(self._bound_s())}. {_cannot_be_reached(host, said)}"
                    " HARVESTER_UNREACHABLE_SECONDS has a run try for longer; -1: for ever.",
                )
                return

    def _silent_hosts(self) -> dict[str, str]:
        """Returns the hosts that failed and never answered, with the message of the last try."""
        found = {}
        for name in list(self._crawler.stats.get_stats()):
            if name.startswith(_ERRORS):
                outcome, _, host = name.removeprefix(_ERRORS).partition("/")
                if (get_policy(outcome).no_answer or outcome == Outcome.PROXY) and host not in self._answered:
                    found[host] = str(self._crawler.stats.get_value(f"{_SAID}{outcome}/{host}", ""))
        return found

    def _is_over(self, silent: dict[str, str]) -> bool:
        return bool(silent) and 0 <= self._bound_s() <= time.monotonic() - self._answered_at

    def _bound_s(self) -> float:
        """Returns the seconds without any response that end a run; below 0 for no limit. After a response the limit is
        longer, because a host may have asked for a pause."""
        if self._waits_for_work:
            return -1
        return self._config.parked_seconds if self._answered else self._config.unreachable_seconds

    def _tell(self, host: str, said: str) -> None:
        until = "it is tried again until it answers"
        if (bound_s := self._bound_s()) >= 0:
            until = f"it is tried again, and the run ends after {duration(bound_s)} in which nothing answers"
        logger.warning("%s Meanwhile %s.", _cannot_be_reached(host, said), until)


def _cannot_be_reached(host: str, said: str) -> str:
    reason = said.partition(": Cannot connect")[0].rstrip(".") or "there is no answer"
    return f"{host} cannot be reached: {reason}. Is this machine online, and is the address right?"

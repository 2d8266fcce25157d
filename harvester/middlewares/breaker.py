"""Downloader middlewares: while the breaker of a site is open, its requests wait in the frontier.

The first stands near the engine: requests that have to wait go back at once. The second stands nearest the network,
since a request may have waited long for its slot at the host. Both ignore requests that are not from the frontier.
"""

import time
from functools import cached_property
from typing import Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.breaker.breakers import Breakers
from harvester.breaker.observing import UNREACHED, add_item, add_outcome
from harvester.download.local_health import here_of, waits_out_faults
from harvester.exceptions import LocalFault
from harvester.fetch.steps import JudgingStep, get_steps
from harvester.frontier.scheduler import Scheduler, check_frontier
from harvester.frontier.waiting import wait_in_frontier
from harvester.internal_meta import LEASE, PARKED, PROBE
from harvester.outcomes import Outcome, Verdict
from harvester.shutdown import RunEnding
from harvester.sites import load_sites


class Parked(RunEnding):
    """A request whose site's breaker is open. It goes back into the frontier unspent."""


class BreakerMiddleware:
    """Reports outcomes to the breakers, and returns requests of sites whose breaker is open to the frontier."""

    def __init__(self, crawler: Crawler) -> None:
        check_frontier(crawler)
        self._crawler = crawler
        get_steps(crawler).add(JudgingStep.BREAKER, self._on_outcome)
        crawler.signals.connect(self._on_item, signals.item_scraped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> Request | None:
        return self.back(request) if self.holds_back(request) else None

    def holds_back(self, request: Request) -> bool:
        """Returns True if the request has to wait."""
        site = load_sites().of(request.url).name
        return LEASE in request.meta and self.breakers.holds_back(site, request.meta.get(PROBE, 0))

    @property
    def breakers(self) -> Breakers:
        assert self._crawler.engine
        scheduler = self._crawler.engine.scheduler
        assert isinstance(scheduler, Scheduler)
        return scheduler.breakers

    def back(self, request: Request) -> Request:
        """Returns the request marked for the scheduler, which returns it to the frontier unspent."""
        self._crawler.stats.inc_value("harvester/breaker/given_back")
        return _parked(request)

    def _on_outcome(self, request: Request, verdict: Verdict, response: Response | None) -> None:
        # Errbacks of Scrapy's spiders expect each failure to reach a host, and no host is there to be spared.
        is_spared = verdict.rule in UNREACHED and PROBE not in request.meta and not waits_out_faults(self._crawler)
        if LEASE in request.meta and not is_spared:
            add_outcome(self.breakers, request, verdict)

    def _on_item(self, item: Any, response: Response | None) -> None:
        request = response.request if response is not None else None
        if request is not None and LEASE in request.meta:
            add_item(self.breakers, request, item)


class BreakerGate:
    """The last check before a request leaves.

    It is the first to see a request that is not sent because a breaker is open, the run ends, or this machine has a
    fault. Such a request goes back into the frontier, before a project's middleware sees the exception.
    """

    def __init__(self, crawler: Crawler) -> None:
        check_frontier(crawler)
        self._crawler = crawler
        self._here = here_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        if LEASE not in request.meta:
            return
        if not request.meta.get(PROBE):
            await self._breaker.breakers.settled(load_sites().of(request.url).name)
        if self._breaker.holds_back(request):
            raise Parked("its site is left alone")

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if LEASE not in request.meta:
            return None
        if isinstance(exception, LocalFault):  # raised only by the download handler, before sending
            return wait_in_frontier(request, max(time.time(), self._here.until), Outcome.LOCAL, str(exception))
        if isinstance(exception, Parked):
            return self._breaker.back(request)
        return _parked(request) if isinstance(exception, RunEnding) else None

    @cached_property
    def _breaker(self) -> BreakerMiddleware:
        breaker = self._crawler.get_downloader_middleware(BreakerMiddleware)
        assert breaker
        return breaker


def _parked(request: Request) -> Request:
    again = request.replace(dont_filter=True)
    again.meta[PARKED] = True
    return again

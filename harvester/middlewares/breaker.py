"""Downloader middlewares: while the breaker of a site is open, its requests wait in the frontier.

The first stands near the engine: requests that have to wait go back at once. The second stands nearest the network,
since a request may have waited long for its slot at the host. Both ignore requests that are not from the frontier.
"""

import time
from functools import cached_property
from typing import Any, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.misc import load_object

from harvester.breaker.breakers import Breakers
from harvester.download.local_health import here_of, waits_out_faults
from harvester.exceptions import LocalFault
from harvester.fetch.steps import JudgingStep, get_steps
from harvester.frontier.scheduler import Scheduler
from harvester.frontier.waiting import wait_in_frontier
from harvester.items import Batch, Record
from harvester.meta import ATTEMPTS, ITEMS, LEASE, NO_PROOF, PARKED, PROBE, STEP, TIER, TIER_PROBE
from harvester.outcomes import Outcome, Verdict
from harvester.shutdown import RunEnding
from harvester.sites import load_sites, policy_of

_UNREACHED = ("dns", "no-connection")
"""Rules for failures to reach a host."""


class Parked(RunEnding):
    """A request whose site's breaker is open. It goes back into the frontier unspent."""


class BreakerMiddleware:
    """Reports outcomes to the breakers, and returns requests of sites whose breaker is open to the frontier."""

    def __init__(self, crawler: Crawler) -> None:
        _check_frontier(crawler)
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
        if LEASE not in request.meta:
            return False
        return self.breakers.holds_back(load_sites().of(request.url).name, request.meta.get(PROBE, 0))

    @property
    def breakers(self) -> Breakers:
        assert self._crawler.engine
        scheduler = self._crawler.engine.scheduler
        assert isinstance(scheduler, Scheduler)
        return scheduler.breakers

    def back(self, request: Request) -> Request:
        """Returns the request marked for the scheduler, which returns it to the frontier unspent."""
        self._crawler.stats.inc_value("harvester/breaker/given_back")
        again = request.replace(dont_filter=True)
        again.meta[PARKED] = True
        return again

    def _on_outcome(self, request: Request, verdict: Verdict, response: Response | None) -> None:
        if LEASE in request.meta and verdict.outcome is not Outcome.LOCAL:
            if verdict.rule in _UNREACHED and PROBE not in request.meta and not waits_out_faults(self._crawler):
                return  # errbacks of Scrapy's spiders expect each failure, and no host is there to be spared
            site = load_sites().of(request.url)
            policy = policy_of(site, verdict.outcome)
            probes, tier = (request.meta.get(PROBE, 0), request.meta.pop(TIER_PROBE, 0)), request.meta.get(TIER, "")
            is_step = bool(request.meta.get(STEP) or request.meta.get(NO_PROOF))
            kind = {"is_new": not _was_tried(request), "is_step": is_step}
            self.breakers.add_try(site, verdict, policy, probes[0], tier, probes[1], **kind)

    def _on_item(self, item: Any, response: Response | None) -> None:
        request = response.request if response is not None else None
        if request is None or LEASE not in request.meta or not isinstance(item, (Batch, Record)):
            return
        site, records = load_sites().of(request.url), item.records if isinstance(item, Batch) else [item]
        self.breakers.add_records(site, records, request.meta.get(PROBE, 0))
        if request.meta.get(STEP) and records and not request.meta.get(NO_PROOF):
            self.breakers.add_read(site)


class BreakerGate:
    """The last check before a request leaves.

    It is the first to see a request that is not sent because a breaker is open, the run ends, or this machine has a
    fault. Such a request goes back into the frontier, before a project's middleware sees the exception.
    """

    def __init__(self, crawler: Crawler) -> None:
        _check_frontier(crawler)
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
        if isinstance(exception, RunEnding):
            again = request.replace(dont_filter=True)
            again.meta[PARKED] = True
            return again
        return None

    @cached_property
    def _breaker(self) -> BreakerMiddleware:
        breaker = self._crawler.get_downloader_middleware(BreakerMiddleware)
        assert breaker
        return breaker


def _was_tried(request: Request) -> bool:
    """Returns True if this attempt at its item, or an earlier one, has already sent the request."""
    return bool(request.meta.get(ATTEMPTS)) or any(attempt > 1 for _, attempt in request.meta.get(ITEMS, ()))


def _check_frontier(crawler: Crawler) -> None:
    if not issubclass(load_object(crawler.settings["SCHEDULER"]), Scheduler):
        raise NotConfigured  # the requests are not in the frontier; with a message Scrapy would log a warning

"""Downloader middleware: refuses URLs that robots.txt forbids, and sends nothing while robots.txt cannot be read.

Replaces Scrapy's middleware, which allows everything when robots.txt fails, keeps it for ever, and ignores which user
agent its rules address (see parsers/web/robots.py). ROBOTSTXT_OBEY, ROBOTSTXT_USER_AGENT and
meta["dont_obey_robotstxt"] work as in Scrapy. A site's entry may set `obey_robots = false`, with the reason.
"""

import asyncio
import random
import time
from time import monotonic
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)

from harvester.download.addresses import Refused
from harvester.download.local_health import waits_out_faults
from harvester.exceptions import copy_error
from harvester.frontier.attempts import attempts_of
from harvester.frontier.waiting import wait_in_frontier
from harvester.internal_meta import DONT_OBEY, LEASE, ROBOTS_WAITS
from harvester.outcomes import Outcome, RequestFailed, Verdict
from harvester.politeness.robots import OriginRobots, robots_of
from harvester.shutdown import pause

MOST_WAITS = 8
"""Maximum number of waits of a leased request for robots.txt, in the frontier and unspent: 20 minutes in all."""
MOST_PAUSES = 2
"""Maximum number of waits of a request without a lease, in this process; with dont_retry (a login) it never waits."""
WAIT_HERE_S = 5.0
"""Seconds that a leased request waits in this process while robots.txt is being fetched."""
_UNANSWERED = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
"""Failures that spiders of Scrapy receive at once: a host without robots.txt would not serve a page either."""
_FINAL = (Outcome.POLICY_DENIED,)
"""Outcomes that waiting cannot change: the host is in a private network, and nothing is sent to it."""


class RobotsMiddleware:
    """Refuses requests that robots.txt forbids, and delays requests until robots.txt was read."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._robots = robots_of(crawler)
        self._robots.on_miss = attempts_of(crawler).tell

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | None:
        """Checks the rules. A request of the frontier waits there while robots.txt cannot be read."""
        url = request.url
        if request.meta.get(DONT_OBEY) or not self._robots.obeyed(url):
            return None
        origin = self._robots.origin(url)
        if monotonic() >= origin.until and (later := await self._read(origin, request)):
            return later
        request.meta.pop(ROBOTS_WAITS, None)
        if forbidden := self._robots.forbids(url, origin):
            raise Refused(forbidden)
        return None

    async def _read(self, origin: OriginRobots, request: Request) -> Request | None:
        """Waits until the rules of the origin are known; a returned request waits in the frontier."""
        leased = LEASE in request.meta
        most = MOST_WAITS if leased else 0 if request.meta.get("dont_retry") else MOST_PAUSES
        pauses = 0
        while monotonic() >= origin.until:
            if asking := self._robots.ask(origin):
                done, _ = await asyncio.wait([asking], timeout=WAIT_HERE_S if leased else None)
                if not done:
                    return self._later(request, origin, max(WAIT_HERE_S, monotonic() - origin.asked_at))
                asking.result()
                await pause(self._crawler, 0.0)
                if monotonic() < origin.until:
                    break
            if origin.robots is not None:
                return None  # the last readable version counts meanwhile
            if origin.unpaid is not None:
                raise origin.unpaid.at(origin.retry_at - monotonic())
            assert origin.failure
            if isinstance(origin.error, _UNANSWERED) and not waits_out_faults(self._crawler):
                raise copy_error(origin.error)
            # Each failure counts, even if the next attempt is already due.
            waits = request.meta.get(ROBOTS_WAITS, 0) if leased else pauses
            if origin.failure.outcome in _FINAL or waits >= most:
                raise RequestFailed(origin.failure, waits + 1)
            wait = max(0.0, origin.retry_at - monotonic())
            if leased:
                again = self._later(request, origin, wait * random.uniform(1.0, 1.2))
                again.meta[ROBOTS_WAITS] = waits + 1
                return again
            pauses += 1
            await pause(self._crawler, wait)
        return None

    def _later(self, request: Request, origin: OriginRobots, seconds: float) -> Request:
        failure = origin.failure or Verdict(Outcome.TIMEOUT, "robots.txt is on its way")
        self._stats.inc_value("harvester/robots/waited")
        return wait_in_frontier(request, time.time() + seconds, failure.outcome, failure.reason)

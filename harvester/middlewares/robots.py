"""Downloader middleware: what robots.txt forbids is not asked for, and nothing is while robots.txt cannot be read.

In place of Scrapy's, which asks for everything when robots.txt fails, keeps it for ever, and takes no account of whom
it speaks to (see parsers/web/robots.py). ROBOTSTXT_OBEY and ROBOTSTXT_USER_AGENT mean what they mean there, and so does
meta["dont_obey_robotstxt"]. A site's entry may say `obey_robots = false`, with the reason.
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
from harvester.exceptions import LocalFault
from harvester.frontier.attempts import attempts_of
from harvester.frontier.waiting import wait_in_frontier
from harvester.meta import DONT_OBEY, LEASE, ROBOTS_WAITS
from harvester.outcomes import Outcome, RequestFailed, Verdict
from harvester.politeness.robots import OriginRobots, robots_of
from harvester.shutdown import pause

MOST_WAITS = 8
"""How often a leased request waits for robots.txt, in the frontier and unspent: for 20 minutes in all."""
MOST_PAUSES = 2
"""How often a request without a lease does, in this process; one that is not to be retried (a login) never does."""
WAIT_HERE_S = 5.0
"""How long a leased request waits in this process while robots.txt is on its way."""
_UNANSWERED = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
"""What spiders of Scrapy hear of at once: the host that gives no robots.txt would give no page either."""
_FINAL = (Outcome.POLICY_DENIED,)
"""Waiting helps none of these: the host is in a private network, and nothing is asked of it."""


class RobotsMiddleware:
    """Lets no request pass that robots.txt forbids, and none before its robots.txt was read."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._robots = robots_of(crawler)
        self._robots.on_miss = attempts_of(crawler).tell

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | None:
        """A request of the frontier waits there while robots.txt cannot be read."""
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
        """Waits until the rules of the origin are known; a request that is returned waits in the frontier."""
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
                return None  # the last one that could be read counts meanwhile
            if origin.unpaid is not None:
                raise origin.unpaid.at(origin.retry_at - monotonic())
            assert origin.failure
            if isinstance(origin.error, _UNANSWERED) and not waits_out_faults(self._crawler):
                raise _copy(origin.error)
            # Each failure counts, also one after which it is time for the next by now.
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


def _copy(error: Exception) -> Exception:
    """For one request alone: what it comes to is written into it."""
    again = type(error)(*error.args)
    if fault := LocalFault.behind(error):
        again.local_fault = fault  # type: ignore[attr-defined]
    return again

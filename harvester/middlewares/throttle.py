"""Downloader middleware: each site is asked no faster than it allows, and not at all while it says wait.

All workers that use one Redis share the limits (politeness/limiter.py); a site without a rate has none to share.

It stands nearest the network, so that nothing else can send a request past it. Scrapy's own slots cannot hold
back what they have queued, and ignore Retry-After and the rate-limit headers; hence the waiting is done here.
"""

import asyncio
import logging
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from math import isfinite
from typing import Protocol, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Headers, Response

from harvester.browser.render_options import captured_of
from harvester.config import Config, load_config
from harvester.frontier.leases import LEASE, NOT_BEFORE, WHY
from harvester.outcomes import Outcome
from harvester.parsers.web.rate_limits import NAMES, Problem, Told, problem, told
from harvester.politeness.limiter import LONG_S, HostLimiter, HostPaused
from harvester.politeness.pace import LONGEST_PACE_S, Pace
from harvester.shutdown import CHECK_S, pause
from harvester.sites import load_sites
from harvester.sites.politeness import Limits

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 3600.0
"""What a server may ask for with one answer."""
UNSTATED_WAIT_S = 5.0
"""After a refusal that names no time; doubled for each further one in a row, at most WINDOW_S."""
WINDOW_S = 300.0
"""Bluesky's rate-limit window."""
MOST_JITTER_S = 2.0
"""By how much longer than asked a site is left alone, so that not all its visitors come back at once."""
MOST_PACES = 10_000
"""Sites whose pace is remembered, as long as nothing slows them down."""
_SLOT = "harvester_slot"
_READ = frozenset(name.title().encode() for name in NAMES)
_REFUSING = {403, 413, 429}
"""With a server error or a redirect, the statuses whose Retry-After is obeyed."""
_SHOWN_FROM = 1.5
"""Times the configured interval from which on a slower pace is shown."""


class Limiter(Protocol):
    """Which requests may go to a site, and when."""

    async def acquire(self, name: str, *, patient: bool = True) -> None:
        """Waits until a request may go to the site. Raises RunEnding; with patient=False HostPaused for a long wait."""

    def release(self, name: str) -> None:
        """The request has come to its end."""

    def is_paused(self, name: str) -> bool:
        """Whether the site is paused now."""

    def pause(self, name: str, seconds: float) -> None:
        """The site wants to be left alone."""


class LocalLimiter:
    """Limits this process alone, for servers of one's own: so many requests at a time, at any rate, without Redis."""

    def __init__(
        self, crawler: Crawler, limits_of: Callable[[str], Limits], on_pause: Callable[[str, float], None]
    ) -> None:
        self._crawler = crawler
        self._limits_of = limits_of
        self._on_pause = on_pause
        self._permits: dict[str, asyncio.Semaphore] = {}
        self._paused_until: defaultdict[str, float] = defaultdict(float)
        """On the monotonic clock, so that setting the machine's clock stops nobody."""

    async def acquire(self, name: str, *, patient: bool = True) -> None:
        permits = self._permits.get(name)
        if permits is None:
            permits = self._permits[name] = asyncio.Semaphore(self._limits_of(name).concurrency)
        await permits.acquire()
        try:
            await pause(self._crawler, 0.0)
            while (wait := self._paused_until[name] - time.monotonic()) > 0:
                if wait > LONG_S and not patient:
                    raise HostPaused(wait)  # noqa: TRY301
                await pause(self._crawler, min(wait, CHECK_S))
        except BaseException:
            self.release(name)
            raise

    def release(self, name: str) -> None:
        self._permits[name].release()

    def is_paused(self, name: str) -> bool:
        return self._paused_until[name] > time.monotonic()

    def pause(self, name: str, seconds: float) -> None:
        until, known = time.monotonic() + seconds, self._paused_until[name]
        if until > known + 1:
            self._on_pause(name, seconds)
        self._paused_until[name] = max(until, known)


class ThrottleMiddleware:
    """Sends a request when its slot has come, and obeys what the site says and shows of how much it can take."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._shared = HostLimiter(crawler, config, self._limits, self._show_pause_until)
        self._own = LocalLimiter(crawler, self._limits, self._show_pause_until)
        self._paces: dict[str, Pace] = {}
        self._refusals: Counter[str] = Counter()
        """In a row, by site; of those that named no time."""
        self._slow: set[str] = set()
        """Sites that are shown to be asked more slowly than configured."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    def set_crawl_delay(self, site_name: str, seconds: float) -> None:
        """The Crawl-delay of the site's robots.txt, or 0 when there is none. It slows the site down, if anything.

        The slowest of the workers that share a Redis is followed by all.
        """
        if not load_sites().named(site_name).politeness.obey_crawl_delay or not isfinite(seconds):
            return
        if seconds > LONGEST_PACE_S:
            logger.warning("%s wants %g s between requests; %g s are kept", site_name, seconds, LONGEST_PACE_S)
        self._pace(site_name).crawl_delay_s = min(max(seconds, 0.0), LONGEST_PACE_S)

    async def process_request(self, request: Request) -> Request | None:
        """A request of the frontier waits there while its site wants to be left alone for long."""
        name = load_sites().of(request.url).name
        limiter = self._limiter_of(self._pace(name))
        try:
            await limiter.acquire(name, patient=LEASE not in request.meta)
        except HostPaused as pause:
            again = request.replace(dont_filter=True)
            again.meta[NOT_BEFORE] = time.time() + pause.seconds
            again.meta[WHY] = (Outcome.RATE_LIMITED, f"its slot at {name} comes later", False)
            return again
        request.meta[_SLOT] = (limiter, name)
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        slot = request.meta.get(_SLOT)
        if slot:
            limiter, name = slot
            refusals = (answer for answer in reversed(captured_of(response)) if answer.status in _REFUSING)
            self._heed(limiter, name, next(refusals, response))
            if limiter is self._shared:
                self._watch(name, request, response.status)
        self._leave(request)  # after the pause has begun, so that no other request slips in
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        slot = request.meta.get(_SLOT)
        if slot and isinstance(exception, (DownloadTimeoutError, TimeoutError)):
            self._pace(slot[1]).slowdown.failed()
            self._show_pace(slot[1])
        self._leave(request)

    def _leave(self, request: Request) -> None:
        slot = request.meta.pop(_SLOT, None)
        if slot:
            limiter, name = slot
            limiter.release(name)

    def _heed(self, limiter: Limiter, name: str, response: Response) -> None:
        """Obeys what the answer says."""
        status = response.status
        said = told_by(response.headers)
        trouble, violated = _problem(response) if status >= 400 else (None, frozenset[str]())
        wait = self._pace(name).heed(said.quotas, time.monotonic()) if said.quotas else 0.0
        refused = status == 429 or trouble is not None
        if refused and not wait:
            wait = max((quota.ends_in_s or 0.0 for quota in said.quotas if quota.name in violated), default=0.0)
            wait = wait or said.reset_s
        if said.retry_after_s and (status in _REFUSING or 300 <= status < 400 or status >= 500):
            wait = said.retry_after_s
        if not refused and status != 503:
            self._refusals.pop(name, None)
        elif refused and trouble is Problem.ABNORMAL_USAGE:
            wait = wait or WINDOW_S
        # While the site is left alone, refusals are still coming in of what was sent before.
        elif refused and not wait and not limiter.is_paused(name):
            wait = min(UNSTATED_WAIT_S * 2 ** min(self._refusals[name], 10), WINDOW_S)
            self._refusals[name] += 1
        if wait:
            wait = min(wait, LONGEST_WAIT_S)
            limiter.pause(name, wait + random.uniform(0, min(wait / 20, MOST_JITTER_S)))

    def _watch(self, name: str, request: Request, status: int) -> None:
        """Sees whether the site finds it hard to answer."""
        slowdown = self._pace(name).slowdown
        if status >= 500 and status not in (501, 505):
            slowdown.failed()
        elif status not in _REFUSING and (latency_s := request.meta.get("download_latency")) is not None:
            slowdown.answered(latency_s)
        self._show_pace(name)

    def _limiter_of(self, pace: Pace) -> Limiter:
        return self._shared if pace.limits.interval_s or pace.crawl_delay_s else self._own

    def _pace(self, name: str) -> Pace:
        pace = self._paces.get(name)
        if pace is None:
            if len(self._paces) >= MOST_PACES:
                now = time.monotonic()
                self._paces = {name: pace for name, pace in self._paces.items() if pace.is_slowed(now)}
            pace = self._paces[name] = Pace(load_sites().named(name).politeness.limits(self._config))
        return pace

    def _limits(self, name: str) -> Limits:
        return self._pace(name).limits_at(time.monotonic())

    def _show_pace(self, name: str) -> None:
        pace = self._pace(name)
        interval_s, configured_s = self._limits(name).interval_s, pace.limits.interval_s
        is_slow, was_slow = interval_s > _SHOWN_FROM * configured_s, name in self._slow
        if not is_slow and not was_slow:
            return
        self._crawler.stats.set_value(f"harvester/interval/{name}", round(interval_s, 3))
        if is_slow and not was_slow:
            self._slow.add(name)
            logger.info("%s is asked every %.3g s, not every %.3g s", name, interval_s, configured_s)
        elif was_slow and not is_slow:
            self._slow.remove(name)
            logger.info("%s is asked every %.3g s again", name, interval_s)

    def _show_pause_until(self, name: str, seconds: float) -> None:
        logger.info("%s asks to wait %.0f s", name, seconds)
        self._crawler.stats.set_value(f"harvester/waiting/{name}", time.time() + seconds)


def told_by(headers: Headers) -> Told:
    """What an answer's headers say of how much may be asked."""
    if _READ.isdisjoint(headers):
        return _NOTHING
    read = [name for name in headers if name in _READ or name == b"Date"]
    texts = {name.decode().lower(): b", ".join(headers.getlist(name)).decode("latin-1").strip() for name in read}
    return told(texts, time.time())


def retry_after(headers: Headers) -> float | None:
    """Seconds that Retry-After asks to wait; None when absent or malformed."""
    return told_by(headers).retry_after_s


def reset_in(headers: Headers) -> float | None:
    """Seconds until all windows reset that the headers tell of; None when they tell of no reset."""
    return max((quota.reset_s for quota in told_by(headers).quotas if quota.reset_s is not None), default=None)


def _problem(response: Response) -> tuple[Problem | None, frozenset[str]]:
    kind, encoding = (
        (response.headers.get(name) or b"").decode("latin-1") for name in ("Content-Type", "Content-Encoding")
    )
    return problem(kind, encoding, response.body) or (None, frozenset())


_NOTHING = Told()

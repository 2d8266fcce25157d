"""The pace by site: no faster than it allows, and no request while it asks to wait.

All workers at a Redis share the limits (limiter.py). A site without a rate is limited in each process alone.
"""

import logging
import random
import time
from collections import Counter
from collections.abc import Sequence
from math import isfinite

from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from harvester.components import get_component
from harvester.config import Config, load_config
from harvester.parsers.web.rate_limits import RateLimitProblem
from harvester.politeness.limiter import HostLimiter
from harvester.politeness.local_limiter import Limiter, LocalLimiter
from harvester.politeness.pace import LONGEST_PACE_S, Pace
from harvester.politeness.rate_limits import LONGEST_WAIT_S, problem_of, rate_limits_of
from harvester.sites import load_sites
from harvester.sites.politeness import Limits

logger = logging.getLogger(__name__)

UNSTATED_WAIT_S = 5.0
"""Seconds to wait after a refusal that names no time; doubled for each further one in a row, up to WINDOW_S."""
WINDOW_S = 300.0
"""Seconds of Bluesky's rate-limit window."""
MOST_JITTER_S = 2.0
"""Seconds added to a pause at most, at random, so that not all clients return at once."""
MOST_PACES = 10_000
"""Maximum number of saved paces. At the limit only the paces of slowed-down sites remain."""
MOST_LIMITS_SHOWN = 20
"""Number of sites, the first ones, whose limit is shown in the stats."""
TOO_MANY = frozenset({420, 429, 509})
"""Statuses for too many requests, the same as in the rules of outcomes."""
REFUSING = {403, 413, *TOO_MANY}
"""Statuses whose Retry-After is applied, beside server errors and redirects."""
_SHOWN_FROM = 1.5
"""Multiple of the configured interval above which a slower pace is shown."""


def throttle_of(crawler: Crawler) -> "Throttle":
    """Returns the crawl's Throttle."""

    def make() -> Throttle:
        return Throttle(crawler, as_the_project_sets(load_config(), crawler.settings))

    return get_component(crawler, Throttle, make)


def as_the_project_sets(config: Config, settings: BaseSettings) -> Config:
    """Returns the configuration with the project's own settings for all hosts. A site's entry overrides them.

    Scrapy's slots apply these settings too. They can neither hold back queued requests nor share
    limits between workers.
    """
    changes: dict[str, float] = {}
    if _is_set_by_project(settings, "DOWNLOAD_DELAY"):
        delay_s = settings.getfloat("DOWNLOAD_DELAY")
        changes["requests_per_second"] = 1 / delay_s if delay_s else 0.0
    if _is_set_by_project(settings, "CONCURRENT_REQUESTS_PER_DOMAIN"):
        changes["concurrent_per_host"] = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
    return config.model_copy(update=changes)


def _is_set_by_project(settings: BaseSettings, name: str) -> bool:
    """Returns True if the project, its spider or a command line sets it, and not only harvester's add-on."""
    return (settings.getpriority(name) or 0) > SETTINGS_PRIORITIES["addon"]


class Throttle:
    """Holds the pace by site, and adapts it to the site's responses."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._shared = HostLimiter(crawler, config, self._limits, self._show_pause_until)
        self._own = LocalLimiter(crawler, self._limits, self._show_pause_until)
        self._paces: dict[str, Pace] = {}
        self._refusals: Counter[str] = Counter()
        """Refusals in a row without a time, by site."""
        self._slow: set[str] = set()
        """Sites that are shown as slower than configured."""
        self._said: set[tuple[str, bool]] = set()
        """Sites with a log line that they became slower (True) or normal again (False)."""

    def limiter_of(self, name: str) -> Limiter:
        """Returns the limiter for a site: the shared one, or the local one for a site without a rate."""
        pace = self._pace(name)
        return self._shared if pace.limits.interval_s or pace.crawl_delay_s else self._own

    def set_crawl_delay(self, site_name: str, seconds: float) -> None:
        """Sets the Crawl-delay of the site's robots.txt, or 0 without one. It can only slow the site down.

        All workers at a Redis follow the slowest one.
        """
        if not load_sites().named(site_name).politeness.obey_crawl_delay or not isfinite(seconds):
            return
        if seconds > LONGEST_PACE_S:
            logger.warning("%s wants %g s between requests; %g s are kept", site_name, seconds, LONGEST_PACE_S)
        self._pace(site_name).crawl_delay_s = min(max(seconds, 0.0), LONGEST_PACE_S)

    def answered(
        self, limiter: Limiter, name: str, response: Response, captured: Sequence[Response], latency_s: float | None
    ) -> None:
        """Applies a response of the site. `captured` are the responses to the requests of a rendered page."""
        refusals = (answer for answer in reversed(captured) if answer.status in REFUSING)
        self._heed(limiter, name, next(refusals, response))
        if limiter is self._shared:
            self._watch(name, response.status, latency_s)

    def timed_out(self, name: str) -> None:
        """Records that no response came in time."""
        self._pace(name).slowdown.failed()
        self._show_pace(name)

    def _heed(self, limiter: Limiter, name: str, response: Response) -> None:
        """Applies the pauses and quotas of the response."""
        status = response.status
        said = rate_limits_of(response.headers)
        trouble, violated = problem_of(response) if status >= 400 else (None, frozenset[str]())
        wait = self._pace(name).heed(said.quotas, time.monotonic()) if said.quotas else 0.0
        refused = status in TOO_MANY or trouble is not None
        if refused and not wait:
            wait = max((quota.ends_in_s or 0.0 for quota in said.quotas if quota.name in violated), default=0.0)
            wait = wait or said.reset_s
        if said.retry_after_s and (status in REFUSING or 300 <= status < 400 or status >= 500):
            wait = said.retry_after_s
        if not refused and status != 503:
            self._refusals.pop(name, None)
        elif refused and trouble is RateLimitProblem.ABNORMAL_USAGE:
            wait = wait or WINDOW_S
        # During a pause, refusals of requests that were sent before it still arrive.
        elif refused and not wait and not limiter.is_paused(name):
            wait = min(UNSTATED_WAIT_S * 2 ** min(self._refusals[name], 10), WINDOW_S)
            self._refusals[name] += 1
        if wait:
            wait = min(wait, LONGEST_WAIT_S)
            limiter.pause(name, wait + random.uniform(0, min(wait / 20, MOST_JITTER_S)))

    def _watch(self, name: str, status: int, latency_s: float | None) -> None:
        """Slows the site down if its responses show that it is overloaded."""
        slowdown = self._pace(name).slowdown
        if status >= 500 and status not in (501, 505, *TOO_MANY):
            slowdown.failed()
        elif status not in REFUSING and latency_s is not None:
            slowdown.answered(latency_s)
        self._show_pace(name)

    def _pace(self, name: str) -> Pace:
        pace = self._paces.get(name)
        if pace is None:
            if len(self._paces) >= MOST_PACES:
                now = time.monotonic()
                self._paces = {name: pace for name, pace in self._paces.items() if pace.is_slowed(now)}
            pace = self._paces[name] = Pace(load_sites().named(name).politeness.limits(self._config))
            if pace.limits.interval_s and len(self._paces) <= MOST_LIMITS_SHOWN:
                self._crawler.stats.set_value(f"harvester/limit/{name}", round(1 / pace.limits.interval_s, 3))
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
        if is_slow is was_slow:
            return
        level = logging.DEBUG if (name, is_slow) in self._said else logging.INFO
        self._said.add((name, is_slow))
        if is_slow:
            self._slow.add(name)
            logger.log(level, "%s is asked every %.3g s, not every %.3g s", name, interval_s, configured_s)
        else:
            self._slow.remove(name)
            logger.log(level, "%s is asked every %.3g s again", name, interval_s)

    def _show_pause_until(self, name: str, seconds: float) -> None:
        logger.info("%s asks to wait %.0f s", name, seconds)
        self._crawler.stats.set_value(f"harvester/waiting/{name}", time.time() + seconds)

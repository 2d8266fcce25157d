"""The robots.txt files of origins: each read at most once a day, however many requests wait for it."""

import asyncio
import logging
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from time import monotonic

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Headers, Response
from scrapy.http.request import NO_CALLBACK

from harvester.components import get_component
from harvester.download.addresses import host_of, origin_of
from harvester.exceptions import RedirectError
from harvester.internal_meta import DONT_OBEY, SITE_FILE
from harvester.outcomes import Outcome, Verdict, classify_exception
from harvester.parsers.web.robots import AI_TOKENS, Robots, RobotsRules, parse_robots, path_of
from harvester.politeness.rate_limits import LONGEST_WAIT_S, retry_after
from harvester.politeness.throttle import TOO_MANY, throttle_of
from harvester.proxies.budget import BudgetSpent
from harvester.shutdown import RunEnding, pause
from harvester.sites import load_sites

logger = logging.getLogger(__name__)

LONGEST_KEPT_S = 24 * 3600.0
"""Seconds that a robots.txt counts if it names no time, and at most (RFC 9309, section 2.4)."""
SHORTEST_KEPT_S = 600.0
"""Seconds that a robots.txt counts at least, even with no-store, so that it is not read before each page."""
TIMEOUT_S = 30.0
FIRST_BACKOFF_S = 5.0
"""Seconds until the first retry of an unreadable robots.txt; doubled for each further failure in a row."""
MOST_BACKOFF_S = 600.0
UNSTATED_WAIT_S = 60.0
"""Seconds to wait after a "too many requests" that names no time."""
MOST_ORIGINS = 5_000
"""Maximum number of origins whose robots.txt is saved; a crawl of pictures meets many hosts."""
UNREADABLE = {407: Outcome.PROXY, 408: Outcome.TIMEOUT, **dict.fromkeys(TOO_MANY, Outcome.RATE_LIMITED)}
"""Statuses, beside the server errors, that do not mean "no rules"."""


def robots_of(crawler: Crawler) -> "RobotsFiles":
    """Returns the crawl's RobotsFiles."""
    return get_component(crawler, RobotsFiles, lambda: RobotsFiles(crawler))


def site_file(origin: str, path: str) -> Request:
    """Returns a request for a file with a site's rules for robots. It is sent once and never retried."""
    meta = {DONT_OBEY: True, SITE_FILE: True, "dont_retry": True, "download_timeout": TIMEOUT_S}
    return Request(origin + path, callback=NO_CALLBACK, priority=1000, dont_filter=True, meta=meta)


class OriginRobots:
    """The state of the robots.txt for one scheme, host and port. Times are monotonic."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.site = load_sites().of(url).name
        self.robots: Robots | None = None
        self.rules = RobotsRules()
        self.delay_s = 0.0
        self.until = 0.0
        """Time when it must be read again."""
        self.failure: Verdict | None = None
        """The reason why it was unreadable the last time."""
        self.error: Exception | None = None
        """The exception that came in place of a response."""
        self.failures = 0
        """Failures in a row."""
        self.unpaid: BudgetSpent | None = None
        """The spent proxy budget that prevented the last request for it, which proves nothing about the site."""
        self.retry_at = 0.0
        self.asked_at = 0.0
        self.asking: asyncio.Task[None] | None = None


class RobotsFiles:
    """Reads the robots.txt files, applies their rules and delays, and retries those that cannot be read.

    HARVESTER_BACKOFF_FACTOR (default 1.0) multiplies the time before each retry; for tests of retries.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._token = crawler.settings.get("ROBOTSTXT_USER_AGENT") or crawler.settings["BOT_NAME"]
        self._obey = crawler.settings.getbool("ROBOTSTXT_OBEY")
        self._factor = crawler.settings.getfloat("HARVESTER_BACKOFF_FACTOR", 1.0)
        self._origins: dict[str, OriginRobots] = {}
        self.on_miss: Callable[[Request, Verdict, Response | None], object] = lambda request, verdict, response: None
        """Called with each request for a robots.txt that could not be read, because nothing else reports its
        outcome."""

    async def robots(self, url: str) -> Robots | None:
        """Returns the robots.txt of an address's origin; None when it cannot be read now."""
        origin = self.origin(url)
        while monotonic() >= origin.until and (asking := self.ask(origin)):
            await asyncio.wait([asking])
            asking.result()  # raises a programming error here, instead of asking forever
            await pause(self._crawler, 0.0)
        return origin.robots

    @property
    def token(self) -> str:
        """The name that robots.txt uses for harvester."""
        return str(self._token)

    def forbids(self, url: str, origin: OriginRobots) -> str:
        """Returns the reason why robots.txt forbids an address of the origin; empty when it is allowed."""
        path = path_of(url)
        rule = origin.rules.of(path)
        if rule is None or rule.allowed or path == "/robots.txt":
            return ""
        self._stats.inc_value("harvester/robots/forbidden")
        return f"robots.txt of {host_of(url)} forbids {path[:200]}: {rule.text}"

    def obeyed(self, url: str) -> bool:
        """Returns True if robots.txt binds requests for an address, by the settings and the entry of the site."""
        return self._obey and url.startswith("http") and load_sites().of(url).politeness.obey_robots

    def origin(self, url: str) -> OriginRobots:
        """Returns the state of the robots.txt of an address's origin."""
        name = origin_of(url)
        origin = self._origins.get(name)
        if origin is None:
            if len(self._origins) >= MOST_ORIGINS:
                oldest = next(iter(self._origins))
                del self._origins[oldest]
            origin = self._origins[name] = OriginRobots(name)
        return origin

    def ask(self, origin: OriginRobots) -> "asyncio.Task[None] | None":
        """Returns the one request for the origin's robots.txt that is under way; None while it is too early for
        another."""
        if origin.asking is None and monotonic() >= max(origin.retry_at, origin.until):
            origin.asked_at = monotonic()
            origin.asking = asyncio.create_task(self._fetch(origin))
        return origin.asking

    async def _fetch(self, origin: OriginRobots) -> None:
        request = site_file(origin.url, "/robots.txt")
        assert self._crawler.engine
        request.meta["download_timeout"] = min(TIMEOUT_S, self._crawler.settings.getfloat("DOWNLOAD_TIMEOUT"))
        origin.unpaid, origin.error = None, None
        try:
            response = await self._crawler.engine.download_async(request)
        except RunEnding:
            pass  # the waiting requests notice the end of the run themselves
        except BudgetSpent as spent:
            origin.unpaid, origin.retry_at = spent, monotonic() + spent.seconds
        except Exception as error:  # noqa: BLE001  any error means that robots.txt was not read
            if isinstance(error, RedirectError):
                self._learn(origin, b"", None)  # RFC 9309, section 2.3.1.2: counts as no robots.txt
            else:
                origin.error = error
                self._miss(origin, request, classify_exception(error), None)
        else:
            if response.status >= 500 or response.status in UNREADABLE:
                outcome = UNREADABLE.get(response.status, Outcome.SERVER_ERROR)
                self._miss(origin, request, Verdict(outcome, f"HTTP {response.status}"), response)
            else:
                self._learn(origin, response.body if 200 <= response.status < 300 else b"", response)
        finally:
            origin.asking = None

    def _learn(self, origin: OriginRobots, body: bytes, response: Response | None) -> None:
        origin.robots = parse_robots(body, [self.token, *AI_TOKENS])
        ours = origin.robots.to(self.token)
        origin.rules = RobotsRules(ours.rules)
        origin.until = monotonic() + kept_for(response.headers if response else Headers())
        origin.failure, origin.failures = None, 0
        self._stats.inc_value("harvester/robots/read" if origin.robots.groups else "harvester/robots/none")
        origin.delay_s = ours.delay_s
        delays = (each.delay_s for each in self._origins.values() if each.site == origin.site)
        throttle_of(self._crawler).set_crawl_delay(origin.site, max(delays, default=0.0))

    def _miss(self, origin: OriginRobots, request: Request, verdict: Verdict, response: Response | None) -> None:
        origin.failure = verdict._replace(reason=f"{verdict.reason}, when robots.txt was asked for")
        origin.failures += 1
        wait = min(FIRST_BACKOFF_S * 2 ** min(origin.failures - 1, 16), MOST_BACKOFF_S) * self._factor
        if response is not None and response.status in (*TOO_MANY, 503):
            asked, unstated = retry_after(response.headers), UNSTATED_WAIT_S if response.status in TOO_MANY else 0.0
            wait = max(wait, unstated if asked is None else asked)
        wait = min(wait, LONGEST_WAIT_S)
        origin.retry_at = monotonic() + wait
        self._stats.inc_value("harvester/robots/unreadable")
        logger.info("%s/robots.txt cannot be read: %s", origin.url, verdict.reason)
        self.on_miss(request, verdict, response)


def kept_for(headers: Headers) -> float:
    """Returns the seconds that a response counts as robots.txt: from its headers, within bounds."""
    control = (headers.get("Cache-Control") or b"").decode("latin-1").lower()
    directives = dict(part.strip().partition("=")[::2] for part in control.split(","))
    seconds = LONGEST_KEPT_S
    if "no-store" in directives or "no-cache" in directives:
        seconds = 0.0
    elif (age := directives.get("max-age", "").strip('"')).isdecimal():
        seconds = float(age)
    elif expires := (headers.get("Expires") or b"").decode("latin-1"):
        seconds = _until(expires)
    return min(max(seconds, SHORTEST_KEPT_S), LONGEST_KEPT_S)


def _until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0  # RFC 9111, section 5.3: an invalid date is in the past

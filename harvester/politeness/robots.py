"""The robots.txt of each origin: read once a day at most, however many requests wait for it."""

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
from harvester.meta import DONT_OBEY, SITE_FILE
from harvester.outcomes import Outcome, Verdict, classify_exception
from harvester.parsers.web.robots import AI_TOKENS, Robots, RobotsRules, parse_robots, path_of
from harvester.politeness.rate_limits import LONGEST_WAIT_S, retry_after
from harvester.politeness.throttle import TOO_MANY, throttle_of
from harvester.proxies.budget import BudgetSpent
from harvester.shutdown import RunEnding, pause
from harvester.sites import load_sites

logger = logging.getLogger(__name__)

LONGEST_KEPT_S = 24 * 3600.0
"""How long a robots.txt counts that names no time, and at most (RFC 9309, section 2.4)."""
SHORTEST_KEPT_S = 600.0
"""How long one counts that is not to be cached: it is not asked for before each page."""
TIMEOUT_S = 30.0
FIRST_BACKOFF_S = 5.0
"""After a robots.txt that could not be read; doubled for each further time in a row."""
MOST_BACKOFF_S = 600.0
UNSTATED_WAIT_S = 60.0
"""After an answer that it is asked too much, which names no time."""
MOST_ORIGINS = 5_000
"""Whose robots.txt is kept; a crawl of pictures meets many hosts."""
UNREADABLE = {407: Outcome.PROXY, 408: Outcome.TIMEOUT, **dict.fromkeys(TOO_MANY, Outcome.RATE_LIMITED)}
"""Statuses, beside those of errors of the server, that do not say that there are no rules."""


def robots_of(crawler: Crawler) -> "RobotsFiles":
    """Those of the crawl."""
    return get_component(crawler, RobotsFiles, lambda: RobotsFiles(crawler))


def site_file(origin: str, path: str) -> Request:
    """A request for a file in which a site says what robots may do: asked for once, whatever it says."""
    meta = {DONT_OBEY: True, SITE_FILE: True, "dont_retry": True, "download_timeout": TIMEOUT_S}
    return Request(origin + path, callback=NO_CALLBACK, priority=1000, dont_filter=True, meta=meta)


class OriginRobots:
    """What is known of the robots.txt of one scheme, host and port. Times are monotonic."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.site = load_sites().of(url).name
        self.robots: Robots | None = None
        self.rules = RobotsRules()
        self.delay_s = 0.0
        self.until = 0.0
        """When it must be read again."""
        self.failure: Verdict | None = None
        """Why it could not be read the last time."""
        self.error: Exception | None = None
        """What was raised in place of an answer, if it was that."""
        self.failures = 0
        """In a row."""
        self.unpaid: BudgetSpent | None = None
        """Why it was not asked for the last time, if there was no money for a proxy: that says nothing of the site."""
        self.retry_at = 0.0
        self.asked_at = 0.0
        self.asking: asyncio.Task[None] | None = None


class RobotsFiles:
    """Asks for them, learns from them the rules and the delays, and asks again later for those that cannot be read.

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
        """Hears of each request for a robots.txt that could not be read; its outcome is told by nobody else."""

    async def robots(self, url: str) -> Robots | None:
        """The robots.txt that an address belongs to; None when it cannot be read now."""
        origin = self.origin(url)
        while monotonic() >= origin.until and (asking := self.ask(origin)):
            await asyncio.wait([asking])
            asking.result()  # a fault of this program must not be asked about for ever
            await pause(self._crawler, 0.0)
        return origin.robots

    @property
    def token(self) -> str:
        """The name by which robots.txt addresses harvester."""
        return str(self._token)

    def forbids(self, url: str, origin: OriginRobots) -> str:
        """Why an address of the origin must not be asked for, by its robots.txt; empty when it may be."""
        path = path_of(url)
        rule = origin.rules.of(path)
        if rule is None or rule.allowed or path == "/robots.txt":
            return ""
        self._stats.inc_value("harvester/robots/forbidden")
        return f"robots.txt of {host_of(url)} forbids {path[:200]}: {rule.text}"

    def obeyed(self, url: str) -> bool:
        """Whether robots.txt binds requests for an address, by the settings and the entry of its site."""
        return self._obey and url.startswith("http") and load_sites().of(url).politeness.obey_robots

    def origin(self, url: str) -> OriginRobots:
        """What is known of the robots.txt that an address belongs to."""
        name = origin_of(url)
        origin = self._origins.get(name)
        if origin is None:
            if len(self._origins) >= MOST_ORIGINS:
                oldest = next(iter(self._origins))
                del self._origins[oldest]
            origin = self._origins[name] = OriginRobots(name)
        return origin

    def ask(self, origin: OriginRobots) -> "asyncio.Task[None] | None":
        """The one request for the origin's robots.txt that is under way; None while it is too early for another."""
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
            pass  # those who wait learn of it by themselves
        except BudgetSpent as spent:
            origin.unpaid, origin.retry_at = spent, monotonic() + spent.seconds
        except Exception as error:  # noqa: BLE001  whatever it is, robots.txt was not read
            if isinstance(error, RedirectError):
                self._learn(origin, b"", None)  # RFC 9309, section 2.3.1.2: as if there were none
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
    """Seconds for which an answer counts as robots.txt: as its headers say, within bounds."""
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
        return 0.0  # RFC 9111, section 5.3: what is no date is in the past

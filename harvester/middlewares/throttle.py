"""Downloader middleware: each host is asked no faster than it allows, and not at all while it says wait.

It stands nearest the network, so that nothing else can send a request past it. Scrapy's own slots cannot hold
back what they have queued, and ignore Retry-After and the rate-limit headers; hence the waiting is done here.
"""

import asyncio
import logging
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Headers, Response

from harvester.config import Config, load_config
from harvester.ending import CHECK_S, Stopped, is_ending, pause

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 3600.0
"""What a server may ask for with one answer."""
UNSTATED_WAIT_S = 5.0
"""After a 429 that names no time; doubled for each further one in a row, at most WINDOW_S."""
WINDOW_S = 300.0
"""Bluesky's rate-limit window."""
HEADROOM = 5
"""Requests left in a window below which the rest of the window is waited for."""
_TURN = "harvester_turn"


class Host:
    """The state of one host: who may ask it, and when."""

    def __init__(self, concurrency: int, interval_s: float) -> None:
        self.places = asyncio.Semaphore(concurrency)
        self.interval_s = interval_s
        self.next_at = 0.0
        """On the monotonic clock, so that setting the machine's clock stops nobody."""
        self.silent_until = 0.0
        """Likewise."""
        self.refusals = 0


class ThrottleMiddleware:
    """Spaces the requests to each host and obeys its Retry-After and RateLimit headers."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._concurrency = config.concurrent_per_host
        self._interval_s = 1 / config.requests_per_second if config.requests_per_second else 0.0
        if not config.requests_per_second:
            self._concurrency = max(self._concurrency, 16)
        self._hosts: dict[str, Host] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    async def process_request(self, request: Request) -> None:
        name = urlsplit(request.url).netloc
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host(self._concurrency, self._interval_s)
        await host.places.acquire()
        request.meta[_TURN] = name
        if is_ending(self._crawler):
            raise Stopped("the crawl is being stopped")
        while (wait := max(host.silent_until, host.next_at) - time.monotonic()) > 0:
            await pause(self._crawler, min(wait, CHECK_S))
        host.next_at = time.monotonic() + host.interval_s

    def process_response(self, request: Request, response: Response) -> Response:
        name = self._leave(request)
        host = self._hosts[name] if name else None
        if host is not None and name:
            if response.status in (429, 503):
                self._silence(name, host, response)
            else:
                host.refusals = 0
                wait = exhausted_for(response.headers)
                if wait:
                    self._wait(name, host, wait)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._leave(request)

    def _leave(self, request: Request) -> str | None:
        name: str | None = request.meta.pop(_TURN, None)
        if name:
            self._hosts[name].places.release()
        return name

    def _silence(self, name: str, host: Host, response: Response) -> None:
        wait = retry_after(response.headers)
        if response.status == 429:
            wait = wait or reset_in(response.headers)
            # While the host is left alone, refusals are still coming in of what was sent before.
            if not wait and host.silent_until <= time.monotonic():
                wait = min(UNSTATED_WAIT_S * 2 ** min(host.refusals, 10), WINDOW_S)
                host.refusals += 1
        if wait:
            self._wait(name, host, wait)

    def _wait(self, name: str, host: Host, seconds: float) -> None:
        seconds = min(seconds, LONGEST_WAIT_S)
        until = time.monotonic() + seconds
        if until > host.silent_until + 1:
            logger.info("%s asks to wait %.0f s", name, seconds)
        if until > host.silent_until:
            host.silent_until = until
            self._crawler.stats.set_value(f"harvester/waiting/{name}", time.time() + seconds)


def retry_after(headers: Headers) -> float | None:
    """Seconds that Retry-After asks to wait (RFC 9110: seconds or a date); None when absent or malformed."""
    value = _text(headers, "Retry-After")
    if not value:
        return None
    if (seconds := _number(value)) is not None:
        return max(0.0, seconds)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, _in_utc(at).timestamp() - time.time())


def exhausted_for(headers: Headers) -> float | None:
    """Seconds until the window resets, when (almost) nothing of it is left."""
    remaining = _number(_text(headers, "RateLimit-Remaining") or _text(headers, "X-RateLimit-Remaining"))
    limit = _number(_text(headers, "RateLimit-Limit") or _text(headers, "X-RateLimit-Limit"))
    few = HEADROOM if limit is None else min(HEADROOM, limit / 10)
    return reset_in(headers) if remaining is not None and remaining <= few else None


def reset_in(headers: Headers) -> float | None:
    """Seconds until the window resets. Over 1e9 is an epoch (Bluesky), with a T an ISO time, else seconds."""
    value = _text(headers, "RateLimit-Reset") or _text(headers, "X-RateLimit-Reset")
    if "T" in value:
        try:
            return max(0.0, _in_utc(datetime.fromisoformat(value)).timestamp() - time.time())
        except (ValueError, OverflowError):
            return None
    seconds = _number(value)
    return None if seconds is None else max(0.0, seconds - time.time() if seconds > 1e9 else seconds)


def _in_utc(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _text(headers: Headers, name: str) -> str:
    return (headers.get(name) or b"").decode("latin-1").strip()

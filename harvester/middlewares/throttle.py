"""Downloader middleware: each host is asked no faster than it allows, and not at all while it says wait.

It stands nearest the network, so that nothing else can send a request past it. Scrapy's own slots cannot hold
back what they have queued, and ignore Retry-After and the rate-limit headers; hence the waiting is done here.
"""

import asyncio
import logging
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Headers, Response

from harvester.config import Config, load_config

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 3600.0
"""What a server may ask for with one answer."""
UNSTATED_WAIT_S = 5.0
"""After a 429 that names no time; doubled for each further one in a row, at most WINDOW_S."""
WINDOW_S = 300.0
"""Bluesky's rate-limit window."""
HEADROOM = 5
"""Requests left in a window below which the rest of the window is waited for."""
_CHECK_S = 0.25
_TURN = "harvester_turn"


class Host:
    """The state of one host: who may ask it, and when."""

    def __init__(self, concurrency: int, interval_s: float) -> None:
        self.places = asyncio.Semaphore(concurrency)
        self.interval_s = interval_s
        self.next_at = 0.0
        self.silent_until = 0.0
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
        while (wait := max(host.silent_until, host.next_at) - time.time()) > 0:
            engine = self._crawler.engine
            if engine is None or not engine.running:
                raise IgnoreRequest("the crawl is being stopped")
            await asyncio.sleep(min(wait, _CHECK_S))
        host.next_at = time.time() + host.interval_s

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
        if wait is None and response.status == 429:
            host.refusals += 1
            reset = reset_in(response.headers)
            wait = reset if reset is not None else min(UNSTATED_WAIT_S * 2 ** (host.refusals - 1), WINDOW_S)
        if wait:
            self._wait(name, host, wait)

    def _wait(self, name: str, host: Host, seconds: float) -> None:
        until = time.time() + min(seconds, LONGEST_WAIT_S)
        if until > host.silent_until + 1:
            logger.info("%s asks to wait %.0f s", name, seconds)
        host.silent_until = max(host.silent_until, until)
        self._crawler.stats.set_value(f"harvester/waiting/{name}", host.silent_until)


def retry_after(headers: Headers) -> float | None:
    """Seconds that Retry-After asks to wait (RFC 9110: seconds or a date); None when absent or malformed."""
    value = _text(headers, "Retry-After")
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time())


def exhausted_for(headers: Headers) -> float | None:
    """Seconds until the window resets, when (almost) nothing of it is left."""
    try:
        remaining = float(_text(headers, "RateLimit-Remaining") or _text(headers, "X-RateLimit-Remaining"))
        limit = float(_text(headers, "RateLimit-Limit") or _text(headers, "X-RateLimit-Limit") or "inf")
    except ValueError:
        return None
    return reset_in(headers) if remaining <= min(HEADROOM, limit / 10) else None


def reset_in(headers: Headers) -> float | None:
    """Seconds until the window resets. Over 1e9 is an epoch (Bluesky), with a T an ISO time, else seconds."""
    value = _text(headers, "RateLimit-Reset") or _text(headers, "X-RateLimit-Reset")
    try:
        if "T" in value:
            return max(0.0, datetime.fromisoformat(value).timestamp() - time.time())
        seconds = float(value)
    except ValueError:
        return None
    return max(0.0, seconds - time.time() if seconds > 1e9 else seconds)


def _text(headers: Headers, name: str) -> str:
    return (headers.get(name) or b"").decode("latin-1").strip()

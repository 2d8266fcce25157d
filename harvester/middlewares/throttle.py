"""Downloader middleware: each host is asked no faster than it allows, and not at all while it says wait.

All workers that use one Redis share the limits (frontier/turns.py); with requests_per_second=0 there are none to share.

It stands nearest the network, so that nothing else can send a request past it. Scrapy's own slots cannot hold
back what they have queued, and ignore Retry-After and the rate-limit headers; hence the waiting is done here.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Protocol, Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Headers, Response

from harvester.config import Config, load_config
from harvester.ending import CHECK_S, pause
from harvester.frontier.leases import LEASE, NOT_BEFORE, WHY
from harvester.frontier.turns import LONG_S, SharedTurns, Silenced
from harvester.outcomes import Outcome

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
_OWN_SERVERS_AT_ONCE = 16


class Turns(Protocol):
    """Who may ask a host, and when."""

    async def take(self, name: str, *, patient: bool = True) -> None:
        """Waits until a request may go to the host. Raises Stopped, and Silenced to who is not patient."""

    def leave(self, name: str) -> None:
        """The request has come to its end."""

    def is_silent(self, name: str) -> bool:
        """Whether the host wants to be left alone now."""

    def silence(self, name: str, seconds: float) -> None:
        """The host wants to be left alone."""


class OwnServers:
    """Turns at servers of one's own: any number of them, at so many places a process, and no traffic with Redis."""

    def __init__(self, crawler: Crawler, concurrency: int, on_silence: Callable[[str, float], None]) -> None:
        self._crawler = crawler
        self._on_silence = on_silence
        self._places: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(concurrency))
        self._silent_until: defaultdict[str, float] = defaultdict(float)
        """On the monotonic clock, so that setting the machine's clock stops nobody."""

    async def take(self, name: str, *, patient: bool = True) -> None:
        await self._places[name].acquire()
        try:
            await pause(self._crawler, 0.0)
            while (wait := self._silent_until[name] - time.monotonic()) > 0:
                if wait > LONG_S and not patient:
                    raise Silenced(wait)  # noqa: TRY301
                await pause(self._crawler, min(wait, CHECK_S))
        except BaseException:
            self.leave(name)
            raise

    def leave(self, name: str) -> None:
        self._places[name].release()

    def is_silent(self, name: str) -> bool:
        return self._silent_until[name] > time.monotonic()

    def silence(self, name: str, seconds: float) -> None:
        until, known = time.monotonic() + seconds, self._silent_until[name]
        if until > known + 1:
            self._on_silence(name, seconds)
        self._silent_until[name] = max(until, known)


class ThrottleMiddleware:
    """Sends a request when it is its turn, and obeys the host's Retry-After and RateLimit headers."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._turns: Turns
        if config.requests_per_second:
            self._turns = SharedTurns(crawler, config, self._show_silence)
        else:
            concurrency = max(config.concurrent_per_host, _OWN_SERVERS_AT_ONCE)
            self._turns = OwnServers(crawler, concurrency, self._show_silence)
        self._refusals: Counter[str] = Counter()
        """In a row, by host; of those that named no time."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    async def process_request(self, request: Request) -> Request | None:
        """A request of the frontier waits there while its host wants to be left alone for long."""
        name = urlsplit(request.url).netloc.rpartition("@")[2].lower()
        try:
            await self._turns.take(name, patient=LEASE not in request.meta)
        except Silenced as silence:
            again = request.replace(dont_filter=True)
            again.meta[NOT_BEFORE] = time.time() + silence.seconds
            again.meta[WHY] = (Outcome.RATE_LIMITED, f"{name} asks to wait", False)
            return again
        request.meta[_TURN] = name
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        name = request.meta.get(_TURN)
        if name:
            if response.status in (429, 503):
                self._heed_refusal(name, response)
            else:
                self._refusals.pop(name, None)
                wait = exhausted_for(response.headers)
                if wait:
                    self._turns.silence(name, min(wait, LONGEST_WAIT_S))
        self._leave(request)  # after the silence has begun, so that no other request slips in
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._leave(request)

    def _leave(self, request: Request) -> None:
        name = request.meta.pop(_TURN, None)
        if name:
            self._turns.leave(name)

    def _heed_refusal(self, name: str, response: Response) -> None:
        wait = retry_after(response.headers)
        if response.status == 429:
            wait = wait or reset_in(response.headers)
            # While the host is left alone, refusals are still coming in of what was sent before.
            if not wait and not self._turns.is_silent(name):
                wait = min(UNSTATED_WAIT_S * 2 ** min(self._refusals[name], 10), WINDOW_S)
                self._refusals[name] += 1
        if wait:
            self._turns.silence(name, min(wait, LONGEST_WAIT_S))

    def _show_silence(self, name: str, seconds: float) -> None:
        logger.info("%s asks to wait %.0f s", name, seconds)
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

"""Sites of the street that allow so many requests in a window, and say so in the dialects of the web."""

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from math import ceil
from typing import NamedTuple

from tests.sandbox.street_house import TOO_MANY_PAGE, Answer, Asked, House
from tests.sandbox.street_plan import HousePlan

Headers = tuple[tuple[str, str], ...]


class Allowance(NamedTuple):
    """What is left of a window after a request."""

    limit: int
    window_s: int
    remaining: int
    reset_s: float
    """Until there is more."""
    admitted: bool


class FixedWindow:
    """As those keep it who tell when it resets. Windows begin at multiples of their length on the wall clock."""

    def __init__(self, limit: int, window_s: int) -> None:
        self._limit, self._window_s = limit, window_s
        self._number = self._used = 0

    def ask(self) -> Allowance:
        at = time.time()
        number = int(at // self._window_s)
        if number != self._number:
            self._number, self._used = number, 0
        admitted = self._used < self._limit
        self._used += admitted
        reset_s = (number + 1) * self._window_s - at
        return Allowance(self._limit, self._window_s, self._limit - self._used, reset_s, admitted)


class SlidingWindow:
    """As those keep it who tell nothing before they refuse: the requests of the last seconds count."""

    def __init__(self, limit: int, window_s: int) -> None:
        self._limit, self._window_s = limit, window_s
        self._admitted: deque[float] = deque()

    def ask(self) -> Allowance:
        at = time.monotonic()
        while self._admitted and self._admitted[0] <= at - self._window_s:
            self._admitted.popleft()
        admitted = len(self._admitted) < self._limit
        if admitted:
            self._admitted.append(at)
        reset_s = self._admitted[0] + self._window_s - at
        return Allowance(self._limit, self._window_s, self._limit - len(self._admitted), reset_s, admitted)


class Dialect(NamedTuple):
    """How a site tells its limit."""

    window: type[FixedWindow] | type[SlidingWindow]
    always: Callable[[Allowance], Headers] = lambda left: ()
    """Headers of every answer."""
    refusing: Callable[[Allowance], Headers] = lambda left: ()
    """Further ones of a refusal."""
    status: int = 429
    body: bytes = TOO_MANY_PAGE
    kind: str = "text/html"


def _retry_after(left: Allowance) -> Headers:
    return (("Retry-After", str(ceil(left.reset_s))),)


def _retry_date(left: Allowance) -> Headers:
    at = datetime.fromtimestamp(ceil(time.time() + left.reset_s), UTC)
    return (("Retry-After", format_datetime(at, usegmt=True)),)


def _draft11(left: Allowance) -> Headers:
    return (
        ("RateLimit-Policy", f'"default";q={left.limit};w={left.window_s}'),
        ("RateLimit", f'"default";r={left.remaining};t={ceil(left.reset_s)}'),
    )


def _draft06(left: Allowance) -> Headers:
    return _named("RateLimit", left, str(ceil(left.reset_s)))


def _bluesky(left: Allowance) -> Headers:
    return (*_named("RateLimit", left, _epoch(left)), ("RateLimit-Policy", f"{left.limit};w={left.window_s}"))


def _github(left: Allowance) -> Headers:
    used = ("X-RateLimit-Used", str(left.limit - left.remaining))
    return (*_named("X-RateLimit", left, _epoch(left)), used)


def _mastodon(left: Allowance) -> Headers:
    at = datetime.fromtimestamp(int(_epoch(left)), UTC)
    return _named("X-RateLimit", left, at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def _reddit(left: Allowance) -> Headers:
    return (
        ("x-ratelimit-used", str(left.limit - left.remaining)),
        ("x-ratelimit-remaining", f"{left.remaining:.1f}"),
        ("x-ratelimit-reset", str(ceil(left.reset_s))),
    )


def _named(prefix: str, left: Allowance, reset: str) -> Headers:
    named = {"Limit": str(left.limit), "Remaining": str(left.remaining), "Reset": reset}
    return tuple((f"{prefix}-{name}", value) for name, value in named.items())


def _epoch(left: Allowance) -> str:
    return str(round(time.time() + left.reset_s))


_JSON = "application/json"
DIALECTS = {
    "retry_after": Dialect(SlidingWindow, refusing=_retry_after),
    "retry_date": Dialect(SlidingWindow, refusing=_retry_date),
    "draft11": Dialect(
        FixedWindow,
        _draft11,
        kind="application/problem+json",
        body=b'{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded"}',
    ),
    "draft06": Dialect(FixedWindow, _draft06, kind=_JSON, body=b'{"error":"too many requests"}'),
    "bluesky": Dialect(
        FixedWindow,
        _bluesky,
        _retry_after,
        kind=_JSON,
        body=b'{"error":"RateLimitExceeded","message":"Rate Limit Exceeded"}',
    ),
    "github": Dialect(FixedWindow, _github, kind=_JSON, body=b'{"message":"API rate limit exceeded for 127.0.0.1."}'),
    "mastodon": Dialect(FixedWindow, _mastodon, kind=_JSON, body=b'{"error":"Too many requests"}'),
    "reddit": Dialect(FixedWindow, _reddit, kind=_JSON, body=b'{"message":"Too Many Requests","error":429}'),
    "bare": Dialect(SlidingWindow),
    "unavailable": Dialect(SlidingWindow, refusing=_retry_after, status=503),
}


class LimitedHouse(House):
    """Counts what is over its limit as `over`; all requests count, robots.txt too."""

    def __init__(self, plan: HousePlan) -> None:
        super().__init__(plan)
        self._dialect = DIALECTS[plan.dialect]
        self._window = self._dialect.window(plan.limit, plan.window_s)

    def _answer(self, asked: Asked, now: float) -> Answer:
        left, dialect = self._window.ask(), self._dialect
        headers = dialect.always(left)
        if not left.admitted:
            return Answer(dialect.status, dialect.body, dialect.kind, headers + dialect.refusing(left), note="over")
        return super()._answer(asked, now)._replace(headers=headers)

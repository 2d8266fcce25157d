"""Reads the rate limits from the headers and the problem document of a response."""

import time

from scrapy.http import Headers, Response

from harvester.parsers.web.rate_limits import NAMES, RateLimitProblem, RateLimits, problem, rate_limits

LONGEST_WAIT_S = 3600.0
"""Seconds that one response may ask to wait, at most."""
_READ = frozenset(name.title().encode() for name in NAMES)
_NOTHING = RateLimits()


def rate_limits_of(headers: Headers) -> RateLimits:
    """Returns the rate limits in the headers of a response."""
    if _READ.isdisjoint(headers):
        return _NOTHING
    read = [name for name in headers if name in _READ or name == b"Date"]
    texts = {name.decode().lower(): b", ".join(headers.getlist(name)).decode("latin-1").strip() for name in read}
    return rate_limits(texts, time.time())


def retry_after(headers: Headers) -> float | None:
    """Returns the seconds that Retry-After asks to wait; None when absent or malformed."""
    return rate_limits_of(headers).retry_after_s


def reset_in(headers: Headers) -> float | None:
    """Returns the seconds until all reported windows reset; None without a reported reset."""
    return max((quota.reset_s for quota in rate_limits_of(headers).quotas if quota.reset_s is not None), default=None)


def problem_of(response: Response) -> tuple[RateLimitProblem | None, frozenset[str]]:
    """Returns the problem in the response (RFC 9457), and the policies that it reports as violated."""
    kind, encoding = (
        (response.headers.get(name) or b"").decode("latin-1") for name in ("Content-Type", "Content-Encoding")
    )
    return problem(kind, encoding, response.body) or (None, frozenset())

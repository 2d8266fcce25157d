"""What an answer's headers and problem document say of how much may be asked."""

import time

from scrapy.http import Headers, Response

from harvester.parsers.web.rate_limits import NAMES, RateLimitProblem, RateLimits, problem, rate_limits

LONGEST_WAIT_S = 3600.0
"""What a server may ask for with one answer."""
_READ = frozenset(name.title().encode() for name in NAMES)
_NOTHING = RateLimits()


def rate_limits_of(headers: Headers) -> RateLimits:
    """What an answer's headers say of how much may be asked."""
    if _READ.isdisjoint(headers):
        return _NOTHING
    read = [name for name in headers if name in _READ or name == b"Date"]
    texts = {name.decode().lower(): b", ".join(headers.getlist(name)).decode("latin-1").strip() for name in read}
    return rate_limits(texts, time.time())


def retry_after(headers: Headers) -> float | None:
    """Seconds that Retry-After asks to wait; None when absent or malformed."""
    return rate_limits_of(headers).retry_after_s


def reset_in(headers: Headers) -> float | None:
    """Seconds until all windows reset that the headers tell of; None when they tell of no reset."""
    return max((quota.reset_s for quota in rate_limits_of(headers).quotas if quota.reset_s is not None), default=None)


def problem_of(response: Response) -> tuple[RateLimitProblem | None, frozenset[str]]:
    """The problem that the answer names (RFC 9457), and the policies that it says were violated."""
    kind, encoding = (
        (response.headers.get(name) or b"").decode("latin-1") for name in ("Content-Type", "Content-Encoding")
    )
    return problem(kind, encoding, response.body) or (None, frozenset())

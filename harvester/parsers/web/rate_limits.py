"""Parses the rate limits in a response: Retry-After, and the rate-limit headers in all their dialects.

IETF draft-ietf-httpapi-ratelimit-headers, the current one (11) and older ones; Bluesky, GitHub, Mastodon, Reddit, Kong,
and other X-RateLimit headers. Malformed values are ignored.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

import http_sf

_PREFIXES = ("ratelimit", "x-ratelimit", "x-rate-limit")
_UNITS_S = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}
NAMES = frozenset(
    ["retry-after", "ratelimit", "ratelimit-policy"]
    + [f"{prefix}-{name}" for prefix in _PREFIXES for name in ("limit", "remaining", "reset", "used", "reset-after")]
    + [f"x-ratelimit-{name}-{unit}" for name in ("limit", "remaining") for unit in _UNITS_S]
)
"""The headers that are read, except Date, in lower case."""
_LEFT_OF = {f"x-ratelimit-remaining-{unit}": (unit, seconds) for unit, seconds in _UNITS_S.items()}
_EPOCH = 1e9
"""A larger number is an epoch, a smaller one is a duration."""
_EPOCH_MS = 1e11
_MOST_PROBLEM_BYTES = 65_536


class ReportedQuota(NamedTuple):
    """A limit, as far as a response states it."""

    most: float | None = None
    """Maximum number of units in a window."""
    window_s: float | None = None
    left: float | None = None
    """Units that may still be used until the reset."""
    reset_s: float | None = None
    """Seconds until more units may be used."""
    name: str = ""
    unit: str = "requests"
    """`requests`, `content-bytes` or `concurrent-requests`."""

    @property
    def ends_in_s(self) -> float | None:
        """Seconds until more units are certainly available."""
        return self.window_s if self.reset_s is None else self.reset_s


class RateLimits(NamedTuple):
    """All limits in a response."""

    retry_after_s: float | None = None
    quotas: tuple[ReportedQuota, ...] = ()

    @property
    def reset_s(self) -> float:
        """Seconds until all quotas are reset that do not state how much is left; 0 without such quotas."""
        return max((quota.reset_s or 0.0 for quota in self.quotas if quota.left is None), default=0.0)


class RateLimitProblem(StrEnum):
    """Problem types of the IETF draft, in an application/problem+json."""

    QUOTA_EXCEEDED = "quota-exceeded"
    REDUCED_CAPACITY = "temporary-reduced-capacity"
    ABNORMAL_USAGE = "abnormal-usage-detected"


def rate_limits(headers: Mapping[str, str], now: float) -> RateLimits:
    """Reads the limits from headers, at the time `now` (epoch).

    Names are in lower case; several headers with the same name are joined by commas. Times of day are compared with the
    server's own clock, if the response has a Date.
    """
    now = _epoch_of_date(headers.get("date", "")) or now
    if headers.get("ratelimit", "").startswith(("limit=", "remaining=", "reset=")):
        headers = {**headers, **_draft_07(headers["ratelimit"])}
    quotas = [*_structured(headers), *_by_name(headers, now), *_by_unit(headers)]
    return RateLimits(_retry_after(headers.get("retry-after", ""), now), tuple(quotas))


def problem(kind: str, encoding: str, body: bytes) -> tuple[RateLimitProblem, frozenset[str]] | None:
    """Returns type and violated policies of a problem document; None if the body is another document.

    `encoding` is the Content-Encoding of the body.
    """
    if not kind.lower().startswith("application/problem+json"):
        return None
    try:
        if encoding in ("gzip", "deflate"):
            body = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, _MOST_PROBLEM_BYTES)
        said = json.loads(body[:_MOST_PROBLEM_BYTES])
        found = RateLimitProblem(said["type"].replace("#", "/").replace(":", "/").rpartition("/")[2])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error):
        return None
    violated = said.get("violated-policies")
    return found, frozenset(map(str, violated)) if isinstance(violated, list) else frozenset()


def _retry_after(value: str, now: float) -> float | None:
    """Parses Retry-After: seconds or a date (RFC 9110).

    If several servers in a chain give seconds, the longest time counts.
    """
    numbers = [_number(each.strip()) for each in value.split(",")]
    seconds = None if None in numbers else max(number for number in numbers if number is not None)
    if seconds is None and (at := _epoch_of_date(value)) is not None:
        seconds = at - now
    return None if seconds is None else max(0.0, seconds)


# Drafts since 08 ------------------------------------------------------------------------------------------


def _structured(headers: Mapping[str, str]) -> Iterable[ReportedQuota]:
    """Parses `RateLimit: "default";r=50;t=30` with `RateLimit-Policy: "default";q=100;w=60`."""
    policies = {policy.name: policy for policy in _policies(headers.get("ratelimit-policy", "")) if policy.name}
    for name, parameters in _items(headers.get("ratelimit", "")):
        if isinstance(name, str):
            policy = policies.pop(name, ReportedQuota(name=name))
            yield policy._replace(left=_positive(parameters.get("r")), reset_s=_positive(parameters.get("t")))
    yield from policies.values()


@lru_cache(maxsize=1024)
def _policies(text: str) -> tuple[ReportedQuota, ...]:
    """Parses `"default";q=100;w=60` (since draft 08) or `100;w=60, 5000;w=3600` (before).

    The result is cached, since the header rarely changes.
    """
    found = []
    for item, parameters in _items(text):
        window_s = _positive(parameters.get("w", parameters.get("window")))
        if isinstance(item, str):
            unit = str(parameters.get("qu", "requests"))
            found.append(ReportedQuota(_positive(parameters.get("q")), window_s, name=item, unit=unit))
        elif (most := _positive(item)) is not None:
            found.append(ReportedQuota(most, window_s))
    return tuple(found)


def _items(text: str) -> list[tuple[object, Mapping[str, object]]]:
    if not text:
        return []
    try:
        parsed: object = http_sf.parse(text.encode("latin-1", "replace"), tltype="list")
    except ValueError:
        return []
    assert isinstance(parsed, list)
    return [member for member in parsed if isinstance(member, tuple)]


# Three headers --------------------------------------------------------------------------------------------


def _draft_07(text: str) -> dict[str, str]:
    """Converts `RateLimit: limit=100, remaining=50, reset=30` to the three headers of earlier drafts."""
    try:
        parsed: object = http_sf.parse(text.encode("latin-1", "replace"), tltype="dictionary")
    except ValueError:
        return {}
    assert isinstance(parsed, dict)
    return {f"ratelimit-{name}": str(member[0]) for name, member in parsed.items()}


def _by_name(headers: Mapping[str, str], now: float) -> Iterable[ReportedQuota]:
    """Parses `RateLimit-Limit`, `-Remaining`, `-Reset` of the drafts up to 06, and the variants with an X."""
    for prefix in _PREFIXES:
        if not any(name.startswith(f"{prefix}-") for name in headers):
            continue
        limits = headers.get(f"{prefix}-limit", "")
        left = _number(headers.get(f"{prefix}-remaining", ""))
        reset_s = _number(headers.get(f"{prefix}-reset-after", ""))
        if reset_s is None:
            reset_s = _reset(headers.get(f"{prefix}-reset", ""), now)
        # The other headers refer to the first number; the rest are policies: `100, 100;w=60, 5000;w=3600`.
        most = _number(limits.partition(",")[0].partition(";")[0])
        used = _number(headers.get(f"{prefix}-used", ""))
        if most is None and used is not None and left is not None:
            most = used + left
        policies = _policies(limits) if "w" in limits else ()
        if prefix == "ratelimit":
            policies += tuple(each for each in _policies(headers.get("ratelimit-policy", "")) if not each.name)
        if (most, left, reset_s) != (None, None, None):
            yield ReportedQuota(most, _window_of(policies, most), left, None if reset_s is None else max(0.0, reset_s))
        yield from (policy for policy in policies if policy.window_s and policy.most != most)


def _by_unit(headers: Mapping[str, str]) -> Iterable[ReportedQuota]:
    """Parses the headers of Kong: `X-RateLimit-Limit-Minute`, `X-RateLimit-Remaining-Minute`."""
    for name, (unit, window_s) in _LEFT_OF.items():
        if (left := _number(headers.get(name, ""))) is not None:
            yield ReportedQuota(_number(headers.get(f"x-ratelimit-limit-{unit}", "")), window_s, left)


def _window_of(policies: Iterable[ReportedQuota], most: float | None) -> float | None:
    return next((policy.window_s for policy in policies if policy.most == most and policy.window_s), None)


def _reset(value: str, now: float) -> float | None:
    """Returns seconds until the reset.

    The value is a duration (Reddit), an epoch (Bluesky, GitHub; some in milliseconds), an ISO time (Mastodon), or a
    date.
    """
    number = _number(value)
    if number is not None:
        return number if number <= _EPOCH else (number if number < _EPOCH_MS else number / 1000) - now
    epoch = _epoch_of_iso(value) or _epoch_of_date(value)
    return None if epoch is None else epoch - now


def _epoch_of_iso(value: str) -> float | None:
    try:
        return _in_utc(datetime.fromisoformat(value)).timestamp() if "T" in value else None
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=16)
def _epoch_of_date(value: str) -> float | None:
    """Returns the epoch of an HTTP date. The result is cached, since all responses of a second have the same date."""
    if not value:
        return None
    try:
        return _in_utc(parsedate_to_datetime(value)).timestamp()
    except (ValueError, OverflowError):
        return None


def _in_utc(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _number(text: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _positive(value: object) -> float | None:
    """Returns the number of a structured field; None if it is negative or not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    return float(value) if value >= 0 else None

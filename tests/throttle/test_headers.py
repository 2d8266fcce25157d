"""What servers write into Retry-After and the rate-limit headers, in every dialect and malformed."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from scrapy.http import Headers

from harvester.middlewares.throttle import exhausted_for, reset_in, retry_after

AN_HOUR = 3600
SLACK_S = 60
"""A test may be held up this long."""


def at(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def about(expected: float | None, found: float | None) -> bool:
    if expected is None or found is None:
        return expected is found
    return expected - SLACK_S <= found <= expected + 1


def http_date(seconds: float) -> str:
    return format_datetime(at(seconds), usegmt=True)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 120 ", 120),
        ("0", 0),
        ("0.5", 0.5),
        ("-5", 0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1, 2", None),
        ("Sun, 99 Foo 2026 00:00:00 GMT", None),
        ("Sun, 06 Nov 99999999999999999999 08:49:37 GMT", None),
        ("Sun, 06 Nov 2094 08:49:37 +9999", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
        ("Sun Nov  6 08:49:37 1994", 0),
        ("\xff\xfe", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after(Headers({"Retry-After": value.encode("latin-1")})) == seconds


def test_retry_after_may_be_a_date() -> None:
    assert about(AN_HOUR, retry_after(Headers({"Retry-After": http_date(AN_HOUR)})))
    assert about(AN_HOUR, retry_after(Headers({"retry-after": http_date(AN_HOUR).replace("GMT", "-0000")})))
    assert retry_after(Headers({"Retry-After": http_date(-AN_HOUR)})) == 0
    assert retry_after(Headers()) is None


@pytest.mark.parametrize("name", ["RateLimit-Reset", "X-RateLimit-Reset", "x-ratelimit-reset"])
def test_reset_may_be_seconds_an_epoch_or_a_time(name: str) -> None:
    for value in ("3600", "3600.0", str(int(at(AN_HOUR).timestamp())), at(AN_HOUR).isoformat()):
        assert about(AN_HOUR, reset_in(Headers({name: value}))), value
    for value in (at(AN_HOUR).strftime("%Y-%m-%dT%H:%M:%S.000Z"), at(AN_HOUR).strftime("%Y-%m-%dT%H:%M:%S")):
        assert about(AN_HOUR, reset_in(Headers({name: value}))), value
    for value in ("0", "-3", str(int(at(-AN_HOUR).timestamp())), at(-AN_HOUR).isoformat(), "0001-01-01T00:00:00"):
        assert reset_in(Headers({name: value})) == 0, value


@pytest.mark.parametrize(
    "value", ["", "later", "Tomorrow", "2026-13-01T00:00:00Z", "nan", "inf", "1e400", "3;w=1", "\xff"]
)
def test_malformed_reset_says_nothing(value: str) -> None:
    assert reset_in(Headers({"RateLimit-Reset": value.encode("latin-1")})) is None
    assert reset_in(Headers()) is None


@pytest.mark.parametrize(
    ("limit", "remaining", "is_exhausted"),
    [
        ("3000", "0", True),
        ("3000", "5", True),
        ("3000", "6", False),
        ("3000", "2999", False),
        ("30", "3", True),
        ("30", "4", False),
        ("10", "1", True),
        ("10", "2", False),
        ("1", "0", True),
        ("1", "1", False),
        (None, "0", True),
        (None, "6", False),
        ("100, 100;w=60", "0", True),
        ("x", "5", True),
        ("3000", None, False),
        ("3000", "", False),
        ("3000", "few", False),
        ("3000", "nan", False),
        ("3000", "-1", True),
        ("3000", "0.0", True),
    ],
)
def test_window_is_exhausted_when_almost_nothing_of_it_is_left(
    limit: str | None, remaining: str | None, is_exhausted: bool
) -> None:
    for prefix in ("RateLimit", "X-RateLimit"):
        headers = Headers({f"{prefix}-Reset": "90"})
        if limit is not None:
            headers[f"{prefix}-Limit"] = limit
        if remaining is not None:
            headers[f"{prefix}-Remaining"] = remaining
        assert exhausted_for(headers) == (90 if is_exhausted else None)


def test_exhausted_window_that_names_no_end_says_nothing() -> None:
    assert exhausted_for(Headers({"RateLimit-Remaining": "0"})) is None
    assert exhausted_for(Headers({"RateLimit-Remaining": "0", "RateLimit-Reset": "later"})) is None
    assert exhausted_for(Headers()) is None

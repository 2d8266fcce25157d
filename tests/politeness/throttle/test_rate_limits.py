"""What servers write into Retry-After and the rate-limit headers, in every dialect and malformed."""

import gzip
import json
import zlib
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from scrapy.http import Headers

from harvester.parsers.web.rate_limits import RateLimitProblem, RateLimits, ReportedQuota, problem, rate_limits
from harvester.politeness.rate_limits import reset_in, retry_after

NOW = 1_795_000_000.0
AN_HOUR = 3600


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW + seconds, UTC)


def http_date(seconds: float) -> str:
    return format_datetime(at(seconds), usegmt=True)


def quotas(headers: dict[str, str]) -> tuple[ReportedQuota, ...]:
    return rate_limits({name.lower(): value for name, value in headers.items()}, NOW).quotas


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        ("0.5", 0.5),
        ("-5", 0),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1, 2", 2),
        ("1, soon", None),
        ("Sun, 99 Foo 2026 00:00:00 GMT", None),
        ("Sun, 06 Nov 99999999999999999999 08:49:37 GMT", None),
        ("Sun, 06 Nov 2094 08:49:37 +9999", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
        ("Sun Nov  6 08:49:37 1994", 0),
        ("\xff\xfe", None),
        (http_date(AN_HOUR), AN_HOUR),
        (http_date(AN_HOUR).replace("GMT", "-0000"), AN_HOUR),
        (http_date(-AN_HOUR), 0),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert rate_limits({"retry-after": value}, NOW).retry_after_s == seconds


def test_a_time_of_day_is_reckoned_by_the_server_s_own_clock() -> None:
    headers = {"date": http_date(1000), "retry-after": http_date(1060), "ratelimit-reset": str(int(NOW) + 1030)}
    said = rate_limits(headers, NOW)
    assert said.retry_after_s == 60
    assert [quota.reset_s for quota in said.quotas] == [30]
    assert rate_limits(headers | {"date": "today"}, NOW).retry_after_s == 1060


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(
            {"RateLimit": '"default";r=50;t=30', "RateLimit-Policy": '"default";q=100;w=60'},
            [ReportedQuota(100, 60, 50, 30, "default")],
            id="draft 11",
        ),
        pytest.param(
            {
                "RateLimit": '"hour";r=999;t=1800, "burst";r=2;t=7;pk=:dHJpYWw=:',
                "RateLimit-Policy": '"burst";q=10;w=10;pk=:dHJpYWw=:, "hour";q=1000;w=3600, "day";q=9;w=86400',
            },
            [
                ReportedQuota(1000, 3600, 999, 1800, "hour"),
                ReportedQuota(10, 10, 2, 7, "burst"),
                ReportedQuota(9, 86400, None, None, "day"),
            ],
            id="draft 11, several policies",
        ),
        pytest.param(
            {"RateLimit": '"bytes";r=5000;t=9', "RateLimit-Policy": '"bytes";q=65535;qu="content-bytes";w=10'},
            [ReportedQuota(65535, 10, 5000, 9, "bytes", "content-bytes")],
            id="draft 11, another unit",
        ),
        pytest.param(
            {"RateLimit": '"default";r=0'}, [ReportedQuota(left=0, name="default")], id="draft 11 without a reset"
        ),
        pytest.param(
            {"RateLimit-Policy": '"only";q=100;w=60'},
            [ReportedQuota(100, 60, None, None, "only")],
            id="draft 11, policy alone",
        ),
        pytest.param(
            {"RateLimit": "limit=100, remaining=50, reset=30", "RateLimit-Policy": "100;w=60"},
            [ReportedQuota(100, 60, 50, 30)],
            id="draft 07",
        ),
        pytest.param(
            {"RateLimit-Limit": "100", "RateLimit-Remaining": "50", "RateLimit-Reset": "30"},
            [ReportedQuota(100, None, 50, 30)],
            id="draft 06",
        ),
        pytest.param(
            {
                "RateLimit-Limit": "100",
                "RateLimit-Remaining": "50",
                "RateLimit-Reset": "30",
                "RateLimit-Policy": '100;w=60;comment="sliding", 5000;w=3600',
            },
            [ReportedQuota(100, 60, 50, 30), ReportedQuota(5000, 3600)],
            id="draft 06 with policies",
        ),
        pytest.param(
            {
                "RateLimit-Limit": "10, 10;window=1, 1000;window=3600",
                "RateLimit-Remaining": "9",
                "RateLimit-Reset": "1",
            },
            [ReportedQuota(10, 1, 9, 1), ReportedQuota(1000, 3600)],
            id="draft 02",
        ),
        pytest.param(
            {
                "RateLimit-Limit": "3000",
                "RateLimit-Remaining": "2999",
                "RateLimit-Reset": str(int(NOW) + 300),
                "RateLimit-Policy": "3000;w=300",
            },
            [ReportedQuota(3000, 300, 2999, 300)],
            id="Bluesky",
        ),
        pytest.param(
            {
                "X-RateLimit-Limit": "5000",
                "X-RateLimit-Remaining": "4987",
                "X-RateLimit-Used": "13",
                "X-RateLimit-Reset": str(int(NOW) + 1800),
                "X-RateLimit-Resource": "core",
            },
            [ReportedQuota(5000, None, 4987, 1800)],
            id="GitHub",
        ),
        pytest.param(
            {
                "X-RateLimit-Limit": "300",
                "X-RateLimit-Remaining": "298",
                "X-RateLimit-Reset": at(290).strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
            },
            [ReportedQuota(300, None, 298, 290)],
            id="Mastodon",
        ),
        pytest.param(
            {"x-ratelimit-used": "2", "x-ratelimit-remaining": "598.0", "x-ratelimit-reset": "421.5"},
            [ReportedQuota(600, None, 598, 421.5)],
            id="Reddit",
        ),
        pytest.param(
            {"x-rate-limit-limit": "15", "x-rate-limit-remaining": "3", "x-rate-limit-reset": str(int(NOW) + 900)},
            [ReportedQuota(15, None, 3, 900)],
            id="with one hyphen more",
        ),
        pytest.param(
            {"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "1795000777", "X-RateLimit-Reset-After": "1.25"},
            [ReportedQuota(None, None, 3, 1.25)],
            id="Discord",
        ),
        pytest.param(
            {"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": str(int(NOW + 60) * 1000)},
            [ReportedQuota(None, None, 3, 60)],
            id="epoch in milliseconds",
        ),
        pytest.param(
            {"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": http_date(60)},
            [ReportedQuota(None, None, 3, 60)],
            id="date",
        ),
        pytest.param(
            {"X-RateLimit-Limit-Minute": "20", "X-RateLimit-Remaining-Minute": "0", "X-RateLimit-Limit-Day": "1"},
            [ReportedQuota(20, 60, 0)],
            id="Kong",
        ),
    ],
)
def test_dialects(headers: dict[str, str], expected: list[ReportedQuota]) -> None:
    assert quotas(headers) == tuple(expected)


@pytest.mark.parametrize(
    "headers",
    [
        {"RateLimit": '"default";r=50;t='},
        {"RateLimit": '"default;r=50;t=30'},
        {"RateLimit": "50;r=1;t=2"},
        {"RateLimit": '("default" "other");r=1'},
        {"RateLimit": "limit=1;=, remaining"},
        {"RateLimit-Policy": "q=100;w=60,,"},
        {"RateLimit-Policy": "\xff\u20ac"},
        {"RateLimit-Limit": "many", "RateLimit-Remaining": "few", "RateLimit-Reset": "later"},
        {"X-RateLimit-Remaining": "nan", "X-RateLimit-Reset": "1e400"},
        {"X-RateLimit-Reset": "2026-13-01T00:00:00Z"},
        {"X-RateLimit-Reset": "Tomorrow"},
        {"X-RateLimit-Remaining-Fortnight": "0"},
        {},
    ],
)
def test_what_is_malformed_says_nothing(headers: dict[str, str]) -> None:
    assert rate_limits({name.lower(): value for name, value in headers.items()}, NOW) == RateLimits()


@pytest.mark.parametrize("parameters", ["r=-1;t=-2", "r=?1;t=?0", 'r="1";t=:MQ==:', "r=soon;t=@1795000000"])
def test_parameters_of_another_kind_say_nothing(parameters: str) -> None:
    assert quotas({"RateLimit": f'"default";{parameters}'}) == (ReportedQuota(name="default"),)


@pytest.mark.parametrize("value", ["0", "-3", str(int(NOW) - AN_HOUR), at(-AN_HOUR).isoformat(), "0001-01-01T00:00:00"])
def test_a_reset_that_is_over_is_now(value: str) -> None:
    assert quotas({"RateLimit-Reset": value}) == (ReportedQuota(reset_s=0),)


def test_headers_of_an_answer_are_found_whatever_their_case_and_number() -> None:
    headers = Headers({"ratelimit": ['"a";r=9;t=5', '"b";r=3;t=70'], "RETRY-AFTER": " 7 "})
    assert retry_after(headers) == 7
    assert reset_in(headers) == 70
    assert retry_after(Headers({"Content-Type": "text/html"})) is None
    assert reset_in(Headers({"X-RateLimit-Remaining": "3"})) is None


def document(name: str, **more: object) -> bytes:
    return json.dumps({"type": f"https://iana.org/assignments/http-problem-types#{name}", **more}).encode()


def test_problem_types_of_the_draft() -> None:
    for each in RateLimitProblem:
        for kind in ("application/problem+json", "Application/Problem+JSON; charset=utf-8"):
            assert problem(kind, "", document(each)) == (each, frozenset())
        assert problem("application/problem+json", "gzip", gzip.compress(document(each))) == (each, frozenset())
        assert problem("application/problem+json", "deflate", zlib.compress(document(each))) == (each, frozenset())
        assert problem("application/json", "", document(each)) is None
    violated = document("quota-exceeded", **{"violated-policies": ["hour", "day"]})
    assert problem("application/problem+json", "", violated) == (
        RateLimitProblem.QUOTA_EXCEEDED,
        frozenset({"hour", "day"}),
    )
    urn = b'{"type":"urn:ietf:params:problem:quota-exceeded"}'
    assert problem("application/problem+json", "", urn) == (RateLimitProblem.QUOTA_EXCEEDED, frozenset())


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", document("about:blank")),
        ("", b"{}"),
        ("", b"[]"),
        ("", b'{"type":7}'),
        ("", b"quota-exceeded"),
        ("", b"[" * 50_000),
        ("", b"\xff\xfe"),
        ("gzip", document("quota-exceeded")),
        ("br", b"\x8b\x02\x80"),
        ("gzip", gzip.compress(b'{"type":"' + b"x" * 10_000_000)),
    ],
)
def test_other_problems_are_none(encoding: str, body: bytes) -> None:
    assert problem("application/problem+json", encoding, body) is None

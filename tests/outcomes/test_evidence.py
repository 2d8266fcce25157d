"""Every verdict says from what it was told, in few words and without secrets; what no rule knows is counted."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError
from scrapy.http import Response
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from harvester.exceptions import PageFailed, ParseError
from harvester.frontier.attempts import count
from harvester.outcomes import (
    BAD_CURSOR,
    POLICIES,
    Outcome,
    RequestFailed,
    Verdict,
    classify,
    classify_exception,
    classify_page,
    evidence,
    verdict_of,
)
from harvester.outcomes.evidence import MOST_EXCERPT, excerpt, readable
from tests.numbers import numbers_of
from tests.outcomes.exchanges import API, EXCHANGES, FAILURES, JSON, PDS, SITE, Exchange, page, xrpc

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJkaWQ6cGxjOngifQ.c2lnbmF0dXJl"


def _classify(exchange: Exchange) -> Verdict:
    return classify(exchange.response(), exchange.request())


def test_every_verdict_on_an_answer_has_status_rule_and_a_bounded_excerpt() -> None:
    for exchange in EXCHANGES:
        verdict = _classify(exchange)
        if verdict.outcome is not Outcome.OK:
            assert verdict.rule
            assert verdict.status == exchange.status
            assert len(verdict.excerpt) <= MOST_EXCERPT
            assert not re.search(r"[\x00-\x1f\x7f<]", verdict.excerpt)
            assert len(verdict.told()) <= 700


def test_reason_says_what_the_server_says() -> None:
    reasons = {
        "HTTP 400 InvalidRequest: Invalid path: bad format": xrpc(
            Outcome.INVALID, "", 400, "InvalidRequest", "Invalid path: bad format"
        ),
        "Actor not found": xrpc(Outcome.NOT_FOUND, "", 400, "InvalidRequest", "Actor not found: nobody.test"),
        "AccountTakedown": xrpc(Outcome.GONE, "", 400, "AccountTakedown", "Account has been suspended"),
        BAD_CURSOR: xrpc(Outcome.INVALID, "", 400, "InvalidRequest", "Malformed cursor"),
        "HTTP 503": Exchange(Outcome.SERVER_ERROR, "", 503),
        "HTTP 418": Exchange(Outcome.INVALID, "", 418),
    }
    for reason, exchange in reasons.items():
        assert _classify(exchange).reason == reason


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Getting http://x/ took longer than 60.0 seconds.", [60]),
        ("Getting http://x/ took longer than 0.5 seconds.", [0.5]),
        ("Getting http://x/ took longer than 100 seconds.", [100]),
        ("no time", []),
    ],
)
def test_reason_of_a_timeout_names_the_seconds(said: str, seconds: list[float]) -> None:
    assert numbers_of(classify_exception(DownloadTimeoutError(said)).reason) == seconds


def test_reason_of_an_answer_that_is_too_large_names_the_limit() -> None:
    reasons = {failure.rule: classify_exception(failure.error).reason for failure in FAILURES}
    assert reasons["too-large"].endswith(" 32 MB")
    assert reasons["too-large-inside"].endswith(" 1 MB")


def test_excerpt_is_what_a_reader_sees_of_the_page() -> None:
    text = "<style>p{}</style><script>let a = '<b>';</script><!-- x --><p>Closed &amp; <b>locked</b>\x00\x1b[31m\n\tnow"
    verdict = _classify(Exchange(Outcome.SERVER_ERROR, "", 500, page("Sorry", text)))
    shown = "Sorry Closed & locked [31m now"
    assert (verdict.excerpt, verdict.told()) == (shown, f"HTTP 500 [server-error] {shown}")
    assert readable("<p>a</p><script>never closed") == "a"
    assert readable("1 < 2 & 3 > 2") == "1 2"


def test_reason_is_one_line_without_what_a_terminal_obeys() -> None:
    said, shown = "closed\x1b[2J\r\nfor\u202e today", "closed [2J for today"
    assert _classify(xrpc(Outcome.INVALID, "", 400, "Odd", said)).reason == f"HTTP 400 Odd: {shown}"
    assert classify_exception(DownloadFailedError(said)).reason == shown


def test_only_the_beginning_of_a_long_message_is_searched_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    looked_for = evidence._secrets

    def sub(shown: str, text: str) -> str:
        searched.append(len(text))
        return looked_for.sub(shown, text)

    monkeypatch.setattr(evidence, "_secrets", SimpleNamespace(sub=sub))
    said = "-eyJaaaaaaaa" * 5000
    verdicts = [_classify(xrpc(Outcome.INVALID, "", 400, "Odd", said)), classify_exception(DownloadFailedError(said))]
    assert [len(verdict.reason) for verdict in verdicts] == [MOST_EXCERPT] * 2
    assert max(searched) <= 4 * MOST_EXCERPT


def test_no_script_is_taken_for_text_on_a_page_with_letters_whose_small_form_is_longer() -> None:
    script = f"<script>{' ' * 100}let said = 'This site used Cloudflare to restrict access'</script>"
    body = f"{'İ' * 100}<script>let first</script><p>Merhaba</p>{script}<p>Hoş geldiniz</p>"
    assert _classify(Exchange(Outcome.OK, "", 200, page("Tapu", body))).outcome is Outcome.OK
    assert readable(body).removeprefix("İ" * 100) == " Merhaba Hoş geldiniz"


def test_what_the_reason_says_already_is_not_said_twice() -> None:
    said = "no such field"
    verdict = Verdict(Outcome.INVALID, f"HTTP 400: {said}", True, "bad-request", 400, said)
    assert verdict.told() == f"HTTP 400: {said} [bad-request]"
    assert Verdict(Outcome.DNS, "no such host").told() == "no such host"


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        f'"accessJwt": "{TOKEN}"',
        "Authorization: Bearer hunter2hunter2",
        "password=hunter2hunter2",
        '"api_key": "hunter2hunter2"',
        "Set-Cookie: hunter2hunter2; path=/",
        "http://customer-1:hunter2hunter2@proxy.example:8080/",
        "session_id=hunter2hunter2&x=1",
    ],
)
def test_secrets_do_not_get_into_the_evidence(secret: str) -> None:
    verdicts = [
        classify(Response(PDS, 400, {"Content-Type": JSON}, b'{"error":"Odd","message":%s}' % _quoted(secret))),
        classify(Response(SITE, 500, {"Content-Type": "text/html", "Set-Cookie": "a=hunter2hunter2"}, secret.encode())),
        classify_exception(DownloadFailedError(f"failed with {secret}")),
        classify_page(Response(SITE, 200, body=secret.encode()), PageFailed("invalid", f"it says {secret}")),
    ]
    for verdict in verdicts:
        assert verdict.outcome is not Outcome.OK
        assert not re.search("hunter2|eyJhbGci|c2lnbmF0dXJl", f"{verdict.told()} {verdict.excerpt}")
    plain = "the session has expired: please log in again"
    assert excerpt(plain) == plain


def _quoted(text: str) -> bytes:
    return b'"' + text.replace('"', '\\"').encode() + b'"'


def test_cursor_that_is_refused_is_told_from_other_bad_requests() -> None:
    refused = [each.body for each in EXCHANGES if _classify(each).reason == BAD_CURSOR]
    assert len(refused) == 2
    assert all("ursor" in str(body) for body in refused)


def test_request_that_was_given_up_keeps_its_verdict() -> None:
    verdict = Verdict(Outcome.GONE, "AccountTakedown")
    assert verdict_of(RequestFailed(verdict, 1)) is verdict
    assert verdict_of(TimeoutError()) == classify_exception(TimeoutError())
    assert str(RequestFailed(verdict, 1)) == "gone: AccountTakedown"
    assert str(RequestFailed(verdict, 3)) == "gone: AccountTakedown (3 tries)"
    assert str(RequestFailed(Verdict(Outcome.OK), 1)) == "ok"


@pytest.mark.parametrize(
    ("error", "outcome", "known"),
    [
        (PageFailed("empty", "no parcel"), Outcome.EMPTY, True),
        (PageFailed(Outcome.SESSION_EXPIRED, "a login form"), Outcome.SESSION_EXPIRED, True),
        (ParseError("no table"), Outcome.LAYOUT_CHANGED, True),
        (PageFailed("emtpy", "no parcel"), Outcome.INVALID, False),
    ],
)
def test_callback_names_the_outcome_of_its_page(error: Any, outcome: Outcome, known: bool) -> None:
    verdict = classify_page(Response(API, 200, {"Content-Type": JSON}, b'{"a":1}'), error)
    assert (verdict.outcome, verdict.known, verdict.rule, verdict.status) == (outcome, known, "callback", 200)
    assert str(error) in verdict.reason
    assert verdict.excerpt == '{"a":1}'


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_outcomes_are_counted_and_errors_by_host(outcome: Outcome) -> None:
    stats = MemoryStatsCollector(get_crawler())
    count(stats, Verdict(outcome, "why"), "https://api.example:8443/x?y")
    assert stats.get_value(f"harvester/outcomes/{outcome}") == 1
    errors = [name for name in stats.get_stats() if name.startswith("harvester/errors/")]
    assert errors == ([f"harvester/errors/{outcome}/api.example:8443"] if POLICIES[outcome].error else [])


def test_failures_that_no_rule_knows_are_counted_and_each_kind_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    stats = MemoryStatsCollector(get_crawler())
    teapot = Exchange(Outcome.INVALID, "", 418, page("Teapot", "short and stout"))
    for url in ("https://api.example/x", "https://api.example/y", "https://other.example/"):
        count(stats, _classify(teapot), url)
    count(stats, classify_exception(ValueError("odd")), "https://api.example/x")
    assert stats.get_value("harvester/unclassified") == 4
    assert stats.get_value("harvester/unclassified/unknown-status/api.example") == 2
    ends = [f"{host}: HTTP 418 [unknown-status] Teapot short and stout" for host in ("api.example", "other.example")]
    ends.append("api.example: ValueError: odd [unknown-exception]")
    assert [message.endswith(end) for message, end in zip(caplog.messages, ends, strict=True)] == [True] * 3

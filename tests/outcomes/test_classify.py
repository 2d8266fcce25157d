"""Every answer and every failure has one outcome."""

import json
from typing import Any

import pytest
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)
from scrapy.http import Response
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from harvester.middlewares.outcome import classify, count
from harvester.outcomes import (
    BAD_CURSOR,
    OK,
    POLICIES,
    Outcome,
    RequestFailed,
    Verdict,
    classify_answer,
    classify_exception,
    verdict_of,
)
from harvester.parsers.identity import parse_error

O = Outcome  # noqa: E741

HTML = "<!DOCTYPE html><html><head><title>{}</title></head><body></body></html>"
FORBIDDEN = HTML.format("403 Forbidden: administrative rules")
CLOUDFLARE = HTML.format("Just a moment...")
ATTENTION = HTML.format("Attention Required! | Cloudflare")

ANSWERS: list[tuple[int, str | None, str, Outcome]] = [
    # What Bluesky's servers say: status, name of the error, message
    (400, "InvalidRequest", "Actor not found: nobody.test", O.NOT_FOUND),
    (400, "InvalidRequest", "Profile not found", O.NOT_FOUND),
    (400, "InvalidRequest", "Post not found: at://did:plc:x/app.bsky.feed.post/1", O.NOT_FOUND),
    (400, "NotFound", "Post not found: at://did:plc:x/app.bsky.feed.post/1", O.NOT_FOUND),
    (400, "InvalidRequest", "Unable to resolve handle", O.NOT_FOUND),
    (400, "InvalidRequest", "Could not find repo: did:plc:x", O.NOT_FOUND),
    (400, "RepoNotFound", "Could not find repo for DID: did:plc:x", O.NOT_FOUND),
    (400, "RecordNotFound", "Could not locate record: at://did:plc:x/a/b", O.NOT_FOUND),
    (400, "InvalidRequest", "Could not locate record: at://did:plc:x/a/b", O.NOT_FOUND),
    (400, "InvalidRequest", "Blob not found", O.NOT_FOUND),
    (400, "BlobNotFound", "", O.NOT_FOUND),
    (400, "HandleNotFound", "", O.NOT_FOUND),
    (400, "ActorNotFound", "", O.NOT_FOUND),
    (400, "InvalidRequest", "List not found", O.NOT_FOUND),
    (404, "NotFoundError", "Blob not found", O.NOT_FOUND),
    (404, None, '{"message":"DID not registered: did:plc:x"}', O.NOT_FOUND),
    (404, None, HTML.format("404"), O.NOT_FOUND),
    (404, None, "", O.NOT_FOUND),
    (400, "AccountTakedown", "Account has been suspended", O.GONE),
    (401, "AccountTakedown", "Account has been taken down", O.GONE),
    (400, "AccountDeactivated", "Account is deactivated", O.GONE),
    (400, "RepoTakendown", "Repo has been takendown: did:plc:x", O.GONE),
    (400, "RepoSuspended", "", O.GONE),
    (400, "RepoDeactivated", "Repo has been deactivated: did:plc:x", O.GONE),
    (410, None, "", O.GONE),
    (400, "BlockedActor", "Requester has blocked actor: did:plc:x", O.POLICY_DENIED),
    (400, "BlockedByActor", "Requester is blocked by actor: did:plc:x", O.POLICY_DENIED),
    (451, None, "", O.POLICY_DENIED),
    (401, "AuthMissing", "Authentication Required", O.AUTH_REQUIRED),
    (401, "AuthenticationRequired", "Invalid identifier or password", O.AUTH_REQUIRED),
    (401, None, "", O.AUTH_REQUIRED),
    (403, "AuthMissing", "", O.AUTH_REQUIRED),
    (400, "ExpiredToken", "Token has expired", O.SESSION_EXPIRED),
    (401, "ExpiredToken", "Token has expired", O.SESSION_EXPIRED),
    (400, "InvalidToken", "Token could not be verified", O.SESSION_EXPIRED),
    (401, "InvalidToken", "Malformed token", O.SESSION_EXPIRED),
    (429, "RateLimitExceeded", "Rate Limit Exceeded", O.RATE_LIMITED),
    (429, None, HTML.format("429 Too Many Requests"), O.RATE_LIMITED),
    (429, None, "", O.RATE_LIMITED),
    (400, "RateLimitExceeded", "", O.RATE_LIMITED),
    (403, None, FORBIDDEN, O.BLOCKED),
    (403, "Forbidden", "no", O.BLOCKED),
    (403, None, CLOUDFLARE, O.CHALLENGE),
    (403, None, ATTENTION, O.CHALLENGE),
    (503, None, CLOUDFLARE, O.CHALLENGE),
    (403, None, HTML.format("x" * 6000) + "Just a moment...", O.BLOCKED),
    (500, "InternalServerError", "Internal Server Error", O.SERVER_ERROR),
    (502, "UpstreamFailure", "Upstream Failure", O.SERVER_ERROR),
    (503, None, "", O.SERVER_ERROR),
    (504, None, HTML.format("504"), O.SERVER_ERROR),
    (520, None, "error code: 520", O.SERVER_ERROR),
    (599, None, "", O.SERVER_ERROR),
    (400, "InvalidRequest", "Malformed cursor", O.INVALID),
    (400, "InvalidRequest", "Invalid cursor format", O.INVALID),
    (400, "InvalidRequest", "Invalid app.bsky.actor.getProfile params: Invalid AT identifier", O.INVALID),
    (400, "InvalidRequest", "Invalid params: integer too big (maximum 100, got 101)", O.INVALID),
    (400, "InvalidRequest", "Incorrect HTTP method (POST) expected GET", O.INVALID),
    (400, "Error", "Invalid path: bad format", O.INVALID),
    (400, None, "", O.INVALID),
    (501, "MethodNotImplemented", "Method Not Implemented", O.INVALID),
    (404, "XRPCNotSupported", "XRPCNotSupported", O.INVALID),
    (405, None, "", O.INVALID),
    # What others say
    (200, None, "{}", O.OK),
    (206, None, "part", O.OK),
    (304, None, "", O.UNCHANGED),
    (407, None, "", O.PROXY),
    (408, None, "", O.TIMEOUT),
]


@pytest.mark.parametrize(("status", "name", "text", "outcome"), ANSWERS)
def test_answer_has_the_outcome_of_its_status_and_error(status: int, name: str | None, text: str, outcome: O) -> None:
    body = (json.dumps({"error": name, "message": text}) if name else text).encode()
    verdict = classify_answer(status, body, parse_error(body))
    assert verdict.outcome is outcome
    assert verdict.known
    if outcome not in (O.OK, O.UNCHANGED):
        told = (str(status) in verdict.reason, bool(text) and verdict.reason in text, text in verdict.reason)
        assert any(told) or verdict.reason in (name, BAD_CURSOR)


def test_cursor_that_is_refused_is_told_from_other_bad_requests() -> None:
    refused = [text for _, _, text, _ in ANSWERS if classify_answer(400, b"", ("X", text)).reason == BAD_CURSOR]
    assert refused == ["Malformed cursor", "Invalid cursor format"]


@pytest.mark.parametrize("status", [201, 204, 300, 302, 402, 409, 413, 414, 418, 422, 425, 431])
def test_status_that_no_rule_knows_is_counted_as_such(status: int) -> None:
    verdict = classify_answer(status, b"", None)
    assert (verdict.outcome, verdict.known) == (O.INVALID, False)
    assert str(status) in verdict.reason


EXCEPTIONS: list[tuple[BaseException, Outcome, bool]] = [
    (CannotResolveHostError("no-such-host.invalid"), O.DNS, True),
    (DownloadTimeoutError("took longer than 60 s"), O.TIMEOUT, True),
    (TimeoutError(), O.TIMEOUT, True),
    (DownloadConnectionRefusedError("Cannot connect to host 127.0.0.1:9 ssl:default [refused]"), O.NETWORK, True),
    (DownloadFailedError("Server disconnected"), O.NETWORK, True),
    (ResponseDataLossError(), O.NETWORK, True),
    (ConnectionResetError("reset by peer"), O.NETWORK, True),
    (OSError(113, "No route to host"), O.NETWORK, True),
    (DownloadCancelledError("Cancelled: 50 MB"), O.INVALID, True),
    (UnsupportedURLSchemeError("gopher"), O.INVALID, True),
    (IgnoreRequest("Forbidden by robots.txt"), O.POLICY_DENIED, True),
    (IgnoreRequest("max redirections reached"), O.INVALID, True),
    (ValueError("a fault of this program"), O.INVALID, False),
    (KeyError("x"), O.INVALID, False),
]


@pytest.mark.parametrize(("error", "outcome", "known"), EXCEPTIONS, ids=lambda value: repr(value)[:40])
def test_request_without_an_answer_has_the_outcome_of_its_failure(error: Any, outcome: O, known: bool) -> None:
    verdict = classify_exception(error)
    assert (verdict.outcome, verdict.known) == (outcome, known)
    assert verdict.reason
    assert "ssl:" not in verdict.reason
    assert verdict_of(error) == verdict


def test_request_that_was_given_up_keeps_its_verdict() -> None:
    verdict = Verdict(O.GONE, "AccountTakedown")
    assert verdict_of(RequestFailed(verdict, 1)) is verdict
    assert str(RequestFailed(verdict, 1)) == "gone: AccountTakedown"
    assert str(RequestFailed(verdict, 3)) == "gone: AccountTakedown (3 tries)"
    assert str(RequestFailed(Verdict(O.OK), 1)) == "ok"


JSON = "application/json; charset=utf-8"
API, PDS = "https://api.example/xrpc/app.bsky.x.y", "https://pds.example/xrpc/com.atproto.x.y"
CONTENTS: list[tuple[str, str | None, bytes, Outcome]] = [
    (API, JSON, b'{"feed":[]}', O.OK),
    (API, JSON, b'{"feed":[]}\n  ', O.OK),
    (API, JSON, b"[]", O.OK),
    (API, JSON, b'{"feed":[', O.NETWORK),
    (API, JSON, b"", O.NETWORK),
    (API, JSON, b"<html></html>", O.NETWORK),
    (API, "text/html", b"<html></html>", O.LAYOUT_CHANGED),
    (API, None, b"<html></html>", O.LAYOUT_CHANGED),
    (API, "text/plain", b"{}", O.LAYOUT_CHANGED),
    (PDS, "application/vnd.ipld.car", b"\x3a\xa2", O.OK),
    (PDS, "application/did+ld+json", b'{"id":"did:plc:x"}', O.OK),
    (PDS, "application/did+ld+json", b'{"id":"did:pl', O.NETWORK),
    ("https://cdn.example/img/x", "image/jpeg", b"\xff\xd8", O.OK),
]


@pytest.mark.parametrize(("url", "kind", "body", "outcome"), CONTENTS)
def test_answer_of_200_is_looked_into(url: str, kind: str | None, body: bytes, outcome: O) -> None:
    response = Response(url, 200, {"Content-Type": kind} if kind else {}, body)
    verdict = classify(response)
    assert verdict.outcome is outcome
    assert (verdict is OK) == (outcome is O.OK)
    assert outcome is O.OK or verdict.reason


# The policies

PASSING = {
    O.RATE_LIMITED,
    O.BLOCKED,
    O.CHALLENGE,
    O.AUTH_REQUIRED,
    O.MAINTENANCE,
    O.TIMEOUT,
    O.DNS,
    O.NETWORK,
    O.PROXY,
    O.SERVER_ERROR,
    O.LAYOUT_CHANGED,
    O.NAVIGATION_FAILED,
    O.SESSION_EXPIRED,
}
"""Outcomes that speak of the moment or of us, not of the thing asked for."""


def test_every_outcome_has_a_policy() -> None:
    assert set(POLICIES) == set(Outcome)


@pytest.mark.parametrize("outcome", Outcome)
def test_policy_is_consistent(outcome: Outcome) -> None:
    policy = POLICIES[outcome]
    assert policy.later == (outcome in PASSING), "what passes is tried again by a later run, and nothing else"
    assert policy.later or not policy.retries, "what is tried again now is worth a later try too"
    assert policy.later or not policy.site, "what says something of the whole site says nothing of this input"
    assert bool(policy.retries) == bool(policy.backoff_s), "no retry without a pause before it"
    assert policy.error != (outcome in {O.OK, O.UNCHANGED, O.EMPTY, O.NOT_FOUND, O.GONE})
    assert not (outcome in {O.BLOCKED, O.CHALLENGE, O.AUTH_REQUIRED, O.POLICY_DENIED} and policy.retries), (
        "a site that says no is left alone"
    )


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not O.OK])
def test_outcomes_are_counted_and_errors_by_host(outcome: Outcome) -> None:
    stats = MemoryStatsCollector(get_crawler())
    count(stats, Verdict(outcome, "why"), "https://api.example:8443/x?y")
    assert stats.get_value(f"harvester/outcomes/{outcome}") == 1
    errors = [name for name in stats.get_stats() if name.startswith("harvester/errors/")]
    assert errors == ([f"harvester/errors/{outcome}/api.example:8443"] if POLICIES[outcome].error else [])


def test_failures_that_no_rule_knows_are_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    stats = MemoryStatsCollector(get_crawler())
    count(stats, classify_answer(418, b"", None), "https://api.example/x")
    assert stats.get_value("harvester/unclassified") == 1
    assert "api.example" in caplog.text
    assert "418" in caplog.text

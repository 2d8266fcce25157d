"""What follows from an outcome, in a real crawl: as many tries as its row says, then the errback."""

import asyncio
import gzip
import json
import os
import re
import tracemalloc
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.utils.test import get_crawler

from harvester.exceptions import DecodingError
from harvester.fetch.steps import JudgingStep, get_steps
from harvester.internal_meta import ATTEMPTS, LEASE
from harvester.middlewares import unpacking
from harvester.middlewares.compression import CompressionMiddleware
from harvester.middlewares.outcome import OutcomeMiddleware
from harvester.outcomes import POLICIES, Outcome, RequestFailed, Verdict
from tests.crawling import Answer, Crawled, Plan, Result, Site, crawl
from tests.numbers import numbers_of
from tests.ports import free_port

HTML = Answer(body=b"<!DOCTYPE html><html><body>Hello</body></html>", kind="text/html; charset=utf-8")


def failure(status: int, error: str = "", message: str = "", **headers: str) -> Answer:
    return Answer(status, json.dumps({"error": error, "message": message}).encode(), headers)


def packed(times: int, body: bytes = b'{"fine":true}') -> bytes:
    return packed(times - 1, gzip.compress(body)) if times else body


LONG = json.dumps([str(each) for each in range(2000)]).encode()
GZIP, BROTLI, DEFLATE = ({"Content-Encoding": name} for name in ("gzip", "br", "deflate"))
_REAL = {"deflate": zlib.decompressobj, "br": brotli.Decompressor}
LIKE_GZIP = brotli.compress(b"[%s]" % (b" " * 138), quality=5, lgwin=24)
"""A stream that begins as files of gzip do, as one in 256 does."""
XRPC = "/xrpc/app.bsky.actor.getProfile?"
FATES: dict[str, tuple[Answer, Outcome]] = {
    "/server-error": (failure(500, "InternalServerError"), Outcome.SERVER_ERROR),
    "/upstream": (failure(502, "UpstreamFailure"), Outcome.SERVER_ERROR),
    "/unavailable": (failure(503), Outcome.SERVER_ERROR),
    f"{XRPC}cursor=malformed": (failure(500, "InternalServerError", "Internal Server Error"), Outcome.SERVER_ERROR),
    "/late": (Answer(408, b"", kind="text/plain"), Outcome.TIMEOUT),
    "/forbidden": (Answer(403, b"<html>403 Forbidden</html>", kind="text/html"), Outcome.BLOCKED),
    "/challenge": (Answer(503, b"<title>Just a moment...</title>", kind="text/html"), Outcome.CHALLENGE),
    "/login": (failure(401, "AuthMissing"), Outcome.AUTH_REQUIRED),
    "/expired": (failure(400, "ExpiredToken"), Outcome.SESSION_EXPIRED),
    "/bad-request": (failure(400, "InvalidRequest", "Invalid cursor format"), Outcome.INVALID),
    "/absent": (failure(400, "InvalidRequest", "Profile not found"), Outcome.NOT_FOUND),
    "/gone": (failure(400, "AccountTakedown", "Account has been suspended"), Outcome.GONE),
    "/law": (Answer(451, b""), Outcome.POLICY_DENIED),
    "/no-such-call": (failure(501, "MethodNotImplemented"), Outcome.INVALID),
    "/loop": (Answer(302, b"", {"Location": "/loop"}), Outcome.INVALID),
    "/to-ftp": (Answer(302, b"", {"Location": "ftp://127.0.0.1/file"}), Outcome.INVALID),
    "/to-nowhere": (Answer(301, b""), Outcome.INVALID),
    "/to-half-an-address": (Answer(302, b"", {"Location": "http://[::1/"}), Outcome.INVALID),
    "/to-no-port": (Answer(302, b"", {"Location": "http://127.0.0.1:99999/"}), Outcome.INVALID),
    "/to-no-name": (Answer(302, b"", {"Location": f"http://{'a' * 64}.invalid/"}), Outcome.INVALID),
    "/to-white-space": (Answer(302, b"", {"Location": "http://a b.invalid/"}), Outcome.INVALID),
    "/cut-short": (Answer(missing=100), Outcome.NETWORK),
    "/half": (Answer(body=b'{"feed":[{"post":{"uri"'), Outcome.NETWORK),
    "/nothing": (Answer(body=b""), Outcome.NETWORK),
    "/half-a-gzip": (Answer(body=gzip.compress(LONG)[:-20], headers=GZIP), Outcome.NETWORK),
    "/six-codings": (Answer(body=packed(6), headers={"Content-Encoding": "gzip, " * 5 + "gzip"}), Outcome.NETWORK),
    "/half-a-brotli": (Answer(body=brotli.compress(LONG)[:50], headers=BROTLI, kind="text/plain"), Outcome.NETWORK),
    "/no-gzip": (Answer(headers=GZIP), Outcome.NETWORK),
    "/no-gzip-denied": (Answer(403, b"<html>", GZIP, "text/html"), Outcome.BLOCKED),
    "/bomb": (Answer(body=gzip.compress(b" " * 2_000_000), headers=GZIP), Outcome.INVALID),
    "/hangs-up": (Answer(silent=True), Outcome.NETWORK),
    f"{XRPC}html": (HTML, Outcome.LAYOUT_CHANGED),
    "/too-big": (Answer(body=b"[" + b" " * 2_000_000 + b"]"), Outcome.INVALID),
}

ERRORS = {
    "/loop": "IgnoreRequest",
    "/to-half-an-address": "ValueError",
    "/to-no-port": "ValueError",
    "/to-no-name": "AddressError",
    "/to-white-space": "AddressError",
    "/cut-short": "ResponseDataLossError",
    "/half-a-gzip": "DecodingError",
    "/six-codings": "ValueError",
    "/half-a-brotli": "DecodingError",
    "/no-gzip": "BadGzipFile",
    "/bomb": "IgnoreRequest",
    "/hangs-up": "DownloadFailedError",
    "/too-big": "DownloadCancelledError",
}
"""Path -> what its errback is given, where that is not HttpError."""

UNSPEAKABLE = {
    f"http://{'a' * 64}.invalid/": " 64 ",
    f"http://{'a.' * 124}invalid/": " 255 ",
    f"http://{'ü' * 64}.invalid/": " 63 ",
    "http://a..invalid/": " 0 ",
    "http://a b.invalid/": "white space",
    "http://a%00b.invalid/": "character",
    "http:///path": "no host",
}
"""Addresses at which no server can be -> what is said of them."""


class HangsUpLater(Site):
    """It answers once, and then never again."""

    async def answer(self, path: str, number: int) -> Answer:
        return Answer(silent=len(self.arrivals) > 1)


class Forbidding(Site):
    """Its robots.txt forbids everything."""

    asked = 0

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        body = b"User-agent: harvester\nDisallow: /\n"
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return True


class Ran:
    """One crawl of several sites."""

    def __init__(self) -> None:
        answers = {path: [answer] for path, (answer, _) in FATES.items()}
        answers["/recovers"] = [failure(502), Answer(missing=9), Answer(body=b'{"half":'), Answer()]
        answers["/page.html"] = [HTML]
        answers["/short.html"] = [Answer(body=gzip.compress(b"Hi"), headers=GZIP, kind="text/html")]
        answers["/like-gzip"] = [Answer(body=LIKE_GZIP, headers=BROTLI)]
        answers["/nothing-packed"] = [Answer(body=zlib.compress(b""), headers=DEFLATE, kind="text/plain")]
        answers["/two-gzips"] = [Answer(body=gzip.compress(b"[1,") + gzip.compress(b"2]"), headers=GZIP)]
        answers["/five-codings"] = [Answer(body=packed(5), headers={"Content-Encoding": "gzip, " * 4 + "gzip"})]
        self.site = Site(answers)
        self.listed = list(answers)
        answers["/bad"] = [Answer(418, b"")]
        self.busy = Site({"/always": [failure(429, "RateLimitExceeded")], "/now": [failure(429)] * 5 + [Answer()]})
        self.later, self.forbidding = HangsUpLater(), Forbidding()
        self.nobody = f"http://127.0.0.1:{free_port()}/x"

    async def run(self, folder: Path) -> None:
        async with self.site, self.busy, self.later, self.forbidding:
            urls = [
                *(self.site.url + path for path in self.listed),
                *(self.busy.url + path for path in self.busy.answers),
                f"{self.later.url}/first",
                f"{self.later.url}/then",
                f"{self.forbidding.url}/private",
                self.nobody,
                *UNSPEAKABLE,
                self.site.url.replace("//", "//ann:hunter2@") + "/bad",
                self.nobody.replace("//", "//ann:hunter2@"),
            ]
            settings = {"HARVESTER_BACKOFF_FACTOR": 0.001, "REDIRECT_MAX_TIMES": 3}
            patches = {"harvester.politeness.throttle.UNSTATED_WAIT_S": 0.001}
            plan = Plan(urls, settings=settings, patches=patches)
            self.crawled: Crawled = await crawl(plan, folder, requests_per_second="0", max_response_mb="1")

    def result(self, url: str) -> Result:
        """What became of a request: one thing only."""
        (result,) = self.crawled.of(url)
        return result


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    ran = Ran()
    asyncio.run(ran.run(tmp_path_factory.mktemp("outcomes")))
    return ran


@pytest.mark.parametrize("path", FATES)
def test_request_is_tried_as_often_as_its_row_says_and_then_given_up(path: str, ran: Ran) -> None:
    outcome = FATES[path][1]
    tries = 1 + POLICIES[outcome].retries
    result = ran.result(ran.site.url + path)
    assert (result.outcome, result.status) == (outcome, 0)
    assert (result.error, result.tries) == (ERRORS.get(path, "HttpError"), tries)
    tries = 4 if path == "/loop" else tries  # the first request, and REDIRECT_MAX_TIMES more
    # aiohttp asks again by itself when a connection that was used before is closed without an answer.
    assert ran.site.count(path) in ([tries] if path != "/hangs-up" else range(tries, 2 * tries + 1))


def test_request_that_recovers_is_answered_once(ran: Ran) -> None:
    assert ran.result(f"{ran.site.url}/recovers").status == 200
    assert ran.site.count("/recovers") == 4


@pytest.mark.parametrize("url", UNSPEAKABLE, ids=UNSPEAKABLE.values())
def test_address_at_which_no_server_can_be_is_told_of_and_asked_for_by_nobody(url: str, ran: Ran) -> None:
    result = ran.result(url)
    assert (result.error, result.outcome, result.tries) == ("AddressError", "invalid", 1)
    assert UNSPEAKABLE[url] in result.said


def test_what_is_compressed_is_as_good_as_what_is_not(ran: Ran) -> None:
    assert LIKE_GZIP.startswith(b"\x1f\x8b")
    for path in ("/short.html", "/two-gzips", "/five-codings", "/like-gzip", "/nothing-packed"):
        assert ran.result(ran.site.url + path).status == 200


def test_redirect_that_is_not_followed_says_where_it_leads(ran: Ran) -> None:
    said = {path: ran.result(ran.site.url + path).said for path in FATES}
    assert (numbers_of(said["/loop"]), " /loop" in said["/loop"]) == ([3, 302], True)
    assert re.search("HTTP 302 .* ftp://127.0.0.1/file", said["/to-ftp"])
    assert "Invalid IPv6" in said["/to-half-an-address"]


def test_password_in_an_address_is_in_no_count_and_no_log_of_its_failure(ran: Ran) -> None:
    named = [result for result in ran.crawled.results if "hunter2" in result.url]
    assert {result.outcome for result in named} == {"invalid", "network"}
    assert not [name for name in ran.crawled.stats if "hunter2" in name]
    told = [line for line in ran.crawled.log.splitlines() if "No rule" in line]
    assert [line for line in told if ran.site.name in line]
    assert "hunter2" not in "".join(told)


def test_html_is_an_answer_where_no_json_was_asked_for(ran: Ran) -> None:
    assert ran.result(f"{ran.site.url}/page.html").status == 200


def test_every_try_is_counted_by_outcome_and_host(ran: Ran) -> None:
    stats = ran.crawled.stats
    errors = {name.removeprefix("harvester/errors/"): stats[name] for name in stats if "harvester/errors/" in name}
    site, busy = ran.site.name, ran.busy.name
    assert errors[f"server_error/{site}"] == stats["harvester/outcomes/server_error"] == 4 * 6 + 1
    assert errors[f"network/{site}"] == 8 * 7 + 2
    invalid = sum(outcome is Outcome.INVALID for _, outcome in FATES.values())
    assert stats["harvester/outcomes/invalid"] == invalid + len(UNSPEAKABLE) + 1
    assert errors[f"layout_changed/{site}"] == stats["harvester/outcomes/layout_changed"] == 3
    assert errors[f"rate_limited/{busy}"] == stats["harvester/outcomes/rate_limited"] == 13 + 5
    assert not [name for name in errors if name.startswith(("not_found", "gone"))]
    assert stats["harvester/unclassified"] == 1  # /bad


def test_rate_limited_request_is_tried_again_until_it_is_answered_or_given_up(ran: Ran) -> None:
    assert ran.busy.count("/always") == 13
    given_up = ran.result(f"{ran.busy.url}/always")
    assert (given_up.outcome, given_up.tries) == ("rate_limited", 13)
    assert ran.result(f"{ran.busy.url}/now").status == 200


def test_host_that_never_answered_is_given_up_sooner_than_one_that_did(ran: Ran) -> None:
    assert ran.result(f"{ran.later.url}/first").status == 200
    then, refused = ran.result(f"{ran.later.url}/then"), ran.result(ran.nobody)
    assert (then.outcome, then.tries) == ("network", 7)
    assert (refused.outcome, refused.tries) == ("network", 3)
    assert ran.nobody.rpartition(":")[2].removesuffix("/x") in refused.said


def test_nothing_is_sent_where_robots_txt_forbids_it(ran: Ran) -> None:
    forbidden = ran.result(f"{ran.forbidding.url}/private")
    assert (forbidden.outcome, forbidden.tries) == ("policy_denied", 1)
    assert ran.forbidding.asked == 1


async def test_host_whose_answer_cannot_be_read_has_answered() -> None:
    request = Request("http://county.example/", meta={ATTEMPTS: 2, LEASE: "1"})
    again = await OutcomeMiddleware(get_crawler()).answer_failed(request, DecodingError("the answer is cut short"))
    assert again is not None
    assert again.meta[ATTEMPTS] == 3


async def test_answer_that_is_decoded_costs_no_more_than_its_body_and_one_that_is_not_costs_nothing() -> None:
    crawler = get_crawler(settings_dict={"DOWNLOAD_MAXSIZE": 1_000_000})
    compression, request = CompressionMiddleware(crawler), Request("http://county.example/")

    def answer(encoding: str, body: bytes) -> Response:
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        return Response(request.url, headers=headers, body=gzip.compress(body), request=request)

    decoded = await compression.process_response(request, answer("gzip", LONG))
    assert isinstance(decoded, TextResponse)
    assert (decoded.body, decoded.flags) == (LONG, ["decoded"])
    assert decoded._encoding is None, "which takes long to tell, and few want to know"
    bomb = answer("utf-8", b"[" + b" " * 20_000_000)
    tracemalloc.start()
    kept = await compression.process_response(request, bomb)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(kept, Response)
    assert (kept.body, kept.flags) == (bomb.body, [])
    assert most_bytes < 2_000_000


@pytest.mark.parametrize("coding", ["identity", "utf-8", "none"])
async def test_page_whose_coding_is_none_is_the_page_that_its_type_says(
    coding: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Else no link of it is followed by a CrawlSpider, and no meta element of it tells of an opt-out."""
    headers = {"Content-Encoding": coding, "Content-Type": "text/html; charset=utf-8"}
    plain = TextResponse("http://county.example/", headers=headers, body="<p>ä".encode())
    page = await CompressionMiddleware(get_crawler()).process_response(Request(plain.url), plain)
    assert isinstance(page, HtmlResponse)
    assert (page.text, page.flags, "Content-Encoding" in page.headers) == ("<p>ä", [], False)
    assert caplog.records == []


async def test_answer_of_which_a_spider_wants_the_beginning_only_is_unpacked_as_far_as_it_came() -> None:
    body, headers = gzip.compress(os.urandom(100_000))[:50_000], {"Content-Encoding": "gzip"}
    response = Response("http://county.example/", headers=headers, body=body, flags=["download_stopped"])
    decoded = await CompressionMiddleware(get_crawler()).process_response(Request(response.url), response)
    assert isinstance(decoded, Response)
    assert 40_000 < len(decoded.body) < 100_000


@pytest.mark.parametrize("coding", ["deflate", "br"])
async def test_long_answer_is_unpacked_in_few_steps_since_each_copies_what_is_left_of_it(
    coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, steps = bytes(8_000_000), 0

    class Counting:
        """Of deflate and of brotli."""

        def __init__(self) -> None:
            self._real: Any = _REAL[coding]()

        def __getattr__(self, name: str) -> Any:
            nonlocal steps
            steps += name in ("decompress", "process")
            return getattr(self._real, name)

    monkeypatch.setattr(unpacking, "zlib", SimpleNamespace(decompressobj=Counting, error=zlib.error))
    monkeypatch.setattr(unpacking, "brotli", SimpleNamespace(Decompressor=Counting))
    body = zlib.compress(plain) if coding == "deflate" else brotli.compress(plain, quality=1)
    response = Response("http://county.example/", headers={"Content-Encoding": coding}, body=body)
    decoded = await CompressionMiddleware(get_crawler()).process_response(Request(response.url), response)
    assert isinstance(decoded, Response)
    assert decoded.body == plain
    assert 0 < steps < 5


async def test_request_that_another_middleware_gives_up_is_told_of_and_not_tried_again() -> None:
    crawler, told = get_crawler(), []

    def hear(request: Request, verdict: Verdict, response: Response | None) -> None:
        told.append((request.url, verdict, response))

    get_steps(crawler).add(JudgingStep.QUOTA, hear)
    verdict, request = Verdict(Outcome.INVALID, "no such rendering"), Request("http://county.example/")
    assert await OutcomeMiddleware(crawler).process_exception(request, RequestFailed(verdict, 1)) is None
    assert told == [("http://county.example/", verdict, None)]
    assert crawler.stats.get_value("harvester/errors/invalid/county.example") == 1

"""What follows from an outcome, in a real crawl: as many tries as its row says, then the errback."""

import asyncio
import json
from pathlib import Path

import pytest

from harvester.outcomes import POLICIES, Outcome
from tests.crawling import Answer, Crawled, Plan, Site, crawl

HTML = Answer(body=b"<!DOCTYPE html><html><body>Hello</body></html>", kind="text/html; charset=utf-8")


def failure(status: int, error: str = "", message: str = "", **headers: str) -> Answer:
    return Answer(status, json.dumps({"error": error, "message": message}).encode(), headers)


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
    "/cut-short": (Answer(missing=100), Outcome.NETWORK),
    "/half": (Answer(body=b'{"feed":[{"post":{"uri"'), Outcome.NETWORK),
    "/nothing": (Answer(body=b""), Outcome.NETWORK),
    "/hangs-up": (Answer(silent=True), Outcome.NETWORK),
    f"{XRPC}html": (HTML, Outcome.LAYOUT_CHANGED),
    "/too-big": (Answer(body=b"[" + b" " * 2_000_000 + b"]"), Outcome.INVALID),
}
SOON = {"harvester.middlewares.throttle.UNSTATED_WAIT_S": 0.01}
AT_ONCE = {"HARVESTER_BACKOFF_FACTOR": 0.001}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("outcomes")


@pytest.fixture(scope="module")
def ran(folder: Path) -> tuple[Site, Crawled]:
    """One crawl for all fates."""

    async def run() -> tuple[Site, Crawled]:
        answers = {path: [answer] for path, (answer, _) in FATES.items()}
        answers["/recovers"] = [failure(502), Answer(missing=9), Answer(body=b'{"half":'), Answer()]
        answers["/page.html"] = [HTML]
        async with Site(answers) as site:
            plan = Plan([site.url + path for path in answers], settings=AT_ONCE | {"REDIRECT_MAX_TIMES": 3})
            return site, await crawl(plan, folder, requests_per_second="0", max_response_mb="1")

    return asyncio.run(run())


@pytest.mark.parametrize("path", FATES)
def test_request_is_tried_as_often_as_its_row_says_and_then_given_up(path: str, ran: tuple[Site, Crawled]) -> None:
    site, crawled = ran
    outcome = FATES[path][1]
    tries = 1 + POLICIES[outcome].retries
    (result,) = crawled.of(site.url + path)
    assert (result.outcome, result.status) == (outcome, 0)
    if path == "/loop":  # ended by Scrapy, after the first request and REDIRECT_MAX_TIMES more
        tries = 4
    else:
        assert (result.error, result.tries) == ("RequestFailed", tries)
    # aiohttp asks again by itself when a connection that was used before is closed without an answer.
    assert site.count(path) in ([tries] if path != "/hangs-up" else range(tries, 2 * tries + 1))


def test_request_that_recovers_is_answered_once(ran: tuple[Site, Crawled]) -> None:
    site, crawled = ran
    assert [result.status for result in crawled.of(f"{site.url}/recovers")] == [200]
    assert site.count("/recovers") == 4


def test_html_is_an_answer_where_no_json_was_asked_for(ran: tuple[Site, Crawled]) -> None:
    site, crawled = ran
    assert [result.status for result in crawled.of(f"{site.url}/page.html")] == [200]


def test_every_try_is_counted_by_outcome_and_host(ran: tuple[Site, Crawled]) -> None:
    site, crawled = ran
    stats = crawled.stats
    assert stats["harvester/pages"] == stats["harvester/outcomes/ok"] == 2
    assert stats[f"harvester/errors/server_error/{site.name}"] == stats["harvester/outcomes/server_error"] == 4 * 6 + 1
    assert stats["harvester/outcomes/network"] == 4 * 7 + 2
    assert stats["harvester/outcomes/layout_changed"] == 3
    assert stats["harvester/outcomes/blocked"] == 1
    assert not [name for name in stats if name.startswith(("harvester/errors/not_found", "harvester/errors/gone"))]
    assert "harvester/unclassified" not in stats


async def test_rate_limited_request_is_tried_again_until_it_is_answered_or_given_up(folder: Path) -> None:
    async with Site({"/busy": [failure(429, "RateLimitExceeded")], "/soon": [failure(429)] * 5 + [Answer()]}) as site:
        plan = Plan([f"{site.url}/busy", f"{site.url}/soon"], settings=AT_ONCE, patches=SOON)
        crawled = await crawl(plan, folder, requests_per_second="0")
    assert site.count("/busy") == 13
    assert [(result.outcome, result.tries) for result in crawled.of(f"{site.url}/busy")] == [("rate_limited", 13)]
    assert [result.status for result in crawled.of(f"{site.url}/soon")] == [200]


class HangsUpLater(Site):
    """It answers once, and then never again."""

    async def answer(self, path: str, number: int) -> Answer:
        return Answer(silent=len(self.arrivals) > 1)


async def test_host_that_never_answered_is_given_up_sooner_than_one_that_did(folder: Path, free_port: int) -> None:
    async with HangsUpLater() as site:
        first, then, nobody = f"{site.url}/first", f"{site.url}/then", f"http://127.0.0.1:{free_port}/x"
        plan = Plan([first, then, nobody], settings=AT_ONCE)
        crawled = await crawl(plan, folder, requests_per_second="0")
    assert [result.status for result in crawled.of(first)] == [200]
    assert [(result.outcome, result.tries) for result in crawled.of(then)] == [("network", 7)]
    (refused,) = crawled.of(nobody)
    assert (refused.outcome, refused.tries) == ("network", 3)
    assert str(free_port) in refused.said


async def test_no_request_is_sent_where_robots_txt_forbids_it(folder: Path) -> None:
    class Forbidding(Site):
        async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
            await reader.readuntil(b"\r\n\r\n")
            body = b"User-agent: harvester\nDisallow: /\n"
            writer.write(b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            self.asked = getattr(self, "asked", 0) + 1
            return True

    async with Forbidding() as site:
        crawled = await crawl(Plan([f"{site.url}/private"]), folder)
    assert [(result.outcome, result.tries) for result in crawled.results] == [("policy_denied", 1)]
    assert site.asked == 1

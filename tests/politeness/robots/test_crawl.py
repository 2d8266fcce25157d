"""robots.txt in a real crawl: what it forbids is not asked for, and nothing is while it cannot be read."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis.asyncio
from scrapy import Request
from scrapy.http import Headers
from scrapy.utils.request import fingerprint

from harvester.exceptions import UsageError
from harvester.frontier.store import Frontier
from harvester.middlewares.robots import MOST_PAUSES, MOST_WAITS
from harvester.politeness.robots import LONGEST_KEPT_S, SHORTEST_KEPT_S, kept_for
from harvester.sites import load_sites
from tests.crawling import LONGEST_S, Crawled, Plan, Result, crawl
from tests.frontier.crawl import crawl as crawl_frontier
from tests.politeness.robots.site import Reply, WebSite

RULES = b"User-agent: harvester\nDisallow: /private\nAllow: /\n"
PAGE, PRIVATE = "/page", "/private"
WITHOUT_RULES = {
    "404": Reply(404, b"<html>nothing here</html>", kind="text/html"),
    "401": Reply(401),
    "403": Reply(403),
    "410": Reply(410),
    "204": Reply(204, b""),
    "empty": Reply(body=b""),
    "a web page": Reply(body=b"<!doctype html><p>User-agent: *<p>Disallow: /", kind="text/html"),
    "a loop": Reply(302, b"", {"Location": "/robots.txt"}),
    "300": Reply(300, b""),
}
UNREADABLE = {
    "500": (Reply(500), "server_error", "HTTP 500"),
    "503": (Reply(503, b"<html>Just a moment...</html>"), "server_error", "HTTP 503"),
    "420": (Reply(420, headers={"Retry-After": "0"}), "rate_limited", "HTTP 420"),
    "429": (Reply(429, headers={"Retry-After": "0"}), "rate_limited", "HTTP 429"),
    "cut short": (Reply(body=RULES, missing=10), "network", "robots.txt"),
    "leads nowhere": (
        Reply(302, b"", {"Location": "http://127.0.0.1:1/robots.txt"}),
        "network",
        "robots.txt",
    ),
}
"""Kind -> robots.txt, and the outcome of the site's pages with the words for it."""
HICCUP = [Reply(503), Reply(429, headers={"Retry-After": "1"}), Reply(body=RULES)]
CHAIN = {"/robots.txt": "/1", "/1": "/2", "/2": "/3", "/3": "/4"}
MANY = [f"/private/{number}" for number in range(30)]


class Ran:
    """One crawl of several sites."""

    def __init__(self) -> None:
        robots = WITHOUT_RULES | {kind: reply for kind, (reply, *_) in UNREADABLE.items()}
        self.sites = {kind: WebSite({"/robots.txt": [reply]}) for kind, reply in robots.items()}
        self.sites |= {name: WebSite({"/robots.txt": [Reply(body=RULES)]}) for name in ("rules", "allowed")}
        self.sites["hiccup"] = WebSite({"/robots.txt": HICCUP})
        self.sites["slow"] = WebSite({"/robots.txt": [Reply(body=RULES + b"Crawl-delay: 0.5\n")]})
        self.sites["elsewhere"] = WebSite({"/rules": [Reply(body=RULES)]})
        self.sites["chain"] = WebSite({path: [Reply(301, b"", {"Location": to})] for path, to in CHAIN.items()})

    async def run(self, folder: Path) -> None:
        async with AsyncExitStack() as stack:
            for site in self.sites.values():
                await stack.enter_async_context(site)
            self.sites["chain"].replies["/4"] = [Reply(301, b"", {"Location": f"{self.sites['elsewhere'].url}/rules"})]
            allowed = self.sites["allowed"].name
            (folder / "sites").mkdir()
            (folder / "sites" / "here.toml").write_text(
                f'[allowed]\nhosts = ["{allowed}"]\n[allowed.politeness]\n'
                'obey_robots = false\nrobots_reason = "its operator, by letter of 2026-11-02"\n',
                "utf-8",
            )
            urls = [site.url + path for site in self.sites.values() for path in (PAGE, PRIVATE)]
            urls += [self.sites["rules"].url + path for path in MANY]
            urls += [f"{self.sites['slow'].url}/page/{number}" for number in range(3)]
            self.crawled: Crawled = await ask(
                folder,
                *urls,
                patches={"harvester.politeness.throttle.UNSTATED_WAIT_S": 0.1},
                sites_dir=str(folder / "sites"),
            )

    def result(self, site: str, path: str) -> Result:
        (result,) = self.crawled.of(self.sites[site].url + path)
        return result


async def ask(folder: Path, *urls: str, settings: Any = None, patches: Any = None, **variables: str) -> Crawled:
    """A crawl that asks for these addresses, without pauses: the time for the next try has always come."""
    plan = Plan(list(urls), settings={"HARVESTER_BACKOFF_FACTOR": 0, **(settings or {})}, patches=patches or {})
    return await crawl(plan, folder, requests_per_second="0", allow_private_hosts="true", **variables)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    ran = Ran()
    asyncio.run(ran.run(tmp_path_factory.mktemp("robots")))
    return ran


def test_what_is_forbidden_is_not_asked_for_and_the_rule_is_named(ran: Ran) -> None:
    site, refused = ran.sites["rules"], ran.result("rules", "/private/7")
    assert site.pages() == [PAGE]
    assert len(site.asked("/robots.txt")) == 1
    assert (refused.outcome, refused.tries) == ("policy_denied", 1)
    assert re.search(rf"{site.name} .*/private/7: Disallow: /private\b", refused.said)


@pytest.mark.parametrize("kind", WITHOUT_RULES)
def test_a_site_without_rules_is_asked_for_everything(kind: str, ran: Ran) -> None:
    assert sorted(ran.sites[kind].pages()) == [PAGE, PRIVATE]
    assert [ran.result(kind, path).status for path in (PAGE, PRIVATE)] == [200, 200]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_nothing_is_asked_for_while_robots_txt_cannot_be_read(kind: str, ran: Ran) -> None:
    site, (_, outcome, said) = ran.sites[kind], UNREADABLE[kind]
    assert site.pages() == []
    assert 1 + MOST_PAUSES <= len(site.asked("/robots.txt")) <= 2 * (1 + MOST_PAUSES)
    for path in (PAGE, PRIVATE):
        result = ran.result(kind, path)
        assert (result.outcome, result.error, result.tries) == (outcome, "RequestFailed", 1 + MOST_PAUSES)
        assert (said in result.said, "robots.txt" in result.said) == (True, True)


def test_a_hiccup_of_robots_txt_costs_time_only(ran: Ran) -> None:
    site = ran.sites["hiccup"]
    assert site.pages() == [PAGE]
    assert ran.result("hiccup", PRIVATE).outcome == "policy_denied"
    _, second, third = site.asked("/robots.txt")
    assert third.at - second.at >= 1.0


def test_five_redirects_are_followed_to_another_host(ran: Ran) -> None:
    assert ran.sites["chain"].pages() == ["/1", "/2", "/3", "/4", PAGE]
    assert ran.sites["elsewhere"].asked("/rules")
    assert ran.result("chain", PRIVATE).outcome == "policy_denied"


def test_requests_are_spaced_by_the_crawl_delay(ran: Ran) -> None:
    """As seen from robots.txt on, which was read before the first of them got its turn."""
    read, *pages = [each.at for each in ran.sites["slow"].log]
    assert len(pages) == 4
    assert all(at - read >= number * 0.5 for number, at in enumerate(pages))


def test_a_site_s_entry_may_say_with_a_reason_that_robots_txt_does_not_bind(ran: Ran) -> None:
    assert sorted(ran.sites["allowed"].pages()) == [PAGE, PRIVATE]
    assert ran.sites["allowed"].asked("/robots.txt") == []


def test_an_entry_without_the_reason_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = '[here]\nhosts = ["a.example"]\n[here.politeness]\nobey_robots = false\n'
    (tmp_path / "here.toml").write_text(entry, "utf-8")
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    with pytest.raises(UsageError, match="robots_reason"):
        load_sites()


def test_what_became_of_robots_txt_is_counted(ran: Ran) -> None:
    stats = ran.crawled.stats
    assert stats["harvester/robots/forbidden"] == len(MANY) + 4
    assert stats["harvester/robots/read"] == 4
    assert stats["harvester/robots/none"] == len(WITHOUT_RULES) + 1
    assert stats["harvester/robots/unreadable"] >= 2 + len(UNREADABLE) * (1 + MOST_PAUSES)
    assert stats["harvester/outcomes/server_error"] >= 4 + 2 * (1 + MOST_PAUSES)
    assert stats["harvester/pages"] == sum(result.status == 200 for result in ran.crawled.results)


async def test_rules_that_are_too_old_count_until_new_ones_can_be_read(tmp_path: Path) -> None:
    """Each page leads to another when the rules are older than they may be."""
    later = {PAGE: [Reply(302, b"", {"Location": "/next"}, after_s=0.5)]}
    later["/other"] = [Reply(302, b"", {"Location": PRIVATE}, after_s=0.5)]
    short = {"Cache-Control": "max-age=0"}
    fails = WebSite({"/robots.txt": [Reply(body=RULES, headers=short), Reply(503)], **later})
    changes = WebSite({"/robots.txt": [Reply(body=b"", headers=short), Reply(body=RULES)], **later})
    async with fails, changes:
        urls = [site.url + path for site in (fails, changes) for path in (PAGE, "/other")]
        crawled = await ask(tmp_path, *urls, patches={"harvester.politeness.robots.SHORTEST_KEPT_S": 0.2})
    for site in (fails, changes):
        assert sorted(site.pages()) == ["/next", "/other", PAGE]
        assert len(site.asked("/robots.txt")) >= 2
        assert crawled.of(f"{site.url}/other")[0].outcome == "policy_denied"


async def test_robots_txt_is_not_asked_for_where_it_is_not_obeyed(tmp_path: Path) -> None:
    async with WebSite({"/robots.txt": [Reply(body=RULES)]}) as site:
        crawled = await ask(tmp_path, site.url + PRIVATE, settings={"ROBOTSTXT_OBEY": False})
    assert [result.status for result in crawled.results] == [200]
    assert site.asked("/robots.txt") == []


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, LONGEST_KEPT_S),
        ({"Cache-Control": "max-age=3600"}, 3600),
        ({"Cache-Control": 'public, MAX-AGE="7200"'}, 7200),
        ({"Cache-Control": "max-age=31536000"}, LONGEST_KEPT_S),
        ({"Cache-Control": "max-age=1"}, SHORTEST_KEPT_S),
        ({"Cache-Control": "no-store, max-age=3600"}, SHORTEST_KEPT_S),
        ({"Cache-Control": "max-age=soon"}, LONGEST_KEPT_S),
        ({"Expires": "Thu, 01 Jan 1970 00:00:00 GMT"}, SHORTEST_KEPT_S),
        ({"Expires": "Thu, 01 Jan 2099 00:00:00 GMT"}, LONGEST_KEPT_S),
        ({"Expires": "0"}, SHORTEST_KEPT_S),
        ({"Cache-Control": "max-age=3600", "Expires": "0"}, 3600),
    ],
)
def test_it_is_kept_as_long_as_its_headers_say_and_a_day_at_most(headers: dict[str, str], seconds: float) -> None:
    assert kept_for(Headers(headers)) == seconds


@pytest.fixture
async def frontier(redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Frontier]:
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "0")
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    client = redis.asyncio.from_url(redis_url)
    frontier = Frontier(client, f"robots-{uuid4().hex[:8]}")
    yield frontier
    await frontier.drop()
    await client.aclose()


PATHS = [f"/page/{number}" for number in range(40)]


async def test_requests_of_the_frontier_wait_there_unspent_until_robots_txt_can_be_read(
    frontier: Frontier, tmp_path: Path
) -> None:
    """It is slow, then it fails three times."""
    async with WebSite({"/robots.txt": [Reply(503)] * 3 + [Reply(body=RULES)]}) as site:
        site.gate.clear()
        running = asyncio.create_task(crawl_frontier(tmp_path, frontier.spider, site.url, *PATHS, PRIVATE))
        async with asyncio.timeout(LONGEST_S):
            while (await frontier.status()).waiting <= len(PATHS):
                assert not running.done(), await running
                await asyncio.sleep(0.05)
        assert len(site.asked("/robots.txt")) == 1
        site.gate.set()
        crawled = await running
        forbidden = await frontier.look_up(number_of(site.url + PRIVATE))
    status = await frontier.status()
    assert [each.path for each in site.log[:4]] == ["/robots.txt"] * 4
    assert sorted(site.pages()) == sorted(PATHS)
    assert sorted(crawled.items) == sorted(PATHS)
    assert (status.balanced, status.done, status.skipped, status.retried) == (True, len(PATHS), 1, 0)
    assert crawled.stats["harvester/robots/unreadable"] == 3
    assert crawled.stats["harvester/robots/waited"] > len(PATHS)
    assert forbidden
    assert (forbidden.state, forbidden.outcome, forbidden.attempts) == ("skipped", "policy_denied", 0)
    assert "/private: Disallow: /private" in forbidden.reason


async def test_requests_of_the_frontier_are_given_up_when_robots_txt_stays_unreadable(
    frontier: Frontier, tmp_path: Path
) -> None:
    async with WebSite({"/robots.txt": [Reply(500)]}) as site:
        await crawl_frontier(tmp_path, frontier.spider, site.url, *PATHS[:3], HARVESTER_BACKOFF_FACTOR=0.0005)
        fate = await frontier.look_up(number_of(site.url + PATHS[0]))
    assert site.pages() == []
    assert len(site.asked("/robots.txt")) <= 3 * (1 + MOST_WAITS)
    assert fate
    assert (fate.state, fate.outcome) == ("dead", "server_error")
    assert re.search(r"HTTP 500.*robots\.txt", fate.reason)


def number_of(url: str) -> int:
    return int.from_bytes(fingerprint(Request(url))[:8], "big", signed=True)


async def test_what_a_robots_txt_forbids_is_not_asked_for_though_more_origins_than_are_kept_are_met_meanwhile(
    tmp_path: Path,
) -> None:
    slow = Reply(body=RULES, after_s=0.3)
    async with AsyncExitStack() as stack:
        sites = [await stack.enter_async_context(WebSite({"/robots.txt": [slow]})) for _ in range(6)]
        plan = Plan([site.url + PRIVATE for site in sites], patches={"harvester.politeness.robots.MOST_ORIGINS": 2})
        crawled = await crawl(plan, tmp_path, requests_per_second="0")
    assert {result.outcome for result in crawled.results} == {"policy_denied"}
    assert [site.pages() for site in sites] == [[]] * 6

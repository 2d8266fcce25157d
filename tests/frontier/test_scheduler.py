"""Whatever happens to a request on its way through Scrapy, it ends in exactly one fate, with a reason."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
import redis.asyncio
from scrapy import Request
from scrapy.utils.request import fingerprint

from harvester.addon import COMPONENTS
from harvester.frontier.messages import RequestStatus
from harvester.frontier.store import Frontier
from tests.crawling import LONGEST_S, Answer, Site
from tests.frontier.crawl import crawl

FINE = Answer(kind="text/plain", body=b"fine")


class Page(Site):
    """Robots.txt forbids one page."""

    async def answer(self, path: str, number: int) -> Answer:
        answers = self.answers.get(path, [FINE])
        return answers[min(number, len(answers) - 1)]


ANSWERS = {
    "/redirect": [Answer(302, b"", {"Location": "/linked?from=redirect"})],
    "/loop": [Answer(302, b"", {"Location": "/loop"})],
    "/retried": [Answer(503, b"", {"Retry-After": "0"}), FINE],
    "/missing": [Answer(404, b"")],
    "/missing-handled": [Answer(404, b"")],
    "/missing-raises": [Answer(404, b"")],
    "/gone": [Answer(410, b"")],
    "/forbidden": [Answer(403, b"")],
    "/law": [Answer(451, b"")],
    "/breaks": [Answer(silent=True)],
}

FATES: dict[str, tuple[str, str, str]] = {
    "/fine": ("done", "ok", ""),
    "/links": ("done", "ok", ""),
    "/copies": ("done", "ok", ""),
    "/unfiltered": ("done", "ok", ""),
    "/redirect": ("done", "ok", ""),
    "/loop": ("dead", "invalid", "redirects"),
    "/retried": ("done", "ok", ""),
    "/missing": ("done", "not_found", ""),
    "/missing-handled": ("done", "not_found", ""),
    "/missing-raises": ("dead", "invalid", "KeyError: 'errback' (crawl.py:"),
    "/gone": ("done", "gone", ""),
    "/forbidden": ("dead", "blocked", "HTTP 403"),
    "/law": ("skipped", "policy_denied", "HTTP 451"),
    "/breaks": ("dead", "network", ""),
    "/raises": ("dead", "invalid", "KeyError: 'owner' (crawl.py:"),
    "/raises-midway": ("dead", "invalid", "KeyError: 'owner' (crawl.py:"),
    "/unserialisable": ("done", "ok", ""),
    "/unserialisable-meta": ("done", "ok", ""),
    "/holds-what-it-retries-with": ("dead", "server_error", "try it again"),
    "/item-dropped": ("done", "ok", ""),
    "/item-fails": ("dead", "invalid", "ValueError: no room for it (crawl.py:"),
    "/ignored": ("skipped", "policy_denied", "not on a Sunday"),
}
"""Path -> state, outcome, what the reason says."""

LINKED = {"links": 1, "copies": 1, "unfiltered": 2, "redirect": 1, "raises-midway": 1, "errback": 1}
LINKED |= {"unserialisable": 1, "unserialisable-meta": 1}
"""What was followed -> how often it must be asked for."""


class Crawled:
    """One crawl over all the paths, for all the tests of this file."""

    def __init__(self, site: Page, frontier: Frontier) -> None:
        self.site = site
        self.frontier = frontier

    async def fate(self, path: str) -> RequestStatus | None:
        number = int.from_bytes(fingerprint(Request(self.site.url + path))[:8], "big", signed=True)
        return await self.frontier.look_up(number)


@pytest.fixture
async def frontier(redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Frontier]:
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "0")
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    client = redis.asyncio.from_url(redis_url)
    frontier = Frontier(client, f"fates-{uuid4().hex[:8]}")
    yield frontier
    await frontier.drop()
    await client.aclose()


async def test_every_request_ends_in_one_fate_with_a_reason(frontier: Frontier, tmp_path: Path) -> None:
    async with Page(ANSWERS) as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, *FATES)
        told = Crawled(site, frontier)
        fates = {path: await told.fate(path) for path in FATES}
    status = await frontier.status()
    assert crawled.reason == "finished", crawled.log
    for path, (state, outcome, reason) in FATES.items():
        fate = fates[path]
        assert fate is not None, path
        assert (path, fate.state) == (path, state), fate.reason
        if state != "done":  # of what is done only that is kept
            assert fate.outcome == outcome
            assert reason in fate.reason, path
    assert {name: site.count(f"/linked?from={name}") for name in LINKED} == LINKED
    assert site.count("/never") == 0
    assert site.count("/retried") == 2
    assert "/retried" in crawled.items
    assert status.balanced
    assert status.leased == status.ready == status.waiting == 0
    assert status.queued == len(FATES) + sum(LINKED.values()) - 1  # a redirect is no new request
    assert "Traceback" not in crawled.log.replace("Traceback (most recent call last)", "", 6)


async def test_a_page_that_is_yielded_again_as_it_is_ends_and_is_asked_for_again(
    frontier: Frontier, tmp_path: Path
) -> None:
    async with Page({"/missing-itself": [Answer(404, b"")]}) as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/yields-itself", "/missing-itself")
        asked = (site.count("/yields-itself"), site.count("/missing-itself"))
    status = await frontier.status()
    assert crawled.reason == "finished"
    assert asked == (2, 2)
    assert sorted(crawled.items) == [
        *("/missing-itself was missed",) * 2,
        "/yields-itself 0",
        "/yields-itself 1",
        "/yields-itself to the end",
    ]
    assert (status.balanced, status.queued, status.done, status.leased) == (True, 4, 4, 0)


async def test_a_page_whose_callback_downloads_another_with_its_meta_ends_as_if_it_had_not(
    frontier: Frontier, tmp_path: Path
) -> None:
    async with Page() as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/downloads")
        assert site.count("/downloaded") == 1
    status = await frontier.status()
    assert sorted(crawled.items) == ["/downloads fine", "/linked?from=downloads"]
    assert (status.balanced, status.queued, status.done) == (True, 2, 2)


async def test_a_page_whose_callback_downloads_it_once_more_is_done_once(frontier: Frontier, tmp_path: Path) -> None:
    async with Page() as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/downloads-itself")
        assert site.count("/downloads-itself") == 2
    status = await frontier.status()
    assert sorted(crawled.items) == ["/downloads-itself 200", "/linked?from=downloads-itself"]
    assert (status.balanced, status.queued, status.done) == (True, 2, 2)


async def test_a_request_that_a_projects_middleware_puts_in_place_of_another_has_the_fate_of_both(
    frontier: Frontier, tmp_path: Path
) -> None:
    async with Page({"/rescued": [Answer(silent=True)]}) as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/exchanged", "/sent-again", "/rescued")
        assert site.count("/sent-again") == 2
    status = await frontier.status()
    assert sorted(crawled.items) == ["/linked?from=exchanged", "/rescued", "/sent-again"]
    assert "harvester/outcomes/network" not in crawled.stats
    assert (status.balanced, status.queued, status.done, crawled.stats["leases_left"]) == (True, 3, 3, 0)


async def test_a_redirect_off_the_domains_of_the_spider_is_skipped_with_the_reason(
    frontier: Frontier, tmp_path: Path
) -> None:
    async with Page() as site:
        other = site.url.replace("127.0.0.1", "localhost") + "/never"
        site.answers = {"/away": [Answer(302, b"", {"Location": other})]}
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/away")
        fate = await Crawled(site, frontier).fate("/away")
    assert (crawled.stats["offsite/filtered"], site.count("/never")) == (1, 0)
    assert fate is not None
    assert (fate.state, fate.outcome) == ("skipped", "policy_denied")
    assert other in fate.reason


async def test_a_request_that_is_not_to_be_tried_again_is_judged_as_any_other(
    frontier: Frontier, tmp_path: Path
) -> None:
    answers = {"/not-again/500": [Answer(500, b"")], "/not-again/404": [Answer(404, b"")]}
    answers["/not-again/silent"] = [Answer(silent=True)]
    async with Page(answers) as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/not-again", *answers)
        told = [await Crawled(site, frontier).fate(path) for path in answers]
        asked = {path: site.count(path) for path in answers}
    assert asked["/not-again/500"] == asked["/not-again/404"] == 1
    assert [(fate.state, fate.outcome) for fate in told if fate] == [
        ("dead", "server_error"),
        ("done", ""),
        ("dead", "network"),
    ]
    assert (crawled.stats["harvester/pages"], crawled.stats["harvester/outcomes/not_found"]) == (1, 1)


async def test_a_meta_element_that_redirects_without_end_is_invalid_and_one_to_no_address_leaves_its_page(
    frontier: Frontier, tmp_path: Path
) -> None:
    places = {"/spins": "/spins?again", "/spins?again": "/spins", "/strays": "http://[::1", "/runs": "javascript:x()"}
    element = '<meta http-equiv="refresh" content="0; url={}">'
    answers = {path: [Answer(kind="text/html", body=element.format(to).encode())] for path, to in places.items()}
    async with Page(answers) as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/spins", "/strays", "/runs")
        fate = await Crawled(site, frontier).fate("/spins")
    assert fate is not None
    assert (fate.state, fate.outcome) == ("dead", "invalid")
    assert "redirects" in fate.reason
    assert crawled.stats["harvester/outcomes/invalid"] == 1
    assert sorted(crawled.items) == ["/runs", "/strays"]


async def test_an_answer_that_its_sites_rules_call_ok_comes_to_its_callback_whatever_its_status(
    frontier: Frontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    middlewares = COMPONENTS["SPIDER_MIDDLEWARES"]
    async with Page({"/odd": [Answer(404, b"")], "/missing": [Answer(404, b"")]}) as site:
        (tmp_path / "odd.toml").write_text(
            f'[odd]\nhosts = ["{site.name}"]\n[[odd.outcomes.rules]]\nname = "odd"\noutcome = "ok"\nurl = ["/odd$"]\n'
        )
        monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
        crawled = await crawl(
            tmp_path, frontier.spider, site.url, "/odd", "/missing", SPIDER_MIDDLEWARES_BASE=middlewares
        )
        fate = await Crawled(site, frontier).fate("/odd")
    assert crawled.items == ["/odd"]
    assert fate is not None
    assert fate.state == "done"
    assert (crawled.stats["harvester/outcomes/ok"], crawled.stats["harvester/outcomes/not_found"]) == (1, 1)


async def test_what_a_spider_begins_with_is_told_from_what_follows(frontier: Frontier, tmp_path: Path) -> None:
    """If Redis loses the latter it comes again with a lease; the former does with the next run alone."""
    async with Page() as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/fine", "/links")
    assert (crawled.stats["rooted"], crawled.stats["followed"]) == (2, 3)


async def test_a_run_that_ends_early_gives_back_what_it_holds(frontier: Frontier, tmp_path: Path) -> None:
    paths = ["/closes", *(f"/page/{number}" for number in range(300))]
    async with Page() as site:
        first = await crawl(tmp_path, frontier.spider, site.url, *paths, CLOSING=True)
        between = await frontier.status()
        second = await crawl(tmp_path, frontier.spider, site.url, *paths)
        asked = {path: site.count(path) for path in paths}
    status = await frontier.status()
    assert first.reason == "enough"
    assert between.balanced
    assert between.leased == 0
    assert between.ready > 0
    assert second.reason == "finished"
    assert asked == {**dict.fromkeys(paths, 1), "/closes": 2}
    assert sorted(set(first.items + second.items)) == sorted(paths)
    assert (status.balanced, status.done, status.ready, status.dead) == (True, len(paths), 0, 0)


async def test_a_crawl_that_is_all_done_ends_at_once_and_says_so(frontier: Frontier, tmp_path: Path) -> None:
    async with Page() as site:
        first = await crawl(tmp_path, frontier.spider, site.url, "/fine", "/links")
        again = await crawl(tmp_path, frontier.spider, site.url, "/fine", "/links", SCHEDULER_PERSIST=True)
        assert site.count("/fine") == 1
    assert again.reason == "finished"
    assert again.items == []
    assert (first.stats["resumed"], again.stats["resumed"]) == (False, True), "monitors do not judge it by its counts"
    assert f"harvester frontier forget {frontier.spider} --all" in again.log


async def test_a_crawl_that_was_finished_begins_anew_unless_somebody_is_at_work(
    frontier: Frontier, tmp_path: Path, redis_url: str
) -> None:
    async with Page() as site:
        first = await crawl(tmp_path, frontier.spider, site.url, "/fine", "/links")
        anew = await crawl(tmp_path, frontier.spider, site.url, "/fine", "/links")
        assert (site.count("/fine"), first.items) == (2, anew.items)
        assert "SCHEDULER_PERSIST" in anew.log
        await frontier.exchange("another:1:a:b", [], 0)
        joined = await crawl(tmp_path, frontier.spider, site.url, "/fine", "/links")
        worker = await crawl(tmp_path, frontier.spider, site.url, "/fine", "/links", HARVESTER_WORKER=1)
        assert site.count("/fine") == 2
    assert (joined.items, worker.items) == ([], [])


async def test_in_a_worker_a_request_that_cannot_be_kept_costs_only_itself(
    frontier: Frontier, tmp_path: Path, redis_url: str
) -> None:
    async with Page() as site:
        worker = await crawl(
            tmp_path, frontier.spider, site.url, "/unserialisable-meta", "/lambda", "/links", HARVESTER_WORKER=1
        )
        assert (site.count("/lambda"), site.count("/linked?from=unserialisable-meta")) == (0, 0)
        assert site.count("/linked?from=links") == 1
    assert worker.reason == "finished"
    assert worker.stats["harvester/frontier/unserialisable"] == 2


async def test_a_worker_whose_requests_were_refused_does_not_say_that_all_was_fetched(
    frontier: Frontier, tmp_path: Path, redis_url: str
) -> None:
    advice = f"harvester frontier forget {frontier.spider} --all"
    async with Page() as site:
        await crawl(tmp_path, frontier.spider, site.url, "/fine", HARVESTER_WORKER=1)
        again = await crawl(tmp_path, frontier.spider, site.url, "/fine", HARVESTER_WORKER=1)
        refused = await crawl(tmp_path, frontier.spider, site.url, "/fine", "/lambda", HARVESTER_WORKER=1)
    assert refused.stats["harvester/frontier/unserialisable"] == 1
    assert (advice in again.log, advice in refused.log) == (True, False)


class Held(Page):
    """Answers `/busy` only when all others are in the frontier, and those that came after it only when they are let."""

    def __init__(self, answers: dict[str, list[Answer]]) -> None:
        super().__init__(answers)
        self.all_wait = asyncio.Event()
        self.is_let = asyncio.Event()

    async def answer(self, path: str, number: int) -> Answer:
        if path == "/busy":
            await self.all_wait.wait()
        elif self.count("/busy"):  # others may come before it: requests that waited for robots.txt keep no order
            await self.is_let.wait()
        return await super().answer(path, number)


async def test_requests_wait_in_the_frontier_while_their_site_wants_to_be_left_alone(
    frontier: Frontier, tmp_path: Path
) -> None:
    """They occupy no worker meanwhile, and it costs them no attempt."""
    paths = ["/busy", *(f"/page/{number}" for number in range(200))]
    async with Held({"/busy": [Answer(429, b"", {"Retry-After": "20"}), FINE]}) as site:
        running = asyncio.create_task(crawl(tmp_path, frontier.spider, site.url, *paths))
        async with asyncio.timeout(LONGEST_S):
            while not ((status := await frontier.status()).waiting > 50 and not status.leased):
                assert not running.done(), await running
                if status.queued == len(paths):
                    site.all_wait.set()
                if status.waiting > 50:
                    site.is_let.set()
                await asyncio.sleep(0.05)
        crawled = await running
        arrivals = sorted(arrival.at for arrival in site.arrivals)
        asked = {path: site.count(path) for path in paths}
    assert status.ready == 0
    assert max(later - earlier for earlier, later in pairwise(arrivals)) >= 19.5
    assert asked == {**dict.fromkeys(paths, 1), "/busy": 2}
    assert sorted(crawled.items) == sorted(paths)
    after = await frontier.status()
    assert (after.balanced, after.done, after.retried) == (True, len(paths), 1)


async def test_a_start_request_that_cannot_be_kept_runs_in_the_process_that_made_it(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARVESTER_REDIS_URL", redis_url)
    async with Site({"/lambda": [Answer(200, b"x")], "/fine": [Answer(200, b"x")]}) as site:
        crawled = await crawl(tmp_path, f"test-{uuid4().hex[:12]}", site.url, "/lambda", "/fine")
        assert (site.count("/lambda"), site.count("/fine")) == (1, 1)
    assert crawled.reason == "finished"
    assert crawled.stats["harvester/frontier/held"] == 1

"""Requests of the frontier: each try is told of once, by the download or its callback; the policy says what follows."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
import redis.asyncio
from scrapy import Request
from scrapy.utils.request import fingerprint

from harvester.frontier.messages import FrontierStatus, RequestStatus
from harvester.frontier.store import Frontier
from harvester.outcomes import POLICIES, Outcome
from tests.crawling import Answer, Site
from tests.numbers import numbers_of
from tests.outcomes.exchanges import page
from tests.outcomes.judging_crawl import Judged, crawl

FINE = Answer(body=b"a page", kind="text/plain")


def html(title: str, text: str = "", status: int = 200) -> Answer:
    return Answer(status, page(title, text).encode(), kind="text/html")


REDIRECTS = {
    "/loops": ("/loops", [20, 302]),
    "/to-ftp": ("ftp://127.0.0.1/", [302]),
    "/to-half": ("http://[::1/", [302]),
}
"""Path -> where it leads, and the numbers of redirects and of the status that the dead letter tells."""
TEAPOT = "Teapot short and stout"
UNSPEAKABLE = f"http://{'a.' * 160}invalid"

ANSWERS = {
    "/mends": [Answer(body=b"half a page", kind="text/plain"), FINE],
    "/searched": [html("Search", "Your search did not find any records.")],
    "/broken": [Answer(500, b"")],
    "/limited": [Answer(429, b"", {"Retry-After": "1"}), Answer(429, b"", {"Retry-After": "1"}), FINE],
    "/walled": [html("Just a moment...")],
    "/teapot": [html("Teapot", "short and stout", 418)],
    "/teapot2": [html("Teapot", "short and stout", 418)],
    "/patient": [Answer(403, b"")],
    "/odd": [html("Parcels", "The office is closed today")],
}

SERVER_ERRORS = 1 + POLICIES[Outcome.SERVER_ERROR].retries
MISREAD = 1 + POLICIES[Outcome.LAYOUT_CHANGED].retries

FATES: dict[str, tuple[str, str, list[str]]] = {
    "/fine": ("done", "", ["ok"]),
    "/absent": ("done", "", ["not_found"]),
    "/lazily": ("done", "", ["empty"]),
    "/slowly": ("dead", "1,200 rows, of which 1,000 are shown [callback] a page", ["too_many"]),
    "/refused": ("skipped", "the disclaimer forbids it [callback] a page", ["policy_denied"]),
    "/drifted": ("dead", "no table of owners [callback] a page", ["layout_changed"] * MISREAD),
    "/mends": ("done", "", ["layout_changed", "ok"]),
    "/faulty": ("dead", "KeyError: 'owner' (judging_crawl.py:", ["invalid"]),
    "/faulty_lazily": ("dead", "KeyError: 'owner' (judging_crawl.py:", ["invalid"]),
    "/searched": ("done", "", ["empty"]),
    "/broken": ("dead", "HTTP 500 [server-error]", ["server_error"] * SERVER_ERRORS),
    "/limited": ("done", "", ["rate_limited", "rate_limited", "ok"]),
    "/walled": ("dead", "HTTP 200 with a challenge page [challenge-title] Just a moment...", ["challenge"]),
    "/teapot": ("dead", f"HTTP 418 [unknown-status] {TEAPOT}", ["invalid"]),
    "/teapot2": ("dead", f"HTTP 418 [unknown-status] {TEAPOT}", ["invalid"]),
    "/patient": ("dead", "HTTP 403 [forbidden]", ["blocked", "blocked"]),
    "/odd": ("dead", "closed for today [office-hours] Parcels", ["maintenance"]),
}
"""Path -> state, what the reason says, the outcomes that were told of its tries."""

SITE = """
[county]
hosts = ["{host}"]
[county.outcomes.policies.blocked]
retries = 1
backoff_s = 1
[county.outcomes.policies.maintenance]
retries = 0
[[county.outcomes.rules]]
name = "office-hours"
outcome = "maintenance"
text = ["The office is closed"]
reason = "closed for today"
"""


class Ran:
    """One crawl over all the paths, for all the tests of this file."""

    site: Site
    judged: Judged
    status: FrontierStatus
    fates: dict[str, RequestStatus | None]

    async def run(self, redis_url: str, folder: Path) -> None:
        client = redis.asyncio.from_url(redis_url)
        frontier = Frontier(client, f"judging-{uuid4().hex[:8]}")
        redirects = {path: [Answer(302, b"", {"Location": where})] for path, (where, _) in REDIRECTS.items()}
        async with Site({path: [FINE] for path in FATES} | ANSWERS | redirects) as self.site:
            (folder / "county.toml").write_text(SITE.format(host=self.site.name), "utf-8")
            self.judged = await crawl(folder, frontier.spider, self.site.url, *FATES, *REDIRECTS, f"{UNSPEAKABLE}/x")
            urls = {path: self.site.url + path for path in [*FATES, *REDIRECTS]} | {"/x": f"{UNSPEAKABLE}/x"}
            self.fates = {path: await frontier.look_up(_number(url)) for path, url in urls.items()}
        self.status = await frontier.status()
        await frontier.drop()
        await client.aclose()


def _number(url: str) -> int:
    return int.from_bytes(fingerprint(Request(url))[:8], "big", signed=True)


@pytest.fixture(scope="module")
def ran(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder, ran = tmp_path_factory.mktemp("judging"), Ran()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDIS_URL", redis_url)
        patch.setenv("HARVESTER_STATE_DIR", str(folder / "state"))
        patch.setenv("HARVESTER_SITES_DIR", str(folder))
        patch.setenv("HARVESTER_REQUESTS_PER_SECOND", "0")
        patch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
        asyncio.run(ran.run(redis_url, folder))
    return ran


@pytest.mark.parametrize("path", FATES)
def test_each_try_is_told_of_once_and_the_request_ends_as_its_policy_says(path: str, ran: Ran) -> None:
    state, reason, told = FATES[path]
    assert ran.judged.told[path] == told
    assert ran.site.count(path) == len(told)
    fate = ran.fates[path]
    assert fate is not None
    assert fate.state == state, fate.reason
    if state != "done":
        assert fate.outcome == told[-1]
        assert fate.reason.startswith(reason)


@pytest.mark.parametrize("path", REDIRECTS)
def test_redirect_that_is_not_followed_is_told_of_and_a_dead_letter(path: str, ran: Ran) -> None:
    assert ran.judged.told[path] == ["invalid"]
    fate = ran.fates[path]
    assert fate is not None
    assert (fate.state, fate.outcome) == ("dead", "invalid")
    place, numbers = REDIRECTS[path]
    assert (place in fate.reason, fate.reason.endswith("[redirect]")) == (True, True)
    assert numbers_of(fate.reason.partition(place)[0]) == numbers


def test_address_at_which_no_server_can_be_is_told_of_and_a_dead_letter(ran: Ran) -> None:
    assert ran.judged.told["/x"] == ["invalid"]
    fate = ran.fates["/x"]
    assert fate is not None
    assert (fate.state, fate.outcome) == ("dead", "invalid")
    assert (numbers_of(fate.reason)[-2:], fate.reason.endswith("[address]")) == ([327, 253], True)


def test_requests_end_by_outcome_and_none_is_lost(ran: Ran) -> None:
    assert ran.judged.reason == "finished", ran.judged.log
    done = Counter(told[-1] for state, _, told in FATES.values() if state == "done") + Counter({"ok": 1})
    assert ran.status.done_by_outcome == done
    dead = Counter(told[-1] for state, _, told in FATES.values() if state == "dead")
    assert ran.status.dead_by_outcome == dead + Counter(invalid=len(REDIRECTS) + 1)
    assert ran.status.skipped_by_outcome == {"policy_denied": 1}
    assert ran.status.balanced


def test_stats_count_what_was_told(ran: Ran) -> None:
    stats, told = ran.judged.stats, Counter(outcome for tries in ran.judged.told.values() for outcome in tries)
    counted = {name.rpartition("/")[2]: stats[name] for name in stats if name.startswith("harvester/outcomes/")}
    assert counted == told
    assert stats[f"harvester/errors/layout_changed/{ran.site.name}"] == MISREAD + 1
    assert stats["harvester/pages"] == sum(
        outcome in ("ok", "empty", "not_found", "too_many", "policy_denied", "layout_changed", "invalid")
        for path, tries in ran.judged.told.items()
        for outcome in tries
        if path not in ("/searched", "/teapot", "/teapot2", "/x", *REDIRECTS)
    )


def test_what_a_callback_yielded_before_it_failed_goes_its_way(ran: Ran) -> None:
    assert {"before", "slowly", "faulty"} <= set(ran.judged.items)
    assert ran.site.count("/linked") == 1
    assert "/linked" in ran.judged.items


def test_errback_hears_of_downloads_that_failed_and_not_of_pages(ran: Ran) -> None:
    told = {item for item in ran.judged.items if " came to " in item}
    assert told == {
        "/searched came to empty",
        "/broken came to server_error",
        "/walled came to challenge",
        "/teapot came to invalid",
        "/teapot2 came to invalid",
        "/patient came to blocked",
        "/odd came to maintenance",
        "/x came to invalid",
        *(f"{path} came to invalid" for path in REDIRECTS),
    }


def test_failure_that_no_rule_knows_is_counted_and_its_evidence_logged_once(ran: Ran) -> None:
    stats = ran.judged.stats
    assert stats["harvester/unclassified"] == 2
    assert stats[f"harvester/unclassified/unknown-status/{ran.site.name}"] == 2
    assert ran.judged.log.count("[unknown-status]") == 1
    assert f"HTTP 418 [unknown-status] {TEAPOT}" in ran.judged.log


def test_page_that_failed_is_no_fault_of_the_program(ran: Ran) -> None:
    assert len(re.findall(r"ERROR: .*/faulty", ran.judged.log)) == 2, "the two callbacks with a fault"
    assert ran.judged.stats["log_count/ERROR"] == 2

"""A page to which several addresses are redirected is fetched once, and every request for it has a fate."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import redis.asyncio
from scrapy import Request

from harvester.frontier.fingerprints import fingerprint
from harvester.frontier.messages import Dead, Done, Operation, Requeue, Skip
from harvester.frontier.store import Frontier
from harvester.sites.breaker import SiteBreaker
from tests.crawling import Answer, Site
from tests.frontier.crawl import crawl
from tests.frontier.pushes import push

ONE, TWO = "worker-1", "worker-2"


def redirect(name: str, target: int | None) -> Requeue:
    """The request of that id goes on at the address with that fingerprint."""
    url = f"https://site.example/{target}"
    return Requeue(name, b"redirected", url, "", 0, "redirected", "by another", attempt=False, target=target)


async def _leased(frontier: Frontier, *numbers: int, **fields: str) -> None:
    await frontier.exchange(ONE, [push(number, **fields) for number in numbers], wanted=len(numbers))


async def _later(frontier: Frontier) -> None:
    """Makes all that waits due."""
    for name in await frontier._redis.zrange(frontier.prefix + "waiting", 0, -1):
        await frontier._redis.zadd(frontier.prefix + "waiting", {name: 1})


async def test_a_redirect_to_an_address_that_was_fetched_is_done(frontier: Frontier) -> None:
    await _leased(frontier, 1, 2)
    await frontier.exchange(ONE, [Done("2")])
    told = await frontier.exchange(ONE, [redirect("1", 2)], wanted=9)
    status = await frontier.status()
    assert (told.leased, told.duplicates, told.stale) == ([], 1, 0)
    assert (status.queued, status.done, status.leased, status.balanced) == (2, 2, 0, True)
    assert status.done_by_outcome == {"ok": 1, "redirected": 1}


async def test_an_address_is_not_asked_for_again_once_a_request_was_redirected_to_it(frontier: Frontier) -> None:
    await _leased(frontier, 1, 2)
    told = await frontier.exchange(ONE, [redirect("1", 7), redirect("2", 7), push(7)], wanted=9)
    assert ([leased.id for leased in told.leased], told.duplicates, told.waiting) == (["1"], 1, 1)
    await _later(frontier)
    told = await frontier.exchange(ONE, [], wanted=9)
    assert (told.leased, told.waiting) == ([], 1), "it waits for the end of the other"
    await frontier.exchange(ONE, [Done("1"), push(7)], wanted=9)
    await _later(frontier)
    told = await frontier.exchange(ONE, [], wanted=9)
    assert (told.leased, told.waiting) == ([], 0)
    status = await frontier.status()
    assert (status.seen, status.done_by_outcome, status.balanced) == (3, {"redirected": 1, "ok": 1}, True)
    assert not await frontier._redis.exists(frontier.prefix + "targets", frontier.prefix + "follows")


@pytest.mark.parametrize(
    "end", [Dead("1", "auth_required", "a login"), Skip("1", "policy_denied", "robots")], ids=["dead", "skipped"]
)
async def test_many_pages_that_lead_to_one_refusal_are_no_copies_of_it(frontier: Frontier, end: Operation) -> None:
    """Each is refused by itself, so that the breaker hears of all and none counts as done."""
    await _leased(frontier, 1, 2, 3)
    await frontier.exchange(ONE, [redirect("1", 7), redirect("2", 7)], wanted=9)
    await frontier.exchange(ONE, [end])
    await _later(frontier)
    told = await frontier.exchange(ONE, [redirect("3", 7)], wanted=9)
    assert {leased.id for leased in told.leased} == {"2", "3"}
    assert (await frontier.status()).balanced


async def test_pages_that_lead_to_each_other_do_not_wait_for_each_other(frontier: Frontier) -> None:
    await _leased(frontier, 1, 2, 3)
    told = await frontier.exchange(ONE, [redirect("1", 2), redirect("2", 3), redirect("3", 1)], wanted=9)
    assert ([leased.id for leased in told.leased], told.waiting) == (["3"], 2)


async def test_a_redirect_into_a_site_that_is_left_alone_is_parked(frontier: Frontier) -> None:
    await _leased(frontier, 1)
    await frontier.exchange(ONE, [push(2, site="s")])
    await frontier.set_breaker("s", SiteBreaker().rules(), "held", "a person")
    told = await frontier.exchange(ONE, [redirect("1", 2)._replace(site="s")])
    assert (told.parked, told.waiting) == (2, 0)
    await frontier.set_breaker("s", SiteBreaker().rules(), "closed", "a person")
    assert (await frontier.status()).balanced


async def test_a_request_that_is_redirected_to_and_fro_is_no_copy_of_itself(frontier: Frontier) -> None:
    """A page that sets a cookie redirects to its login, which redirects back."""
    await _leased(frontier, 1)
    for target in (2, 1, 2, 3, 1):
        (leased,) = (await frontier.exchange(ONE, [redirect("1", target)], wanted=1)).leased
        assert leased.id == "1"
    status = await frontier.status()
    assert (status.seen, status.duplicates, status.balanced) == (3, 0, True)


async def test_a_redirect_that_is_told_again_by_another_worker_is_followed(frontier: Frontier) -> None:
    """The first was killed after Redis had heard of the redirect, or had heard of it and lost its lease."""
    await _leased(frontier, 1)
    await frontier.exchange(ONE, [redirect("1", 2)], wanted=1)
    await frontier.leave(ONE)
    (leased,) = (await frontier.exchange(TWO, [], wanted=1)).leased
    assert (leased.id, leased.payload) == ("1", b"redirected")
    told = await frontier.exchange(ONE, [redirect("1", 2)], wanted=1)
    assert (told.stale, told.leased) == (1, [])
    (leased,) = (await frontier.exchange(TWO, [redirect("1", 2)], wanted=1)).leased
    told = await frontier.exchange(TWO, [Done(leased.id)])
    assert (await frontier.status()).done_by_outcome == {"ok": 1}


async def test_a_redirect_that_is_not_filtered_is_followed(frontier: Frontier) -> None:
    await _leased(frontier, 1, 2)
    (leased,) = (await frontier.exchange(ONE, [redirect("1", None)], wanted=9)).leased
    assert leased.id == "1"


async def test_jobs_do_not_share_what_was_redirected_to(frontier: Frontier) -> None:
    await _leased(frontier, 1, job="a")
    await frontier.exchange(ONE, [redirect("a:1", 2)])
    told = await frontier.exchange(ONE, [push(2, job="b"), push(2, job="a")])
    assert (told.accepted, told.duplicates) == (1, 1)


@pytest.mark.parametrize(
    ("end", "state", "after"),
    [
        (Done("1"), "done", "done"),
        (Skip("1", "policy_denied", "robots"), "skipped", "skipped"),
        (Dead("1", "dns", "no such host"), "dead", "ready"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_where_a_redirect_led_is_found(frontier: Frontier, end: Operation, state: str, after: str) -> None:
    await _leased(frontier, 1)
    await frontier.exchange(ONE, [redirect("1", 2)], wanted=1)
    fate = await frontier.look_up(2)
    assert fate is not None
    assert (fate.state, fate.worker) == ("leased", ONE)
    await frontier.exchange(ONE, [end])
    assert [fate.state for fate in (await frontier.look_up(1), await frontier.look_up(2)) if fate] == [state, state]
    await frontier.replay()
    assert [fate.state for fate in (await frontier.look_up(1), await frontier.look_up(2)) if fate] == [after, after]
    for name in await frontier._redis.keys(frontier.prefix + "targets"):
        assert after == "ready", f"{name} is left"
    assert (await frontier.status()).balanced


async def test_a_dead_letter_of_a_redirected_request_can_be_pushed_anew(frontier: Frontier) -> None:
    await _leased(frontier, 1)
    await frontier.exchange(ONE, [redirect("1", 2)], wanted=1)
    await frontier.exchange(ONE, [Dead("1", "dns", "no such host")])
    assert [letter.id for letter in await frontier.dead()] == ["1"]
    await frontier.forget([1, 2])
    told = await frontier.exchange(ONE, [push(1), push(2)], wanted=9)
    assert (told.accepted, [leased.id for leased in told.leased]) == (2, ["1", "2"])
    assert not await frontier._redis.exists(frontier.prefix + "targets")
    assert (await frontier.status()).balanced


# A whole crawl --------------------------------------------------------------------------------------------


PAGES = 30


class Maze(Site):
    """Every page /page/N is where /old/N and /older/N lead, the latter by way of /old/N; some fail once at first."""

    async def answer(self, path: str, number: int) -> Answer:
        _, kind, name = path.split("/")
        if kind == "older":
            return Answer(308, b"", {"Location": f"/old/{name}"})
        if kind == "old":
            return Answer(301 if int(name) % 2 else 302, b"", {"Location": f"/page/{name}"})
        if kind == "session" and number < 2:
            return Answer(302, b"", {"Location": "/session/login" if name == "start" else "/session/start"})
        if kind == "page" and int(name) % 5 == 0 and number == 0:
            return Answer(503, b"", {"Retry-After": "0"})
        return Answer(kind="text/plain", body=b"fine")


async def test_a_page_with_many_names_is_asked_for_once(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "0")
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    paths = [f"/{kind}/{number}" for number in range(PAGES) for kind in ("older", "old", "page")] + ["/session/start"]
    async with _frontier(redis_url) as frontier, Maze() as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, *paths)
        asked = {path: site.count(path) for path in paths}
        fate = await frontier.look_up(fingerprint(Request(f"{site.url}/page/1")))
        status = await frontier.status()
    assert crawled.reason == "finished", crawled.log
    pages = {f"/page/{number}" for number in range(PAGES)}
    assert {path for path in crawled.items if "/page/" in path} == pages
    assert len(crawled.items) == PAGES + 1, "and /session/start"
    assert {asked[page] for page in pages if int(page[6:]) % 5} == {1}
    assert {asked[page] for page in pages if not int(page[6:]) % 5} == {2}, "with the retry"
    assert {asked[f"/{kind}/{number}"] for kind in ("old", "older") for number in range(PAGES)} == {1}
    assert fate is not None
    assert fate.state == "done"
    assert status.balanced
    assert (status.queued, status.done) == (len(paths), len(paths))
    assert status.done_by_outcome == {"ok": PAGES + 1, "redirected": 2 * PAGES}
    assert status.parked == status.waiting == 0


@asynccontextmanager
async def _frontier(redis_url: str) -> AsyncIterator[Frontier]:
    async with redis.asyncio.from_url(redis_url) as client:
        frontier = Frontier(client, f"redirects-{uuid4().hex[:8]}")
        yield frontier
        await frontier.drop()

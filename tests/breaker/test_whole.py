"""A site that begins to refuse, with real workers: few requests reach it, one alert, and all is fetched in the end."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from pymongo.database import Database
from redis.asyncio import Redis

from harvester.frontier.messages import FrontierStatus
from harvester.frontier.store import Frontier
from harvester.sites.breaker import SiteBreaker
from tests.breaker.running import LONGEST_S, Crawl
from tests.breaker.site import Site
from tests.monitors.conftest import HttpSink, sink

__all__ = ["sink"]

QUICK = "open_seconds = 0.5\nmost_open_seconds = 4.0\nwindow_seconds = 60.0"
SLOWER = "open_seconds = 5.0\nmost_open_seconds = 120.0\nwindow_seconds = 60.0"
TURNS_AFTER = 200
"""Pages after which a site refuses."""


class House(NamedTuple):
    """Where the workers of a test live."""

    frontier: Frontier
    redis: Redis
    folder: Path
    variables: dict[str, str]
    mongodb: Database[dict[str, Any]]

    def crawl(self, site: Site, inputs: int, breaking: str = QUICK, **variables: str) -> Crawl:
        """Of the site, which is registered as `blockable`."""
        sites = self.folder / "sites"
        sites.mkdir(exist_ok=True)
        (sites / "sites.toml").write_text(f'[blockable]\nhosts = ["{site.name}"]\n[blockable.breaker]\n{breaking}\n')
        own = {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}
        return Crawl(self.folder, {**self.variables, **own}, f"urls={site.url}", f"inputs={inputs}")

    async def until(
        self, crawl: Crawl, is_so: Callable[[FrontierStatus], bool], longest_s: float = LONGEST_S
    ) -> FrontierStatus:
        """Waits for the frontier to be so."""
        async with asyncio.timeout(longest_s):
            while not is_so(status := await self.frontier.status()):
                assert status.balanced
                assert any(worker.returncode is None for worker in crawl.workers), crawl.said
                await asyncio.sleep(0.05)
        assert status.balanced
        return status


@pytest.fixture
async def house(
    redis_url: str, mongodb_uri: str, mongodb: Database[dict[str, Any]], sink: HttpSink, tmp_path: Path
) -> AsyncIterator[House]:
    async with Redis.from_url(redis_url) as client:
        frontier = Frontier(client, "inputs", mongodb.name)
        variables = {
            "REDIS_URL": redis_url,
            "HARVESTER_MONGODB_URI": mongodb_uri,
            "HARVESTER_DATABASE": mongodb.name,
            "HARVESTER_ALERT_WEBHOOK_URL": sink.url,
            "HARVESTER_SITES_DIR": str(tmp_path / "sites"),
        }
        yield House(frontier, client, tmp_path, variables, mongodb)
        await frontier.drop()


def is_open(status: FrontierStatus) -> bool:
    return "blockable" in status.breakers


async def _attempts(house: House) -> list[int]:
    """Of all requests that are in the frontier."""
    entries: Any = await house.redis.hvals(house.frontier.prefix + "entries")
    return [msgspec.msgpack.decode(entry)[4] for entry in entries]


async def _block_and_recover(
    house: House,
    sink: HttpSink,
    inputs: int,
    meanwhile: Callable[[Crawl], Awaitable[None]] | None = None,
    breaking: str = QUICK,
) -> None:
    async with Site(turns_after=TURNS_AFTER) as site, house.crawl(site, inputs, breaking) as crawl:
        await crawl.start()
        await crawl.start()
        await house.until(crawl, is_open)
        longest_s = LONGEST_S + inputs / 25
        most = inputs - TURNS_AFTER - 100  # at least so many are parked, when workers have given back what they held
        await house.until(crawl, lambda status: status.queued == inputs and status.parked > most, longest_s)
        assert set(await _attempts(house)) == {0}
        if meanwhile:
            await meanwhile(crawl)
        status = await house.until(crawl, lambda _: house.mongodb["events"].count_documents({"to": "half_open"}) > 1)
        assert status.dead == 0
        site.recover()
        codes = await crawl.ended(longest_s)
        assert set(codes) == {0}, crawl.said
    trials = sum(event["to"] == "half_open" for event in house.mongodb["events"].find())
    most = 100 + trials * SiteBreaker().probes
    assert site.badly.total() < most, "so many further requests reached the site"
    assert site.well.keys() == {f"/page/{number}" for number in range(inputs)}
    status = await house.frontier.status()
    assert (status.queued, status.done, status.dead, status.retried) == (inputs, inputs, 0, 0)
    assert status.balanced
    events = list(house.mongodb["events"].find().sort("at", 1))
    if not meanwhile:  # of what a killed worker was to tell another tells, a minute later
        assert [event["from"] for event in events] == ["closed", *(event["to"] for event in events[:-1])]
        assert [event["to"] for event in events][-1] == "closed"
    assert [post.body["to"] for post in sink.posts] == ["open"], "one alert"
    assert sink.posts[0].body["site"] == "blockable"
    assert " all " in sink.posts[0].body["extrapolation"]
    if not meanwhile:
        assert site.well.total() == inputs


async def test_a_site_that_begins_to_refuse_is_left_alone_until_it_recovers(house: House, sink: HttpSink) -> None:
    await _block_and_recover(house, sink, 700)


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_a_job_of_100_000_inputs_survives_a_site_that_refuses(house: House, sink: HttpSink) -> None:
    await _block_and_recover(house, sink, 100_000, breaking=SLOWER)


@pytest.mark.slow
async def test_a_worker_killed_while_a_site_is_left_alone_loses_nothing(house: House, sink: HttpSink) -> None:
    async def kill(crawl: Crawl) -> None:
        await house.until(crawl, lambda _: bool(sink.posts))
        for worker in crawl.workers[:2]:
            worker.kill()
            await worker.wait()
            await crawl.start()

    await _block_and_recover(house, sink, 600, kill)


async def test_a_run_ends_when_all_that_is_left_is_held_and_a_later_one_goes_on(house: House, sink: HttpSink) -> None:
    rules = SiteBreaker().rules()
    await house.frontier.set_breaker("blockable", rules, "held", "a person")
    async with Site() as site, Site() as other, house.crawl(site, 50) as crawl:
        crawl.also(other.url)
        await crawl.start()
        assert await crawl.ended() == [7], crawl.said
        assert re.search(r"\b50 .*\bblockable \(held\)", crawl.said)
        assert (site.well.total(), other.well.total()) == (0, 50)
        status = await house.frontier.status()
        assert (status.parked, status.done, status.balanced) == (50, 50, True)
        await house.frontier.set_breaker("blockable", rules, "closed", "a person")
        await crawl.start()
        assert await crawl.ended() == [7, 0], crawl.said
        assert (site.well.total(), other.well.total()) == (50, 50)
    assert sink.posts == [], "nobody is told of what a person did"


async def test_a_run_ends_when_a_site_is_left_alone_for_too_long(house: House) -> None:
    async with Site(turns_after=0) as site, house.crawl(site, 60, parked_seconds="2") as crawl:
        await crawl.start()
        assert await crawl.ended() == [7], crawl.said
        assert re.search(r"\b60 .*\bblockable\b", crawl.said)
        assert site.badly.total() < 60
        status = await house.frontier.status()
        assert (status.parked, status.dead, status.balanced) == (60, 0, True)


@pytest.mark.slow
async def test_other_sites_are_asked_on_and_a_changed_site_is_noticed(house: House) -> None:
    """The one answers 200 to everything and has nothing in it any more."""
    breaking = QUICK + "\nsample = 30"
    async with Site(turns_after=TURNS_AFTER, then="nothing") as site, Site() as other:
        site.body = "parcel of Jane Doe"
        async with house.crawl(site, 550, breaking) as crawl:
            crawl.also(other.url)
            await crawl.start()
            await house.until(crawl, is_open)
            await house.until(crawl, lambda _: other.well.total() == 550)
            assert site.badly.total() < 300
            event = house.mongodb["events"].find_one({"to": "open"})
            assert event is not None
            assert event["cause"] == "drift"
            site.recover()
            assert await crawl.ended() == [0], crawl.said
    status = await house.frontier.status()
    assert (status.done, status.parked, status.balanced) == (1100, 0, True)

"""On every platform a harvest is exactly the county, whatever its site and its workers go through."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.counties.conftest import Crawls
from tests.counties.stands import STANDS, TWIN, Stand
from tests.jobs.running import FINISHED, LEFT

SMALL, THOUSAND = 40, 1000
SOON = ("arcgis", "vgsi")
"""Platforms, one of tables and one of pages, of which each run of the tests harvests a small county."""
ENOUGH = 90
"""Requests that a small harvest takes at most: the first fifty meet each failure."""
LONGEST_S = 1800
"""Of a process, on a busy machine."""
SPARE = 5
"""Of the harvest so many parts are left when the last process was killed."""
MOST_ASKED = 2.5
"""Requests, beside those that an undisturbed harvest takes; and for each kill 60 more."""


async def harvest(
    crawls: Crawls, mongodb: Database[dict[str, Any]], stand: Stand, folder: Path, parcels: int, kills: int
) -> None:
    """Kills it after so many answers, so often; meanwhile sessions end, and one answer in fifty is each failure."""
    step = int(parcels * stand.requests) // (kills + SPARE)
    killed, code = 0, LEFT
    async with stand.portal as portal:
        stand.enter(crawls, sessions=2 if parcels < THOUSAND else 4)
        portal.bad = stand.failing()
        given = stand.given(folder)
        while code != FINISHED:
            portal.released.clear()
            portal.held_after = len(portal.arrivals) + step if killed < kills else 0
            process = await crawls.start(stand.spider, **given)
            if portal.held_after:
                await crawls.until(lambda: len(portal.arrivals) > portal.held_after or not crawls.is_running)
            if portal.held_after and process.returncode is None:
                await crawls.kill(process)
                killed += 1
            code = await crawls.end(process, LONGEST_S)
            assert code in (FINISHED, LEFT) or code < 0, crawls.said[-5000:]
            portal.released.set()
            later = {"state": "waiting", "due_at": {"$type": "date"}}
            mongodb["job_items"].update_many(later, {"$set": {"due_at": datetime.now(UTC)}})  # as if time had passed
        assert killed == kills
        assert portal.overlaps == 0, "a session is asked for one thing at a time"
        asked = len(portal.arrivals)
    fates = {(item["kind"], item["state"], item["outcome"]) for item in crawls.items()}
    assert {fate[1:] for fate in fates} <= {("done", "ok"), ("done", "empty")}, fates
    assert fates & {("parcel", "done", "ok"), ("page", "done", "ok")}
    stand.check(crawls)
    assert stand.is_orderly(portal)
    assert asked < MOST_ASKED * parcels * stand.requests + 60 * (kills + 1), "it goes on each time"
    print(f"\n{stand.spider}: {parcels:,} parcels, {kills} kills, {asked:,} requests")


@pytest.mark.parametrize(
    "platform",
    [pytest.param(name, marks=() if name in SOON else pytest.mark.slow) for name in STANDS if name != TWIN],
)
async def test_it_is_exactly_the_county_with_a_kill_failures_and_sessions_that_end(
    crawls: Crawls, mongodb: Database[dict[str, Any]], tmp_path: Path, platform: str
) -> None:
    parcels = min(SMALL, int(ENOUGH / STANDS[platform](1).requests))
    await harvest(crawls, mongodb, STANDS[platform](parcels), tmp_path, parcels, 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("platform", STANDS)
async def test_a_thousand_parcels_are_exactly_the_county_with_twenty_kills_failures_and_sessions_that_end(
    crawls: Crawls, mongodb: Database[dict[str, Any]], tmp_path: Path, platform: str
) -> None:
    await harvest(crawls, mongodb, STANDS[platform](THOUSAND), tmp_path, THOUSAND, 20)

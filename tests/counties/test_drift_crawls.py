"""A site that changes its pages in mid-job is left alone within 50 of them; nothing wrong is stored, nothing lost."""

from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.counties.conftest import SITE, Crawls
from tests.counties.drifts import CHANGES, DRIFTING
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county_portal import Changes

MOST = 50
"""Pages of the new layout that are asked for before the site is left alone."""
BEFORE = 40
"""Pages that are read before it changes."""
PAGES = 110
"""That there are."""
PATIENT = f"[{SITE}.breaker]\nopen_seconds = 3600"
"""No probe is sent while the test runs."""
PACED = f"[{SITE}.politeness]\nrequests_per_second = 0\nconcurrency = 2"


async def crawl(
    crawls: Crawls, mongodb: Database[dict[str, Any]], platform: str, changes: Changes, folder: Path
) -> None:
    stand = DRIFTING[platform](PAGES)
    truth = stand.truth["properties"]
    crawls.environment["HARVESTER_PARKED_SECONDS"] = "0"
    async with stand.portal as portal:
        stand.enter(crawls, PATIENT, PACED)
        portal.changes, portal.changes_after = dict(changes), BEFORE
        given = stand.given(folder)
        assert await crawls.run(stand.spider, **given) == LEFT, crawls.said[-3000:]
        asked = portal.shown - BEFORE
        assert 0 < asked <= MOST
        stored = stand.stored(crawls, "properties")
        assert stored.items() <= truth.items()
        assert BEFORE // 2 <= len(stored) < len(truth)
        (opened,) = mongodb["events"].find({"to": "open"})
        assert (opened["site"], opened["cause"]) == (SITE, "layout")
        assert opened["evidence"]
        assert opened["evidence"] in crawls.said
        assert crawls.items(state="failed") == [], "they are parked"

        portal.changes = {}
        closed = run(HARVESTER, "frontier", "close", stand.spider, SITE, cwd=Path.cwd(), env=crawls.environment)
        assert closed.returncode == 0, closed.stderr
        assert await crawls.run(stand.spider, **given) == FINISHED, crawls.said[-3000:]
        stand.check(crawls)
    print(f"\n{platform}: {asked} pages, {opened['evidence']}")


@pytest.mark.parametrize(("platform", "number"), [("vgsi", 4), pytest.param("beacon", 8, marks=pytest.mark.slow)])
async def test_a_site_that_renames_a_label_in_mid_job_is_left_alone_and_is_whole_when_it_is_as_before(
    crawls: Crawls, mongodb: Database[dict[str, Any]], tmp_path: Path, platform: str, number: int
) -> None:
    """All pages of the one are others then, of the other those of parcels that were sold."""
    await crawl(crawls, mongodb, platform, CHANGES[platform][number][0], tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("platform", "number"), [(platform, number) for platform in DRIFTING for number in range(len(CHANGES[platform]))]
)
async def test_a_site_that_changes_its_pages_in_mid_job_is_left_alone_likewise(
    crawls: Crawls, mongodb: Database[dict[str, Any]], tmp_path: Path, platform: str, number: int
) -> None:
    await crawl(crawls, mongodb, platform, CHANGES[platform][number][0], tmp_path)

"""A site that changes its pages in mid-job is left alone within 50 of them; nothing wrong is stored, nothing lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from tests.counties.conftest import NO_BREAKER, SITE, Crawls
from tests.counties.test_drift import (
    DISTRICT_CHANGES,
    PORTAL_CHANGES,
    SOCRATA_NAMES,
    TABLE_CHANGES,
    TOWN_CHANGES,
    Changes,
    change,
)
from tests.counties.test_iasworld_crawls import ACCEPTED, write_parcels
from tests.counties.test_iasworld_crawls import check as check_portal
from tests.counties.test_vgsi_crawls import UNEXPECTED
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_esearch import EsearchPortal
from tests.sandbox.county_esearch import truth as truth_of_district
from tests.sandbox.county_iasworld import IasworldPortal
from tests.sandbox.county_tables import OFFSET, ArcgisTable, CountyTable, SocrataTable
from tests.sandbox.vision import CARD, VisionTown

MOST = 50
"""Pages of the new layout that are asked for before the site is left alone."""
BEFORE = 40
"""Pages that are read before it changes."""
PATIENT = "open_seconds = 3600\n"
"""Of the breaker: no probe is sent while the test runs."""


class Changing(NamedTuple):
    """A site that has changed in mid-job."""

    asked: Callable[[], int]
    """Pages that were asked for."""
    stored: Callable[[], dict[str, Any]]
    """What is stored of properties."""
    truth: dict[str, Any]
    """What there is to be stored."""
    restore: Callable[[], None]
    """It is as before."""
    arguments: dict[str, Any]


async def crawl(crawls: Crawls, mongodb: Database[dict[str, Any]], spider: str, site: Changing) -> None:
    crawls.environment["HARVESTER_PARKED_SECONDS"] = "0"
    assert await crawls.run(spider, site=SITE, **site.arguments) == LEFT, crawls.said[-3000:]
    assert site.asked() - BEFORE <= MOST
    stored = site.stored()
    assert stored.items() <= site.truth.items()
    assert len(stored) >= BEFORE // 2
    assert len(stored) < len(site.truth)
    (opened,) = mongodb["events"].find({"to": "open"})
    assert (opened["site"], opened["cause"]) == (SITE, "layout")
    assert opened["evidence"]
    assert opened["evidence"] in crawls.said
    assert crawls.items(state="failed") == [], "they are parked"

    site.restore()
    closed = run(HARVESTER, "frontier", "close", spider, SITE, cwd=Path.cwd(), env=crawls.environment)
    assert closed.returncode == 0, closed.stderr
    assert await crawls.run(spider, site=SITE, **site.arguments) == FINISHED, crawls.said[-3000:]
    assert site.stored() == site.truth


def entry(host: str) -> str:
    """Tables of the site's entry before its `property`."""
    paced = f"[{SITE}.politeness]\nrequests_per_second = 0\nconcurrency = 2\n"
    paced += f"[{SITE}.identities]\nlogins_per_hour = 10000\nchain_idle_s = 1\n"
    return f'[{SITE}]\nhosts = ["{host}"]\n[{SITE}.breaker]\n{PATIENT}' + paced


async def change_town(crawls: Crawls, mongodb: Database[dict[str, Any]], changes: Changes) -> None:
    async with VisionTown(110) as town:
        before = entry(town.name).partition(f"[{SITE}.identities]")[0]
        crawls.enter("vgsi", town.base_url, before=before)
        town.changes, town.changes_after = changes, BEFORE
        site = Changing(
            lambda: town.asked(CARD),
            lambda: crawls.documents("properties", UNEXPECTED),
            town.truth(SITE)["properties"],
            town.changes.clear,
            {"all": "yes"},
        )
        await crawl(crawls, mongodb, "vgsi", site)


async def change_portal(crawls: Crawls, mongodb: Database[dict[str, Any]], changes: Changes, folder: Path) -> None:
    county = County(70)
    write_parcels(county, folder)
    async with IasworldPortal(county) as portal:
        crawls.enter("iasworld", portal.entry_url, ACCEPTED, before=entry(portal.name))
        portal.changes, portal.changes_after = changes, BEFORE
        site = Changing(
            lambda: portal.searched,
            lambda: crawls.found("properties"),
            county.truth(SITE)["properties"],
            portal.changes.clear,
            {"parcels": "@parcels.csv"},
        )
        await crawl(crawls, mongodb, "iasworld", site)
        check_portal(crawls, county)


async def change_district(crawls: Crawls, mongodb: Database[dict[str, Any]], changes: Changes, folder: Path) -> None:
    county = County(110)
    write_parcels(county, folder)
    async with EsearchPortal(county) as portal:
        crawls.enter("esearch", portal.url, before=entry(portal.name).partition(f"[{SITE}.identities]")[0])
        portal.changes, portal.changes_after = changes, BEFORE
        site = Changing(
            lambda: portal.viewed,
            lambda: crawls.found("properties"),
            truth_of_district(county, SITE)["properties"],
            portal.changes.clear,
            {"parcels": "@parcels.csv"},
        )
        await crawl(crawls, mongodb, "esearch", site)


async def change_table(crawls: Crawls, mongodb: Database[dict[str, Any]], table: CountyTable, changes: Changes) -> None:
    spider, own = ("arcgis", {}) if isinstance(table, ArcgisTable) else ("socrata", SOCRATA_NAMES)
    waiting = [True]
    named = {own.get(name, name): own.get(to, to) for name, to in changes.items()}

    def change_after(path: str, number: int) -> None:
        if waiting and table.asked(OFFSET) >= BEFORE:
            waiting.clear()
            columns = {to: type_ for name, type_ in table.columns.items() if (to := named.get(name, name))}
            change(table, columns, lambda row: {named.get(name, name): value for name, value in row.items()})

    async with table:
        table.bad = change_after
        crawls.register(table, parcel_id_field=own.get("PIN", "PIN"))
        text = crawls.sites.read_text().replace(NO_BREAKER, "")
        crawls.sites.write_text(entry(table.name).partition(f"[{SITE}.identities]")[0] + text)
        site = Changing(
            lambda: table.asked(OFFSET),
            lambda: crawls.found("properties"),
            table.county.truth(SITE)["properties"],
            lambda: table.refill(),
            {"all": "yes", "page_rows": 5},
        )
        await crawl(crawls, mongodb, spider, site)
        crawls.check(table.county)


async def test_a_town_that_renames_a_label_in_mid_job_is_left_alone_and_is_whole_when_it_is_as_before(
    crawls: Crawls, mongodb: Database[dict[str, Any]]
) -> None:
    await change_town(crawls, mongodb, dict(TOWN_CHANGES[4][0]))


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(TOWN_CHANGES)))
async def test_a_town_that_changes_its_cards_in_mid_job(
    crawls: Crawls, mongodb: Database[dict[str, Any]], number: int
) -> None:
    await change_town(crawls, mongodb, dict(TOWN_CHANGES[number][0]))


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(PORTAL_CHANGES)))
async def test_a_county_on_iasworld_that_changes_its_datalets_in_mid_job(
    crawls: Crawls, mongodb: Database[dict[str, Any]], number: int, tmp_path: Path
) -> None:
    await change_portal(crawls, mongodb, dict(PORTAL_CHANGES[number][0]), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(DISTRICT_CHANGES)))
async def test_a_district_on_esearch_that_changes_its_pages_in_mid_job(
    crawls: Crawls, mongodb: Database[dict[str, Any]], number: int, tmp_path: Path
) -> None:
    await change_district(crawls, mongodb, dict(DISTRICT_CHANGES[number][0]), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("platform", [ArcgisTable, SocrataTable])
@pytest.mark.parametrize("what", TABLE_CHANGES)
async def test_a_table_that_changes_its_columns_in_mid_job(
    crawls: Crawls, mongodb: Database[dict[str, Any]], what: str, platform: type[CountyTable]
) -> None:
    await change_table(crawls, mongodb, platform(County(600)), TABLE_CHANGES[what][0])

"""Crawls of a made-up county on iasWorld: what is stored is what it shows, whatever becomes of its sessions."""

from pathlib import Path
from typing import Any

from pymongo.database import Database

from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_iasworld import DATALET, NO_ACCESS, IasworldPortal, bills

USAGE = 2
ACCEPTED = 'disclaimer = "accepted by the tests on 2026-01-31"'
SMALL = 24


def register(crawls: Crawls, portal: IasworldPortal, *lines: str, sessions: int = 1, idle_s: int = 30) -> None:
    """Writes the portal's entry; without lines the disclaimer is accepted."""
    before = f'[{SITE}]\nhosts = ["{portal.name}"]\n[{SITE}.politeness]\nrequests_per_second = 0\n'
    before += f"[{SITE}.identities]\nlogins_per_hour = 10000\ncount = {sessions}\nchain_idle_s = {idle_s}\n"
    crawls.enter("iasworld", portal.entry_url, *(lines or (ACCEPTED,)), before=before)


def write_parcels(county: County, folder: Path, *more: str) -> None:
    numbers = [parcel.parcel_id for parcel in county.parcels]
    (folder / "parcels.csv").write_text("parcel_id\n" + "".join(f'"{each}"\n' for each in [*numbers, *more]))


def check(crawls: Crawls, county: County) -> None:
    """What is stored is the county, no more and no less."""
    crawls.check(county)
    assert crawls.found("tax_bills") == bills(county, SITE)


async def test_nobody_agrees_to_a_disclaimer_that_is_not_accepted_in_the_entry(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    """A crawl is refused with what to do; items that were submitted, or begun, while it was accepted say so."""
    county = County(3)
    write_parcels(county, tmp_path)
    async with IasworldPortal(county) as portal:
        register(crawls, portal)
        words = ["-a", f"site={SITE}", "--input", "parcels.csv", "--key", "parcel_id"]
        submitted = run(HARVESTER, "jobs", "submit", "iasworld", *words, cwd=tmp_path, env=crawls.environment)
        assert submitted.returncode == 0, submitted.stderr
        register(crawls, portal, "checked = 2026-01-31")
        assert await crawls.run("iasworld", job="all") == FINISHED, crawls.said
        assert await crawls.run("iasworld", site=SITE, parcels="1") == USAGE
        assert portal.arrivals == []
    items = crawls.items()
    assert {(item["state"], item["outcome"]) for item in items} == {("skipped", "policy_denied")}
    for named in ("disclaimer", f"{portal.entry_url}search/Disc"):
        assert named in items[0]["reason"]
        assert named in crawls.said
    for named in (f"[{SITE}]", "HARVESTER_SITES_DIR"):
        assert named in crawls.said
    mongodb.client.drop_database(mongodb.name)

    async with IasworldPortal(county) as portal:
        register(crawls, portal)
        portal.held_after = 7
        process = await crawls.start("iasworld", site=SITE, parcels="@parcels.csv")
        await crawls.until(lambda: len(portal.arrivals) > portal.held_after)
        await crawls.kill(process)
        portal.released.set()
        register(crawls, portal, "checked = 2026-01-31")
        assert await crawls.run("iasworld", job="all") == FINISHED, crawls.said
        assert portal.agreements == 1
    assert {(item["state"], item["outcome"]) for item in crawls.items()} == {("skipped", "policy_denied")}


async def test_owners_and_addresses_lead_to_their_parcels_over_pages_and_past_the_cap(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    county = County(SMALL)
    wanted = {parcel.parcel_id for parcel in county.parcels if any(name.startswith("WU") for name in parcel.owners)}
    address = next(parcel.address for parcel in county.parcels if parcel.address) or ""
    at = {parcel.parcel_id for parcel in county.parcels if parcel.address == address}
    async with IasworldPortal(county) as portal:
        register(crawls, portal, sessions=4, idle_s=3600)  # who has its answer leaves the session to others
        portal.page_size, portal.most = 2, 5
        assert await crawls.run("iasworld", site=SITE, owner="WU") == FINISHED, crawls.said
        assert {item["key"] for item in crawls.items(kind="parcel")} == wanted
        assert {row["parcel_id"] for row in crawls.found("properties").values()} == wanted
        owners = {item["key"]: (item["state"], item["outcome"]) for item in crawls.items(kind="owner")}
        assert owners["WU"] == owners["WU "] == ("skipped", "sharded")
        assert owners["WU 1"] == ("done", "ok")
        assert owners["WUX"] == ("done", "no_results")
        assert any("PageNum=2" in arrival.path for arrival in portal.arrivals)
        mongodb.client.drop_database(mongodb.name)

        (tmp_path / "addresses.csv").write_text(f'address\n1 NOWHERE\n"{address}"\n')
        words = ["-a", f"site={SITE}", "--input", "addresses.csv", "--key", "address", "--kind", "address"]
        submitted = run(HARVESTER, "jobs", "submit", "iasworld", *words, cwd=tmp_path, env=crawls.environment)
        assert submitted.returncode == 0, submitted.stderr
        assert await crawls.run("iasworld", job="all") == FINISHED, crawls.said
        addresses = {item["key"]: (item["state"], item["outcome"]) for item in crawls.items(kind="address")}
        assert addresses == {"1 NOWHERE": ("done", "no_results"), address: ("done", "ok")}
        assert {row["parcel_id"] for row in crawls.found("properties").values()} == at


async def test_what_becomes_of_a_parcel_that_is_not_there_whose_tab_is_refused_or_whose_session_always_ends(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    county = County(2)
    first, second = (parcel.parcel_id for parcel in county.parcels)
    async with IasworldPortal(county) as portal:
        register(crawls, portal, idle_s=3600)
        portal.bad = lambda path, number: NO_ACCESS if "mode=sales" in path else None
        assert await crawls.run("iasworld", site=SITE, parcels=f"{first},00099999") == FINISHED, crawls.said
        items = {item["key"]: (item["state"], item["outcome"], item.get("reason")) for item in crawls.items()}
        assert items[first][:2] == ("done", "ok")
        assert items["00099999"][:2] == ("done", "no_results")
        assert all(named in (items["00099999"][2] or "") for named in ("'00099999'", "leading zeros"))
        assert len(crawls.found("properties")) == 1
        assert crawls.found("sales") == {}
        mongodb.client.drop_database(mongodb.name)

        away = Answer(302, b"", {"Location": "/PT/search/Disclaimer.aspx?FromUrl=x"}, kind="text/html")
        portal.bad = lambda path, number: away if DATALET in path else None
        before = len(portal.arrivals)
        assert await crawls.run("iasworld", site=SITE, parcels=second) == LEFT, crawls.said
        (item,) = crawls.items()
        assert (item["state"], item["outcome"]) == ("waiting", "session_expired")
        assert len(portal.arrivals) - before < 40
        assert crawls.found("properties") == {}

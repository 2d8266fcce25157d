"""Crawls of made-up counties on Harris PACS: what is stored is what they show, whatever becomes of their sessions."""

from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.exceptions import UsageError
from harvester.items import Found
from harvester.parsers.counties import contract
from harvester.sites import load_sites
from harvester.spiders.counties.pacs.parser import Hit
from harvester.spiders.counties.pacs.spider import PacsSpider, fitting
from harvester.spiders.counties.sessions import Search
from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_pacs import (
    CID,
    MAINTENANCE,
    PROPERTY,
    RESULTS,
    PacsPortal,
    page_of,
    property_ids,
    truth,
)

OTHER = "us-mi-other"
COLLECTIONS = ("properties", "assessments", "sales")


def register(crawls: Crawls, portal: PacsPortal, *, idle_s: int = 30, sessions: int = 1) -> None:
    """Writes the portal's entry: its host belongs to the county alone."""
    before = f'[{SITE}]\nhosts = ["{portal.name}"]\n[{SITE}.politeness]\nrequests_per_second = 0\n'
    before += f"[{SITE}.identities]\nlogins_per_hour = 10000\ncount = {sessions}\nchain_idle_s = {idle_s}\n"
    crawls.enter("pacs", portal.entry_url, f"parameters = {{ cid = {CID} }}", before=before)


def write(folder: Path, *numbers: str) -> None:
    (folder / "parcels.csv").write_text("parcel_id\n" + "".join(f'"{each}"\n' for each in numbers))


def check(crawls: Crawls, county: County) -> None:
    """What is stored is the county, no more and no less."""
    for collection, documents in truth(county, SITE).items():
        assert crawls.found(collection) == documents, collection
    assert crawls.documents("tax_bills") == {}


async def test_each_parcel_and_address_has_a_fate_of_its_own_and_what_is_staged_comes_back_the_same(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    county = County(14)
    parcels, ids = county.parcels, property_ids(county)
    async with PacsPortal(county, washington=True) as portal:
        register(crawls, portal, idle_s=1)
        pages = {number: f"/clientdb/{PROPERTY}?cid={CID}&prop_id={number}" for number in ids}
        bad = {
            pages[ids[0]]: Answer(200, portal_page(portal, ids[1]), kind="text/html"),
            pages[ids[1]]: Answer(404, b"<html>Not found</html>", kind="text/html"),
            pages[ids[2]]: Answer(403, b"<html><body>Forbidden</body></html>", kind="text/html"),
            pages[ids[3]]: Answer(200, portal_page(portal, ids[3]).replace(b"Address:", b"Where:"), kind="text/html"),
            pages[ids[4]]: MAINTENANCE,
        }
        portal.bad = lambda path, number: bad.get(path)
        geographic = "0" + parcels[5].parcel_id.replace(" ", "") + "-0"
        write(tmp_path, *ids[:5], geographic, "999", "R-99999")
        assert await crawls.run("pacs", site=SITE, parcels="@parcels.csv") == LEFT, crawls.said
        items = {item["key"]: (item["state"], item["outcome"]) for item in crawls.items()}
        assert items == {
            ids[0]: ("waiting", "layout_changed"),
            ids[1]: ("failed", "not_found"),
            ids[2]: ("waiting", "blocked"),
            ids[3]: ("waiting", "layout_changed"),
            ids[4]: ("waiting", "maintenance"),
            geographic: ("done", "ok"),
            "999": ("done", "no_results"),
            "R-99999": ("done", "no_results"),
        }
        reasons = {item["key"]: item.get("reason", "") for item in crawls.items()}
        assert "'999'" in reasons["999"]
        assert "leading zeros" in reasons["999"]
        assert all(each in reasons[ids[0]] for each in ids[:2])
        assert portal.url in reasons[ids[1]]
        assert contract.CALLED[contract.SITUS] in reasons[ids[3]]
        assert reasons[ids[4]]
        stored = crawls.documents("properties")
        assert set(stored) == {f"{SITE} {ids[5]}"}
        assert stored[f"{SITE} {ids[5]}"]["alt_parcel_ids"] == {
            "Property: Parcel # / Geo ID": f"{parcels[5].parcel_id}-0"
        }
        mongodb.client.drop_database(mongodb.name)

        portal.bad = lambda path, number: None
        register(crawls, portal, idle_s=3600)  # who has its answer leaves the session to others
        address = next(parcel.address for parcel in parcels if parcel.address and parcel.owners) or ""
        assert await crawls.run("pacs", site=SITE, address=f"{address}, Ada") == FINISHED, crawls.said
        at = {number for number, parcel in zip(ids, parcels, strict=True) if parcel.address == address}
        assert set(crawls.documents("properties")) == {f"{SITE} {number}" for number in at}

        stored = {collection: crawls.documents(collection, ["provenance"]) for collection in COLLECTIONS}
        for collection in COLLECTIONS:
            mongodb[collection].drop()
        imported = run(HARVESTER, "import", cwd=tmp_path, env=crawls.environment)
        assert imported.returncode == 0, imported.stderr
        again = {collection: crawls.documents(collection, ["provenance"]) for collection in COLLECTIONS}
        assert {name: {key: again[name][key] for key in rows} for name, rows in stored.items()} == stored


def portal_page(portal: PacsPortal, property_id: str) -> bytes:
    """The page of a property, as it is well."""
    known = next(each for each in portal.clients[str(CID)] if each.property_id == property_id)
    return page_of(known, washington=portal.washington).encode()


async def test_counties_of_one_host_are_not_taken_for_each_other(crawls: Crawls) -> None:
    """The number of a property is another property's elsewhere, and the session is that of the last search."""
    here, other = County(14), County(4, seed=2)
    owned = {
        number for number, parcel in zip(property_ids(here), here.parcels, strict=True) if "O'BRIEN" in str(parcel)
    }
    async with PacsPortal(here, other) as portal:
        portal.page_size = 2
        vendor = f'[vendor]\nhosts = ["{portal.name}"]\nplatform = "pacs"\n[vendor.politeness]\ndelay_s = 0.001\n'
        crawls.enter("pacs", portal.entry_url, f"parameters = {{ cid = {CID} }}", before=vendor)
        first = crawls.sites.read_text()
        second = first.removeprefix(vendor).replace(SITE, OTHER).replace(f"= {CID}", f"= {CID + 1}")
        crawls.sites.write_text(f"{first}\n{second}")
        assert await crawls.run("pacs", site=SITE, owner="o'brien") == FINISHED, crawls.said
        assert sum(f"{RESULTS}?rtype=address&page=2" in arrival.path for arrival in portal.arrivals) == 1
        assert await crawls.run("pacs", site=OTHER, parcels=",".join(property_ids(other))) == FINISHED, crawls.said
        assert portal.sessions == 1
    for collection, documents in truth(here, SITE).items():
        found = {key: of for key, of in documents.items() if of["parcel_id"] in owned}
        assert crawls.found(collection) == found | truth(other, OTHER)[collection], collection
    assert len(owned) > 2


def test_of_results_those_are_taken_that_are_what_was_looked_for() -> None:
    """The search looks everywhere: a name may be that of a street, and a number that of a house."""
    hits = [
        Hit("7", ("7", "0530-08-0001"), "O'BRIEN JOHN", "12 MAIN ST ADA"),
        Hit("12", ("12", "530080001"), "MAIN & CO", "7 OLD POST RD ADA"),
        Hit("7", ("7", "0530-08-0001"), "O'BRIEN EVA", "12 MAIN ST ADA"),
        Hit("9", ("9", ""), "", ""),
    ]
    for kind, key, found in [
        ("owner", "o'brien", ["7"]),
        ("owner", "Main", ["12"]),
        ("address", "12 Main Street", ["7"]),
        ("address", "Main St", ["7"]),
        ("parcel", "12", ["12"]),
        ("parcel", "0530-08-0001", ["7"]),
        ("parcel", "0530080001", ["7", "12"]),
        ("parcel", "R7", []),
        ("parcel", "000", []),
    ]:
        assert fitting(hits, Search("item", kind, key)) == found, key


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"all": "yes"}, "-a all=yes"),
        ({"owner": "SMITH", "address": "1 ELM"}, "address or owner"),
        ({"address": " .,"}, "address: '.,'"),
        ({"parcels": "1.23E+10"}, "shortened"),
    ],
)
def test_what_cannot_be_asked_of_a_site_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        PacsSpider.parse_arguments({"site": "us-tx-bexar", **given})
    assert said in str(refused.value)


def test_every_entry_of_the_platform_says_its_client_and_has_a_session_and_a_slow_pace() -> None:
    sites = [site for site in load_sites() if site.property and site.property.platform == "pacs"]
    assert len(sites) >= 17
    for site in sites:
        PacsSpider.parse_arguments({"site": site.name})
        assert site.property
        host = load_sites().of(site.property.base_url)
        assert (host.identities.kind, host.identities.serial, host.politeness.delay_s) == ("anonymous", True, 3)
    assert PacsSpider.check_item(Found("owner", " SMITH  J ")).key == "SMITH J"


def test_an_entry_without_client_or_session_is_refused_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = f'[{SITE}.property]\nname = "Made-up County"\nfips = "26001"\nplatform = "pacs"\nbase_url = "https://a.example/"\n'
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    (tmp_path / "mi.toml").write_text(entry)
    with pytest.raises(UsageError, match=r"parameters = \{ cid = 12 \}"):
        PacsSpider.parse_arguments({"site": SITE})
    (tmp_path / "mi.toml").write_text(f"{entry}parameters = {{ cid = 7 }}")
    load_sites.cache_clear()
    with pytest.raises(UsageError, match=r"session.*a\.example"):
        PacsSpider.parse_arguments({"site": SITE})

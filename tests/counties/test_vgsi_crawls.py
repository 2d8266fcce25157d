"""Crawls of a made-up town on VGSI: what is stored is what it publishes, whatever its site does."""

import re
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.config import Config
from harvester.exceptions import UsageError
from harvester.items import Found
from harvester.sites import load_sites
from harvester.spiders.counties.arcgis.spider import ArcgisSpider
from harvester.spiders.counties.vgsi.spider import VgsiSpider
from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.vision import BLOCKED, CARD, NO_ACCESS, PLACE, VisionTown

UNEXPECTED = ("labels", "provenance", "situs_parts")
"""Of stored documents: what the truth does not know."""


def check(crawls: Crawls, town: VisionTown) -> None:
    """What is stored is the town, no more and no less."""
    for collection, truth in town.truth(SITE).items():
        assert crawls.documents(collection, UNEXPECTED) == truth, collection


async def test_each_parcel_address_and_owner_has_a_fate_of_its_own(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    async with VisionTown(60) as town:
        crawls.enter("vgsi", town.base_url.removesuffix("/") + "/Default.aspx")
        one, two, three, *_ = [parcel for parcel in town.parcels.values() if parcel.location]
        number, street = one.location.split(" ", 1)
        town.bad = lambda path, again: {
            f"{PLACE}{CARD}?pid=8": NO_ACCESS,
            f"{PLACE}{CARD}?pid=9": Answer(404, b"<html>gone</html>", kind="text/html"),
            f"{PLACE}{CARD}?pid=11": town.well(f"{PLACE}{CARD}?pid={two.pid}"),
        }.get(path)
        lines = [str(two.pid), f"0{three.pid}", "999999", "8", "9", "11"]
        (tmp_path / "parcels.csv").write_text("parcel_id\n" + "\n".join([*lines, "407/ 141"]))
        assert await crawls.run("vgsi", site=SITE, parcels="@parcels.csv") == LEFT, crawls.said
        items = {item["key"]: item for item in crawls.items()}
        fates = {key: (item["state"], item["outcome"]) for key, item in items.items()}
        assert fates == {
            str(two.pid): ("done", "ok"),
            f"0{three.pid}": ("done", "ok"),
            "999999": ("done", "no_results"),
            "8": ("skipped", "policy_denied"),
            "9": ("failed", "not_found"),
            "11": ("waiting", "layout_changed"),
            "407/ 141": ("failed", "invalid"),
        }
        assert "'999999'" in items["999999"]["reason"]
        assert re.search(rf"\b11\b.*\b{two.pid}\b", items["11"]["reason"])
        assert "PID" in items["407/ 141"]["reason"]
        assert PLACE in items["9"]["reason"]
        assert set(crawls.documents("properties")) == {f"{SITE} {two.pid}", f"{SITE} {three.pid}"}
        mongodb.client.drop_database(mongodb.name)

        town.bad = lambda path, again: None
        written = f"{number} {street.replace(' ST', ' Street').replace(' RD', ' Road')}, Ada"
        assert await crawls.run("vgsi", site=SITE, address=written) == FINISHED, crawls.said
        assert set(crawls.documents("properties")) == {f"{SITE} {one.pid}"}
        assert await crawls.run("vgsi", site=SITE, address="7777 Nowhere Rd") == FINISHED, crawls.said
        (nowhere,) = crawls.items(key="7777 Nowhere Rd")
        assert (nowhere["state"], nowhere["outcome"]) == ("done", "no_results")
        assert "address '7777 Nowhere Rd'" in nowhere["reason"]

        (tmp_path / "owners.csv").write_text("owner\nsmith\n")
        words = ["--kind", "owner", "--key", "owner", "-a", f"site={SITE}", "--input", "owners.csv"]
        submitted = run(HARVESTER, "jobs", "submit", "vgsi", *words, cwd=tmp_path, env=crawls.environment)
        assert submitted.returncode == 0, submitted.stderr
        assert await crawls.run("vgsi", job="all") == FINISHED, crawls.said
        smiths = {f"{SITE} {each.pid}" for each in town.parcels.values() if "SMITH" in each.owner}
        assert set(crawls.documents("properties")) == {f"{SITE} {one.pid}"} | smiths
        assert smiths


@pytest.mark.slow
async def test_cards_that_are_changed_are_noticed_and_nothing_wrong_is_stored(crawls: Crawls) -> None:
    """Ten changes: ids, labels and columns that are renamed, taken away or merged."""
    changes: list[dict[bytes, bytes]] = [
        {b'id="MainContent_lblPid"': b'name="pid"'},
        {b'id="MainContent_lblLocation"': b'name="location"'},
        {b"<th>Valuation Year</th>": b"<th>Period</th>"},
        {b"<th>Total</th>": b"<th>Sum</th>"},
        {b"<th>Sale Date</th>": b"<th>When</th>"},
        {b"<th>Owner</th>": b"<th>Who</th>"},
        {b"<th>Improvements</th>": b""},
        {b"lblGenOwner": b"Gen", b"lblOwner": b"Own"},
        {b"MainContent_grd": b"MainContent_tbl", b"lblGen": b"Gen", b"lblSaleDate": b"Date"},
        {b"</dd></dl>": b"</dd></dl><h1>Error</h1><!--"},
    ]
    async with VisionTown(12) as town:
        crawls.enter("vgsi", town.base_url)
        town.renamed = dict(zip(town.parcels, changes, strict=False))
        assert await crawls.run("vgsi", site=SITE, all="yes") == LEFT, crawls.said
        outcomes = {int(item["key"]): item["outcome"] for item in crawls.items(kind="parcel")}
        assert outcomes == {pid: "layout_changed" if pid in town.renamed else "ok" for pid in town.parcels}
        well = {f"{SITE} {pid}" for pid in town.parcels if pid not in town.renamed}
        assert set(crawls.documents("properties")) == well
        town.renamed = {}
        assert await crawls.run("vgsi", site=SITE, all="yes") == FINISHED, crawls.said
        check(crawls, town)


@pytest.mark.slow
async def test_what_is_staged_of_a_town_comes_back_the_same(
    crawls: Crawls, mongodb: Database[dict[str, Any]], tmp_path: Path
) -> None:
    async with VisionTown(20) as town:
        crawls.enter("vgsi", town.base_url)
        town.bad = lambda path, number: BLOCKED if not number and "Letter=E" in path else None
        assert await crawls.run("vgsi", site=SITE, all="yes") == LEFT, crawls.said
        (blocked,) = crawls.items(outcome="blocked")
        assert (blocked["kind"], blocked["key"]) == ("letter", "E")
        assert await crawls.run("vgsi", site=SITE, all="yes") == FINISHED, crawls.said
        check(crawls, town)
        for collection in ("properties", "assessments", "sales"):
            mongodb[collection].drop()
        imported = run(HARVESTER, "import", cwd=tmp_path, env=crawls.environment)
        assert imported.returncode == 0, imported.stderr
        check(crawls, town)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"owner": "SMITH", "all": "yes"}, "all or owner"),
        ({"owner": "SMITH", "address": "1 ELM"}, "address or owner"),
        ({"owner": " .,"}, "owner: '.,'"),
        ({"address": "x" * 201}, "200"),
        ({"parcels": "1.23E+10"}, "shortened"),
        ({"owners": "SMITH"}, "owner?"),
    ],
)
def test_a_search_that_cannot_be_meant_is_refused_before_anything_is_fetched(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        VgsiSpider.parse_arguments({"site": "us-me-augusta", **given})
    assert said in str(refused.value)


async def test_who_asks_for_nothing_is_told_of_the_searches(config: Config) -> None:
    spider = VgsiSpider(config, VgsiSpider.parse_arguments({"site": "us-me-augusta"}))
    with pytest.raises(UsageError) as refused:
        await spider.before()
    for named in ("-a address=...", "-a owner=...", "-a all=yes"):
        assert named in str(refused.value)


def test_what_is_submitted_must_be_numbers_that_the_platform_knows() -> None:
    for key in ("407/ 141", "R-7", "-1"):
        with pytest.raises(UsageError, match="PID"):
            VgsiSpider.check_item(Found("parcel", key))
    assert VgsiSpider.check_item(Found("parcel", "007")).key == "007"
    assert VgsiSpider.check_item(Found("owner", " SMITH,  JOHN")).key == "SMITH, JOHN"
    with pytest.raises(UsageError, match="owner: "):
        ArcgisSpider.parse_arguments({"site": "us-ut-statewide", "owner": "SMITH"})


def test_towns_are_asked_as_slowly_as_people_do_who_know_the_vendor() -> None:
    for host in ("gis.vgsi.com", "hosting.vgsi.com"):
        site = load_sites().of(f"https://{host}/adatownme/")
        assert (site.name, site.politeness.delay_s, site.politeness.concurrency) == ("vgsi", 0.5, 2)
        for outcome in ("server_error", "timeout", "network"):
            assert site.outcomes.policy_table[outcome].backoff_s == 20  # type: ignore[index]

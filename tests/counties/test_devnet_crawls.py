"""Crawls of a made-up county on DEVNET wEdge: what is stored is what it shows, whatever its site does."""

from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.exceptions import UsageError
from harvester.items import Found
from harvester.parsers.counties import contract
from harvester.spiders.counties.devnet.spider import DevnetSpider
from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_devnet import SEARCH, VIEW, DevnetPortal, number_of, truth


def write_parcels(county: County, folder: Path) -> None:
    (folder / "parcels.csv").write_text("parcel_id\n" + "".join(f'"{each.parcel_id}"\n' for each in county.parcels))


def check(crawls: Crawls, county: County) -> None:
    """What is stored is the county, no more and no less."""
    for collection, documents in truth(county, SITE).items():
        assert crawls.found(collection) == documents, collection


async def test_each_parcel_and_address_has_a_fate_of_its_own_and_what_is_staged_comes_back_the_same(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    county = County(12)
    parcels = county.parcels
    numbers = [number_of(parcel) for parcel in parcels]
    views = [f"{VIEW}{number}" for number in numbers]
    async with DevnetPortal(county) as portal:
        crawls.enter("devnet", portal.url)
        portal.bad = lambda path, again: {
            views[3]: portal.well(views[4]),
            views[4]: Answer(200, b"<html><body>Welcome to the county</body></html>", kind="text/html"),
            views[6]: Answer(403, b"<html><body>Forbidden</body></html>", kind="text/html"),
            views[7]: Answer(404, b"<html>gone</html>", kind="text/html"),
            f"{SEARCH}?property_key={numbers[7]}": Answer(404, b"<html>gone</html>", kind="text/html"),
            views[10]: Answer(404, b"<html>gone</html>", kind="text/html"),
            f"{views[10]}/2025": Answer(404, b"<html>gone</html>", kind="text/html"),
        }.get(path)  # fmt: skip
        portal.changed = {
            numbers[0]: {b"Site Address": b"Where"},
            numbers[1]: {b"Parcel Owner": b"Of"},
            numbers[2]: {b"Parcel Number": b"Key"},
            numbers[5]: {b"<th>Level</th>": b"", b"<th>Total Due</th>": b""},
        }
        given = ",".join([*(each.parcel_id for each in parcels[:8]), numbers[9], numbers[10], "0123"])
        assert await crawls.run("devnet", site=SITE, parcels=given) == LEFT, crawls.said
        fates = {item["key"]: (item["state"], item["outcome"]) for item in crawls.items()}
        changed = ("waiting", "layout_changed")
        assert fates == {
            **{parcels[at].parcel_id: changed for at in (0, 1, 2, 3, 5)},
            parcels[4].parcel_id: ("done", "ok"),
            parcels[6].parcel_id: ("waiting", "blocked"),
            parcels[7].parcel_id: ("failed", "not_found"),
            numbers[9]: ("done", "ok"),
            numbers[10]: ("failed", "not_found"),
            "0123": ("done", "no_results"),
        }
        reasons = {item["key"]: item.get("reason", "") for item in crawls.items()}
        assert "'0123'" in reasons["0123"]
        assert "leading zeros" in reasons["0123"]
        assert contract.CALLED[contract.SITUS] in reasons[parcels[0].parcel_id]
        assert contract.CALLED[contract.OWNER] in reasons[parcels[1].parcel_id]
        assert "lacks: Parcel Number" in reasons[parcels[2].parcel_id]
        assert all(" ".join(parcels[at].parcel_id.split()) in reasons[parcels[3].parcel_id] for at in (3, 4))
        assert "cells" in reasons[parcels[5].parcel_id]
        assert portal.url in reasons[parcels[7].parcel_id]
        assert "HTTP 404" in reasons[numbers[10]]
        stored = {row["parcel_id"] for row in crawls.found("properties").values()}
        assert stored == {parcels[4].parcel_id, parcels[9].parcel_id}
        mongodb.client.drop_database(mongodb.name)

        portal.bad, portal.changed = lambda path, again: None, {}
        (tmp_path / "addresses.csv").write_text(f"address\n1 Nowhere Rd\n{parcels[0].address}\nOld Post Road\n")
        words = ["-a", f"site={SITE}", "--kind", "address", "--key", "address", "--input", "addresses.csv"]
        submitted = run(HARVESTER, "jobs", "submit", "devnet", *words, cwd=tmp_path, env=crawls.environment)
        assert submitted.returncode == 0, submitted.stderr
        assert await crawls.run("devnet", job="all") == FINISHED, crawls.said
        (nowhere,) = crawls.items(outcome="no_results")
        assert "address '1 Nowhere Rd'" in nowhere["reason"]
        stored = {row["parcel_id"] for row in crawls.found("properties").values()}
        streets = [parcel for parcel in parcels if "OLD POST" in (parcel.address or "")]
        assert stored == {parcels[0].parcel_id, *(parcel.parcel_id for parcel in streets)}
        assert len(streets) > 1
        write_parcels(county, tmp_path)
        assert await crawls.run("devnet", site=SITE, parcels="@parcels.csv") == FINISHED, crawls.said
        check(crawls, county)
        for collection in ("properties", "assessments", "sales", "tax_bills"):
            mongodb[collection].drop()
        imported = run(HARVESTER, "import", cwd=tmp_path, env=crawls.environment)
        assert imported.returncode == 0, imported.stderr
        check(crawls, county)


async def test_where_robots_txt_forbids_the_pages_of_parcels_they_are_skipped_and_not_asked_for(
    crawls: Crawls,
) -> None:
    async with DevnetPortal(County(1)) as portal:
        portal.robots = Answer(200, b"User-agent: *\nDisallow: /parcel/", kind="text/plain")
        crawls.enter("devnet", portal.url)
        assert await crawls.run("devnet", site=SITE, parcels="7") == LEFT, crawls.said
        assert "/parcel/view/7: Disallow: /parcel/" in crawls.said
        (item,) = crawls.items()
        assert (item["state"], item["outcome"]) == ("skipped", "policy_denied")
        assert portal.arrivals == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"all": "yes"}, "-a all=yes"),
        ({"owner": "SMITH"}, "owner: "),
        ({"address": "1 ELM", "parcels": "7"}, "parcels or address"),
        ({"address": " .,"}, "address: '.,'"),
        ({"address": ", Ada"}, "address: ', Ada'"),
        ({"parcels": "1.23E+10"}, "shortened"),
    ],
)
def test_what_cannot_be_asked_of_a_site_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        DevnetSpider.parse_arguments({"site": "us-il-kane", **given})
    assert said in str(refused.value)


def test_what_is_submitted_must_be_something_that_can_be_looked_for() -> None:
    assert DevnetSpider.check_item(Found("address", " 1  ELM ")).key == "1 ELM"
    with pytest.raises(UsageError, match="'-'"):
        DevnetSpider.check_item(Found("address", "-"))

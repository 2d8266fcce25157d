"""Crawls of a made-up county on Schneider Beacon: what is stored is what it shows, whatever its site does."""

from pathlib import Path

import pytest

from harvester.exceptions import UsageError
from harvester.spiders.counties.beacon.spider import BeaconSpider
from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_beacon import PARAMETERS, REPORT, SEARCH, BeaconPortal, parcel_of, truth

GUARD = "/ValidateUser.aspx"
"""Where the vendor leads those to whom it gives no session."""
REFUSED = Answer(403, b"<html><title>Just a moment...</title><body>cf-chl-</body></html>", kind="text/html")


def write_parcels(county: County, folder: Path) -> None:
    (folder / "parcels.csv").write_text("parcel_id\n" + "".join(f'"{each.parcel_id}"\n' for each in county.parcels))


def check(crawls: Crawls, county: County) -> None:
    """What is stored is the county, no more and no less."""
    for collection, documents in truth(county, SITE).items():
        assert crawls.found(collection) == documents, collection


@pytest.mark.slow
async def test_each_parcel_has_a_fate_of_its_own_and_what_is_staged_comes_back_the_same(
    crawls: Crawls, tmp_path: Path
) -> None:
    county = County(9)
    numbers = [parcel.parcel_id for parcel in county.parcels]
    async with BeaconPortal(county) as portal:
        crawls.enter("beacon", portal.url, PARAMETERS)

        def bad(path: str, again: int) -> Answer | None:
            if not path.startswith(REPORT):
                return Answer(200, b"<html>Please wait</html>", kind="text/html") if path == GUARD else None
            return {
                numbers[3]: portal.well(REPORT + numbers[4].replace(" ", "%20")),
                numbers[6]: Answer(403, b"<html><body>Forbidden</body></html>", kind="text/html"),
                numbers[7]: Answer(404, b"<html>gone</html>", kind="text/html"),
                numbers[8]: Answer(302, b"", {"Location": GUARD}, kind="text/html"),
            }.get(parcel_of(path))

        portal.bad = bad
        portal.changed = {numbers[0]: {b"Parcel ID": b"Key"}, numbers[5]: {b"OwnerName": b"Name"}}
        given = ",".join([*numbers, "0123", "A-7"])
        assert await crawls.run("beacon", site=SITE, parcels=given) == LEFT, crawls.said
        fates = {item["key"]: (item["state"], item["outcome"]) for item in crawls.items()}
        changed = ("waiting", "layout_changed")
        assert fates == {
            **{numbers[at]: changed for at in (0, 3, 5)},
            **{numbers[at]: ("done", "ok") for at in (1, 2, 4)},
            numbers[6]: ("waiting", "blocked"),
            numbers[7]: ("failed", "not_found"),
            numbers[8]: ("waiting", "session_expired"),
            "0123": ("done", "no_results"),
            "A-7": ("done", "no_results"),
        }
        reasons = {item["key"]: item.get("reason", "") for item in crawls.items()}
        assert "'0123'" in reasons["0123"]
        assert "leading zeros" in reasons["0123"]
        assert "lacks: Parcel ID" in reasons[numbers[0]]
        assert "module Owners" in reasons[numbers[5]]
        assert all(" ".join(numbers[at].split()) in reasons[numbers[3]] for at in (3, 4))
        assert portal.url in reasons[numbers[7]]
        assert [arrival.path for arrival in portal.arrivals].count(SEARCH) == 1  # of all parcels together

        portal.bad, portal.changed = lambda path, again: None, {}
        write_parcels(county, tmp_path)
        assert await crawls.run("beacon", site=SITE, parcels="@parcels.csv") == FINISHED, crawls.said
        check(crawls, county)
        for collection in ("properties", "assessments", "sales"):
            crawls._mongodb[collection].drop()
        imported = run(HARVESTER, "import", cwd=tmp_path, env=crawls.environment)
        assert imported.returncode == 0, imported.stderr
        check(crawls, county)


async def test_a_site_that_is_gone_is_told_and_one_that_refuses_is_asked_once_for_all_parcels(
    crawls: Crawls,
) -> None:
    async with BeaconPortal(County(40)) as portal:
        crawls.enter("beacon", portal.url, PARAMETERS)
        portal.bad = lambda path, number: Answer(404, b"<html>gone</html>", kind="text/html")
        assert await crawls.run("beacon", site=SITE, parcels="7,8") == FINISHED, crawls.said
        fates = {item["key"]: (item["state"], item["outcome"], item["reason"]) for item in crawls.items()}
        assert {fate[:2] for fate in fates.values()} == {("failed", "not_found")}
        assert f"{portal.url}{SEARCH}" in fates["7"][2]

        portal.bad = lambda path, number: REFUSED
        portal.arrivals.clear()
        given = ",".join(parcel.parcel_id for parcel in portal.county.parcels)
        assert await crawls.run("beacon", site=SITE, parcels=given) == LEFT, crawls.said
        assert {item["outcome"] for item in crawls.items(state="waiting")} == {"challenge"}
        assert [arrival.path for arrival in portal.arrivals] == [SEARCH]


@pytest.mark.slow
async def test_a_site_that_renames_a_label_in_mid_job_is_left_alone_and_nothing_wrong_is_stored(
    crawls: Crawls, tmp_path: Path
) -> None:
    county = County(40)
    write_parcels(county, tmp_path)
    crawls.environment["HARVESTER_PARKED_SECONDS"] = "0"
    async with BeaconPortal(county) as portal:
        crawls.enter("beacon", portal.url, PARAMETERS)

        def rename(path: str, number: int) -> None:
            if len(portal.arrivals) > 20:
                portal.changed = {parcel.parcel_id: {b"Acres": b"Size"} for parcel in county.parcels}

        portal.bad = rename
        assert await crawls.run("beacon", site=SITE, parcels="@parcels.csv") == LEFT, crawls.said
        assert "'Parcel Summary: Acres'" in crawls.said
        stored, known = crawls.found("properties"), truth(county, SITE)["properties"]
        assert stored.items() <= known.items()
        assert 10 < len(stored) < len(known)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"all": "yes"}, "-a all=yes"),
        ({"owner": "SMITH"}, "owner: "),
        ({"address": "1 ELM"}, "address: "),
        ({"parcels": "1.23E+10"}, "shortened"),
    ],
)
def test_what_cannot_be_asked_of_a_site_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        BeaconSpider.parse_arguments({"site": "us-fl-bay", **given})
    assert said in str(refused.value)

"""Crawls of a made-up county on BIS eSearch: what is stored is what it shows, whatever its site does."""

import re
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.exceptions import UsageError
from harvester.spiders.counties.esearch.spider import EsearchSpider
from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_esearch import (
    MISSING,
    MOST_ROWS,
    RESULTS,
    SESSION,
    TAXES,
    VIEW,
    EsearchPortal,
    truth,
)


def check(crawls: Crawls, county: County, *, taxes: bool = True) -> None:
    """What is stored is the county, no more and no less."""
    for collection, documents in truth(county, SITE, taxes=taxes).items():
        assert crawls.found(collection) == documents, collection


async def test_each_parcel_has_a_fate_of_its_own_and_what_is_staged_comes_back_the_same(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    county = County(9)
    numbers = [parcel.parcel_id for parcel in county.parcels]
    views = [f"{VIEW}{number.replace(' ', '%20')}" for number in numbers]
    taxes = [f"{TAXES}?id={number.replace(' ', '+')}&year=2025" for number in numbers]
    async with EsearchPortal(county, "token") as portal:
        crawls.enter("esearch", portal.url)
        pages = {
            views[0]: MISSING,
            views[1]: portal.well(views[2]),
            views[3]: Answer(200, b"<html><body>Welcome to the district</body></html>", kind="text/html"),
            views[4]: Answer(403, b"<html><body>Forbidden</body></html>", kind="text/html"),
            taxes[5]: MISSING,
            taxes[6]: Answer(200, b"<table><tr><th>Year</th><th>Sum</th></tr></table>", kind="text/html"),
            taxes[7]: Answer(401, b"<html><body>Log in</body></html>", kind="text/html"),
            views[8]: MISSING,
        }
        is_lost = f"{RESULTS}?keywords=PropertyId%3A%22{numbers[0].replace(' ', '%20')}"
        portal.bad = lambda path, again: MISSING if path.startswith(is_lost) else pages.get(path)
        given = ",".join([*numbers, "0123"])
        assert await crawls.run("esearch", site=SITE, parcels=given) == LEFT, crawls.said
        fates = {item["key"]: (item["state"], item["outcome"]) for item in crawls.items()}
        changed, right = ("waiting", "layout_changed"), ("done", "ok")
        assert fates == {
            **{numbers[at]: changed for at in (1, 3, 6)},
            **{numbers[at]: right for at in (2, 5, 7)},
            numbers[0]: ("waiting", "session_expired"),
            numbers[4]: ("waiting", "blocked"),
            numbers[8]: ("failed", "not_found"),
            "0123": ("done", "no_results"),
        }
        reasons = {item["key"]: item.get("reason", "") for item in crawls.items()}
        assert "'0123'" in reasons["0123"]
        assert "leading zeros" in reasons["0123"]
        assert all(" ".join(numbers[at].split()) in reasons[numbers[1]] for at in (1, 2))
        assert "nothing" in reasons[numbers[3]]
        assert all(named in reasons[numbers[8]] for named in ("000-008  B0", "HTTP"))
        assert "lack: Year or Amount Due" in reasons[numbers[6]]
        assert all(named in reasons[numbers[0]] for named in ("token", "HTTP 404"))
        assert portal.count(taxes[5]) == portal.count(taxes[7]) == 1

        collections = ("properties", "assessments", "sales", "tax_bills")
        stored = {collection: crawls.documents(collection, ["provenance"]) for collection in collections}
        assert {row["parcel_id"] for row in stored["properties"].values()} == {numbers[at] for at in (2, 5, 7)}
        seen = {row["provenance"]["url"] for row in crawls.documents("properties").values()}
        assert seen == {portal.url + views[at] for at in (2, 5, 7)}
        for collection in collections:
            mongodb[collection].drop()
        imported = run(HARVESTER, "import", cwd=tmp_path, env=crawls.environment)
        assert imported.returncode == 0, imported.stderr
        assert {collection: crawls.documents(collection, ["provenance"]) for collection in collections} == stored


async def test_addresses_lead_to_parcels_also_when_the_token_of_their_search_ends_and_the_site_wants_its_cookies_back(
    crawls: Crawls, tmp_path: Path
) -> None:
    county = County(60)
    streets = {each.parcel_id for each in county.parcels if "OLD POST" in (each.address or "")}
    one = next(each for each in county.parcels if "ST JOHN" in (each.address or ""))
    async with EsearchPortal(county, "cookie") as portal:
        entry = f'[{SITE}]\nhosts = ["{portal.name}"]\n[{SITE}.identities]\nkind = "anonymous"\n'
        crawls.enter(
            "esearch", portal.url, before=f"{entry}[{SITE}.politeness]\nrequests_per_second = 0\nconcurrency = 1\n"
        )
        ends = [True]

        def bad(path: str, number: int) -> Answer | None:
            if path.startswith(RESULTS) and "OLD" in path and '"page":2' in path and ends:
                ends.clear()
                portal.tokens = {token: words for token, words in portal.tokens.items() if "OLD" not in words}
            if path.startswith(RESULTS) and "MAIN" in path:
                return portal._results("StreetName:MAIN", 1, 2)
            if path.startswith(RESULTS) and "MILE" in path:
                return Answer(body=b'{"resultsList":[],"totalResults":9}')
            return None

        portal.bad = bad
        (tmp_path / "at.csv").write_text(
            f'address\n1 Nowhere Rd\n"{one.address}, Dumas"\nOld Post Road\nMain\n9 Mile Rd\n'
        )
        given = ["-a", f"site={SITE}", "-a", "taxes=no", "--kind", "address", "--key", "address", "--input", "at.csv"]
        submitted = run(HARVESTER, "jobs", "submit", "esearch", *given, cwd=tmp_path, env=crawls.environment)
        assert submitted.returncode == 0, submitted.stderr
        assert await crawls.run("esearch", job="all") == FINISHED, crawls.said
        fates = {item["key"]: (item["outcome"], item.get("reason", "")) for item in crawls.items(kind="address")}
        outcome, reason = fates["1 Nowhere Rd"]
        assert (outcome, "address '1 Nowhere Rd'" in reason) == ("no_results", True)
        outcome, reason = fates["9 Mile Rd"]
        assert (outcome, re.findall(r"\d+", reason.replace("'9 Mile Rd'", ""))) == ("too_many", ["9", "0"])
        outcome, reason = fates["Main"]
        assert (outcome, "first" in reason) == ("layout_changed", True)
        assert (fates["Old Post Road"][0], fates[f"{one.address}, Dumas"][0]) == ("ok", "ok")
        stored = crawls.found("properties")
        assert {row["parcel_id"] for row in stored.values()} >= {one.parcel_id} | streets
        assert len(streets) > MOST_ROWS
        assert not any(arrival.path.startswith(TAXES) for arrival in portal.arrivals)
        assert not ends


async def test_owners_are_found_at_hosts_that_want_no_token_and_one_that_wants_a_captcha_is_not_searched(
    crawls: Crawls, tmp_path: Path
) -> None:
    county = County(60)
    smiths = {each.parcel_id for each in county.parcels if any("SMITH" in name for name in each.owners)}
    async with EsearchPortal(county) as portal:
        crawls.enter("esearch", portal.url)
        portal.bad = lambda path, again: MISSING if "OwnerName%3Awu" in path else None
        (tmp_path / "owners.csv").write_text("owner\nsmith\nwu\n")
        words = ["-a", f"site={SITE}", "--kind", "owner", "--key", "owner", "--input", "owners.csv"]
        submitted = run(HARVESTER, "jobs", "submit", "esearch", *words, cwd=tmp_path, env=crawls.environment)
        assert submitted.returncode == 0, submitted.stderr
        assert await crawls.run("esearch", job="all") == FINISHED, crawls.said
        assert {row["parcel_id"] for row in crawls.found("properties").values()} == smiths
        assert len(smiths) > MOST_ROWS
        (item,) = crawls.items(key="wu")
        assert (item["state"], item["outcome"]) == ("failed", "not_found")
        assert portal.url in item["reason"]

        portal.wants, before = "captcha", portal.count(SESSION)
        assert await crawls.run("esearch", site=SITE, owner="garcia") == LEFT, crawls.said
        (item,) = crawls.items(key="garcia")
        assert (item["state"], item["outcome"]) == ("waiting", "challenge")
        assert "captcha" in item["reason"]
        assert portal.count(SESSION) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"all": "yes"}, "-a all=yes"),
        ({"owner": "SMITH", "address": "1 ELM"}, "address or owner"),
        ({"owner": "-"}, "owner: '-'"),
        ({"taxes": "perhaps"}, "taxes: "),
        ({"media": "yes"}, "media: "),
    ],
)
def test_what_cannot_be_asked_of_a_site_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        EsearchSpider.parse_arguments({"site": "us-tx-hays", **given})
    assert said in str(refused.value)

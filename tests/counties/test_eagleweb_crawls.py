"""Crawls of a made-up county on EagleWeb: what is stored is what it shows, whatever its site does with its guests."""

import re
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.exceptions import UsageError
from harvester.parsers.counties import contract
from harvester.spiders.counties.eagleweb.spider import EaglewebSpider
from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_eagleweb import (
    ASSESSOR,
    TREASURER,
    EaglewebPortal,
    accounts,
    assessors_truth,
    treasurers_truth,
)

USAGE = 2
TRUTH = {ASSESSOR: assessors_truth, TREASURER: treasurers_truth}


def register(crawls: Crawls, portal: EaglewebPortal, root: str, *lines: str) -> None:
    """Writes the entry of the assessor or the treasurer."""
    before = f'[{SITE}]\nhosts = ["{portal.name}"]\n[{SITE}.politeness]\nrequests_per_second = 0\n'
    before += f"[{SITE}.identities]\nlogins_per_hour = 10000\n"
    crawls.enter("eagleweb", f"{portal.url}{root}", *lines, before=before)


def write_parcels(county: County, folder: Path) -> None:
    (folder / "parcels.csv").write_text("parcel_id\n" + "".join(f"{each.parcel_id}\n" for each in county.parcels))


def check(crawls: Crawls, county: County, root: str) -> None:
    """What is stored is the county, no more and no less."""
    for collection, documents in TRUTH[root](county, SITE).items():
        assert crawls.found(collection) == documents, collection


async def test_each_account_address_and_owner_has_a_fate_of_its_own_and_what_is_staged_comes_back_the_same(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    county = accounts(24)
    parcels = county.parcels
    views = [f"{ASSESSOR}taxweb/account.jsp?accountNum={each.parcel_id}" for each in parcels]
    async with EaglewebPortal(county, most=1) as portal:
        register(crawls, portal, ASSESSOR)
        portal.bad = lambda path, again: {
            views[3]: Answer(200, b"<html><body>Welcome to the county</body></html>", kind="text/html"),
            views[4]: Answer(403, b"<html><body>Forbidden</body></html>", kind="text/html"),
            f"{views[0][:-8]}R7654322": Answer(404, b"<html>no such page</html>", kind="text/html"),
            views[7]: Answer(404, b"<html>no such page</html>", kind="text/html"),
            views[5]: Answer(302, b"", {"Location": f"{ASSESSOR}web/login.jsp"}, kind="text/html"),
        }.get(path)  # fmt: skip
        portal.changes_of = {
            parcels[0].parcel_id: {"Owner Name": "Whose"},
            parcels[1].parcel_id: {parcels[1].parcel_id: parcels[2].parcel_id},
        }
        given = ",".join([*(each.parcel_id for each in parcels[:8]), "R7654321", "R7654322"])
        assert await crawls.run("eagleweb", site=SITE, parcels=given) == LEFT, crawls.said
        items = {item["key"]: item for item in crawls.items()}
        assert {key: (item["state"], item["outcome"]) for key, item in items.items()} == {
            **{parcels[at].parcel_id: ("waiting", "layout_changed") for at in (0, 1, 3)},
            parcels[2].parcel_id: ("done", "ok"),
            parcels[4].parcel_id: ("waiting", "blocked"),
            parcels[5].parcel_id: ("waiting", "session_expired"),
            parcels[6].parcel_id: ("done", "ok"),
            parcels[7].parcel_id: ("failed", "not_found"),
            "R7654321": ("done", "no_results"),
            "R7654322": ("done", "no_results"),
        }
        assert "'R7654321'" in items["R7654321"]["reason"]
        assert contract.CALLED[contract.OWNER] in items[parcels[0].parcel_id]["reason"]
        assert "R0000002" in items[parcels[1].parcel_id]["reason"]
        assert "R0000003" in items[parcels[3].parcel_id]["reason"]
        mongodb.client.drop_database(mongodb.name)

        portal.bad, portal.changes_of = lambda path, again: None, {}
        streets = [parcel for parcel in parcels if "OLD POST" in (parcel.address or "")]
        (tmp_path / "addresses.csv").write_text(f"address\n1 Nowhere Rd\n{parcels[0].address}\nOld Post Road\n")
        words = ["-a", f"site={SITE}", "--kind", "address", "--key", "address", "--input", "addresses.csv"]
        submitted = run(HARVESTER, "jobs", "submit", "eagleweb", *words, cwd=tmp_path, env=crawls.environment)
        assert submitted.returncode == 0, submitted.stderr
        assert await crawls.run("eagleweb", job="all") == FINISHED, crawls.said
        fates = {item["key"]: (item["state"], item["outcome"], item.get("reason")) for item in crawls.items()}
        _, outcome, reason = fates["1 Nowhere Rd"]
        assert (outcome, "address '1 Nowhere Rd'" in (reason or "")) == ("no_results", True)
        state, outcome, reason = fates["Old Post Road"]
        assert (state, outcome, "'Old Post Road'" in (reason or "")) == ("failed", "too_many", True)
        assert re.findall(r"\b\d+\b", reason or "") == [str(len(streets)), "1"]
        portal.most = 100
        owner = parcels[1].owners[0].split()[0]
        assert await crawls.run("eagleweb", site=SITE, owner=owner) == FINISHED, crawls.said
        owned = {each.parcel_id for each in parcels if any(name.startswith(owner) for name in each.owners)}
        stored = {row["parcel_id"] for row in crawls.found("properties").values()}
        assert stored == {parcels[0].parcel_id, *owned}
        write_parcels(county, tmp_path)
        assert await crawls.run("eagleweb", site=SITE, parcels="@parcels.csv") == FINISHED, crawls.said
        check(crawls, county, ASSESSOR)
        for collection in ("properties", "assessments", "sales", "tax_bills"):
            mongodb[collection].drop()
        imported = run(HARVESTER, "import", cwd=tmp_path, env=crawls.environment)
        assert imported.returncode == 0, imported.stderr
        check(crawls, county, ASSESSOR)


async def test_a_site_that_renames_a_label_in_mid_job_is_noticed_and_nothing_of_its_new_pages_is_stored(
    crawls: Crawls, tmp_path: Path
) -> None:
    county = accounts(26)
    write_parcels(county, tmp_path)
    async with EaglewebPortal(county) as portal:
        register(crawls, portal, TREASURER)

        def rename(path: str, number: int) -> None:
            if portal.shown > 36:
                portal.changes_of = {each.parcel_id: {"Situs&nbsp;Address": "Where"} for each in county.parcels}

        portal.bad = rename
        assert await crawls.run("eagleweb", site=SITE, parcels="@parcels.csv") == LEFT, crawls.said
    stored = crawls.found("properties")
    assert stored.items() <= treasurers_truth(county, SITE)["properties"].items()
    assert 10 < len(stored) < 26
    changed = crawls.items(outcome="layout_changed")
    assert changed
    assert all(contract.CALLED[contract.SITUS] in item["reason"] for item in changed)


async def test_a_statement_is_agreed_to_only_if_the_entry_says_who_has_accepted_it(
    crawls: Crawls, tmp_path: Path
) -> None:
    county = accounts(2)
    number = county.parcels[0].parcel_id
    async with EaglewebPortal(county) as portal:
        portal.button = "I Have Read The Above Statement"
        register(crawls, portal, TREASURER)
        assert await crawls.run("eagleweb", site=SITE, parcels=number) == USAGE, crawls.said
        assert "web/login.jsp" in crawls.said
        assert "statement" in crawls.said
        assert (portal.guests, portal.shown) == (0, 0)
        register(crawls, portal, TREASURER, 'disclaimer = "accepted by the tests on 2026-01-31"')
        assert await crawls.run("eagleweb", site=SITE, parcels=f"{number},R7654321") == FINISHED, crawls.said
        assert portal.guests == 1
        outcomes = {item["key"]: item["outcome"] for item in crawls.items()}
        assert outcomes == {number: "ok", "R7654321": "no_results"}
        assert await crawls.run("eagleweb", site=SITE, owner="WU") == FINISHED, crawls.said
        (item,) = crawls.items(kind="owner")
        assert (item["state"], item["outcome"]) == ("failed", "invalid")
        assert "treasurer" in item["reason"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"all": "yes"}, "-a all=yes"),
        ({"address": "1 ELM", "owner": "SMITH"}, "address or owner"),
        ({"address": " .,"}, "address: '.,'"),
        ({"parcels": "1.23E+10"}, "shortened"),
    ],
)
def test_what_cannot_be_asked_of_a_site_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        EaglewebSpider.parse_arguments({"site": "us-az-apache", **given})
    assert said in str(refused.value)


def test_a_site_whose_entry_names_no_host_has_no_session_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = (
        '[us-mi-own.property]\nname = "Own"\nfips = "26001"\nplatform = "eagleweb"\nbase_url = "https://x.example/"\n'
    )
    (tmp_path / "mi.toml").write_text(entry)
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    with pytest.raises(UsageError, match=r"x\.example.*hosts = "):
        EaglewebSpider.parse_arguments({"site": "us-mi-own", "parcels": "R1"})

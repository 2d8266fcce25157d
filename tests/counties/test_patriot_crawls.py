"""Crawls of a made-up town on Patriot's WebPro: what is stored is what it shows, whatever becomes of its sessions."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pymongo.database import Database
from scrapy.utils.test import get_crawler

from harvester.exceptions import UsageError
from harvester.items import Found
from harvester.middlewares.identities import IdentitiesMiddleware
from harvester.parsers.counties import contract
from harvester.sites import load_sites
from harvester.spiders.counties.patriot.spider import PatriotSpider
from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_patriot import FIRST, SEARCH, SUMMARY, PatriotPortal, truth


def register(crawls: Crawls, portal: PatriotPortal, *, sessions: int = 1, idle_s: int = 30) -> None:
    before = f'[{SITE}]\nhosts = ["{portal.name}"]\n[{SITE}.politeness]\nrequests_per_second = 0\n'
    before += f"[{SITE}.identities]\ncount = {sessions}\nchain_idle_s = {idle_s}\n"
    crawls.enter("patriot", f"{portal.url}/default.asp", before=before)


def addresses(county: County) -> dict[str, str]:
    """By the parcels' accounts."""
    return {str(FIRST + at): parcel.address or "" for at, parcel in enumerate(county.parcels)}


def write_parcels(portal: PatriotPortal, folder: Path) -> None:
    (folder / "parcels.csv").write_text("parcel_id\n" + "\n".join(portal.accounts))


def check(crawls: Crawls, county: County) -> None:
    """What is stored is the town, no more and no less."""
    for collection, documents in truth(county, SITE).items():
        assert crawls.found(collection) == documents, collection


async def test_each_parcel_has_a_fate_of_its_own_and_none_keeps_the_session_from_the_next(crawls: Crawls) -> None:
    one, two, gone, changed, other = (str(FIRST + at) for at in range(5))
    async with PatriotPortal(County(5)) as portal:
        register(crawls, portal, idle_s=3600)
        blocked = Answer(403, b"<html><body>Forbidden</body></html>", kind="text/html")
        portal.bad = lambda path, number: {
            f"{SUMMARY}?AccountNumber={gone}": Answer(404, b"<html>gone</html>", kind="text/html"),
            f"{SUMMARY}?AccountNumber={two}": blocked,
        }.get(path)  # fmt: skip
        portal.changed = {changed: {b"Value": b"Sum"}, other: {other.encode(): one.encode()}}
        given = ",".join([two, gone, changed, other, "7", one])
        assert await crawls.run("patriot", site=SITE, parcels=given) == LEFT, crawls.said
        fates = {item["key"]: (item["state"], item["outcome"]) for item in crawls.items()}
        assert fates == {
            one: ("done", "ok"),
            two: ("waiting", "blocked"),
            gone: ("failed", "not_found"),
            changed: ("waiting", "layout_changed"),
            other: ("waiting", "layout_changed"),
            "7": ("done", "no_results"),
        }
        reasons = {item["key"]: item.get("reason", "") for item in crawls.items()}
        assert "'7'" in reasons["7"]
        assert contract.CALLED[contract.VALUE] in reasons[changed]
        assert all(each in reasons[other] for each in (other, one))
        assert portal.url in reasons[gone]
        assert {row["parcel_id"] for row in crawls.found("properties").values()} == {one}
        assert "Referer: http" in portal.heads[f"{SUMMARY}?AccountNumber={one}"][0]


async def test_addresses_and_the_whole_town_are_found_over_pages_of_results_also_when_the_session_ends_in_between(
    crawls: Crawls, tmp_path: Path, mongodb: Database[dict[str, Any]]
) -> None:
    county = County(12)
    streets = {account for account, address in addresses(county).items() if "OLD POST" in address}
    assert len(streets) > 1
    async with PatriotPortal(county) as portal:
        register(crawls, portal, idle_s=3600)
        portal.page_size = 1
        (tmp_path / "addresses.csv").write_text("address\n1 Nowhere Rd\nOld Post Road\n")
        words = ["-a", f"site={SITE}", "--kind", "address", "--key", "address", "--input", "addresses.csv"]
        submitted = run(HARVESTER, "jobs", "submit", "patriot", *words, cwd=tmp_path, env=crawls.environment)
        assert submitted.returncode == 0, submitted.stderr
        assert await crawls.run("patriot", job="all") == FINISHED, crawls.said
        (nowhere,) = crawls.items(outcome="no_results")
        assert "'1 Nowhere Rd'" in nowhere["reason"]
        assert {row["parcel_id"] for row in crawls.found("properties").values()} == streets
        mongodb.client.drop_database(mongodb.name)

        portal.page_size, portal.expire_every = 2, 9
        assert await crawls.run("patriot", site=SITE, all="yes") == FINISHED, crawls.said
        check(crawls, county)
        assert portal.count(f"{SEARCH}?page=6") > 0
        assert portal.overlaps == 0


@pytest.mark.slow
async def test_a_town_that_renames_a_label_in_mid_job_has_nothing_wrong_stored(crawls: Crawls, tmp_path: Path) -> None:
    county = County(24)
    async with PatriotPortal(county) as portal:
        register(crawls, portal)
        write_parcels(portal, tmp_path)

        def rename(path: str, number: int) -> None:
            if len(portal.arrivals) > 32:
                portal.changed[""] = {b"Land Value": b"Of the land"}

        portal.bad = rename
        assert await crawls.run("patriot", site=SITE, parcels="@parcels.csv") == LEFT, crawls.said
        label = "'Current Property Assessment: Land Value'"
        assert {label in item["reason"] for item in crawls.items(state="waiting")} == {True}
        stored = crawls.found("assessments")
        assert 10 <= len(stored) < len(county.parcels)
        assert stored.items() <= truth(county, SITE)["assessments"].items()


def test_towns_that_come_along_are_asked_in_sessions() -> None:
    crawler = get_crawler(PatriotSpider)
    crawler.spider = cast(Any, SimpleNamespace(IN_SESSIONS=PatriotSpider.IN_SESSIONS))
    IdentitiesMiddleware.from_crawler(crawler)  # else it raises NotConfigured
    assert load_sites().of("http://bartonvt.patriotproperties.com/Summary.asp").identities.serial


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"owner": "SMITH"}, "owner: "),
        ({"address": "1 ELM", "parcels": "7"}, "parcels or address"),
        ({"parcels": "1.23E+10"}, "shortened"),
    ],
)
def test_what_cannot_be_asked_of_a_site_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        PatriotSpider.parse_arguments({"site": "us-ma-beverly", **given})
    assert said in str(refused.value)


def test_what_is_submitted_must_be_numbers_that_the_platform_knows() -> None:
    with pytest.raises(UsageError, match=r"'12-0034-0'.*account"):
        PatriotSpider.check_item(Found("parcel", "12-0034-0"))
    assert PatriotSpider.check_item(Found("parcel", "0123")).key == "0123"
    assert PatriotSpider.check_item(Found("address", " 1  ELM ")).key == "1 ELM"

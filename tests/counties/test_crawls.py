"""Crawls of made-up counties: what is stored is what they publish, whatever their servers do."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pymongo.database import Database

from tests.counties.conftest import SITE, Crawls
from tests.crawling import Answer
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT
from tests.sandbox.county import County
from tests.sandbox.county_tables import (
    TOKEN_REQUIRED,
    ArcgisTable,
    SocrataTable,
)

PARCELS = 1000
SMALL = 60


async def test_a_layer_is_whole_whatever_its_server_cannot_do(
    crawls: Crawls, mongodb: Database[dict[str, Any]]
) -> None:
    """It gives fewer rows than it says, no pages though it promises them, not all ids at once, and no counts; of each
    answer it says that there is more."""
    county = County(SMALL)
    async with ArcgisTable(county, most_rows=9) as table:
        crawls.register(table, where="TOWN = 'Ada'")
        table.says_rows, table.always_exceeded = 20, True
        assert await crawls.run("arcgis", site=SITE, all="yes") == FINISHED, crawls.said
        crawls.check(county, "Ada")
        assert table.asked("returnIdsOnly") == 0
        assert len(crawls.items(kind="page")) <= 6
        mongodb.client.drop_database(mongodb.name)

        table.pages, table.most_ids, table.most_rows = False, 25, 20
        assert await crawls.run("arcgis", site=SITE, all="yes") == FINISHED, crawls.said
        crawls.check(county, "Ada")
        assert [item["outcome"] for item in crawls.items(kind="page")] == ["pagination_unsupported"]
        assert len(crawls.items(kind="ids")) == 2
        assert 2 <= len(crawls.items(kind="range")) <= 4  # none is asked for in halves, since each was whole
        mongodb.client.drop_database(mongodb.name)

        crawls.register(table)
        table.pages, table.counts, table.most_rows, table.always_exceeded = True, False, 9, False
        assert await crawls.run("arcgis", site=SITE, all="yes") == FINISHED, crawls.said
        crawls.check(county)
        assert crawls.items(kind="page") == []
        assert len(crawls.items(kind="range")) >= 3 * 4  # ranges of 20 rows, of which the server gives 9


@pytest.mark.slow
async def test_a_layer_of_a_server_that_gives_fewer_rows_and_does_not_say_so_is_whole(crawls: Crawls) -> None:
    county = County(SMALL)
    async with ArcgisTable(county, most_rows=4) as table:
        crawls.register(table)
        table.pages, table.says_rows, table.says_exceeded = False, 20, False
        assert await crawls.run("arcgis", site=SITE, all="yes") == FINISHED, crawls.said
        crawls.check(county)


@pytest.mark.slow
async def test_each_parcel_that_was_named_has_a_fate_of_its_own(crawls: Crawls, tmp_path: Path) -> None:
    """Whether they are named in the command, or were submitted as a job."""
    county = County(SMALL)
    wanted = [parcel.parcel_id for parcel in county.parcels[:7]]
    missing, awkward = "00099999", "O'HARA 1"
    lines = [f'x,"{each}"\n' for each in [*wanted, missing, awkward]]
    (tmp_path / "parcels.csv").write_text("owner,parcel_id\n" + "".join(lines))
    for platform, name in ((ArcgisTable, "arcgis"), (SocrataTable, "socrata")):
        async with platform(county) as table:
            crawls.register(table)
            table.bad = lambda path, number: table.refusal("Invalid") if "HARA" in path else None
            asked = {"site": SITE, "parcels": "@parcels.csv"}
            if name == "socrata":
                words = ["-a", f"site={SITE}", "--input", "parcels.csv", "--key", "parcel_id"]
                submitted = run(HARVESTER, "jobs", "submit", name, *words, cwd=tmp_path, env=crawls.environment)
                assert submitted.returncode == 0, submitted.stderr
                asked = {"job": "all"}
            assert await crawls.run(name, **asked) == FINISHED, crawls.said
        items = {item["key"]: item for item in crawls.items() if item["job"].startswith(name)}
        assert {(items[parcel_id]["state"], items[parcel_id]["outcome"]) for parcel_id in wanted} == {("done", "ok")}
        assert (items[missing]["state"], items[missing]["outcome"]) == ("done", "no_results")
        assert "'00099999'" in items[missing]["reason"]
        assert "leading zeros" in items[missing]["reason"]
        assert (items[awkward]["state"], items[awkward]["outcome"]) == ("failed", "invalid")
        assert items[awkward]["input"] == {"owner": "x", "parcel_id": awkward}
    truth = county.truth(SITE)["properties"]
    assert crawls.found("properties") == {key: truth[key] for key in (f"{SITE} {each}" for each in wanted)}


@pytest.mark.slow
async def test_a_column_that_is_renamed_in_mid_crawl_is_a_changed_layout_and_nothing_wrong_is_stored(
    crawls: Crawls, mongodb: Database[dict[str, Any]]
) -> None:
    """Whether all are asked for, or those that are named."""
    county = County(SMALL)
    async with ArcgisTable(county, most_rows=10) as table:
        crawls.register(table, parcel_id_field="PIN")

        def rename(path: str, number: int) -> None:
            if "resultOffset=10&" in path and not table.names:
                table.refill(PIN="PARCEL_NEW")

        table.bad = rename
        assert await crawls.run("arcgis", site=SITE, all="yes") == LEFT, crawls.said
    changed = [item for item in crawls.items(kind="page") if item["outcome"] == "layout_changed"]
    assert changed
    assert re.search(r"'PIN'.*OBJECTID, PARCEL_NEW", changed[0]["reason"])
    truth = county.truth(SITE)["properties"]
    found = crawls.found("properties")
    assert found.items() <= truth.items()
    assert len(found) >= 10
    mongodb.client.drop_database(mongodb.name)

    async with ArcgisTable(county) as table:
        crawls.register(table, parcel_id_field="PIN")

        def rename_between(path: str, number: int) -> None:
            if table.asked("where=%28PIN") == 2 and not table.names:
                table.refill(PIN="PARCEL_NEW")

        table.bad = rename_between
        wanted = ",".join(parcel.parcel_id for parcel in county.parcels)
        assert await crawls.run("arcgis", site=SITE, parcels=wanted) == LEFT, crawls.said
    outcomes = {item["outcome"] for item in crawls.items(kind="parcel")}
    assert outcomes == {"ok", "layout_changed"}, "the server only says that it cannot read the question"
    assert crawls.found("properties").items() <= truth.items()


@pytest.mark.slow
async def test_a_layer_that_wants_a_token_is_gone_or_always_gives_the_same_page_says_so(
    crawls: Crawls, mongodb: Database[dict[str, Any]]
) -> None:
    async with ArcgisTable(County(5), most_rows=4) as table:
        crawls.register(table)
        table.ignores_offset = True
        assert await crawls.run("arcgis", site=SITE, all="yes", page_rows=4) == LEFT, crawls.said
        assert sorted(item["outcome"] for item in crawls.items(kind="page")) == ["layout_changed"] * 2 + ["ok"]
        assert any("first" in item["reason"] for item in crawls.items(outcome="layout_changed"))
        mongodb.client.drop_database(mongodb.name)
        table.bad = lambda path, number: TOKEN_REQUIRED
        assert await crawls.run("arcgis", site=SITE, all="yes") == LEFT, crawls.said
        table.bad = lambda path, number: Answer(body=b'{"error":{"code":404,"message":"Service not found"}}')
        assert await crawls.run("arcgis", site=SITE, parcels="1") == FINISHED, crawls.said
    outcomes = {item["kind"]: (item["state"], item["outcome"]) for item in crawls.items()}
    assert outcomes == {"table": ("waiting", "auth_required"), "parcel": ("failed", "not_found")}


@pytest.mark.slow
async def test_what_is_staged_comes_back_with_the_same_decimals_and_is_exported_exactly(
    crawls: Crawls, mongodb: Database[dict[str, Any]], tmp_path: Path
) -> None:
    county = County(SMALL)
    async with ArcgisTable(county) as table:
        crawls.register(table)
        assert await crawls.run("arcgis", site=SITE, all="yes") == FINISHED, crawls.said
    crawls.check(county)
    for collection in ("properties", "assessments", "sales"):
        mongodb[collection].drop()
    imported = run(HARVESTER, "import", cwd=tmp_path, env=crawls.environment)
    assert imported.returncode == 0, imported.stderr
    crawls.check(county)
    exact = {row["_id"]: row["market_value"].to_decimal() for row in mongodb["assessments"].find()}
    large = mongodb["assessments"].count_documents({"market_value": {"$gt": 500_000}})
    for ending in ("csv", "parquet"):
        ran = run(
            HARVESTER, "export", "assessments", "--to", f"a.{ending}", "--where", "market_value>500000",
            cwd=tmp_path, env=crawls.environment,
        )  # fmt: skip
        assert f"{large:,} assessments" in ran.stdout, ran.stderr
    assert 0 < large < SMALL
    with (tmp_path / "a.csv").open() as file:
        assert all(str(exact[row["_id"]]) == row["market_value"] for row in csv.DictReader(file))
    for row in parquet.read_table(tmp_path / "a.parquet").to_pylist():
        assert row["market_value"] == exact[row["_id"]]

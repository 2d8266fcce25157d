"""A handle belongs to the account that was seen with it last: no older profile keeps it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.pipelines.mongo import MongoPipeline
from harvester.privacy.purge import resolve
from tests.pipelines.records import ALICE, BOB, CAROL, crawler, profile
from tests.pipelines.test_mongo_pipeline import seen, store

Document = dict[str, Any]


@pytest.fixture
async def pipeline(
    mongodb: Database[Document], mongodb_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[MongoPipeline]:
    monkeypatch.setenv("HARVESTER_MONGODB_URI", mongodb_uri)
    monkeypatch.setenv("HARVESTER_DATABASE", mongodb.name)
    monkeypatch.setenv("HARVESTER_DATA_DIR", str(tmp_path))
    made = MongoPipeline.from_crawler(crawler())
    await made.open_spider()
    yield made
    await made.close_spider()


def handles(database: Database[Document]) -> dict[str, tuple[str | None, str | None]]:
    return {row["_id"]: (row.get("handle"), row.get("former_handle")) for row in database.profiles.find()}


async def test_an_older_profile_loses_the_handle_and_says_that_it_had_it(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    await store(pipeline, profile(ALICE, handle="a.example"), profile(CAROL, handle="c.example"))
    await store(pipeline, seen(profile(BOB, handle="a.example"), 60))
    assert handles(mongodb) == {ALICE: (None, "a.example"), BOB: ("a.example", None), CAROL: ("c.example", None)}
    await store(pipeline, seen(profile(ALICE, handle="new.example"), 120))
    assert handles(mongodb)[ALICE] == ("new.example", None)


async def test_an_older_observation_that_comes_later_takes_no_handle_from_a_newer_one(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    """As when staged lines of last year are imported."""
    await store(pipeline, seen(profile(BOB, handle="a.example"), 60))
    await store(pipeline, profile(ALICE, handle="a.example"))
    assert handles(mongodb) == {ALICE: (None, "a.example"), BOB: ("a.example", None)}


async def test_handles_that_do_not_resolve_are_many_accounts(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    for second, did in enumerate((ALICE, BOB, CAROL)):
        await store(pipeline, seen(profile(did, handle="handle.invalid"), second))
    assert handles(mongodb) == dict.fromkeys((ALICE, BOB, CAROL), ("handle.invalid", None))


async def test_who_is_purged_by_a_handle_is_the_account_that_has_it_now(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    await store(pipeline, profile(ALICE, handle="a.example"))
    await store(pipeline, seen(profile(BOB, handle="a.example"), 60))
    assert resolve(mongodb, "a.example").id == BOB

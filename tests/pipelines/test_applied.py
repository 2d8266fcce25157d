"""What somebody does not want to be kept goes while the run goes on: one that serves for ever has no end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from pymongo.database import Database
from scrapy.crawler import Crawler

from harvester.config import Config
from harvester.items import Batch
from harvester.items.bluesky import Embed
from harvester.pipelines import consent
from harvester.pipelines.consent import ConsentPipeline
from harvester.pipelines.staging import StagingPipeline
from harvester.privacy.opt_outs import UNKNOWN, KnownOptOut, writes_of
from harvester.stores.staging import OPEN, SUFFIX, read_segment
from tests.pipelines.records import ALICE, BOB, CAROL, PAGE, crawler, post, profile, quote_of

Document = dict[str, Any]
INTENT = ("intent bulkDataset",)
WAITING_S = 60


@pytest.fixture
def of(config: Config, monkeypatch: pytest.MonkeyPatch) -> Crawler:
    monkeypatch.setenv("HARVESTER_DATA_DIR", str(config.data_dir))
    monkeypatch.setattr(consent, "APPLY_S", 0.0)
    monkeypatch.setattr(consent, "REFRESH_S", 0.1)
    made = crawler()
    made.spider.keeping_all = []  # type: ignore[union-attr]
    return made


@pytest.fixture
async def pipelines(of: Crawler, config: Config) -> AsyncIterator[tuple[ConsentPipeline, StagingPipeline]]:
    first, second = ConsentPipeline(of, config), StagingPipeline.from_crawler(of)
    of.get_item_pipeline = {ConsentPipeline: first, StagingPipeline: second}.get  # type: ignore[method-assign, assignment]
    await first.open_spider()
    await second.open_spider()
    yield first, second
    await second.close_spider()
    await first.close_spider()


async def keep(pipelines: tuple[ConsentPipeline, StagingPipeline], database: Database[Document], *records: Any) -> None:
    """As a run does, which has the segments of these records open then."""
    batch = Batch([*records])
    for pipeline in pipelines:
        batch = await pipeline.process_batch(batch)
    for record in batch.records:
        database[record.COLLECTION].replace_one({"_id": record.key}, record.to_document(), upsert=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAITING_S):
        while not condition():  # noqa: ASYNC110  MongoDB and the disk have no event
            await asyncio.sleep(0.02)


def staged(folder: Path) -> set[str]:
    return {json.loads(line)["key"] for path in folder.rglob(f"*{SUFFIX}") for line in read_segment(path)}


QUOTING = post(CAROL, embed=Embed(quote=quote_of(BOB)), raw=msgspec.json.encode({"record": {"text": "some text"}}))


@pytest.mark.parametrize("by_another", [False, True])
async def test_an_opt_out_is_applied_to_records_quotes_and_open_segments_while_the_run_goes_on(
    by_another: bool, pipelines: Any, config: Config, mongodb: Database[Document]
) -> None:
    await keep(pipelines, mongodb, post(BOB), post(ALICE), QUOTING)
    assert list(config.data_dir.rglob(f"*{OPEN}"))
    if by_another:
        mongodb.opt_outs.bulk_write(writes_of({BOB: KnownOptOut(INTENT, PAGE.fetched_at)}, []))
    else:
        await keep(pipelines, mongodb, profile(BOB, opt_outs=INTENT, raw=b""))
    await until(lambda: not mongodb.posts.count_documents({"did": BOB}))
    await until(lambda: not mongodb.posts.count_documents({"embed.quote.kind": "post"}))
    await until(lambda: staged(config.data_dir) == {post(ALICE).key, QUOTING.key})
    await keep(pipelines, mongodb, post(BOB, "2"), post(ALICE, "2"))
    assert {row["_id"] for row in mongodb.posts.find({"did": {"$ne": CAROL}})} == {post().key, post(ALICE, "2").key}


async def test_an_account_that_is_purged_meanwhile_is_removed_from_what_the_run_stored_before_it_heard_of_that(
    pipelines: Any, config: Config, mongodb: Database[Document]
) -> None:
    await keep(pipelines, mongodb, post(BOB), post(ALICE))
    mongodb.purged.insert_one({"_id": BOB, "purged_at": datetime.now(UTC)})
    await until(lambda: not mongodb.posts.count_documents({"did": BOB}))
    await until(lambda: staged(config.data_dir) == {post(ALICE).key})


async def test_of_an_author_whose_declaration_is_unknown_the_words_go_unless_the_account_was_harvested_before(
    pipelines: Any, mongodb: Database[Document]
) -> None:
    await keep(pipelines, mongodb, profile(ALICE), post(ALICE), post(BOB))
    unknown = [profile(did, handle="x.example", opt_outs=UNKNOWN, raw=b"") for did in (ALICE, BOB)]
    await keep(pipelines, mongodb, *unknown)
    await until(lambda: not mongodb.posts.count_documents({"did": BOB}))
    assert {row["_id"]: row.get("opt_outs") for row in mongodb.profiles.find()} == {ALICE: None, BOB: [*UNKNOWN]}
    assert mongodb.posts.count_documents({"did": ALICE}) == 1
    assert [row["_id"] for row in mongodb.opt_outs.find()] == [BOB]
    later = replace(PAGE, fetched_at=PAGE.fetched_at + timedelta(days=1))
    await keep(pipelines, mongodb, profile(BOB, intents={}, provenance=later))
    assert not mongodb.opt_outs.count_documents({}), "it was asked since then"


async def test_a_handle_of_a_purged_account_is_free_for_the_account_that_has_it_since(
    pipelines: Any, mongodb: Database[Document]
) -> None:
    first, _ = pipelines
    mongodb.purged.insert_one({"_id": BOB, "handle": "Same.Example", "purged_at": PAGE.fetched_at})
    await first.read_purged()
    assert not first.is_allowed("same.example")
    await keep(pipelines, mongodb, profile(BOB, handle="same.example"))
    assert not first.is_allowed("same.example")
    await keep(pipelines, mongodb, profile(CAROL, handle="same.example"))
    assert first.is_allowed("same.example")
    assert not first.is_allowed(BOB)

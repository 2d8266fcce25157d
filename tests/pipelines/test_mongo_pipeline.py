"""Records are stored once under their key, the newest observation wins; what a page says of job items is kept after."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.database import Database
from pymongo.errors import OperationFailure
from scrapy.crawler import Crawler

from harvester.exceptions import StorageError
from harvester.items import Batch, Found, Record
from harvester.pipelines.mongo import MongoPipeline
from harvester.stores.rejects import rejects_of
from harvester.stores.staging import read_segment
from tests.items.bluesky_samples import whole
from tests.pipelines.records import ALICE, BOB, KINDS, PAGE, crawler, follow, post, profile, repost, stats

Document = dict[str, Any]


@pytest.fixture
def of(mongodb: Database[Document], mongodb_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Crawler:
    monkeypatch.setenv("HARVESTER_MONGODB_URI", mongodb_uri)
    monkeypatch.setenv("HARVESTER_DATABASE", mongodb.name)
    monkeypatch.setenv("HARVESTER_DATA_DIR", str(tmp_path))
    return crawler()


@pytest.fixture
async def pipeline(of: Crawler) -> AsyncIterator[MongoPipeline]:
    made = MongoPipeline.from_crawler(of)
    await made.open_spider()
    yield made
    await made.close_spider()


def seen(record: Any, seconds: float) -> Any:
    """The same record, observed so much later."""
    at: datetime = PAGE.fetched_at + timedelta(seconds=seconds)
    return replace(record, provenance=replace(PAGE, fetched_at=at))


async def store(pipeline: MongoPipeline, *records: Record) -> None:
    await pipeline.process_batch(Batch([*records]))


async def test_what_a_page_says_of_items_is_written_after_its_records(
    pipeline: MongoPipeline, of: Crawler, mongodb: Database[Document]
) -> None:
    stored: list[bool] = []

    def site_of(found: Found) -> str:
        stored.append(mongodb["posts"].count_documents({}) == 1)
        return f"site of {found.key}"

    of.spider.site_of = site_of  # type: ignore[union-attr]
    await pipeline.process_batch(Batch([post()], (), "job", (("job:page:a", 1),), (Found("page", "b"),)))
    assert stored == [True]
    found = mongodb["job_items"].find_one({"_id": "job:page:b"})
    assert found
    assert (found["state"], found["site"], found["job"]) == ("waiting", "site of b", "job")


async def test_a_record_is_one_document_however_often_it_is_seen(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    await store(pipeline, profile(), follow(), post())
    await store(pipeline, profile(), follow(), post(), follow(), follow(ALICE, "did:plc:carol"))
    assert mongodb["profiles"].count_documents({}) == mongodb["posts"].count_documents({}) == 1
    assert mongodb["follows"].distinct("_id") == [f"{ALICE} {BOB}", f"{ALICE} did:plc:carol"]
    stored = mongodb["profiles"].find_one()
    assert stored == {
        "_id": ALICE,
        "did": ALICE,
        "handle": "a.example",
        "provenance": {
            "url": PAGE.url,
            "fetched_at": PAGE.fetched_at,
            "spider": "bluesky",
            "crawl": "bluesky-1",
        },
    }
    assert stats(pipeline.crawler)["records/stored/follow"] == 4


async def test_only_what_an_earlier_run_stored_is_seen_again_and_counts_once(pipeline: MongoPipeline) -> None:
    of_this_run = 100 * 365 * 86400
    await store(pipeline, follow())
    await store(pipeline, seen(follow(), of_this_run), seen(post(), of_this_run))
    await store(pipeline, seen(follow(), of_this_run), seen(post(), of_this_run))
    counts = stats(pipeline.crawler)
    assert (counts["records/known/follow"], counts["records/known/post"]) == (2, 1)
    assert counts["records/seen_again/follow"] == 1
    assert "records/seen_again/post" not in counts


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_newer_observation_never_loses_to_an_older_one(
    pipeline: MongoPipeline, mongodb: Database[Document], order: tuple[int, int]
) -> None:
    observations = [seen(profile(handle="old.example"), 0), seen(profile(handle="new.example"), 0.001)]
    for which in order:
        await store(pipeline, observations[which])
    assert [document["handle"] for document in mongodb["profiles"].find()] == ["new.example"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_nor_when_both_are_written_together(
    pipeline: MongoPipeline, mongodb: Database[Document], order: tuple[int, int]
) -> None:
    observations = [seen(profile(handle="old.example"), 0), seen(profile(handle="new.example"), 5)]
    await store(pipeline, *(observations[which] for which in order))
    assert [document["handle"] for document in mongodb["profiles"].find()] == ["new.example"]


FIRST, SECOND = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("times", [(None, FIRST), (FIRST, SECOND), (FIRST, FIRST)])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_of_two_versions_the_later_stays_in_whatever_order_they_are_observed(
    pipeline: MongoPipeline,
    mongodb: Database[Document],
    order: tuple[int, int],
    times: tuple[datetime | None, datetime],
    together: bool,
) -> None:
    versions = [repost("one", times[0]), repost("another", times[1])]
    first, second = [seen(versions[which], seconds) for seconds, which in enumerate(order)]
    if together:
        await store(pipeline, first, second)
    else:
        await store(pipeline, first)
        await store(pipeline, second)
    expected = second if times[0] == times[1] else versions[1]
    assert [document["uri"] for document in mongodb["reposts"].find()] == [expected.uri]


async def test_a_later_job_that_shows_an_older_version_replaces_the_newer_one_that_is_gone(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    await store(pipeline, repost("the second time", SECOND))
    later = replace(PAGE, fetched_at=PAGE.fetched_at + timedelta(days=1), crawl="bluesky-2")
    await store(pipeline, replace(repost("the first time", FIRST), provenance=later))
    assert [(row["uri"], row["provenance"]["crawl"]) for row in mongodb["reposts"].find()] == [
        ("the first time", "bluesky-2")
    ]


async def test_what_was_gone_and_is_seen_again_is_marked_no_more(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    await store(pipeline, post())
    gone_at = PAGE.fetched_at + timedelta(days=1)
    mongodb["posts"].update_one({}, {"$set": {"gone_at": gone_at}})
    await store(pipeline, post())
    assert [row.get("gone_at") for row in mongodb["posts"].find()] == [gone_at], "that is what it was like before"
    await store(pipeline, seen(post(), 2 * 86_400))
    assert [row.get("gone_at") for row in mongodb["posts"].find()] == [None]


async def test_of_two_observations_at_the_same_time_the_one_written_last_wins(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    await store(pipeline, profile(handle="first.example"))
    await store(pipeline, profile(handle="second.example"))
    assert [document["handle"] for document in mongodb["profiles"].find()] == ["second.example"]


async def test_a_field_that_vanished_is_unset_and_stored_pictures_stay(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    pictures = {"avatar": f"{ALICE}/pfp.jpg", "banner": f"{ALICE}/banner.jpg"}
    sources = {"avatar": "https://cdn.example/1", "banner": "https://cdn.example/2"}
    shown = {"avatar_url": "https://cdn.example/3", "banner_url": "https://cdn.example/2"}
    before = profile(display_name="Alice", followers_count=7, media_paths=pictures, media_sources=sources)
    await store(pipeline, before)
    after = profile(followers_count=8, media_sources={"avatar": "https://cdn.example/3"}, **shown)
    await store(pipeline, seen(after, 1))
    (document,) = mongodb["profiles"].find()
    assert "display_name" not in document
    assert document["followers_count"] == 8
    assert document["media_paths"] == pictures
    assert document["media_sources"] == sources | {"avatar": "https://cdn.example/3"}
    del shown["banner_url"]
    await store(pipeline, seen(profile(**shown), 2))
    (document,) = mongodb["profiles"].find()
    assert document["media_paths"] == {"avatar": f"{ALICE}/pfp.jpg"}, "the account has taken its banner away"
    assert document["media_sources"] == {"avatar": "https://cdn.example/3"}


def endless() -> Document:
    """It contains itself."""
    found: Document = {}
    found["a"] = found
    return found


def nested(levels: int) -> Document:
    return {"a": nested(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"followers_count": 2**63}, id="number"),
        pytest.param({"description": "\ud800"}, id="surrogate"),
        pytest.param({"associated": {"a\0b": 1}}, id="null-in-name"),
        pytest.param({"associated": nested(300)}, id="nesting"),
        pytest.param({"associated": nested(190)}, id="nesting-that-the-server-refuses"),
        pytest.param({"associated": endless()}, id="endless-nesting"),
        pytest.param({"description": "x" * (16 * 1024 * 1024)}, id="size"),
        pytest.param({"associated": {"n": {1: 2}}}, id="name-that-is-no-text"),
        pytest.param({"associated": {"n": object()}}, id="unheard-of-type"),
        pytest.param({"created_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))}, id="date"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
async def test_what_mongodb_cannot_hold_is_rejected_and_counted_and_the_rest_stored(
    pipeline: MongoPipeline, mongodb: Database[Document], bad: Document, known: bool
) -> None:
    if known:
        await store(pipeline, profile(ALICE))
    await store(pipeline, profile(BOB), seen(profile(ALICE, **bad), 1), post())
    assert mongodb["profiles"].distinct("_id") == ([ALICE, BOB] if known else [BOB])
    assert mongodb["posts"].count_documents({}) == 1
    counts = stats(pipeline.crawler)
    assert counts["records/rejected/profile"] == 1
    assert counts["records/stored/profile"] == 1 + known
    rejects = rejects_of(pipeline.crawler)
    rejects.close()
    (reject,) = [msgspec.json.decode(line) for path in rejects.folder.rglob("*.zst") for line in read_segment(path)]
    assert (reject["kind"], reject["key"], reject["raw"]) == ("profile", ALICE, {"handle": "a.example"})
    assert reject["reason"].startswith("MongoDB ")


async def test_what_mongodb_refuses_of_an_update_is_rejected_and_the_rest_stored(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    await store(pipeline, profile(ALICE), profile(BOB, handle="b.example"))
    again = [seen(profile(did, handle=f"new.{did[8:]}.example"), 1) for did in (ALICE, BOB)]
    again[0] = replace(again[0], media_paths={"": "a.jpg"})
    await store(pipeline, *again)
    assert {each["_id"]: each["handle"] for each in mongodb["profiles"].find()} == {
        ALICE: "a.example",
        BOB: "new.bob.example",
    }
    assert stats(pipeline.crawler)["records/rejected/profile"] == 1


async def test_a_batch_goes_on_when_it_is_stored_and_the_ledger_has_learnt_of_it(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    pipeline.crawler.spider.site_of = lambda _: ""  # type: ignore[union-attr]
    posts = [post(key=str(number)) for number in range(50)]
    pages = [(one, Found("page", str(number))) for number, one in enumerate(posts)]
    batches = [Batch([one], (), "job", (("job:page:first", 1),), (found,)) for one, found in pages]

    async def processed(batch: Batch) -> None:
        assert await pipeline.process_item(batch) is batch
        assert mongodb["posts"].find_one({"_id": batch.records[0].key})
        assert mongodb["job_items"].find_one({"key": batch.found[0].key})

    await asyncio.gather(*map(processed, batches))
    assert mongodb["job_items"].count_documents({}) == 50


async def test_what_arrives_during_a_write_is_written_together(
    pipeline: MongoPipeline, mongodb: Database[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    insert_many = AsyncCollection.insert_many

    async def counted(collection: AsyncCollection[Document], documents: list[Document], **options: Any) -> Any:
        sizes.append(len(documents))
        return await insert_many(collection, documents, **options)

    monkeypatch.setattr(AsyncCollection, "insert_many", counted)
    await asyncio.gather(*(store(pipeline, post(key=f"{batch}-1"), post(key=f"{batch}-2")) for batch in range(30)))
    assert mongodb["posts"].count_documents({}) == sum(sizes) == 60
    assert len(sizes) <= 2


async def test_a_write_that_fails_fails_each_batch_in_it_and_none_after(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    forbidden = {"$jsonSchema": {"properties": {"handle": {"not": {"enum": ["forbidden.example"]}}}}}
    mongodb.create_collection("profiles", validator=forbidden)
    outcomes = await asyncio.gather(
        store(pipeline, profile(handle="forbidden.example")),
        pipeline.process_batch(Batch([profile(BOB)], (), "job", (("job:page:a", 1),), (Found("page", "b"),))),
        return_exceptions=True,
    )
    assert {type(outcome) for outcome in outcomes} == {StorageError}
    assert mongodb["job_items"].count_documents({}) == 0
    await store(pipeline, post())
    assert mongodb["posts"].count_documents({}) == 1


async def test_no_page_is_blamed_for_what_mongodb_refuses_to_write_down_of_items(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    pipeline.crawler.spider.site_of = lambda _: ""  # type: ignore[union-attr]
    mongodb.create_collection("job_items", validator={"key": {"$ne": "b"}})
    with pytest.raises(StorageError, match=r"MongoDB.* items"):
        await pipeline.process_batch(Batch([post()], (), "job", (("job:page:a", 1),), (Found("page", "b"),)))


async def test_a_write_that_the_driver_misdirects_to_a_server_just_started_is_made_again(
    pipeline: MongoPipeline, mongodb: Database[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in the first moments after a kill: pymongo took a standalone server for a member of a replica set."""
    said = "This MongoDB deployment does not support retryable writes. Please add retryWrites=false."
    errors = [OperationFailure(said, 20)]
    insert_many = AsyncCollection.insert_many

    async def misdirected(collection: AsyncCollection[Document], documents: list[Document], **options: Any) -> Any:
        if errors:
            raise errors.pop()
        return await insert_many(collection, documents, **options)

    monkeypatch.setattr(AsyncCollection, "insert_many", misdirected)
    engine = SimpleNamespace(pause=lambda: None, unpause=lambda: None, running=True, _slot=None)  # there is no crawl
    monkeypatch.setattr(pipeline.crawler, "_engine", engine)
    await store(pipeline, post())
    assert errors == []
    assert mongodb["posts"].count_documents({}) == 1


async def test_the_indexes_of_a_kind_are_made_with_its_first_record(
    pipeline: MongoPipeline, mongodb: Database[Document]
) -> None:
    assert mongodb.list_collection_names() == [], "of kinds of which there is nothing"
    await store(pipeline, *whole())
    for kind in KINDS:
        indexes = [
            tuple(name for name, _ in index["key"]) for index in mongodb[kind.COLLECTION].index_information().values()
        ]
        assert {("_id",), ("provenance.item",), *kind.INDEXES} == {*indexes}
    explained = mongodb["posts"].find({"did": ALICE}).sort("sort_at").explain()
    assert "COLLSCAN" not in str(explained["queryPlanner"]["winningPlan"])

"""Nothing is kept of accounts that opted out or were purged."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from pymongo.database import Database

from harvester.config import Config
from harvester.items import Batch, Found, Record, Reject
from harvester.items.bluesky import Embed, Image, Like, ListItem, Profile, Quote, Repost
from harvester.pipelines import consent
from harvester.pipelines.consent import ConsentPipeline
from harvester.privacy.opt_outs import BY_LABEL
from tests.pipelines.records import ALICE, BOB, CAROL, PAGE, crawler, follow, post, profile, quote_of, stats

DAVE = "did:plc:dave"
SEEN = datetime(2026, 1, 1, tzinfo=UTC)
REFUSING = {"declared": ["intent bulkDataset"], "seen_at": SEEN, "known_at": SEEN}
LATER = msgspec.structs.replace(PAGE, fetched_at=PAGE.fetched_at + timedelta(days=1))


async def _through(config: Config, records: list[Record], **arguments: Any) -> tuple[Batch, dict[str, Any]]:
    """What the pipeline makes of the records, and the stats."""
    runs = crawler(**arguments)
    pipeline = ConsentPipeline(runs, config)
    await pipeline.open_spider()
    try:
        return await pipeline.process_item(Batch(records)), stats(runs)
    finally:
        await pipeline.close_spider()


async def test_of_an_account_that_opted_out_a_stub_stays(config: Config) -> None:
    intents = {"scraping": False}
    refusing = profile(opt_outs=("!no-unauthenticated",), display_name="Alice", intents=intents, avatar_url="https://a")
    batch, counted = await _through(config, [refusing, post(opt_outs=("!no-unauthenticated",)), post(BOB)])
    stub, other = batch.records
    assert stub == Profile(
        did=ALICE, handle="a.example", opt_outs=("!no-unauthenticated",), intents=intents, provenance=PAGE
    )
    assert stub.raw == b"", "it would be staged"
    assert stub.media() == []
    assert other == post(BOB)
    assert counted["consent/stubbed"] == 1
    assert counted["consent/dropped/post"] == 1


async def test_opt_outs_are_only_recorded_when_they_are_not_to_be_honoured(config: Config) -> None:
    records: list[Record] = [profile(opt_outs=("x",)), post(opt_outs=("x",))]
    batch, counted = await _through(config, records, honour_opt_outs=False)
    assert batch.records == records
    assert not any(name.startswith("consent") for name in counted)


async def test_records_of_an_account_known_to_refuse_are_dropped_where_they_do_not_say_so(
    config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    """A declaration of intents is in no view of an account: other accounts' feeds show its posts without it."""
    mongodb.opt_outs.insert_one({"_id": BOB, **REFUSING})
    declared = profile(CAROL, opt_outs=("intent bulkDataset",), intents={"bulkDataset": False})
    records: list[Record] = [post(BOB), follow(BOB, ALICE), post(CAROL, "1"), declared, post(CAROL, "2"), post(ALICE)]
    batch, counted = await _through(config, records)
    assert [record.key for record in batch.records] == [
        record.key for record in (follow(BOB, ALICE), post(CAROL, "1"), declared, post(ALICE))
    ]
    assert counted["consent/dropped/post"] == 2
    allowed = profile(BOB, intents={"bulkDataset": True})
    batch, _ = await _through(config, [allowed, post(BOB)])
    assert batch.records == [allowed, post(BOB)]


async def test_a_spider_that_works_at_several_jobs_honours_opt_outs_but_in_those_that_keep_all(config: Config) -> None:
    runs = crawler(honour_opt_outs=False)
    runs.spider.keeping_all = ["bluesky-2"]  # type: ignore[union-attr]
    pipeline = ConsentPipeline(runs, config)
    await pipeline.open_spider()
    other = msgspec.structs.replace(PAGE, crawl="bluesky-2")
    for refusing, kept in ((post(opt_outs=("x",)), 0), (post(opt_outs=("x",), provenance=other), 1)):
        assert len((await pipeline.process_batch(Batch([refusing]))).records) == kept
    await pipeline.close_spider()


async def test_who_says_no_is_written_down_before_the_page_is_done_and_who_no_longer_does_is_forgotten(
    config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    quoting = post(embed=Embed(quote=Quote(f"at://{CAROL}/app.bsky.feed.post/1", "opted_out", CAROL)))
    member = msgspec.structs.replace(follow(ALICE, DAVE), raw=b'{"did":"%b","purged":true}' % DAVE.encode())
    await _through(config, [post(BOB, opt_outs=BY_LABEL), quoting, member, follow(ALICE, BOB)])
    rows = {row["_id"]: row for row in mongodb.opt_outs.find()}
    assert {did: tuple(row["declared"]) for did, row in rows.items()} == dict.fromkeys((BOB, CAROL, DAVE), BY_LABEL)
    assert all(isinstance(row["known_at"], datetime) for row in rows.values())
    batch, _ = await _through(config, [post(BOB), profile(CAROL), post(embed=Embed(quote=quote_of(CAROL)))])
    assert [record.key for record in batch.records] == [CAROL, post().key], "old pages, read again from what was staged"
    assert "text" not in msgspec.to_builtins(batch.records[1])["embed"]["quote"]
    assert mongodb.opt_outs.count_documents({}) == 3
    later: list[Record] = [post(BOB, provenance=LATER), *(profile(did, provenance=LATER) for did in (CAROL, DAVE))]
    batch, _ = await _through(config, later)
    assert len(batch.records) == 3, "the label is gone from their views"
    assert not any(record.opted_out for record in batch.records)
    assert mongodb.opt_outs.count_documents({}) == 0
    await _through(config, [post(BOB, opt_outs=BY_LABEL)], honour_opt_outs=False)
    assert mongodb.opt_outs.count_documents({}) == 0


async def test_an_account_that_declared_it_stays_a_stub_while_nobody_says_what_it_declares_now(
    config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    mongodb.opt_outs.insert_one({"_id": BOB, **REFUSING})
    batch, _ = await _through(config, [profile(BOB, display_name="Bob")])
    assert batch.records == [
        Profile(did=BOB, handle="a.example", opt_outs=("intent bulkDataset",), provenance=PAGE),
    ]
    assert mongodb.opt_outs.count_documents({"_id": BOB}) == 1


async def test_what_others_quote_of_an_account_that_declared_it_is_emptied(
    config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    """So that a run which knows it writes no word of it into any file."""
    mongodb.opt_outs.insert_one({"_id": BOB, **REFUSING})
    view = {"uri": "at://bob", "author": {"did": BOB}, "value": {"text": f"words of {BOB}"}}
    batch, _ = await _through(config, [post(embed=Embed(quote=quote_of(BOB)), raw=msgspec.json.encode({"x": view}))])
    [emptied] = batch.records
    assert msgspec.to_builtins(emptied)["embed"] == {
        "quote": {"uri": quote_of(BOB).uri, "kind": "opted_out", "did": BOB}
    }
    assert b"words" not in emptied.raw


async def test_a_withdrawal_that_another_process_heard_of_counts(
    config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    mongodb.opt_outs.insert_one({"_id": BOB, **REFUSING})
    pipeline = ConsentPipeline(crawler(), config)
    await pipeline.open_spider()
    assert not (await pipeline.process_batch(Batch([post(BOB)]))).records
    mongodb.opt_outs.delete_one({"_id": BOB})
    assert (await pipeline.process_batch(Batch([post(BOB)]))).records
    await pipeline.close_spider()


async def test_what_was_kept_is_taken_back_when_a_run_begins_and_when_it_ends(
    config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    """By whichever process it was learnt, and by whichever it was kept."""
    runs = crawler()
    runs.spider.keeping_all = []  # type: ignore[union-attr]
    pipeline = ConsentPipeline(runs, config)
    mongodb.posts.insert_many([post(did).to_document() for did in (ALICE, BOB, CAROL)])
    mongodb.opt_outs.insert_one({"_id": ALICE, **REFUSING})
    await pipeline.open_spider()
    assert {row["did"] for row in mongodb.posts.find()} == {BOB, CAROL}
    mongodb.opt_outs.insert_one({"_id": BOB, **REFUSING})
    await pipeline.close_spider()
    await pipeline.take_back()
    assert {row["did"] for row in mongodb.posts.find()} == {CAROL}
    assert stats(runs)["consent/dropped/post"] == 2


@pytest.mark.parametrize("honoured", [True, False])
async def test_nothing_is_kept_of_a_purged_account(
    config: Config, mongodb: Database[dict[str, Any]], honoured: bool
) -> None:
    mongodb["purged"].insert_one({"_id": BOB})
    about_bob = f"at://{BOB}/app.bsky.feed.post/1"
    edge: dict[str, Any] = {"did": ALICE, "provenance": PAGE, "subject_did": BOB}
    records: list[Record] = [
        profile(BOB, opt_outs=("x",)),
        post(BOB),
        follow(BOB, ALICE),
        follow(ALICE, BOB),
        Repost(**edge, subject_uri=about_bob),
        Like(**edge, uri=f"at://{ALICE}/app.bsky.feed.like/1", subject_uri=about_bob),
        ListItem(**edge, uri=f"at://{ALICE}/app.bsky.graph.listitem/1", list_uri="at://x"),
        follow(ALICE, CAROL),
    ]
    batch, counted = await _through(config, records, honour_opt_outs=honoured)
    assert batch.records == [follow(ALICE, CAROL)]
    expected = {"profile": 1, "post": 1, "follow": 2, "repost": 1, "like": 1, "list_item": 1}
    assert {name: counted[f"consent/purged/{name}"] for name in expected} == expected


async def test_only_accounts_are_written_down_as_refusing_whatever_a_quote_names(
    config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    names = ["..", "/", "did:", "\x00", BOB]
    quoting = [
        post(key=str(n), embed=Embed(quote=Quote("at://x/y/z", "opted_out", did=did))) for n, did in enumerate(names)
    ]
    batch, _ = await _through(config, [*quoting])
    assert len(batch.records) == len(names)
    assert mongodb.opt_outs.distinct("_id") == [BOB]


async def test_what_others_quote_of_a_purged_account_is_emptied(
    config: Config, mongodb: Database[dict[str, Any]]
) -> None:
    mongodb["purged"].insert_one({"_id": CAROL})
    inner = Embed(quote=quote_of(CAROL), images=(Image("https://cdn.example/did:plc:bob/1"),))
    raw = {
        "uri": "at://alice",
        "author": {"did": ALICE},
        "embed": {
            "record": {
                "uri": "at://bob",
                "author": {"did": BOB},
                "value": {"text": "words of bob"},
                "embeds": [{"record": {"uri": "at://carol", "author": {"did": CAROL}, "value": {"text": "secret"}}}],
            }
        },
    }
    quoting = post(
        embed=Embed(quote=quote_of(BOB, inner)),
        media_urls=("https://cdn.example/did:plc:bob/1", f"https://cdn.example/{CAROL}/2"),
        raw=msgspec.json.encode(raw),
    )
    untouched = post(embed=Embed(quote=quote_of(BOB)))
    batch, counted = await _through(config, [quoting, untouched])
    emptied: Any = batch.records[0]
    assert batch.records[1] is untouched
    assert emptied.embed.quote.text == f"words of {BOB}"
    assert emptied.embed.quote.embed.images == inner.images
    left = emptied.embed.quote.embed.quote
    assert msgspec.to_builtins(left) == {"uri": quote_of(CAROL).uri, "kind": "purged", "did": CAROL}
    assert emptied.media_urls == ("https://cdn.example/did:plc:bob/1",)
    raw["embed"]["record"]["embeds"][0]["record"] = {"uri": "at://carol", "purged": True}  # type: ignore[index]
    assert msgspec.json.decode(emptied.raw) == raw
    assert counted["consent/purged/quote"] == 1


async def test_rejects_of_a_purged_account_are_not_kept(config: Config, mongodb: Database[dict[str, Any]]) -> None:
    mongodb["purged"].insert_one({"_id": BOB})
    pipeline = ConsentPipeline(crawler(), config)
    await pipeline.open_spider()
    rejects = [Reject("post", "bad", key, b"{}", "") for key in (BOB, f"at://{BOB}/x/1", ALICE, "")]
    batch = await pipeline.process_batch(Batch([], tuple(rejects)))
    assert [reject.key for reject in batch.rejects] == [ALICE, ""]
    await pipeline.close_spider()


async def test_a_purged_account_is_found_by_no_job(config: Config, mongodb: Database[dict[str, Any]]) -> None:
    mongodb["purged"].insert_one({"_id": BOB})
    pipeline = ConsentPipeline(crawler(), config)
    await pipeline.open_spider()
    found = [Found("account", BOB), Found("thread", post(BOB).uri), Found("account", f"{BOB}by"), Found("page", "1")]
    batch = await pipeline.process_batch(Batch([], found=tuple(found)))
    assert list(batch.found) == found[2:]
    await pipeline.close_spider()


class Listening(ConsentPipeline):
    """Tells when the list was read."""

    read = asyncio.Event()

    async def read_purged(self) -> None:
        await super().read_purged()
        self.read.set()


async def test_an_account_purged_during_the_run_is_heeded(
    config: Config, mongodb: Database[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consent, "REFRESH_S", 0.01)
    pipeline = Listening(crawler(), config)
    await pipeline.open_spider()
    assert (await pipeline.process_batch(Batch([post(BOB)]))).records
    mongodb["purged"].insert_one({"_id": BOB})
    for _ in range(2):  # the first may have begun before the account was purged
        pipeline.read.clear()
        await pipeline.read.wait()
    assert not (await pipeline.process_batch(Batch([post(BOB)]))).records
    await pipeline.close_spider()

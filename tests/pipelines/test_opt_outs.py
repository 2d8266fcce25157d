"""What was kept of accounts, before it was known that they refuse, is taken back, and nothing else."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pymongo.database import Database

from harvester.config import Config
from harvester.exceptions import StorageError
from harvester.items import Provenance, Record, Reject
from harvester.items.bluesky import Embed
from harvester.pipelines.staging import staged_line
from harvester.privacy.opt_outs import BY_LABEL, Declared, KnownOptOut, take_back, without, writes_of
from harvester.stores.objects import LocalStore, on_disk
from harvester.stores.rejects import rejected_line
from harvester.stores.staging import SUFFIX, SegmentWriter, read_segment
from tests.pipelines.records import ALICE, BOB, CAROL, PAGE, follow, post, profile, quote_of

MongoDB = Database[dict[str, Any]]
EARLIER = Provenance("https://api.example", datetime(2026, 1, 1, tzinfo=UTC), "bluesky", "bluesky-0")
NESTED = Embed(quote=quote_of(CAROL, Embed(quote=quote_of(BOB))))
INTENT = ("intent bulkDataset",)
REFUSING = profile(BOB, opt_outs=INTENT, intents={"bulkDataset": False}, raw=b"")


def view(did: str) -> dict[str, Any]:
    return {
        "uri": f"at://{did}/app.bsky.feed.post/9",
        "author": {"did": did, "handle": "x"},
        "value": {"text": "words"},
    }


def keep(config: Config, database: MongoDB, *records: Record) -> None:
    """As a run does."""
    for record in records:
        database[record.COLLECTION].insert_one(record.to_document())
    writer = SegmentWriter(config.data_dir / "staging" / "bluesky")
    for record in records:
        if record.raw:
            writer.write(record.KIND, [staged_line(record)])
    writer.close()


def refuse(database: MongoDB, *dids: str, declared: Declared = INTENT) -> None:
    """As it is written down when it becomes known."""
    database.opt_outs.bulk_write(writes_of(dict.fromkeys(dids, KnownOptOut(declared, PAGE.fetched_at)), []))


def staged(config: Config) -> dict[str, Any]:
    """`kind key` -> raw, of all staged lines."""
    paths = sorted((config.data_dir / "staging").rglob(f"*{SUFFIX}"))
    lines = [json.loads(line) for path in paths for line in read_segment(path)]
    return {f"{line['kind']} {line['key']}": line["raw"] for line in lines}


def test_records_quotes_pictures_and_staged_lines_go_and_edges_stay(config: Config, mongodb: MongoDB) -> None:
    folder = Path(config.images_location)
    LocalStore(str(folder)).write(f"{on_disk(BOB)}/posts/c_0.jpg", b"picture")
    quoting = post(
        embed=NESTED,
        media_urls=(f"https://cdn.example/{BOB}/1", f"https://cdn.example/{CAROL}/2"),
        raw=msgspec.json.encode({"uri": "at://x", "embed": {"record": view(CAROL) | {"embeds": [view(BOB)]}}}),
    )
    edge = msgspec.structs.replace(follow(BOB, ALICE), raw=msgspec.json.encode({"did": BOB, "description": "I am Bob"}))
    keep(config, mongodb, REFUSING, post(BOB, media_paths={"0": f"{BOB}/posts/c_0.jpg"}), quoting, edge, post(CAROL))
    refuse(mongodb, BOB)
    for removed in ({"post": 1, "picture": 1, "quote": 1}, {}):  # doing it again does no harm
        assert take_back(mongodb, config, "bluesky").removed == removed
        assert {row["did"] for row in mongodb.posts.find()} == {ALICE, CAROL}
        emptied: Any = mongodb.posts.find_one({"did": ALICE})
        assert emptied["embed"]["quote"]["text"] == f"words of {CAROL}"
        left = emptied["embed"]["quote"]["embed"]["quote"]
        assert left == {"uri": quote_of(BOB).uri, "kind": "opted_out", "did": BOB}
        assert emptied["media_urls"] == [f"https://cdn.example/{CAROL}/2"]
        assert mongodb.profiles.count_documents({"_id": BOB}) == mongodb.follows.count_documents({"did": BOB}) == 1
        lines = staged(config)
        assert lines.keys() == {f"post {quoting.key}", f"post {post(CAROL).key}", f"follow {edge.key}"}
        assert lines[f"follow {edge.key}"] == {"did": BOB, "purged": True}
        inner = lines[f"post {quoting.key}"]["embed"]["record"]["embeds"]
        assert inner == [{"uri": quote_of(BOB).uri, "purged": True}]
        assert not (folder / on_disk(BOB)).exists()


def test_what_an_earlier_job_kept_goes_too_and_what_a_job_keeps_that_takes_all_stays(
    config: Config, mongodb: MongoDB
) -> None:
    mongodb.jobs.insert_one({"_id": "bluesky-0", "arguments": {"honour_opt_outs": False}})
    pictures = LocalStore(config.images_location)
    for did in (ALICE, BOB):
        pictures.write(f"{on_disk(did)}/posts/c_0.jpg", b"picture")
    pictured: dict[str, Any] = {"media_paths": {"0": "somewhere"}}
    keep(
        config, mongodb, post(ALICE, **pictured), post(BOB, **pictured), post(BOB, "2", provenance=EARLIER, **pictured)
    )
    refuse(mongodb, ALICE, BOB)
    assert take_back(mongodb, config, "bluesky").removed == {"post": 2, "picture": 2}
    assert [row["uri"] for row in mongodb.posts.find()] == [post(BOB, "2").uri]
    assert staged(config).keys() == {f"post {post(BOB, '2').key}"}
    assert pictures.files_of(BOB)
    assert not pictures.files_of(ALICE)


@pytest.mark.parametrize("declared", [INTENT, BY_LABEL])
def test_a_profile_that_was_kept_becomes_a_stub_without_words_or_pictures(
    config: Config, mongodb: MongoDB, declared: Declared
) -> None:
    LocalStore(config.images_location).write(f"{on_disk(BOB)}/pfp.jpg", b"picture")
    words = {"display_name": "Bob", "description": "I am Bob", "description_clean": "I am Bob", "pronouns": "he"}
    shown = {"avatar_url": "https://a", "media_paths": {"avatar": "x"}, "media_sources": {"avatar": "https://a"}}
    keep(config, mongodb, profile(BOB, followers_count=3, website="https://bob.example", **words, **shown))
    refuse(mongodb, BOB, declared=declared)
    take_back(mongodb, config, "bluesky")
    stub = mongodb.profiles.find_one()
    assert stub
    assert stub.keys() == {"_id", "did", "handle", "opt_outs", "provenance"}
    assert stub["opt_outs"] == list(declared)
    assert staged(config) == {}
    assert not (Path(config.images_location) / on_disk(BOB)).exists()


def test_pictures_go_whose_record_never_came_to_mongodb(config: Config, mongodb: MongoDB) -> None:
    """A process was killed between the picture and the record; its staged line says whose they are."""
    LocalStore(config.images_location).write(f"{on_disk(BOB)}/posts/c_0.jpg", b"picture")
    keep(config, mongodb, post(BOB))
    mongodb.posts.drop()
    refuse(mongodb, BOB)
    take_back(mongodb, config, "bluesky")
    assert not (Path(config.images_location) / on_disk(BOB)).exists()


@pytest.mark.parametrize("name", ["..", ".", "", "../staging"])
def test_no_name_of_an_account_leads_out_of_the_folder_of_pictures(name: str, config: Config, mongodb: MongoDB) -> None:
    """A site says who refuses, and what it was that could not be read."""
    LocalStore(config.images_location).write(f"{ALICE}/pfp.jpg", b"x")
    refuse(mongodb, name, BOB)
    writer = SegmentWriter(config.data_dir / "rejects" / "bluesky")
    writer.write("post", [rejected_line(Reject("post", "r", f"at://{name}/x", json.dumps({"did": BOB}).encode(), ""))])
    writer.close()
    before = set(config.data_dir.rglob("*.jpg")) | set(config.data_dir.iterdir())

    take_back(mongodb, config, "bluesky")

    assert {path for path in before if not path.exists()} == set()


def test_what_the_run_itself_had_stored_is_told_apart(config: Config, mongodb: MongoDB) -> None:
    keep(config, mongodb, post(BOB), post(BOB, "2", provenance=EARLIER))
    refuse(mongodb, BOB)
    assert take_back(mongodb, config, "bluesky", ["bluesky-1"]) == ({"post": 2}, {"post": 1})


def test_quotes_in_embeds_of_a_kind_not_known_are_emptied(config: Config, mongodb: MongoDB) -> None:
    keep(config, mongodb, post(embed=Embed(unknown=({"$type": "x.y", "record": view(BOB)},))))
    refuse(mongodb, BOB)
    assert take_back(mongodb, config, "bluesky").removed == {"quote": 1}
    stored: Any = mongodb.posts.find_one()
    assert stored["embed"]["unknown"] == [{"$type": "x.y", "record": {"uri": quote_of(BOB).uri, "purged": True}}]


def test_a_segment_is_read_again_only_when_somebody_new_refuses(config: Config, mongodb: MongoDB) -> None:
    keep(config, mongodb, post(ALICE), post(BOB), post(CAROL))
    earlier = datetime.now(UTC) - timedelta(hours=1)
    mongodb.opt_outs.insert_one({"_id": ALICE, "declared": list(INTENT), "known_at": earlier})
    take_back(mongodb, config, "bluesky")
    [segment] = config.data_dir.rglob(f"*{SUFFIX}")
    content = segment.read_bytes()
    segment.write_bytes(b"this could not be read")
    assert take_back(mongodb, config, "bluesky").removed == {}
    refuse(mongodb, BOB)
    with pytest.raises(StorageError, match=f"{segment.name} .*damaged"):
        take_back(mongodb, config, "bluesky")
    segment.write_bytes(content)
    take_back(mongodb, config, "bluesky")
    assert staged(config).keys() == {f"post {post(CAROL).key}"}


def test_a_damaged_segment_keeps_no_other_from_being_cleaned(config: Config, mongodb: MongoDB) -> None:
    damaged = config.data_dir / "staging" / "bluesky" / "post" / "2026-01-01" / f"000000-1-1{SUFFIX}"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"this could not be read")
    keep(config, mongodb, post(BOB))
    refuse(mongodb, BOB)
    with pytest.raises(StorageError, match="damaged"):
        take_back(mongodb, config, "bluesky")
    damaged.unlink()
    assert staged(config) == {}


def test_without_a_refusal_no_segment_is_touched(config: Config, mongodb: MongoDB) -> None:
    keep(config, mongodb, profile(BOB, intents={"bulkDataset": True}), post(BOB))
    before = {path: path.stat().st_mtime_ns for path in config.data_dir.rglob(f"*{SUFFIX}")}
    assert take_back(mongodb, config, "bluesky").removed == {}
    assert {path: path.stat().st_mtime_ns for path in config.data_dir.rglob(f"*{SUFFIX}")} == before


@pytest.mark.parametrize(
    ("key", "raw", "left"),
    [
        (BOB, {"did": BOB}, None),
        (f"at://{BOB}/app.bsky.feed.post/1", "not JSON", None),
        ("", f"cut short: {BOB} wrote", "purged"),
        (ALICE, {"by": view(BOB)}, {"by": {"uri": quote_of(BOB).uri, "purged": True}}),
        (ALICE, {"text": f"hello {BOB}"}, {"text": f"hello {BOB}"}),
    ],
)
def test_rejected_lines_lose_what_they_show(key: str, raw: Any, left: Any) -> None:
    line = json.dumps({"kind": "post", "key": key, "reason": "r", "raw": raw}).encode()
    kept = without(line, {BOB})
    assert (None if kept is None else json.loads(kept)["raw"]) == left


def test_accounts_whose_did_begins_alike_are_not_meant() -> None:
    line = json.dumps({"kind": "post", "key": f"at://{BOB}by/x/1", "did": f"{BOB}by", "raw": view(f"{BOB}by")}).encode()
    assert without(line, {BOB}) is line

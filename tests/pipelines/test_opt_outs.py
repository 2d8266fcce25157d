"""What was kept of accounts for a job, before it was known that they refuse, is taken back, and nothing else."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pymongo.database import Database

from harvester.config import Config
from harvester.items import Provenance, Record
from harvester.items.bluesky import Embed
from harvester.jobs.documents import Job, to_document
from harvester.pipelines.staging import staged_line
from harvester.privacy.opt_outs import take_back, without
from harvester.stores.objects import LocalStore, on_disk
from harvester.stores.staging import SUFFIX, SegmentWriter, read_segment
from tests.pipelines.records import ALICE, BOB, CAROL, follow, post, profile, quote_of

MongoDB = Database[dict[str, Any]]
EARLIER = Provenance("https://api.example", datetime(2026, 1, 1, tzinfo=UTC), "bluesky", "bluesky-0")
NESTED = Embed(quote=quote_of(CAROL, Embed(quote=quote_of(BOB))))
REFUSING = profile(BOB, opt_outs=("intent bulkDataset",), intents={"bulkDataset": False}, raw=b"")


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
    keep(config, mongodb, REFUSING, post(BOB), quoting, edge, post(CAROL))
    for removed in ({"post": 1, "quote": 1}, {}):  # doing it again does no harm
        assert take_back(mongodb, config, "bluesky", "bluesky-1") == removed
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


def test_what_was_kept_for_an_earlier_job_stays(config: Config, mongodb: MongoDB) -> None:
    LocalStore(config.images_location).write(f"{on_disk(BOB)}/posts/c_0.jpg", b"picture")
    keep(config, mongodb, REFUSING, post(BOB, provenance=EARLIER), post(BOB, "2"))
    assert take_back(mongodb, config, "bluesky", "bluesky-1") == {"post": 1}
    assert [row["uri"] for row in mongodb.posts.find()] == [post(BOB).uri]
    assert staged(config).keys() == {f"post {post(BOB).key}"}
    assert (Path(config.images_location) / on_disk(BOB) / "posts").exists()


def test_segments_from_before_the_job_are_not_read(config: Config, mongodb: MongoDB) -> None:
    job = Job(id="bluesky-1", spider="bluesky", scope="s", number=1, created_at=datetime.now(UTC))
    mongodb.jobs.insert_one(to_document(job))
    keep(config, mongodb, REFUSING, post(BOB))
    older = config.data_dir / "staging" / "bluesky" / "post" / "2026-01-01" / f"000000-1-1{SUFFIX}"
    older.parent.mkdir(parents=True)
    older.write_bytes(b"this could not be read")
    assert take_back(mongodb, config, "bluesky", job.id) == {"post": 1}
    older.unlink()
    assert staged(config) == {}


def test_without_a_refusal_no_segment_is_touched(config: Config, mongodb: MongoDB) -> None:
    keep(config, mongodb, profile(BOB, intents={"bulkDataset": True}), post(BOB))
    before = {path: path.stat().st_mtime_ns for path in config.data_dir.rglob(f"*{SUFFIX}")}
    assert take_back(mongodb, config, "bluesky", "bluesky-1") == {}
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
    kept = without(line, {BOB}, "bluesky-1")
    assert (None if kept is None else json.loads(kept)["raw"]) == left


def test_accounts_whose_did_begins_alike_are_not_meant() -> None:
    line = json.dumps({"kind": "post", "key": f"at://{BOB}by/x/1", "did": f"{BOB}by", "raw": view(f"{BOB}by")}).encode()
    assert without(line, {BOB}, "bluesky-1") is line

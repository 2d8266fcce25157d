"""Records: counts, the newest, those whose keys begin so, and files that lie in the images location only."""

import re
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128, Int64
from pymongo.database import Database

from harvester.control.services.records import CUT, MOST, MOST_TEXT, RecordKinds, open_file
from harvester.exceptions import UnknownRecord, UsageError
from harvester.items import RECORDS
from harvester.items.base import OUTBOX
from harvester.jobs.service import JobService
from tests.pipelines.records import PAGE

Document = dict[str, Any]
FROM = {"url": PAGE.url, "fetched_at": PAGE.fetched_at, "spider": "bluesky", "item": "bluesky-1:account:a"}


def post(key: str, **fields: Any) -> Document:
    return {"_id": key, "text": "some text", "provenance": FROM, OUTBOX: {"version": 1}, **fields}


@pytest.fixture
def records(service: JobService, mongodb: Database[Document]) -> RecordKinds:
    assert "post" in RECORDS
    mongodb["posts"].insert_many([post(key) for key in ("c", "a1", "b.*", "a2")])
    return RecordKinds(service)


async def test_collections_say_about_how_many_records_they_hold(
    records: RecordKinds, mongodb: Database[Document]
) -> None:
    mongodb["my_items"].insert_one({"_id": "1", "provenance": FROM})
    found = {each.name: each for each in await records.collections()}
    assert {name: each.records for name, each in found.items()} == {"posts": 4, "my_items": 1}
    assert (found["posts"].kind, found["posts"].plural) == ("post", "posts")
    assert found["posts"].bytes > 0


async def test_the_newest_are_those_that_were_stored_last(records: RecordKinds) -> None:
    page = await records.newest("posts", 3)
    assert [each.key for each in page.records] == ["a2", "b.*", "a1"]
    newest = page.records[0]
    assert (newest.url, newest.spider, newest.item) == (PAGE.url, "bluesky", "bluesky-1:account:a")
    assert newest.fields == {"text": "some text"}


async def test_records_are_found_by_how_their_keys_begin_a_page_at_a_time(records: RecordKinds) -> None:
    first = await records.search("posts", "a", most=1)
    assert ([each.key for each in first.records], first.next) == (["a1"], "a1")
    second = await records.search("posts", "a", "a1", most=1)
    assert ([each.key for each in second.records], second.next) == (["a2"], None)
    assert [each.key for each in (await records.search("posts", "b.")).records] == ["b.*"]
    assert (await records.search("posts", "b..")).records == []
    assert (await records.search("posts", "a\0")).records == []
    assert [each.key for each in (await records.search("posts")).records] == ["a1", "a2", "b.*", "c"]
    with pytest.raises(UsageError, match="1,000"):
        await records.search("posts", "x" * 1001)


async def test_what_is_shown_of_a_record_is_bounded_and_is_json(
    records: RecordKinds, mongodb: Database[Document]
) -> None:
    deep: Document = {"end": 1}
    for _ in range(20):
        deep = {"in": deep}
    odd = {"number": Int64(2**53 + 1), "price": Decimal128("1.20"), "raw": b"abc", "at": PAGE.fetched_at, "deep": deep}
    mongodb["posts"].insert_one(post("z", text="x" * 200_000, many=[1] * 5000, **odd))
    [shown] = (await records.newest("posts", 1)).records
    assert (len(shown.fields["text"]), len(shown.fields["many"])) == (MOST_TEXT + len(CUT), 21)
    whole = await records.record("posts", "z")
    assert (len(whole.fields["text"]), len(whole.fields["many"])) == (100_000 + len(CUT), 1001)
    assert (whole.fields["number"], whole.fields["price"], whole.fields["raw"]) == (2**53 + 1, "1.20", "3 bytes")
    assert whole.fields["at"] == PAGE.fetched_at.isoformat()
    assert str(whole.fields["deep"]).count("in") == 9
    mongodb["posts"].insert_many([post(f"many {number}") for number in range(200)])
    assert len((await records.newest("posts", 1000)).records) == MOST


@pytest.mark.parametrize("collection", ["jobs", "runs", "accounts", "opt_outs", "system.users", "", "post", "$x"])
async def test_what_is_no_collection_of_records_is_never_read(records: RecordKinds, collection: str) -> None:
    with pytest.raises(UnknownRecord, match=re.escape(repr(collection))):
        await records.newest(collection)
    with pytest.raises(UnknownRecord):
        await records.search(collection)
    with pytest.raises(UnknownRecord):
        await records.record(collection, "a1")


async def test_a_file_of_a_record_is_read_from_the_images_location(
    records: RecordKinds, mongodb: Database[Document], service: JobService
) -> None:
    folder = service.config.data_dir / "images" / "avatars"
    folder.mkdir(parents=True)
    (folder / "a.jpg").write_bytes(b"picture")
    mongodb["posts"].insert_one(post("z", media_paths={"0": "avatars/a.jpg", "1": "../../state/token", "2": "b.jpg"}))
    found = await records.file("posts", "z", "0")
    with found.file:
        assert (found.file.read(), found.size, found.media_type, found.name) == (b"picture", 7, "image/jpeg", "a.jpg")
    for slot in ("1", "2", "3"):
        with pytest.raises(UnknownRecord):
            await records.file("posts", "z", slot)
    with pytest.raises(UnknownRecord):
        await records.record("posts", "nobody")


PATHS = [
    "",
    "/etc/passwd",
    "../x.jpg",
    "a/../../x.jpg",
    "a/./x.jpg",
    "a\\..\\x.jpg",
    "a\0.jpg",
    "a//x.jpg",
    "link/x.jpg",
]


@pytest.mark.parametrize("path", [*PATHS, "folder", "link.jpg", ".hidden/x.jpg", "x" * 5000])
def test_no_path_leads_out_of_the_images_location(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "x.jpg").write_bytes(b"a secret")
    (folder / "link.jpg").symlink_to(tmp_path / "x.jpg")
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(UnknownRecord):
        open_file(folder, path)

"""What is kept of Bluesky stays as it is, to the byte: documents, collections, indexes, staged lines, pictures."""

from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.database import Database

from harvester.config import Config
from harvester.exceptions import InvalidRecordError
from harvester.items.bluesky import Follow, Post, Profile
from harvester.pipelines.mongo import MongoPipeline
from harvester.stores.objects import on_disk, stored_path
from tests.items.bluesky_samples import BARE, DID, OTHER, bare, whole
from tests.items.regenerate import KEPT, kept
from tests.pipelines.records import KINDS, crawler

INDEXES = {
    "profiles": {("handle",), ("followers_count",)},
    "follows": {("subject_did",)},
    "posts": {("did", "sort_at"), ("root_uri",), ("sort_at",)},
    "reposts": {("subject_uri",)},
    "likes": {("did",), ("subject_uri",)},
    "threads": {("did",)},
    "lists": {("did",)},
    "list_items": {("list_uri",), ("subject_did",)},
}


def test_documents_lines_and_pictures_are_as_written_down() -> None:
    assert kept() == KEPT.read_text("utf-8")


def test_there_is_a_sample_of_each_kind() -> None:
    assert [type(record) for record in whole()] == [type(record) for record in bare()] == KINDS


def test_indexes_and_collections_are_as_ever() -> None:
    assert {kind.COLLECTION: set(kind.INDEXES) for kind in KINDS} == INDEXES


def test_pictures_are_stored_where_records_say() -> None:
    for record in whole():
        for media in record.media():
            assert record.MEDIA_PATH.fullmatch(media.path)
            assert stored_path(media.path) == on_disk(media.path)


@pytest.mark.parametrize(
    "path",
    ["pfp.jpg", f"{DID}/x.jpg", f"{DID}/../x/pfp.jpg", f"{DID}/posts/BAF_0.jpg", "alice/pfp.jpg", f"{DID}/pfp.jpg\n"],
)
def test_no_other_path_is_one_of_an_accounts_pictures(path: str) -> None:
    assert not Post.MEDIA_PATH.fullmatch(path)


async def test_documents_lie_in_mongodb_byte_by_byte(
    mongodb: Database[Any], config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config.mongodb_uri
    monkeypatch.setenv("HARVESTER_MONGODB_URI", config.mongodb_uri.get_secret_value())
    monkeypatch.setenv("HARVESTER_DATABASE", mongodb.name)
    pipeline = MongoPipeline.from_crawler(crawler())
    await pipeline.open_spider()
    for record in (*whole(), *bare()):
        await pipeline.process_item(record)
    await pipeline.close_spider()
    raw = CodecOptions(document_class=RawBSONDocument)
    for record in (*whole(), *bare()):
        stored = mongodb.get_collection(record.COLLECTION, raw).find_one({"_id": record.key})
        assert stored
        document = record.to_document()
        first = {"_id": document.pop("_id")}  # MongoDB puts it there
        assert stored.raw == bson.encode(first | document)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Profile(did="alice.example", provenance=BARE),
        lambda: Follow(did="", subject_did=OTHER, provenance=BARE),
        lambda: Post(**_fields() | {"uri": "https://bsky.app/profile/alice/post/3k"}),
        lambda: Post(**_fields() | {"did": "did:plc:alice/../x"}),
    ],
)
def test_a_record_without_a_did_or_an_address_is_refused(build: Any) -> None:
    with pytest.raises(InvalidRecordError):
        build()


def _fields() -> dict[str, Any]:
    post = bare()[2]
    return {name: getattr(post, name) for name in post.__struct_fields__}


def test_records_belong_to_their_account() -> None:
    assert {record.belongs_to for record in whole()} == {DID}
    edges = {kind.KIND for kind in KINDS if kind.OWNERS == ("did", "subject_did")}
    assert edges == {"follow", "repost", "like", "list_item"}


def test_of_an_account_that_opted_out_only_a_stub_of_its_profile_is_kept() -> None:
    stubs = {record.KIND: record.stub() for record in whole()}
    profile = stubs.pop("profile")
    assert profile
    assert set(stubs.values()) == {None}
    assert profile.to_document().keys() == {"_id", "did", "provenance", "handle", "opt_outs", "intents"}

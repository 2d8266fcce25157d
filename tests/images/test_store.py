"""Where pictures are kept: written whole, found again, removed by account."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from scrapy.pipelines.media import MediaPipeline

from harvester.exceptions import StorageError, UsageError
from harvester.stores.objects import LocalStore, S3Store, on_disk, open_store, stored_path
from tests.images.conftest import Run
from tests.images.samples import GOOD
from tests.images.server import Site
from tests.images.test_crawl import ALICE, BOB, Crawl, post

ALICIA = ALICE + "a"
"""An account whose DID begins like Alice's."""
INFO = cast(MediaPipeline.SpiderInfo, None)


def test_a_reader_never_meets_half_a_picture(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    contents = [bytes([n]) * 3_000_000 for n in range(2)]
    store.write("a/b.jpg", contents[0])
    done = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not done.is_set():
            seen.add((tmp_path / "a/b.jpg").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(60):
        store.write("a/b.jpg", contents[n % 2])
    done.set()
    reader.join()

    assert seen <= set(contents)


class PurgedMeanwhile(LocalStore):
    """Its account is removed just after the folder for a picture was made, once."""

    armed = True

    def _mkdir(self, dirname: Path, domain: MediaPipeline.SpiderInfo | None = None) -> None:
        super()._mkdir(dirname, domain)
        if self.armed and dirname.name == "posts":
            self.armed = False
            self.remove(ALICE)


def test_a_purge_while_a_picture_is_written_does_not_end_the_run(tmp_path: Path) -> None:
    PurgedMeanwhile(str(tmp_path)).write(f"{ALICE}/posts/bafy1_0.jpg", b"x")

    assert (tmp_path / ALICE / "posts/bafy1_0.jpg").read_bytes() == b"x"


def test_an_empty_file_does_not_count_as_a_stored_picture(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    (tmp_path / "a.jpg").touch()

    assert store.stat_file("a.jpg", INFO) == {}
    store.write("a.jpg", b"x")
    assert store.stat_file("a.jpg", INFO)


def test_only_paths_below_the_location_are_used() -> None:
    good = [f"{ALICE}/pfp.jpg", "did:web:localhost%3A80/posts/bafy2_12.jpg", "cover.jpg", "books/5,1 é.jpg"]

    assert [stored_path(path) for path in good] == [on_disk(path) for path in good]
    for path in [
        "",
        "/etc/pfp.jpg",
        "../pfp.jpg",
        "..",
        ".partial/pfp.jpg",
        f"{ALICE}/../x/pfp.jpg",
        f"{ALICE}/pfp.jpg/",
        f"{ALICE}//pfp.jpg",
        "books\\5.jpg",
        "books/5\0.jpg",
        "books/\ud800.jpg",
        "books/" + "5" * 256,
    ]:
        assert stored_path(path) is None


def test_every_path_that_is_used_can_be_written(tmp_path: Path) -> None:
    """One that no disk takes is a bad path, and no full disk, which would end the run."""
    store = LocalStore(str(tmp_path))
    used = []
    for letter in ("x", "é", "日"):
        paths = [letter * n + ending for n in (80, 124, 125, 240, 247, 251) for ending in (".jpg", "/a.jpg")]
        for path in [*paths, *("/".join([letter * 60] * n) + ".jpg" for n in (4, 7, 13, 16))]:
            if stored := stored_path(path):
                store.write(stored, b"x")
                used.append(path)
    assert store.files_of("x" * 251) == ["x" * 251 + "/a.jpg"]
    assert {path[0] for path in used} == {"x", "é", "日"}


def test_no_colon_which_windows_does_not_take_is_used_in_the_name_of_a_folder() -> None:
    assert stored_path("did:plc:alice/pfp.jpg") == "did_plc_alice/pfp.jpg"


@pytest.mark.parametrize("location", ["gs://bucket/x", "ftp://host/x", "http://host/x", "s3://", "s3:///x"])
def test_a_store_of_an_unsupported_kind_is_refused(location: str) -> None:
    with pytest.raises(UsageError, match="s3://bucket/prefix"):
        open_store(location)


@pytest.fixture(params=["local", "s3", "s3 without a prefix"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalStore | S3Store]:
    """An open store with pictures of three accounts."""
    if request.param == "local":
        location = str(tmp_path)
    else:
        bucket = request.getfixturevalue("bucket")
        location = f"s3://{bucket}/some/pictures" if request.param == "s3" else f"s3://{bucket}"
    store = open_store(location)
    for path in PATHS:
        if isinstance(store, S3Store):
            store.s3_client.put_object(Bucket=store.bucket, Key=store.prefix + path, Body=b"x")
        else:
            store.write(path, b"x")
    yield store
    if isinstance(store, S3Store):
        store.s3_client.close()


FOLDERS = (on_disk(ALICE), ALICIA, BOB)
"""As they are written, and as older versions wrote them."""
PATHS = [f"{folder}/{name}" for folder in FOLDERS for name in ("banner.jpg", "pfp.jpg", "posts/bafy_0.jpg")]


def test_removing_an_account_removes_its_pictures_and_no_other(store: LocalStore | S3Store) -> None:
    assert store.files_of(ALICE) == PATHS[:3]
    assert store.files_of(BOB) == PATHS[-3:]

    store.remove(ALICE)
    store.remove(ALICE)

    assert store.files_of(ALICE) == []
    assert store.files_of(ALICIA) + store.files_of(BOB) == PATHS[3:]


def test_pictures_are_kept_in_s3_and_not_fetched_again(
    crawl: Crawl, site: Site, bucket: str, s3: Any, config: Any
) -> None:
    batch = [{"did": BOB, "avatar": f"{site.origin}/plain.jpg"}, post("bafy1", f"{site.origin}/plain.png")]
    where = {"HARVESTER_IMAGES_STORE": f"s3://{bucket}/deep/pictures"}

    first = crawl([batch], where).end()
    second = crawl([batch], where).end()

    assert first.images == {"stored": 2}
    assert second.images == {"unchanged": 2}
    assert second.records[0]["media_paths"] == {"avatar": f"{on_disk(BOB)}/pfp.jpg"}
    found = s3.get_object(Bucket=bucket, Key=f"deep/pictures/{on_disk(BOB)}/pfp.jpg")
    assert found["ContentType"] == "image/jpeg"
    assert found["Body"].read() == GOOD["plain.jpg"]
    assert not (config.data_dir / "images").exists()


def test_a_bucket_that_cannot_be_written_ends_the_run_and_confirms_no_record(crawl: Crawl, site: Site, s3: Any) -> None:
    where = {"HARVESTER_IMAGES_STORE": "s3://no-such-bucket/x", "AWS_SECRET_ACCESS_KEY": "wrong"}

    run: Run = crawl([[post("bafy1", f"{site.origin}/plain.jpg")]], where).end()

    assert run.stats["finish_reason"] == "storage_error"
    assert run.stats["harvester/exit_code"] == 4
    assert run.records == []
    assert "no-such-bucket" in run.log


def test_a_bucket_that_is_not_there_is_an_error_with_a_sentence(s3: Any) -> None:
    store = open_store("s3://no-such-bucket/x")

    with pytest.raises(StorageError, match="no-such-bucket"):
        store.remove(ALICE)
    assert isinstance(store, S3Store)
    store.s3_client.close()

"""`harvester import` makes of staged files what MongoDB had, and changes nothing that it has."""

import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.stores.staging import SegmentWriter, read_segment
from tests.crash.harvest import Harvest
from tests.forking import Ran, begin, run
from tests.jobs.command import HARVESTER
from tests.sandbox.process import Sandbox

Document = dict[str, Any]
STAGED = ("profiles", "follows", "posts", "reposts", "likes", "lists", "list_items")
NOT_IN_A_LINE = ("item", "usage")
"""What a record's provenance says, and its staged line does not."""


@pytest.fixture(scope="module")
def site() -> Iterator[Sandbox]:
    with Sandbox(accounts=14, posts=6) as site:
        yield site


@pytest.fixture
def harvest(site: Sandbox, tmp_path: Path, mongodb: Database[Document], mongodb_uri: str, redis_url: str) -> Harvest:
    wishes = {"depth": "2", "collect": "graph,profiles,posts,lists", "media": "yes"}
    return Harvest(site, tmp_path, mongodb_uri, mongodb.name, {"HARVESTER_REDIS_URL": redis_url}, **wishes)


def import_(harvest: Harvest, *words: str) -> Ran:
    return run(HARVESTER, "import", *words, cwd=harvest.folder, env=harvest.environment)


def kept(mongodb: Database[Document], *but: str) -> dict[str, list[Document]]:
    """All records, without what no line says: nothing is staged of who refuses."""
    found = {name: list(mongodb[name].find({"opt_outs": None}).sort("_id")) for name in STAGED}
    for row in (row for rows in found.values() for row in rows):
        for name in NOT_IN_A_LINE:
            row["provenance"].pop(name, None)
        for name in but:
            row.pop(name, None)
    return found


@pytest.mark.parametrize("history", [pytest.param("appview", marks=pytest.mark.soak), "records"])
def test_what_was_stored_comes_back_from_what_was_staged(
    history: str, harvest: Harvest, mongodb: Database[Document], tmp_path: Path
) -> None:
    harvest.command += ["-a", f"history={history}"]
    assert harvest.run() == 0, harvest.said
    but = ("pinned", "media_sources", "intents", *(("uri",) if history == "records" else ()))
    before = kept(mongodb, *but)
    assert all(before[name] for name in STAGED if name != "likes" or history == "records")
    assert any("media_paths" in row for row in before["profiles"])
    whole = list(mongodb["profiles"].find().sort("_id"))

    said = import_(harvest)
    assert said.returncode == 0, said.stderr
    assert list(mongodb["profiles"].find().sort("_id")) == whole, "what is there stays as it is"

    for name in STAGED:
        mongodb[name].drop()
    moved = tmp_path / "elsewhere" / "staging"
    shutil.copytree(tmp_path / "data" / "staging", moved)
    said = import_(harvest, str(moved))
    assert said.returncode == 0, said.stderr
    assert kept(mongodb, *but) == before

    mongodb["purged"].insert_one({"_id": before["posts"][0]["did"]})
    mongodb["posts"].drop()
    assert import_(harvest, str(moved / "bluesky" / "post")).returncode == 0
    left = [row for row in before["posts"] if row["did"] != before["posts"][0]["did"]]
    assert [row["_id"] for row in mongodb["posts"].find().sort("_id")] == [row["_id"] for row in left]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 2, "nowhere: "),
        (["~unknown/x"], 2, "~unknown/x: "),
        (["text.txt"], 2, "text.txt: "),
        (["a/b/c/damaged.jsonl.zst", "-a", "spider=bluesky"], 4, "damaged.jsonl.zst "),
        (["a/b/c/damaged.jsonl.zst", "-a", "spider=nobody"], 2, "'nobody'"),
    ],
)
def test_what_cannot_be_read_is_said(words: list[str], code: int, said: str, harvest: Harvest) -> None:
    (harvest.folder / "text.txt").write_text("text")
    (harvest.folder / "a/b/c").mkdir(parents=True)
    (harvest.folder / "a/b/c/damaged.jsonl.zst").write_bytes(b"no zstd")
    ran = import_(harvest, *words)
    assert (ran.returncode, said in ran.stderr) == (code, True), ran.stderr
    assert "Traceback" not in ran.stderr


def stage(folder: Path, spider: str, kind: str, *lines: bytes) -> Path:
    """As a crawl does."""
    writer = SegmentWriter(folder / "data" / "staging" / spider)
    writer.write(kind, lines)
    writer.close()
    return next((folder / "data" / "staging" / spider / kind).rglob("*.zst"))


LINE = b'{"kind":"%b","key":"%b","url":"https://x.test/","fetched_at":"%b","crawl":"","raw":%b}'
AT = b"2026-01-02T03:04:05Z"


def test_a_line_that_cannot_be_read_costs_no_other(harvest: Harvest, mongodb: Database[Document]) -> None:
    bad = [
        LINE % (b"tagged_post", b"nobody 1", AT, b"{}"),
        LINE % (b"trend", b"mastodon x 1d 2026-01-01T00:00Z tag", AT, b"{}"),
        LINE % (b"tagged_post", b"mastodon 1", AT[:-1], b"{}"),
        b"[]",
    ]
    stage(harvest.folder, "hashtags", "tagged_post", *bad)
    stage(harvest.folder, "feeds", "feed", LINE % (b"feed", b"x", AT, b"[]"))
    stage(harvest.folder, "shop", "shop", LINE % (b"shop", b"7", AT, b'{"sku":"7"}'))
    ran = import_(harvest)
    assert "Traceback" not in ran.stderr
    assert [row["sku"] for row in mongodb["shop"].find()] == ["7"]
    kept = [line for path in (harvest.folder / "data/rejects/import").rglob("*.zst") for line in read_segment(path)]
    assert len(kept) == len(bad) + 1, ran.stderr


def test_nothing_is_written_outside_of_the_data_folder_whatever_a_line_says_that_it_is(harvest: Harvest) -> None:
    kinds = [b"../../../elsewhere", str(harvest.folder / "elsewhere").encode(), b"", b"a\\u0000b", b"x" * 300]
    stage(harvest.folder, "hashtags", "trend", *(LINE % (kind, b"7", AT, b"[]") for kind in kinds))
    ran = import_(harvest)
    assert "Traceback" not in ran.stderr
    assert not list(harvest.folder.glob("**/elsewhere*"))
    kept = [
        line for path in (harvest.folder / "data/rejects/import/item").rglob("*.zst") for line in read_segment(path)
    ]
    assert len(kept) == len(kinds), ran.stderr


def test_what_can_be_read_is_read_though_files_beside_it_cannot(harvest: Harvest, mongodb: Database[Document]) -> None:
    lines = [LINE % (b"shop", b"%d" % n, AT, b'{"n":%d}' % n) for n in range(3)]
    cut = stage(harvest.folder, "shop", "shop", *lines)
    cut.write_bytes(cut.read_bytes()[:-1])
    gone = cut.with_name(f"0-{cut.name}")
    gone.symlink_to("nowhere")
    stage(harvest.folder, "stall", "stall", LINE % (b"stall", b"9", AT, b'{"n":9}'))
    ran = import_(harvest)
    assert (ran.returncode, "Traceback" in ran.stderr) == (4, False), ran.stderr
    assert re.search(rf"{cut.relative_to(harvest.folder)} .*damaged", ran.stderr)
    assert re.search(rf"{gone.relative_to(harvest.folder)} .*No such file", ran.stderr)
    assert [row["n"] for name in ("shop", "stall") for row in mongodb[name].find(sort=["_id"])] == [0, 1, 2, 9]


def test_a_file_outside_of_the_folders_of_a_spider_is_said_to_need_its_name(harvest: Harvest) -> None:
    """Its folders would say whose lines they are, and here there are too few."""
    staged = stage(harvest.folder, "shop", "shop", LINE % (b"shop", b"7", AT, b'{"sku":"7"}'))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        moved = Path(shutil.copy(staged, folder))
        ran = import_(harvest, str(moved))
        assert (ran.returncode, "Traceback" in ran.stderr) == (2, False), ran.stderr
        assert (str(moved) in ran.stderr, "-a spider=NAME" in ran.stderr) == (True, True)


def test_an_import_whose_records_mongodb_does_not_take_says_so_and_fails(
    harvest: Harvest, mongodb: Database[Document]
) -> None:
    mongodb.create_collection("shop", validator={"allowed": True})  # stands for a disk without room, or a missing right
    stage(harvest.folder, "shop", "shop", LINE % (b"shop", b"7", AT, b'{"sku":"7"}'))
    ran = import_(harvest)
    assert ran.returncode == 4, ran.stderr
    assert re.search(r"MongoDB .*\bshop\b", ran.stderr)
    assert mongodb["shop"].count_documents({}) == 0


def test_an_import_that_is_told_to_end_ends(harvest: Harvest, mongodb: Database[Document]) -> None:
    lines = [LINE % (b"shop", b"%d" % n, AT, b'{"sku":"%d"}' % n) for n in range(60_000)]
    stage(harvest.folder, "shop", "shop", *lines)
    process = begin(HARVESTER, "import", cwd=harvest.folder, env=harvest.environment)
    try:
        while not mongodb["shop"].find_one():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
    assert 0 < mongodb["shop"].estimated_document_count() < len(lines)

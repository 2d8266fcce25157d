"""The staging pipeline: a line for each record before it goes on; what cannot be written ends the run."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scrapy.exceptions import CloseSpider

from harvester.config import load_config
from harvester.items import Batch, Record
from harvester.pipelines.staging import StagingPipeline
from harvester.stores.rejects import rejects_of
from harvester.stores.staging import SegmentWriter, iter_records, read_segment
from tests.crawling import LONGEST_S
from tests.forking import fork
from tests.pipelines.records import ALICE, BOB, PAGE, crawler, follow, post, profile, stats
from tests.root import ROOT


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


def _lines(folder: Path) -> list[bytes]:
    return [line for path in _files(folder, "*.zst") for line in read_segment(path)]


async def _staged(folder: Path, records: list[Record]) -> dict[str, Any]:
    """Puts the records through the pipeline; the stats."""
    runs = crawler()
    pipeline = StagingPipeline(runs, folder)
    await pipeline.open_spider()
    batch = Batch(records)
    assert await pipeline.process_item(batch) is batch
    await pipeline.close_spider()
    return stats(runs)


async def test_a_line_is_the_raw_answer_with_its_origin(tmp_path: Path) -> None:
    raw = b'{"text":"gr\xc3\xbc\xc3\x9fe","n":1.50,"big":123456789012345678901234567890}'
    counted = await _staged(tmp_path, [post(raw=raw)])
    (line,) = _lines(tmp_path)
    uri = f"at://{ALICE}/app.bsky.feed.post/1"
    head = f'{{"kind":"post","key":"{uri}","did":"{ALICE}","url":"{PAGE.url}","fetched_at":"2026-01-02T03:04:05Z"'
    assert line == head.encode() + b',"crawl":"bluesky-1","raw":' + raw + b"}"
    assert counted["staging/lines"] == 1
    assert counted["staging/bytes"] == sum(path.stat().st_size for path in _files(tmp_path, "*.zst"))


async def test_a_record_is_one_line_whatever_it_contains(tmp_path: Path) -> None:
    raw = b'{\r\n  "text": "two\\nlines \xe2\x80\xa8",\n  "n": 1.0\n}'
    await _staged(tmp_path, [post(raw=raw), follow(subject_did='a"\\\n\u2028b')])
    like, other = sorted(_lines(tmp_path), key=len, reverse=True)
    assert msgspec.json.decode(like)["raw"] == {"text": "two\nlines \u2028", "n": 1.0}
    assert msgspec.json.decode(other)["key"] == f'{ALICE} a"\\\n\u2028b'


async def test_each_kind_has_its_folder_and_what_has_no_raw_has_no_line(tmp_path: Path) -> None:
    await _staged(tmp_path / "staging" / "bluesky", [post(), follow(), profile(raw=b""), post(BOB)])
    assert [record["did"] for record in iter_records(tmp_path, "bluesky", "post")] == [ALICE, BOB]
    assert len(list(iter_records(tmp_path, "bluesky", "follow"))) == 1
    assert {path.name for path in (tmp_path / "staging" / "bluesky").iterdir()} == {"post", "follow"}


async def test_the_next_run_completes_what_a_killed_one_left(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path)
    writer.write("post", [b'{"a":1}'])
    (left,) = _files(tmp_path, "*.open")
    content = left.read_bytes()
    writer.close()
    (segment,) = _files(tmp_path, "*.zst")
    segment.rename(left).write_bytes(content + content[:-3])  # as a SIGKILL leaves it
    await _staged(tmp_path, [])
    assert _lines(tmp_path) == [b'{"a":1}']


def test_the_folders_are_those_of_the_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARVESTER_DATA_DIR", str(tmp_path))
    load_config.cache_clear()
    assert StagingPipeline.from_crawler(crawler())._segments.folder == tmp_path / "staging" / "bluesky"
    assert rejects_of(crawler()).folder == tmp_path / "rejects" / "bluesky"


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of POSIX")
async def test_a_batch_that_cannot_be_staged_does_not_go_on_and_ends_the_run(tmp_path: Path) -> None:
    process = await fork("tests.pipelines.storing", str(tmp_path), cwd=ROOT, env=os.environ)
    out, log = await process.end(LONGEST_S)
    assert process.returncode == 0, log
    told = json.loads(out)
    uri = f"at://{ALICE}/app.bsky.feed.post/"
    assert told["passed"] == [f"{uri}1"]
    assert [told["finish_reason"], told["harvester/exit_code"]] == ["storage_error", 4]
    assert [msgspec.json.decode(line)["key"] for line in _lines(tmp_path)] == told["passed"]
    assert "File too large" in log


async def test_a_folder_that_cannot_be_made_ends_the_run_before_it_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    runs = crawler()
    with pytest.raises(CloseSpider) as raised:
        await StagingPipeline(runs, tmp_path / "file" / "staging").open_spider()
    assert raised.value.reason == "storage_error"
    assert stats(runs)["exit_code"] == 4
    assert str(tmp_path / "file") in caplog.text

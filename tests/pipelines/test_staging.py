"""Segment files: what a writer reported as written can be read, whatever happens to the writer."""

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from zstandard import ZstdCompressor

from harvester.exceptions import StorageError
from harvester.pipelines.staging import StagingPipeline
from harvester.stores import staging
from harvester.stores.frames import cut_torn_frame
from harvester.stores.staging import SegmentWriter, iter_records, read_segment, recover, rewrite_segment
from tests.forking import begin, run
from tests.pipelines.limited import write_until_full
from tests.pipelines.records import crawler
from tests.pipelines.writer import batch
from tests.root import ROOT

NOBODY = 65534


def _segments(root: Path) -> list[Path]:
    return sorted(root.rglob("*.jsonl.zst"))


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def _lines(root: Path) -> list[bytes]:
    return [line for path in _segments(root) for line in read_segment(path)]


class Writer:
    """A writing process. `reported` is what it said was written, complete after `kill`."""

    def __init__(self, folder: Path, name: str) -> None:
        output, written = os.pipe()
        words = "tests.pipelines.writer", str(folder), name
        self._process = begin(*words, cwd=ROOT, env=os.environ, files=(None, written, None))
        os.close(written)
        self._output = os.fdopen(output)
        self._name = name
        self._reported = 0

    def wait_for(self, batches: int) -> None:
        for _ in range(batches):
            assert self._output.readline()
        self._reported += batches

    def kill(self) -> list[bytes]:
        """The lines that it reported as written."""
        self._process.kill()
        self._reported += len(self._output.read().split())
        self._output.close()
        self._process.wait()
        return [line for number in range(self._reported) for line in batch(self._name, number)]


def test_what_was_reported_as_written_survives_a_sigkill_at_any_moment(tmp_path: Path) -> None:
    chance = Random(5)
    reported: list[bytes] = []
    for number in range(15):
        writer = Writer(tmp_path, f"run{number}")
        writer.wait_for(chance.randrange(1, 40))
        reported += writer.kill()
        for line in _lines(tmp_path):  # what can be read before the recovery is complete too
            msgspec.json.decode(line)
    recover(tmp_path)
    found = _lines(tmp_path)
    assert len(found) == len(set(found))
    assert set(reported) <= set(found)
    assert all(msgspec.json.decode(line)["id"].startswith("run") for line in found)
    assert _files(tmp_path) == _segments(tmp_path)


def test_writers_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    writers = [Writer(tmp_path, f"run{number}") for number in range(3)]
    for writer in writers:
        writer.wait_for(30)
    assert recover(tmp_path) == [], "a living writer's segment was taken from it"
    assert _segments(tmp_path) == [], "a reader met a segment that is being written"
    reported = [line for writer in writers for line in writer.kill()]
    assert len(recover(tmp_path)) == 6
    assert set(reported) <= set(_lines(tmp_path))


def test_a_torn_frame_is_cut_wherever_it_is_torn(tmp_path: Path) -> None:
    frames = [
        [b'{"a":1}', b'{"a":2}'],
        [b'{"zeros":"%b"}' % (b"0" * 300_000)],  # blocks of one repeated byte
        [b'{"noise":"%b"}' % Random(1).randbytes(200_000).hex().encode()],  # several blocks
        [b'{"last":"%b"}' % Random(2).randbytes(100).hex().encode()],
    ]
    writer = SegmentWriter(tmp_path)
    ends = list(itertools.accumulate(writer.write("post", lines) for lines in frames))
    writer.close()
    content = _segments(tmp_path)[0].read_bytes()
    assert len(content) == ends[-1]
    torn = tmp_path / "torn"
    step = 1 if len(content) < 2_000 else 997
    for size in {*range(0, len(content), step), *range(ends[0] + 20), *range(ends[-1] - 150, ends[-1] + 1), *ends}:
        torn.write_bytes(content[:size])
        assert cut_torn_frame(torn) == torn.stat().st_size == max([0, *(end for end in ends if end <= size)])


def test_what_is_no_frame_is_cut_too(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path)
    size = writer.write("post", [b"{}"])
    writer.close()
    segment = _segments(tmp_path)[0]
    for tail in (b"\0" * 100, b"{}\n", b"\x28\xb5\x2f\xfd"):
        segment.write_bytes(segment.read_bytes()[:size] + tail)
        assert cut_torn_frame(segment) == size


def test_a_writer_killed_before_its_first_line_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "post" / "2026-01-01"
    folder.mkdir(parents=True)
    for name in ("1.jsonl.zst.open", "1.jsonl.zst.open.lock", "2.jsonl.zst.open.lock", "3.jsonl.zst.tmp"):
        (folder / name).touch()
    assert recover(tmp_path) == []
    assert _files(tmp_path) == []


async def test_what_a_process_left_that_was_killed_meanwhile_is_completed_when_another_ends(tmp_path: Path) -> None:
    """So that of a finished job all that was staged into its folder can be read."""
    pipeline = StagingPipeline(crawler(), tmp_path)
    await pipeline.open_spider()
    writer = Writer(tmp_path, "other")
    writer.wait_for(1)
    reported = writer.kill()
    assert not _segments(tmp_path)
    await pipeline.close_spider()
    assert _files(tmp_path) == _segments(tmp_path)
    assert set(reported) <= set(_lines(tmp_path))


def test_the_zstd_program_reads_a_segment(tmp_path: Path) -> None:
    program = shutil.which("zstd")
    if not program:
        pytest.skip("there is no zstd program")
    writer = SegmentWriter(tmp_path)
    writer.write("post", [b'{"a":1}', b'{"a":2}'])
    writer.write("post", [b'{"a":3}'])
    writer.close()
    output = subprocess.run([program, "-dc", *_segments(tmp_path)], capture_output=True, check=True).stdout
    assert output == b'{"a":1}\n{"a":2}\n{"a":3}\n'


class Clock(datetime):
    """The time is what the test says."""

    moment = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(staging, "datetime", Clock)
    monkeypatch.setattr(Clock, "moment", Clock.moment)
    return Clock


def test_a_new_day_and_a_full_segment_begin_a_new_one(
    tmp_path: Path, clock: type[Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SegmentWriter(tmp_path)
    writer.write("post", [b'{"day":1}'])
    clock.moment += timedelta(seconds=1)
    writer.write("post", [b'{"day":2}'])
    assert [path.parent.name for path in _segments(tmp_path)] == ["2026-03-01"]
    monkeypatch.setattr(staging, "MOST_SEGMENT_BYTES", 1)
    writer.write("post", [b'{"day":2}'])
    assert len(_segments(tmp_path)) == 2
    writer.close()
    assert [path.parent.name for path in _segments(tmp_path)] == ["2026-03-01", "2026-03-02", "2026-03-02"]
    assert _lines(tmp_path) == [b'{"day":1}', b'{"day":2}', b'{"day":2}']


def test_processes_with_the_same_number_do_not_overwrite_each_other(
    tmp_path: Path, clock: type[Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    living = SegmentWriter(tmp_path)
    for name in (b'{"a":1}', b'{"a":2}', b'{"a":3}'):
        monkeypatch.setattr(staging, "_number", itertools.count(1))
        writer = living if name == b'{"a":2}' else SegmentWriter(tmp_path)
        writer.write("post", [name])
        if writer is not living:
            writer.close()
    living.close()
    assert sorted(_lines(tmp_path)) == [b'{"a":1}', b'{"a":2}', b'{"a":3}']


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tmpfs is Linux's")
def test_a_full_disk_raises_and_what_was_written_stays_whole(tmp_path: Path) -> None:
    with _small_disk(tmp_path):
        writer = SegmentWriter(tmp_path)
        written = write_until_full(writer)
        writer.close()
        assert [msgspec.json.decode(line)["id"] for line in _lines(tmp_path)] == list(range(written))
        assert written > 10


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of POSIX")
def test_a_write_that_fails_half_way_is_taken_back(tmp_path: Path) -> None:
    done = run("tests.pipelines.limited", str(tmp_path), cwd=ROOT, env=os.environ)
    assert done.returncode == 0, done.stderr
    ids = [msgspec.json.decode(line)["id"] for line in _lines(tmp_path)]
    assert ids == [*range(int(done.stdout)), "small"]


@contextmanager
def _unprivileged() -> Iterator[None]:
    """Root may write anywhere: as somebody else, if the tests run as root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_no_permission_is_said_with_the_folder() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        with _unprivileged(), pytest.raises(StorageError, match=rf"{name}.*Permission denied"):
            SegmentWriter(folder).write("post", [b"{}"])


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path)
    writer.write("post", [b'{"id":%d}' % number for number in range(1000)])
    writer.close()
    segment = _segments(tmp_path)[0]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 255
    segment.write_bytes(content)
    with pytest.raises(StorageError, match=segment.name):
        list(read_segment(segment))
    segment.write_bytes(ZstdCompressor().compress(b'{"id":1}\n{"id'))
    with pytest.raises(StorageError, match=segment.name):
        list(read_segment(segment))


@pytest.mark.parametrize("missing", [1, 5, 20])
def test_a_segment_that_was_cut_gives_its_whole_lines_and_is_named(segment: Path, missing: int) -> None:
    """As by a copy that was broken off: nobody takes what is left for all of it."""
    segment.write_bytes(segment.read_bytes()[:-missing])
    lines = read_segment(segment)
    assert [msgspec.json.decode(line)["id"] for line in itertools.islice(lines, 50)] == list(range(50))
    with pytest.raises(StorageError, match=f"{segment.name} .*damaged"):
        list(lines)


def test_records_are_read_from_a_day_on(tmp_path: Path, clock: type[Clock]) -> None:
    first = Clock.moment
    writer = SegmentWriter(tmp_path / "staging" / "bluesky")
    for _ in range(3):
        writer.write("post", [msgspec.json.encode({"fetched_at": Clock.moment})])
        writer.write("like", [b"{}"])
        clock.moment += timedelta(days=1)
    writer.close()
    found = [record["fetched_at"] for record in iter_records(tmp_path, "bluesky", "post")]
    assert found == [f"2026-03-0{day}T23:59:59Z" for day in (1, 2, 3)]
    since = first + timedelta(days=1)
    assert [r["fetched_at"] for r in iter_records(tmp_path, "bluesky", "post", since)] == found[1:]
    assert [r["fetched_at"] for r in iter_records(tmp_path, "bluesky", "post", since + timedelta(0, 1))] == found[2:]
    assert list(iter_records(tmp_path, "bluesky", "profile")) == []


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Lines 0 to 99 in two frames."""
    writer = SegmentWriter(tmp_path)
    writer.write("post", [b'{"id":%d}' % number for number in range(50)])
    writer.write("post", [b'{"id":%d}' % number for number in range(50, 100)])
    writer.close()
    return _segments(tmp_path)[0]


def test_a_rewritten_segment_has_what_was_kept(segment: Path) -> None:
    def keep(line: bytes) -> bytes | None:
        number = msgspec.json.decode(line)["id"]
        return None if number < 10 else b'{"id":"changed"}' if number == 10 else line

    assert rewrite_segment(segment, keep) == 11
    lines = list(read_segment(segment))
    assert lines[0] == b'{"id":"changed"}'
    assert lines[1:] == [b'{"id":%d}' % number for number in range(11, 100)]
    assert _files(segment.parent) == [segment]


def test_a_segment_without_changes_is_not_touched(segment: Path) -> None:
    before = segment.stat()
    assert rewrite_segment(segment, lambda line: line) == 0
    assert (segment.stat().st_ino, segment.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert _files(segment.parent) == [segment]


def test_a_segment_of_which_nothing_is_kept_is_removed(segment: Path) -> None:
    assert rewrite_segment(segment, lambda _: None) == 100
    assert _files(segment.parent) == []


def test_a_rewrite_that_fails_leaves_the_old_segment(segment: Path) -> None:
    before = segment.read_bytes()

    def fail(line: bytes) -> bytes | None:
        if b"99" in line:
            raise RuntimeError("last line")
        return None

    with pytest.raises(RuntimeError):
        rewrite_segment(segment, fail)
    assert segment.read_bytes() == before
    assert _files(segment.parent) == [segment]

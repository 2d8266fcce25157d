"""Staged lines: compressed JSON lines in segment files, which a kill during a write cannot damage.

    <root>/<kind>/<date>/<time>-<pid>-<n>.jsonl.zst

A segment that is being written has the suffix `.open`, and readers skip it. It grows by whole zstd frames of whole
lines, one write for each. It gets its final name when it is full, at midnight (UTC) and when its writer closes. If the
writer dies first, the next start cuts off a torn frame and renames the segment (`recover`).
"""

import contextlib
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from io import BufferedReader
from pathlib import Path
from typing import Any, Self, cast

import msgspec
from filelock import FileLock, Timeout
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError

from harvester.exceptions import StorageError
from harvester.stores.frames import cut_torn_frame, end_of_frames

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl.zst"
OPEN = ".open"
"""Suffix of a segment that is being written."""
REWRITTEN = ".tmp"
"""Suffix of a segment that will replace another."""
LOCK = ".lock"
"""Suffix of the lock of an unfinished file. The process that writes the file holds the lock."""
MOST_SEGMENT_BYTES = 64 * 1024 * 1024
"""Maximum number of compressed bytes. A larger segment gets no more lines."""

_UNFINISHED = {OPEN, REWRITTEN, LOCK}

_number = itertools.count(1)


class SegmentWriter:
    """Writes lines below `root`, each kind into its own segment. For use by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._segments: dict[str, _Segment] = {}
        self._compressor = _compressor()

    def write(self, kind: str, lines: Sequence[bytes]) -> int:
        """Hands whole lines (given without newline) to the operating system. Returns the compressed size in bytes.

        When this returns, a SIGKILL cannot lose the lines. Raises StorageError, and then none of the lines is written.
        """
        today = datetime.now(UTC).date()
        segment = self._segments.get(kind)
        if segment and (segment.date != today or segment.size >= MOST_SEGMENT_BYTES):
            del self._segments[kind]
            segment.close()
            segment = None
        if segment is None:
            segment = self._segments[kind] = _Segment.create(self._root / kind, today)
        frame = self._compressor.compress(b"\n".join(lines) + b"\n")
        segment.append(frame)
        return len(frame)

    def close(self) -> None:
        """Gives the segments their final names. Raises StorageError when a segment could not be written to disk."""
        errors = []
        while self._segments:
            try:
                self._segments.popitem()[1].close()
            except StorageError as error:
                errors.append(error)
        if errors:
            raise errors[0]


class _Segment:
    """A segment that is being written. Its lock, a file beside it, shows others that the writer lives."""

    def __init__(self, path: Path, lock: FileLock, descriptor: int, day: date) -> None:
        self.path = path
        """Final path of the segment."""
        self.size = 0
        self.date = day
        self._descriptor = descriptor
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, day: date) -> Self:
        day_folder = folder / day.isoformat()
        try:
            day_folder.mkdir(parents=True, exist_ok=True)
            while True:
                name = f"{datetime.now(UTC):%H%M%S}-{os.getpid()}-{next(_number)}{SUFFIX}"
                path = day_folder / name
                with contextlib.suppress(Timeout, FileExistsError):  # machines and containers may share process ids
                    return cls(path, *_open_new(path), day)
        except OSError as error:
            raise _failure(day_folder, error) from error

    def append(self, frame: bytes) -> None:
        try:
            rest = memoryview(frame)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise _failure(_open_name(self.path), error) from error
        self.size += len(frame)

    def close(self) -> None:
        try:
            torn = os.fstat(self._descriptor).st_size != self.size
            try:
                os.fsync(self._descriptor)
            finally:
                os.close(self._descriptor)
            if self.size == 0:
                _open_name(self.path).unlink()
            elif not torn:  # a torn segment is left to `recover`
                _open_name(self.path).rename(self.path)
        except OSError as error:
            raise _failure(self.path, error) from error
        finally:
            _release(self._lock)


def recover(root: Path) -> list[Path]:
    """Completes the segments below `root` whose writers are dead.

    Cuts them after the last whole frame, and gives them their final names. Segments of living writers are left
    unchanged. Raises StorageError.
    """
    recovered = []
    try:
        for left in sorted({_without_lock(path) for path in root.rglob("*") if path.suffix in _UNFINISHED}):
            with _if_abandoned(left) as abandoned:
                if abandoned and left.suffix == OPEN and cut_torn_frame(left):
                    recovered.append(left.rename(left.with_suffix("")))
                    logger.info("Recovered %s, whose writer was killed", recovered[-1])
                elif abandoned:
                    left.unlink()
    except OSError as error:
        raise _failure(root, error) from error
    return recovered


def read_segment(path: Path) -> Iterator[bytes]:
    """Yields the lines of a segment, without newline. Raises StorageError if it cannot be read, or is truncated."""
    try:
        with path.open("rb") as file:
            whole, size = end_of_frames(file), file.seek(0, os.SEEK_END)
            file.seek(0)
            with ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
                for line in BufferedReader(cast(Any, reader), 1 << 20):
                    if not line.endswith(b"\n"):
                        raise StorageError(f"{path} is damaged: it ends within a line.")
                    yield line[:-1]
            if whole < size:  # the decompressor takes a truncated frame for the end
                raise StorageError(f"{path} is damaged: it breaks off; of its {size:,} bytes {whole:,} can be read.")
    except ZstdError as error:
        raise StorageError(f"{path} is damaged: {error}.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error


def iter_records(data_dir: Path, spider: str, kind: str, since: datetime | None = None) -> Iterator[dict[str, Any]]:
    """Yields the staged lines of a kind, oldest day first, as the pipeline wrote them (see StagingPipeline).

    With `since`, which must have a time zone, yields only records fetched then or later. A record that was fetched
    twice, or was in progress when a run was killed, comes twice. Raises StorageError when a segment is damaged.
    """
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for path in sorted((data_dir / "staging" / spider / kind).glob(f"*/*{SUFFIX}")):
        if since and path.parent.name < since.astimezone(UTC).date().isoformat():
            continue
        for line in read_segment(path):
            record = decode(line)
            if not since or datetime.fromisoformat(record["fetched_at"]) >= since:
                yield record


def rewrite_segment(path: Path, keep: Callable[[bytes], bytes | None]) -> int:
    """Replaces each line by the result of `keep`, or removes it if that is None. Returns the number of changed lines.

    Atomic: readers see either the old segment or the new one, also after a kill. A segment without lines is removed; a
    segment without changes is not touched. Raises StorageError, and then the old segment stays.
    """
    changed = 0

    def kept() -> Iterator[bytes]:
        nonlocal changed
        for line in read_segment(path):
            new = keep(line)
            changed += new != line
            if new is not None:
                yield new

    temporary = path.with_name(path.name + REWRITTEN)
    lock = _lock(temporary)
    try:
        lock.acquire()
        try:
            count = _write_all(temporary, kept())
            if changed and count:
                temporary.replace(path)
            elif changed:
                path.unlink()
        finally:
            temporary.unlink(missing_ok=True)
            _release(lock)
    except OSError as error:
        raise _failure(path, error) from error
    return changed


def _write_all(path: Path, lines: Iterator[bytes]) -> int:
    """Writes a new file and syncs it to the disk. Returns the number of lines."""
    count = 0
    with path.open("wb") as file:
        with _compressor().stream_writer(file, closefd=False) as stream:
            for line in lines:
                stream.write(line + b"\n")
                count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def _open_new(segment: Path) -> tuple[FileLock, int]:
    """Returns lock and descriptor of a new segment. Raises Timeout or FileExistsError when the name is taken."""
    lock = _lock(_open_name(segment))
    lock.acquire(blocking=False)
    try:
        if segment.exists():
            raise FileExistsError(segment)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        return lock, os.open(_open_name(segment), flags, 0o644)
    except OSError:
        _release(lock)
        raise


def _compressor() -> ZstdCompressor:
    return ZstdCompressor(level=1, write_checksum=True)


def _open_name(segment: Path) -> Path:
    return segment.with_name(segment.name + OPEN)


def _lock(path: Path) -> FileLock:
    return FileLock(path.with_name(path.name + LOCK), thread_local=False)


def _without_lock(path: Path) -> Path:
    return path.with_suffix("") if path.suffix == LOCK else path


def _release(lock: FileLock) -> None:
    """Releases a lock and removes its file, in the order that the platform allows."""
    with contextlib.suppress(OSError):  # Windows cannot remove an open file
        Path(lock.lock_file).unlink()
    lock.release()
    if os.name == "nt":
        with contextlib.suppress(OSError):  # another process may hold it by now, and remove it
            Path(lock.lock_file).unlink()


@contextlib.contextmanager
def _if_abandoned(path: Path) -> Iterator[bool]:
    """Yields True while it holds the lock of an unfinished file; False if the writer lives or has just finished."""
    lock = _lock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield path.exists()
    finally:
        _release(lock)


def _failure(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be written: {error.strerror or error}.")

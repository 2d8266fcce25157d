"""Reads uploaded files in a process that has limits, and that ends when nobody waits for it."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from io import BufferedReader, BytesIO, FileIO
from itertools import islice
from typing import Any, cast

from harvester.bounded.process import BoundedProcess, Bounds
from harvester.exceptions import TooCostlyError, UsageError
from harvester.items import Found
from harvester.jobs.inputs import SAMPLE_BYTES, BadLine, Input, InputLines, Source, size_of

SMALL_BYTES = 16 * 1024
"""Maximum bytes of an upload that is read in this process. A larger one may be slow, like a file of open quotation
marks."""
TOGETHER = 200
"""Number of lines that the process sends together."""
CPU_S, CPU_S_PER_MB = 20.0, 2.0
"""Seconds of CPU time that a file may take. A usual one takes a tenth."""
MEMORY_MB = 128
RESULT_MB_PER_MB = 20
"""Maximum ratio of result and file sizes: a file may have mostly short lines."""


@asynccontextmanager
async def read_upload(file: Source, given: Input, kind: str) -> AsyncIterator[Iterator[Found | BadLine]]:
    """Gives an iterator over the items and bad lines of an uploaded file, to be used once, in a thread.

    The file must be at its beginning. On exit the reading stops, wherever the iterator is. The iterator raises
    UsageError for a file that cannot be read, or that takes too many resources.
    """
    body = _small(file)
    if body is not None and len(body) <= SMALL_BYTES:
        yield iter(InputLines(_source(body), given.path, kind, given.form, given.key))
        return
    process = BoundedProcess(files=[] if body is not None else [file.fileno()])
    try:
        yield _read(process, file.fileno() if body is None else body, given, kind, size_of(file))
    finally:
        process.stop()


def _read(process: BoundedProcess, file: int | bytes, given: Input, kind: str, size: int) -> Iterator[Found | BadLine]:
    mb = size / (1 << 20)
    bounds = Bounds(CPU_S + CPU_S_PER_MB * mb, MEMORY_MB, 64 + int(RESULT_MB_PER_MB * mb), silence_s=3600.0)
    try:
        for lines in process.items(bounds, read_lines, file, given, kind):
            yield from lines
    except TooCostlyError as error:
        raise UsageError(f"{given.path} is read no further: {error}.") from None
    finally:
        process.close()


def read_lines(file: int | bytes, given: Input, kind: str) -> Iterator[list[Found | BadLine]]:
    """Yields lists of lines, from a file that is open in this process, or from its content."""
    source = _source(file) if isinstance(file, bytes) else BufferedReader(FileIO(file), SAMPLE_BYTES)
    lines = iter(InputLines(source, given.path, kind, given.form, given.key))
    while together := list(islice(lines, TOGETHER)):
        yield together


def _source(body: bytes) -> Source:
    return BufferedReader(cast(Any, BytesIO(body)), SAMPLE_BYTES)


def _small(file: Source) -> bytes | None:
    """Returns the content of a source that is small, not a file, or on Windows, where a process cannot inherit it.
    Else None."""
    size = size_of(file)
    return file.read() if size <= SMALL_BYTES or os.name == "nt" else None

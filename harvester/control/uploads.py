"""Bodies of any length, in an unnamed temporary file that disappears with the process.

The work on a body begins only when it is complete, so a broken connection or a dying controller leaves nothing behind.
Compressed bodies (gzip) are limited by their decompressed size.
"""

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from harvester.control.problems import ApiProblem
from harvester.jobs.inputs import SAMPLE_BYTES
from harvester.stores.private_files import make_closed

MAX_RATIO, FREE_BYTES = 100, 1 << 20
"""Limits of decompression: a body may unpack to MAX_RATIO times its size plus FREE_BYTES.

Even repetitive lists of items unpack to 30 times their size; malicious bodies reach a thousand times.
"""
PIECE_BYTES = 1 << 20
"""Bytes to decompress at a time."""
MOST_AT_ONCE = 4
"""Maximum number of simultaneous uploads of a controller."""
AGAIN_S = 5
_GZIP = 31
"""The zlib parameter for a gzip header and the largest window."""


class Upload(NamedTuple):
    """A complete body."""

    file: "BufferedReader[Any]"
    """The body, positioned at its beginning."""
    digest: str
    """SHA-256 of the decompressed content, in hexadecimal."""


class Uploads:
    """Receives bodies into files in a folder."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """`most_bytes`: maximum number of decompressed bytes of a body."""
        self._folder = folder
        self._most = most_bytes
        self._running = 0

    @asynccontextmanager
    async def take(self, request: Request) -> AsyncIterator[Upload]:
        """Yields the body of a request.

        Raises ApiProblem if it is too large or no valid gzip, or if too many uploads are running.
        """
        encoding = request.headers.get("content-encoding", "").strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise ApiProblem(415, "media_type", f"The Content-Encoding {encoding!r} is not read; gzip is.")
        if self._running >= MOST_AT_ONCE:
            said = f"{MOST_AT_ONCE} uploads are under way."
            raise ApiProblem(429, "too_many", said, headers={"Retry-After": str(AGAIN_S)})
        self._running += 1
        try:
            make_closed(self._folder)
            with TemporaryFile(dir=self._folder, buffering=0) as raw:
                pieces = _Gunzip(self._most) if "gzip" in encoding else _Plain(self._most)
                digest = hashlib.sha256()
                left = self._most
                async for chunk in request.stream():
                    left -= len(chunk)
                    if left < 0:  # gzip may continue without any output
                        raise _too_large()
                    if chunk:
                        await asyncio.to_thread(_write, pieces, chunk, raw, digest)
                pieces.end()
                raw.seek(0)
                yield Upload(BufferedReader(cast(Any, raw), SAMPLE_BYTES), digest.hexdigest())
        except ClientDisconnect:
            raise ApiProblem(400, "bad_request", "The body broke off.") from None
        except OSError as error:
            said = f"The body cannot be kept: {error.strerror or error}. Make room in the controller's data folder."
            raise ApiProblem(507, "no_room", said) from None
        finally:
            self._running -= 1


async def while_connected(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """Returns the result of the work. If the client disconnects, cancels the work and raises ApiProblem.

    The body must be read before.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiProblem(400, "bad_request", "Whoever sent it is gone.")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Plain:
    """Writes an uncompressed body."""

    def __init__(self, most: int) -> None:
        self._left = most

    def write(self, chunk: bytes, file: IO[bytes], digest: Any) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise _too_large()
        view = memoryview(chunk)
        while view:  # on a nearly full disk a write may be partial
            view = view[file.write(view) :]
        digest.update(chunk)

    def end(self) -> None:
        """Raises ApiProblem when the body is incomplete."""


class _Gunzip(_Plain):
    """Writes a gzip body, decompressed a piece at a time. Concatenated gzip files count as a single file."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._member = zlib.decompressobj(_GZIP)
        self._begun = False
        self._may_be = FREE_BYTES

    def write(self, chunk: bytes, file: IO[bytes], digest: Any) -> None:
        self._may_be += MAX_RATIO * len(chunk)
        while chunk:
            if self._member.eof:
                self._member = zlib.decompressobj(_GZIP)
            self._begun = True
            try:
                piece = self._member.decompress(chunk, PIECE_BYTES)
            except zlib.error:
                raise ApiProblem(400, "bad_request", "The body is no gzip, as its Content-Encoding says.") from None
            self._may_be -= len(piece)
            if self._may_be < 0:
                raise ApiProblem(413, "too_large", f"The body unpacks to more than {MAX_RATIO} times its size.")
            super().write(piece, file, digest)
            chunk = self._member.unused_data if self._member.eof else self._member.unconsumed_tail

    def end(self) -> None:
        if not self._begun or not self._member.eof:
            raise ApiProblem(400, "bad_request", "The body is gzip that breaks off.")


def _too_large() -> ApiProblem:
    return ApiProblem(413, "too_large", "The body is larger than HARVESTER_CONTROL_UPLOAD_MB allows.")


def _write(pieces: _Plain, chunk: bytes, file: IO[bytes], digest: Any) -> None:
    pieces.write(chunk, file, digest)

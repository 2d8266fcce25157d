"""Removes one content coding from a body, and reports whether its stream is complete, unlike Scrapy's functions."""

import zlib
from collections.abc import Callable, Iterator
from io import BytesIO

import brotli  # type: ignore[import-untyped]
from backports import zstd
from scrapy.utils._compression import _check_max_size
from scrapy.utils.gz import gunzip

_PIECE_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes to unpack at once. For each piece, deflate and brotli copy all remaining bytes."""
_GZIP = b"\x1f\x8b"
"""The first bytes of a member of a gzip stream."""


def unpack(coding: bytes, body: bytes, max_size: int) -> tuple[bytes, bool]:
    """Returns the unpacked body, as far as it was received, and whether it is complete. An empty body is complete.

    Raises ValueError if the result exceeds `max_size` bytes (0: no limit), and each library's own error for an
    invalid stream.
    """
    if not body:
        return b"", True
    if coding not in _PIECES:
        unpacked = gunzip(body, max_size=max_size)
        return unpacked, _has_gzip_end(body, len(unpacked))
    pieces: list[bytes] = []
    size = 0
    is_whole = False
    for piece in _PIECES[coding](body):
        is_whole = piece is None
        if piece is not None:
            size += len(piece)
            _check_max_size(size, max_size)
            pieces.append(piece)
    return b"".join(pieces), is_whole


def _inflated(body: bytes) -> Iterator[bytes | None]:
    """Yields the pieces of zlib's format, or of bare deflate. None comes last if the stream is complete."""
    stream = zlib.decompressobj()
    try:
        piece = stream.decompress(body, _PIECE_BYTES)
    except zlib.error:
        stream = zlib.decompressobj(wbits=-15)
        piece = stream.decompress(body, _PIECE_BYTES)
    yield piece
    while stream.unconsumed_tail and not stream.eof:
        yield stream.decompress(stream.unconsumed_tail, _PIECE_BYTES)
    if stream.eof:
        yield None


def _of_brotli(body: bytes) -> Iterator[bytes | None]:
    stream = brotli.Decompressor()
    piece = stream.process(body, output_buffer_limit=_PIECE_BYTES)
    while piece:
        yield piece
        piece = b"" if stream.is_finished() else stream.process(b"", output_buffer_limit=_PIECE_BYTES)
    if stream.is_finished():
        yield None


def _of_zstd(body: bytes) -> Iterator[bytes | None]:
    with zstd.ZstdFile(BytesIO(body)) as frames:
        try:
            while piece := frames.read(_PIECE_BYTES):
                yield piece
        except EOFError:
            return
    yield None


_PIECES: dict[bytes, Callable[[bytes], Iterator[bytes | None]]] = {
    b"deflate": _inflated,
    b"br": _of_brotli,
    b"zstd": _of_zstd,
}


def _has_gzip_end(body: bytes, size: int) -> bool:
    """Returns True if each member is complete. Other bytes after them are ignored, as browsers do."""
    if int.from_bytes(body[-4:], "little") == size % 2**32:
        return True
    while body and (body.startswith(_GZIP) or body == _GZIP[:1]):
        member = zlib.decompressobj(wbits=31)
        try:
            member.decompress(body, size + 1)
        except zlib.error:
            return False
        if not member.eof:
            return False
        body = member.unused_data.lstrip(b"\0")
    return True

"""Answers as bytes, whatever HTTP says of them."""

import gzip
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import repeat

import brotli  # type: ignore[import-untyped]
import zstandard

OK = "HTTP/1.1 200 OK"
JSON = ("Content-Type: application/json",)
HTML = ("Content-Type: text/html; charset=utf-8",)
XML = ("Content-Type: application/xml",)
MB = 1024 * 1024


def head(*lines: str | bytes) -> bytes:
    """Status line and headers."""
    return b"\r\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\r\n\r\n"


def page(body: bytes = b"<title>fine</title>", *headers: str | bytes, status: str = OK) -> bytes:
    """A whole answer with its length."""
    return head(status, f"Content-Length: {len(body)}", *(headers or HTML)) + body


def endless(first: bytes, then: bytes) -> Iterator[bytes]:
    """Never ends."""
    yield first
    yield from repeat(then)


def later(first: bytes, then: bytes) -> Iterator[bytes | float]:
    """Not at once, so that it comes by itself."""
    yield first
    yield 0.3
    yield then


@cache
def bomb(coding: str, megabytes: int = 64) -> bytes:
    """Zeros, compressed."""
    plain = bytes(MB)
    if coding == "gzip":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    elif coding == "deflate":
        packer = zlib.compressobj(9)
    elif coding == "br":
        packer = brotli.Compressor(quality=5)
        return bytes(b"".join(packer.process(plain) for _ in range(megabytes)) + packer.finish())
    else:
        zstd = zstandard.ZstdCompressor().compressobj()
        return b"".join(zstd.compress(plain) for _ in range(megabytes)) + zstd.flush()
    return b"".join(packer.compress(plain) for _ in range(megabytes)) + packer.flush()


def twice(body: bytes) -> bytes:
    """Compressed two times."""
    return gzip.compress(gzip.compress(body))


@cache
def png(width: int, height: int, data: bytes | None = None, frames: int = 0) -> bytes:
    """A picture of one colour, which takes few bytes; with `frames` its header promises an animation."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack("!I", len(content)) + kind + content + struct.pack("!I", zlib.crc32(kind + content))

    if data is None:
        packer = zlib.compressobj(9)
        row = bytes((width + 7) // 8 + 1)
        data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    animated = chunk(b"acTL", struct.pack("!II", frames, 0)) if frames else b""
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack("!IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return start + animated + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def drip(first: bytes) -> Iterator[bytes | float]:
    """A byte more now and then."""
    yield first
    for _ in range(1000):
        yield b"x"
        yield 0.2

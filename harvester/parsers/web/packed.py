"""Unpacks feeds and sitemaps that are gzip files, whatever their server calls them. Pure."""

import zlib
from gzip import BadGzipFile, GzipFile
from io import BytesIO

from harvester.decoding import as_utf8

GZIP = b"\x1f\x8b"
"""How a gzip file begins."""
MOST_BYTES = 50 * 1024 * 1024
"""Of a feed or sitemap, unpacked; the protocol of sitemaps allows no more."""
CUT = "its file is cut: it ends before its end"
TOO_LONG = f"it has more than {MOST_BYTES:,} bytes"

_PIECE_BYTES = 1 << 16
_START_BYTES = 2000


def unpack(body: bytes, most: int = MOST_BYTES) -> tuple[bytes, str]:
    """Returns what a file holds, also one made of several, and why that is not all; empty when it is.

    What is no gzip file is returned as it is. What follows behind a gzip file and is none is left out.
    """
    if not body.startswith(GZIP):
        return body[:most], TOO_LONG if len(body) > most else ""
    unpacked = bytearray()
    try:
        with GzipFile(fileobj=BytesIO(body)) as file:
            while len(unpacked) <= most and (piece := file.read1(_PIECE_BYTES)):
                unpacked += piece
    except (EOFError, zlib.error):
        return bytes(unpacked), CUT
    except BadGzipFile as error:
        if not unpacked or "Not a gzipped file" not in str(error):
            return bytes(unpacked), CUT
    return bytes(unpacked[:most]), TOO_LONG if len(unpacked) > most else ""


def start_of(body: bytes, content_type: str = "") -> bytes:
    """Returns how a file begins, unpacked and in UTF-8, without white space."""
    start, _ = unpack(body, 2 * _START_BYTES) if body.startswith(GZIP) else (body[: 2 * _START_BYTES], "")
    return as_utf8(start, content_type, prefers_utf8=True).lstrip()[:_START_BYTES]

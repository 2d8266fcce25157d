"""Unpacks feeds and sitemaps that are gzip files, regardless of their Content-Type. Pure."""

import zlib
from gzip import BadGzipFile, GzipFile
from io import BytesIO

from harvester.decoding import as_utf8

GZIP = b"\x1f\x8b"
"""First bytes of a gzip file."""
MOST_BYTES = 50 * 1024 * 1024
"""Maximum number of bytes of an unpacked feed or sitemap. The protocol of sitemaps has the same limit."""
CUT = "its file is cut: it ends before its end"
TOO_LONG = f"it has more than {MOST_BYTES:,} bytes"

_PIECE_BYTES = 1 << 16
_START_BYTES = 2000


def unpack(body: bytes, most: int = MOST_BYTES) -> tuple[bytes, str]:
    """Returns the content of a file and the reason why it is incomplete; the reason is empty if it is complete.

    A gzip file may have several members. Other files are returned unchanged. Bytes after a gzip file that are not gzip
    are left out.
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
    """Returns the beginning of a file, unpacked and in UTF-8, without leading white space."""
    start, _ = unpack(body, 2 * _START_BYTES) if body.startswith(GZIP) else (body[: 2 * _START_BYTES], "")
    return as_utf8(start, content_type, prefers_utf8=True).lstrip()[:_START_BYTES]

"""Writes the bytes that a record was read from into a line of JSON, and reads exactly these bytes back."""

import msgspec
from msgspec import Struct

_encode = msgspec.json.encode
_OTHER = "latin-1"
"""Encoding with a character for each byte."""
_SPARE_LEVELS = 200
"""Extra levels of nesting to allow for. Readers of the line may have less room on their stacks."""


def members(raw: bytes) -> bytes:
    """Returns the member `"raw":` of a JSON line. A JSON object or array stays JSON; other bytes become a string.

    The string is text in UTF-8. For bytes that are not UTF-8 a member `"raw_encoding":"latin-1"` is added, and the
    string has a character for each byte.
    """
    if _fits(raw):
        return b'"raw":' + raw
    try:
        return b'"raw":' + _encode(raw.decode())
    except UnicodeDecodeError:
        return b'"raw_encoding":"%b","raw":%b' % (_OTHER.encode(), _encode(raw.decode(_OTHER)))


def read_back(line: bytes) -> bytes:
    """Returns `raw` of a staged or rejected line."""
    found = msgspec.json.decode(line, type=_Line)
    raw = bytes(found.raw)
    return msgspec.json.decode(raw, type=str).encode(found.raw_encoding) if raw.startswith(b'"') else raw


class _Line(Struct):
    raw: msgspec.Raw
    raw_encoding: str = "utf-8"


def _fits(raw: bytes) -> bool:
    """True if the bytes are JSON on one line that readers of lines can decode."""
    if raw[:1] not in (b"{", b"[") or b"\n" in raw or b"\r" in raw:
        return False
    try:
        msgspec.json.decode(b"%b%b%b" % (b"[" * _SPARE_LEVELS, raw, b"]" * _SPARE_LEVELS))
    except (ValueError, RecursionError):
        return False
    return True

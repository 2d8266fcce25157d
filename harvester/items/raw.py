"""What a record was read from, as members of a line of JSON: whatever bytes it is, it comes back as it was."""

import msgspec
from msgspec import Struct

_encode = msgspec.json.encode
_OTHER = "latin-1"
"""Has a character for each byte."""
_SPARE_LEVELS = 200
"""How much deeper JSON may be nested for readers, which may have less room on their stacks."""


def members(raw: bytes) -> bytes:
    """`"raw":` and a JSON object or array as it is, all else as a string.

    A string holds text; with `"raw_encoding":"latin-1"` beside it, bytes that are no UTF-8, a character for each.
    """
    if _fits(raw):
        return b'"raw":' + raw
    try:
        return b'"raw":' + _encode(raw.decode())
    except UnicodeDecodeError:
        return b'"raw_encoding":"%b","raw":%b' % (_OTHER.encode(), _encode(raw.decode(_OTHER)))


def read_back(line: bytes) -> bytes:
    """`raw` of a staged or rejected line."""
    found = msgspec.json.decode(line, type=_Line)
    raw = bytes(found.raw)
    return msgspec.json.decode(raw, type=str).encode(found.raw_encoding) if raw.startswith(b'"') else raw


class _Line(Struct):
    raw: msgspec.Raw
    raw_encoding: str = "utf-8"


def _fits(raw: bytes) -> bool:
    """Whether it is JSON that stands on one line and that readers of lines can decode."""
    if raw[:1] not in (b"{", b"[") or b"\n" in raw or b"\r" in raw:
        return False
    try:
        msgspec.json.decode(b"%b%b%b" % (b"[" * _SPARE_LEVELS, raw, b"]" * _SPARE_LEVELS))
    except (ValueError, RecursionError):
        return False
    return True

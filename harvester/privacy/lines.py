"""Staged and rejected lines that show an account, whatever a site put into them."""

import json
from collections.abc import Iterable
from typing import Any

from harvester.parsers.bluesky.scrub import PURGED, scrub

Document = dict[str, Any]
_RAW = b'"raw":'
"""Stands before the last member of a line, and nowhere earlier: quotes within texts are escaped."""


def read_line(line: bytes) -> Document:
    """Its members. `raw` is its text where Python cannot read it: nested too deep, numbers of thousands of digits."""
    try:
        members: Document = json.loads(line)
    except (ValueError, RecursionError):
        before, _, raw = line.partition(_RAW)
        members = json.loads(before + _RAW + b'""}')
        members["raw"] = raw.decode("utf-8", "replace")
    return members


def emptied(raw: Any, dids: Iterable[str]) -> tuple[Any, bool]:
    """`raw` without what it shows of these accounts, and whether that changed it.

    Of a text, and of what is nested too deep to be looked through, nothing stays.
    """
    if isinstance(raw, str):
        return (PURGED, True) if any(did in raw for did in dids) else (raw, False)
    changed = False
    try:
        for did in dids:
            raw, found = scrub(raw, did)
            changed = changed or found
    except RecursionError:
        return PURGED, True
    return raw, changed


def written(members: Document) -> bytes:
    """The line, without newline. A number that is none in JSON, like 1e400, costs the whole of `raw`."""
    try:
        return json.dumps(members, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        return json.dumps(members | {"raw": PURGED}, separators=(",", ":")).encode()

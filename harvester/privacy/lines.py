"""Edits staged and rejected lines that show an account, with any content from a site."""

import json
from collections.abc import Iterable
from typing import Any

from harvester.parsers.bluesky.scrub import PURGED, scrub

Document = dict[str, Any]
_RAW = b'"raw":'
"""Bytes before the last member of a line. They occur nowhere earlier, because quotes within texts are escaped."""


def read_line(line: bytes) -> Document:
    """Returns the members of a line. `raw` stays text if Python cannot read it: nested too deep, or numbers with
    thousands of digits."""
    try:
        members: Document = json.loads(line)
    except (ValueError, RecursionError):
        before, _, raw = line.partition(_RAW)
        members = json.loads(before + _RAW + b'""}')
        members["raw"] = raw.decode("utf-8", "replace")
    return members


def emptied(raw: Any, dids: Iterable[str]) -> tuple[Any, bool]:
    """Returns `raw` without the accounts' content, and True if that changed it.

    A text, and content that is nested too deep to search, is removed as a whole.
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
    """Returns the line, without newline. A number that JSON does not allow, such as 1e400, removes the whole `raw`."""
    try:
        return json.dumps(members, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        return json.dumps(members | {"raw": PURGED}, separators=(",", ":")).encode()

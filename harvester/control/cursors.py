"""Cursors of lists: opaque texts that say where the next page begins, valid only for the same list and filters."""

import base64
import binascii
import hashlib
from typing import Annotated

import msgspec
from fastapi import Query

from harvester.control.problems import ApiProblem

MOST_ROWS = 500
"""Maximum number of rows on a page."""
MOST_CURSOR = 20_000
"""Maximum number of characters: a cursor may hold the key of a record, which may be a URL."""
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="The most that are listed.")]
After = Annotated[
    str, Query(max_length=MOST_CURSOR, description="`next` of the page before this one; empty: the first.")
]


def cursor_of(place: object, *filters: object) -> str:
    """Returns the cursor for the row at this place. The place must be JSON-serializable."""
    packed = msgspec.json.encode([_digest(filters), place])
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def place_of(cursor: str, kind: type, *filters: object) -> object:
    """Returns the place that was passed to `cursor_of`.

    Raises ApiProblem for a cursor of another list or for other text.
    """
    try:
        packed = base64.urlsafe_b64decode(f"{cursor}==".encode("ascii"))
        digest, place = msgspec.json.decode(packed, type=tuple[str, kind])  # type: ignore[valid-type]
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise ApiProblem(400, "bad_request", "`after` is no cursor: give `next` of the page before.") from None
    if digest != _digest(filters):
        raise ApiProblem(400, "bad_request", "`after` is of a list with other filters: begin that one anew.")
    return place


def _digest(filters: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(filters).encode("utf-8", "replace")).hexdigest()[:12]

"""The limits of a document in MongoDB. A batch with one document beyond them is refused as a whole."""

from collections.abc import Iterable
from typing import Any

import bson
from bson.errors import BSONError

MAX_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes of a document, as BSON."""
MAX_LEVELS = 180
"""Maximum nesting depth of a document."""
UNSTORABLE = (BSONError, OverflowError, UnicodeEncodeError, RecursionError)
"""Exceptions that encoding a document as BSON may raise."""


def unstorable(document: dict[str, Any]) -> str | None:
    """Returns the reason why MongoDB cannot hold a document, or None."""
    try:
        size = len(bson.encode(document))
    except UNSTORABLE as error:
        return str(error)
    if size > MAX_BYTES:
        return f"it has {size} bytes"
    level: list[Any] = [document]
    depth = 0
    while level := [each for value in level for each in children(value)]:
        depth += 1
    return f"it is nested {depth} levels deep" if depth > MAX_LEVELS else None


def children(value: Any) -> Iterable[Any]:
    """Returns the values directly inside a dictionary or list."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()

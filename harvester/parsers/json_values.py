"""Gets values from JSON of any shape: the value if it exists and has the right type, or None."""

from datetime import UTC, datetime
from typing import Any

MOST_LEVELS = 50
"""Maximum number of levels of a value that is stored unchanged. MongoDB allows 100 in a document."""
MOST_INT = 2**63 - 1
"""The largest number that MongoDB can hold."""


def date_time(text: Any) -> datetime | None:
    """Returns a point in time in UTC; None for any text that is not a time, or that MongoDB cannot hold."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is UTC:  # most times
            return at
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def dictionary(value: Any, name: str) -> dict[str, Any] | None:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else None


def string(value: Any, *path: str) -> str | None:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def integer(value: Any, *path: str) -> int | None:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if type(value) is int and abs(value) <= MOST_INT else None


def storable(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the value unchanged; None if MongoDB cannot hold it."""
    return value if value is not None and _fits(value, MOST_LEVELS) else None


def _fits(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        return levels > 0 and all("\0" not in name and _fits(part, levels - 1) for name, part in value.items())
    if isinstance(value, list):
        return levels > 0 and all(_fits(part, levels - 1) for part in value)
    return not isinstance(value, int) or abs(value) <= MOST_INT


def strings(value: Any) -> tuple[str, ...]:
    return tuple([x for x in value if isinstance(x, str)]) if isinstance(value, list) else ()

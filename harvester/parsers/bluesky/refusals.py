"""Accounts that do not want to be seen by the logged-out, as their own label says in every view of them."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from harvester.parsers.bluesky import wire
from harvester.parsers.bluesky.scrub import scrub

NO_UNAUTHENTICATED = "!no-unauthenticated"
SAYS_NO = NO_UNAUTHENTICATED.encode()


def refuses(account: Any) -> bool:
    """Whether the view of an account says that it does not want to be seen, as far as its labels can be read."""
    labels = account.get("labels") if isinstance(account, dict) else None
    if not labels or not isinstance(labels, list):
        return False
    said = [x for x in labels if isinstance(x, dict) and x.get("val") == NO_UNAUTHENTICATED]
    cancelled = [x.get("src") for x in said if x.get("neg") is True]
    return any(x.get("src") not in cancelled for x in said)


def seen_by_all(raw: Raw | bytes, own: str | None = None) -> bytes:
    """The JSON that a record of `own` was read from, emptied of all others who do not want to be seen."""
    original = bytes(raw)
    if SAYS_NO not in original:
        return original
    return msgspec.json.encode(without_refusing(wire.decode_any(original), own))


def without_refusing(value: Any, own: str | None = None) -> Any:
    for did in set(_refusing(value)) - {own}:
        value, _ = scrub(value, did)
    return value


def _refusing(value: Any) -> Iterator[str]:
    """The accounts in a value that do not want to be seen."""
    if isinstance(value, dict):
        if isinstance(did := value.get("did"), str) and refuses(value):
            yield did
        for part in value.values():
            yield from _refusing(part)
    elif isinstance(value, list):
        for part in value:
            yield from _refusing(part)

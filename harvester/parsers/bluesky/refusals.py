"""Accounts that do not want to be seen by logged-out visitors, as a label in each view of the account says."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from harvester.parsers.bluesky import wire
from harvester.parsers.bluesky.scrub import scrub

NO_UNAUTHENTICATED = "!no-unauthenticated"
SAYS_NO = NO_UNAUTHENTICATED.encode()


def refuses(account: Any) -> bool:
    """True if the view of an account has a label that refuses logged-out visitors. Unreadable labels are ignored."""
    labels = account.get("labels") if isinstance(account, dict) else None
    if not labels or not isinstance(labels, list):
        return False
    said = [x for x in labels if isinstance(x, dict) and x.get("val") == NO_UNAUTHENTICATED]
    cancelled = [x.get("src") for x in said if x.get("neg") is True]
    return any(x.get("src") not in cancelled for x in said)


def seen_by_all(raw: Raw | bytes, own: str | None = None) -> bytes:
    """Returns the JSON of a record of `own`, without the data of all other accounts that refuse logged-out visitors."""
    original = bytes(raw)
    if SAYS_NO not in original:
        return original
    return msgspec.json.encode(without_refusing(wire.decode_any(original), own))


def without_refusing(value: Any, own: str | None = None) -> Any:
    for did in set(_refusing(value)) - {own}:
        value, _ = scrub(value, did)
    return value


def _refusing(value: Any) -> Iterator[str]:
    """Yields the accounts in a value that refuse logged-out visitors."""
    if isinstance(value, dict):
        if isinstance(did := value.get("did"), str) and refuses(value):
            yield did
        for part in value.values():
            yield from _refusing(part)
    elif isinstance(value, list):
        for part in value:
            yield from _refusing(part)

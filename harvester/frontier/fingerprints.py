"""Fingerprints of requests as 64-bit integers: signed, since sets of integers in Redis store these in 8 bytes."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from scrapy import Request
from scrapy.utils.request import fingerprint as digest_of


def fingerprint(request: Request) -> int:
    """Returns the fingerprint of a request: equal for equal method, canonical URL and body."""
    return int.from_bytes(digest_of(request)[:8], "big", signed=True)


def of_attempts(number: int, items: Sequence[Sequence[Any]]) -> int:
    """Returns the fingerprint for attempts at items (pairs of id and attempt). Only later attempts change it."""
    attempts = {attempt for _, attempt in items}
    if attempts <= {1}:
        return number
    return token_fingerprint(number, str(attempts if len(attempts) == 1 else sorted(map(tuple, items))))


def token_fingerprint(number: int, token: str) -> int:
    """Returns the fingerprint of an unfiltered request: the same if a push is sent twice, another for another push."""
    return int.from_bytes(blake2b(f"{number}#{token}".encode(), digest_size=8).digest(), "big", signed=True)

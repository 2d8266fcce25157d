"""Fingerprints of requests as 64-bit integers: signed, as the integer sets of Redis store them in 8 bytes."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from scrapy import Request
from scrapy.utils.request import fingerprint as digest_of


def fingerprint(request: Request) -> int:
    """The same for requests that ask for the same: method, canonical URL and body are the same."""
    return int.from_bytes(digest_of(request)[:8], "big", signed=True)


def of_attempts(number: int, items: Sequence[Sequence[Any]]) -> int:
    """The same for the first attempt at items (id and attempt of each). A later one asks for everything anew."""
    attempts = {attempt for _, attempt in items}
    if attempts <= {1}:
        return number
    return token_fingerprint(number, str(attempts if len(attempts) == 1 else sorted(map(tuple, items))))


def token_fingerprint(number: int, token: str) -> int:
    """Stands for a request that is not filtered: one push of it, sent twice, is seen; another push is not."""
    return int.from_bytes(blake2b(f"{number}#{token}".encode(), digest_size=8).digest(), "big", signed=True)

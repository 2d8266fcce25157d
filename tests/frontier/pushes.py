"""Requests as the tests of the frontier push them."""

from itertools import count
from typing import Any

from harvester.frontier.messages import Push

_tokens = count()


def push(number: int, **fields: Any) -> Push:
    """A request with that fingerprint; every call is another push."""
    fields = {
        "payload": f"request {number}".encode(),
        "token": f"token-{next(_tokens)}",
        "url": f"https://site.example/{number}",
        **fields,
    }
    return Push(number, **fields)

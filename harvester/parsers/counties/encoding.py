"""Decodes the texts of old servers."""

from collections.abc import Callable
from typing import TypeVar

from harvester import decoding
from harvester.parsers.json_text import read_mended

T = TypeVar("T")


def as_utf8(body: bytes) -> bytes:
    """Returns a county's page as UTF-8: many declare a charset that their pages do not use."""
    return decoding.as_utf8(body, prefers_utf8=True)


def read_json(decode: Callable[[bytes], T], body: bytes) -> T:
    """Returns the result of `decode` for a JSON response, even if a value in it is malformed.

    Raises the errors of `decode`.
    """
    return read_mended(decode, as_utf8(body))

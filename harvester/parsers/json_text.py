"""Reads JSON as sites send it, and mends odd values, so that an odd value costs only itself.

A lone surrogate becomes U+FFFD, as in a browser's TextEncoder, so byte offsets that a browser counted stay correct.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import isfinite
from typing import Any, TypeVar

import msgspec

from harvester.decoding import as_utf8
from harvester.exceptions import ParseError

MAX_LEVELS = 600
"""Maximum number of nested levels that are kept.

A thread of a hundred replies has about three hundred; msgspec reads about nine hundred.
"""

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_strings = re.compile(_STRING, re.DOTALL).sub
_tokens = re.compile(rf"{_STRING}|[\[{{]+|[\]}}]+", re.DOTALL).finditer
_odd = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair of surrogates, which stays
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\.|[\x00-\x1f]",
    re.DOTALL,
).sub
_may_be_odd = re.compile(r'\\[^"\\/bfnrt]|[\x00-\x1f]').search
_no_numbers = re.compile(rf"{_STRING}|-?\b(?:NaN|Infinity)\b", re.DOTALL).sub
_ESCAPES = frozenset('"\\/bfnrt')
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]..").fullmatch

T = TypeVar("T")


def read_json(body: bytes, content_type: str = "") -> Any:
    """Returns the value of a JSON document in any encoding. Raises ParseError when it is not JSON.

    NaN, infinite numbers and numbers too large for a float become null: JSON has no such numbers, and the values around
    them are still valid.
    """
    text = as_utf8(body, content_type, prefers_utf8=True)
    try:
        return read_mended(msgspec.json.decode, text)
    except (ValueError, RecursionError) as error:
        why = error
    try:
        return json.loads(mend(text), parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        raise ParseError(f"it is no JSON: {why}") from None


def _finite(number: str) -> float | None:
    value = float(number)
    return value if isfinite(value) else None


def read_mended(decode: Callable[[bytes], T], body: bytes) -> T:
    """Returns what `decode` reads from the body, or from the mended body if the original cannot be read.

    If mending does not help, raises the exception that the original body caused. Bytes that are not UTF-8 are not
    mended: a broken transfer may have caused them, so another request is better than a guess.
    """
    try:
        return decode(body)
    except (ValueError, RecursionError):  # the errors of msgspec and of codecs are ValueErrors
        with suppress(ValueError, RecursionError):
            return decode(mend(body))
        raise


def mend(body: bytes) -> bytes:
    """Returns the JSON without byte order mark, lone surrogates, bare control characters and unknown escapes.

    NaN and infinite numbers become null, and so do values nested deeper than MAX_LEVELS. Raises UnicodeDecodeError.
    """
    text = body.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogatepass")
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if _may_be_odd(text):
        text = _strings(lambda string: _odd(_mended_character, string[0]), text)
    if "NaN" in text or "Infinity" in text:
        text = _no_numbers(lambda found: found[0] if found[0].startswith('"') else "null", text)
    return ("".join(_shallow_parts(text)) if _may_be_deep(text) else text).encode()


def canonical(value: Any) -> bytes:
    """Returns the same bytes for the same value, regardless of the order of names."""
    return msgspec.json.encode(value, order="sorted")


def _may_be_deep(text: str) -> bool:
    return text.count("[") + text.count("{") > MAX_LEVELS


def _mended_character(odd: re.Match[str]) -> str:
    found = odd[0]
    if found[0] != "\\":
        return f"\\u{ord(found):04x}"
    if _LONE_SURROGATE(found):
        return "\\ufffd"
    return found if len(found) > 2 or found[1] in _ESCAPES else f"\\{found}"


def _shallow_parts(text: str) -> Iterator[str]:
    """Yields the parts of the text that stay, and null for each value that is nested too deep."""
    level = kept_to = 0
    for token in _tokens(text):
        first, size = text[token.start()], token.end() - token.start()
        if first in "[{":
            if level <= MAX_LEVELS < level + size:
                yield text[kept_to : token.start() + MAX_LEVELS - level]
                yield "null"
            level += size
        elif first in "]}":
            if level - size <= MAX_LEVELS < level:
                kept_to = token.start() + level - MAX_LEVELS
            level -= size
    if level <= MAX_LEVELS:
        yield text[kept_to:]

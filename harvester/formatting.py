"""Formats numbers for people. Plain ASCII, since not every terminal shows more."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

_SIZE_UNITS = ("bytes", "kB", "MB", "GB", "TB")

_ends_in_consonant_and_y = re.compile(r"[^aeiou]y$").search
_varying = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S*\d\S*|[^\w\s]""")
_not_in_xml = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]").sub
_userinfo = re.compile(r"(?<=://)[^/@\s]+@")


MOST_CHARACTERS = 120
"""Maximum number of characters of a foreign text: a bad line, a key, a reason."""


def shown(text: str, most: int = MOST_CHARACTERS) -> str:
    """Shortens a foreign text, and escapes characters that a terminal would obey."""
    shortened = text if len(text) <= most else f"{text[:most]}..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in shortened)


def xml_text(text: str, replacement: str = "") -> str:
    """Returns a text without the characters that XML 1.0 cannot hold, such as NUL."""
    return _not_in_xml(replacement, text)


def storable(value: Any) -> Any:
    """Returns JSON-like data with lone surrogates, which UTF-8 cannot hold, written as `\\udce9`."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {storable(name): storable(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(each) for each in value]
    return value


def number(value: float) -> str:
    """Formats a number: 1204 -> 1,204; a value below 100 that is not whole keeps one decimal."""
    return f"{value:,.1f}" if value < 100 and value != int(value) else f"{value:,.0f}"


def counted(value: int, singular: str, several: str = "") -> str:
    """Formats a count with its noun: 1 -> "1 page", 1204 -> "1,204 pages"."""
    return f"{value:,} {spaced(singular) if value == 1 else several or plural(singular)}"


def plural(noun: str) -> str:
    """Returns the plural of a regular noun, such as a kind's name: list_item -> "list items", county -> "counties"."""
    words = spaced(noun)
    if _ends_in_consonant_and_y(words):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith(("s", "x", "z", "ch", "sh")) else "s")


def how_long(seconds: float) -> str:
    """Describes a time to wait. Below 0: for ever."""
    return "until it is stopped" if seconds < 0 else f"for {duration(seconds)}"


def duration(seconds: float, rough: bool = False) -> str:
    """Formats seconds: 42 -> "42 s", 751 -> "12 min 31 s" (rough "13 min"), 7320 -> "2 h 02 min", 2e5 -> "2 d 07 h"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{round(whole / 60)} min" if rough else f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02} h"


def size(amount: float) -> str:
    """Formats a number of bytes: 12345678 -> "12.3 MB"."""
    step = 0
    while amount >= 1000 and step < len(_SIZE_UNITS) - 1:
        amount /= 1000
        step += 1
    return f"{number(amount)} {_SIZE_UNITS[step]}"


def spaced(name: str) -> str:
    """Returns the name of a stage, kind or reason, as words."""
    return name.replace("_", " ")


def pattern_of(text: str) -> str:
    """Returns the words that similar reasons share: without numbers, quoted names and punctuation."""
    return " ".join(_varying.sub(" ", text).lower().split())


def without_userinfo(text: str) -> str:
    """Returns the text without user names and passwords in its URLs."""
    return _userinfo.sub("", text)


def typed_arguments(arguments: Mapping[str, Any]) -> str:
    """Returns a spider's arguments in the form that people type, without those that are not set."""
    said = {name: value for name, value in arguments.items() if value is not None}
    return " ".join(shlex.quote(f"{name}={_typed(value)}") for name, value in said.items())


def _typed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_typed, value))
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict) else str(value)


def typed_command(original: Sequence[str], script: str) -> str:
    """Returns the command line of this process, in a form that can be typed again.

    `original` is sys.orig_argv, because Scrapy takes the command's name out of sys.argv; `script` is sys.argv[0].
    """
    if script in original:
        words = [PurePath(script).name, *original[original.index(script) + 1 :]]
    else:
        words = ["python", *original[1:]]
    return without_userinfo(shlex.join(words))

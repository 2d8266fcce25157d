"""The seeds of a crawl: on the command line, in a file, or on standard input."""

import atexit
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from harvester.decoding import certain_encoding
from harvester.exceptions import UsageError

_handle = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)
_did = re.compile(r"did:plc:[a-z2-7]{24}|did:(?!plc:)[a-z]+:[A-Za-z0-9._:%-]*[A-Za-z0-9._-]")
_prefix = re.compile(r"(?:(?:https?://)?(?:[a-z0-9-]+\.)*bsky\.app/profile/|at://|@)", re.IGNORECASE)
_comment = re.compile(r"(?:^|\s)#.*", re.DOTALL)

_INVISIBLE = dict.fromkeys([0xFEFF, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
"""Byte order marks, and marks of direction that the Bluesky app puts around copied handles."""
MOST_NAMED = 5
"""Maximum number of bad lines shown in the message when no line is good."""
SHOWN = 80
"""Characters shown from each bad line."""
_LISTS = (".txt", ".csv", ".tsv", ".list")
"""Endings that mark a file's name, even when the file is missing."""


class BadSeed(NamedTuple):
    """A line that names no account."""

    line: int
    """Line number, from 1."""
    text: str
    reason: str


class Seeds:
    """Seeds as given: `a,b,c`, `@file` (one a line), or `-` for standard input. An empty text has no seeds.

    Files may be of any length: they are read line by line, twice (once for their digest).
    """

    def __init__(self, given: str) -> None:
        self._path = _file(given)
        self._inline = given.replace("\n", ",").split(",")

    def refusal(self) -> str | None:
        """Returns why the seeds cannot be used; None when they can. Does not check the lines of a file."""
        if self._path is None:
            return "; ".join(f"{bad.text!r} is {bad.reason}" for bad in self if isinstance(bad, BadSeed)) or None
        try:
            self._path.open("rb").close()
        except OSError as error:
            return f"the file {self._path} cannot be read: {error.strerror}"
        return None

    def none_of_use(self) -> str:
        """Returns a message with the first bad lines when no seed is good; empty when one is."""
        bad: list[BadSeed] = []
        number = 0
        for seed in self:
            if isinstance(seed, str):
                return ""
            number += 1
            bad += [seed] if number <= MOST_NAMED else []
        if not bad:
            return f"{self._path or 'what was given'} is empty."
        shown = "".join(f"\n  Line {line}, {text[:SHOWN]!r}, is {reason}" for line, text, reason in bad)
        more = f"\n  ... and {number - len(bad):,} more lines" if number > len(bad) else ""
        return f"none of the {number:,} lines names an account.{shown}{more}"

    def digest(self) -> str:
        """Returns a digest that identifies a set of seeds. Raises UsageError when the file cannot be read."""
        digest = hashlib.sha256()
        for line in self._lines():
            digest.update(line.strip().encode("utf-8", "replace") + b"\n")
        return digest.hexdigest()[:32]

    def __iter__(self) -> Iterator[str | BadSeed]:
        """Yields handles (lower case) and DIDs, and a BadSeed for other lines. Skips empty lines and # comments."""
        for number, line in enumerate(self._lines(), 1):
            if seed := parse_line(line):
                yield seed if isinstance(seed, str) else seed._replace(line=number)

    def _lines(self) -> Iterator[str]:
        if self._path is None:
            yield from self._inline
            return
        try:
            with self._path.open("rb") as file:
                encoding = certain_encoding(file.read(4)) or "utf-8"
            with self._path.open(encoding=encoding, errors="replace") as lines:
                for line in lines:
                    yield line.removeprefix("\ufeff")
        except OSError as error:
            raise UsageError(f"The file of seeds {self._path} cannot be read: {error.strerror}.") from None


def _file(given: str) -> Path | None:
    if given == "-":
        return _standard_input()
    if not given.startswith("@"):
        return None
    path = os.path.expanduser(given[1:])
    first, comma, _ = path.partition(",")
    is_account = isinstance(parse_seed(first.strip()), str) and not path.endswith(_LISTS)
    return None if is_account and (comma or not os.path.isfile(path)) else Path(path)


@cache
def _standard_input() -> Path:
    """Copies standard input to a temporary file: it can be read only once."""
    if sys.stdin is None:
        raise UsageError("Seeds cannot be read: there is no standard input.")
    with tempfile.NamedTemporaryFile("wb", prefix="harvester-seeds-", delete=False) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    path = Path(spool.name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def parse_line(line: str) -> str | BadSeed | None:
    """Returns the seed in a line; None when it is empty or a comment."""
    text = _comment.sub("", line.translate(_INVISIBLE)).strip()
    return parse_seed(text) if text else None


def parse_seed(text: str) -> str | BadSeed:
    """Returns the handle (lower case) or DID in a handle, @handle, DID, at:// address, or address of a profile page."""
    prefix = _prefix.match(text)
    name = re.split(r"[/?#]", text[prefix.end() :], maxsplit=1)[0] if prefix else text
    if _did.fullmatch(name) and len(name) <= 2048:
        return name
    if _handle.fullmatch(name) and len(name) <= 253:
        return name.lower()
    return BadSeed(
        0, text[:200], "neither a handle (name.example.com) nor a DID (did:plc:...), nor a profile's address with one"
    )

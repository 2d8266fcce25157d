"""Where a crawl begins: seeds given on the command line, in a file, or on standard input."""

import atexit
import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from harvester.exceptions import UsageError

_handle = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)
_did = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]*[A-Za-z0-9._-]")
_prefix = re.compile(r"(?:https?://(?:[a-z0-9-]+\.)*bsky\.app/profile/|at://|@)", re.IGNORECASE)


class BadSeed(NamedTuple):
    """A line that names no account."""

    line: int
    """From 1."""
    text: str
    reason: str


class Seeds:
    """Seeds as they were given: `a,b,c`, `@file` (one a line), or `-` for standard input. Empty: none.

    Files may be of any length: they are read line by line, twice (once for their digest).
    """

    def __init__(self, given: str) -> None:
        self._path = _file(given)
        self._inline = given.replace("\n", ",").split(",")

    @property
    def inline(self) -> bool:
        """Whether they were typed as an argument."""
        return self._path is None

    def digest(self) -> str:
        """Tells two sets of seeds apart. Raises UsageError when the file cannot be read."""
        digest = hashlib.sha256()
        for line in self._lines():
            digest.update(line.strip().encode("utf-8", "replace") + b"\n")
        return digest.hexdigest()[:32]

    def __iter__(self) -> Iterator[str | BadSeed]:
        """Handles (lower case) and DIDs; a BadSeed for a line that is neither. Empty lines and # comments pass."""
        for number, line in enumerate(self._lines(), 1):
            text = line.strip().removeprefix("\ufeff").strip()
            if text and not text.startswith("#"):
                seed = parse_seed(text)
                yield seed if isinstance(seed, str) else seed._replace(line=number)

    def _lines(self) -> Iterator[str]:
        if self._path is None:
            yield from self._inline
            return
        try:
            with self._path.open(encoding="utf-8", errors="replace") as lines:
                yield from lines
        except OSError as error:
            raise UsageError(f"The file of seeds {self._path} cannot be read: {error.strerror}.") from None


def _file(given: str) -> Path | None:
    if given == "-":
        return _standard_input()
    path = Path(given[1:])
    if not given.startswith("@") or (_handle.fullmatch(given[1:]) and path.suffix != ".txt" and not path.is_file()):
        return None
    return path


@cache
def _standard_input() -> Path:
    """All of it, in a file: it can be read once only."""
    with tempfile.NamedTemporaryFile("wb", prefix="harvester-seeds-", delete=False) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    path = Path(spool.name)
    atexit.register(path.unlink, missing_ok=True)
    return path


def parse_seed(text: str) -> str | BadSeed:
    """The handle (lower case) or DID in a handle, @handle, DID, at:// address, or address of a profile page."""
    name = _prefix.sub("", text, count=1) if _prefix.match(text) else text
    name = re.split(r"[/?#]", name, maxsplit=1)[0]
    if _did.fullmatch(name) and len(name) <= 2048:
        return name
    if _handle.fullmatch(name) and len(name) <= 253:
        return name.lower()
    return BadSeed(
        0, text[:200], "neither a handle (name.example.com), nor a DID (did:plc:...), nor a profile's address"
    )

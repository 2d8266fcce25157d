"""Reads the records of a whole repository (com.atproto.sync.getRepo, a CAR file) with libipld.

Source: atproto.com/specs/repository (commit, Merkle search tree with prefix-compressed keys).
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from harvester.exceptions import ParseError, UsageError
from harvester.parsers.bluesky.repository import RepoRecord

_CID_PREFIX = b"\x01\x71\x12\x20"
"""First bytes in the identifier of a record or node. The SHA-256 of the block follows."""
_CID_BYTES = 36
_PLACE_BITS = 48
"""Bits to shift the start of a block by. Start and end share one integer, since a large file has a million blocks."""
TOGETHER = 500
"""Number of records in a list."""
UNREADABLE = b"null"
"""Stands for the value of an intact record that no library can read. The record's address is still known."""


def read_repository(body: bytes, did: str, collections: frozenset[str]) -> Iterator[list[RepoRecord]]:
    """Yields the records of parse_repository in lists of TOGETHER records."""
    records = parse_repository(body, did, collections)
    while together := list(islice(records, TOGETHER)):
        yield together


def parse_repository(body: bytes, did: str, collections: frozenset[str]) -> Iterator[RepoRecord]:
    """Yields the records of the given collections, in key order.

    Raises ParseError for a file that is damaged or belongs to another account. A record that cannot be read loses only
    its own value. Blocks are decoded on demand, since all blocks together take six times the memory of the file.
    """
    libipld = _libipld()
    try:
        sections = _sections(body)
        header = libipld.decode_dag_cbor(body[next(sections, slice(0))])
        blocks = _Blocks(libipld, body, sections)
        commit = blocks[header["roots"][0]]
        if commit["did"] != did:
            raise ParseError(f"the repository is of {commit['did']!r}")
        for key, link in _in_order(_entries(blocks, commit["data"])):  # before any record of a damaged tree is yielded
            blocks.check(key, link)
        for key, link in _entries(blocks, commit["data"]):
            if key.partition("/")[0] in collections:
                yield RepoRecord(f"at://{did}/{key}", libipld.encode_cid(link), _as_json(blocks[link]))
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
        raise ParseError(f"the repository is damaged: {error!r}") from None


class _Blocks:
    """The blocks of a file by their identifiers. Source: ipld.io/specs/transport/car/carv1"""

    def __init__(self, libipld: Any, body: bytes, sections: Iterable[slice]) -> None:
        self._decode = libipld.decode_dag_cbor
        self._body = body
        self._places = {
            body[place.start : place.start + _CID_BYTES]: place.start << _PLACE_BITS | place.stop for place in sections
        }

    def check(self, key: str, cid: bytes) -> None:
        """Raises KeyError for a record whose block is missing."""
        if cid not in self._places:
            raise KeyError(key)

    def __getitem__(self, cid: bytes) -> Any:
        """Returns the content of a block; None for an intact block that no library can read. Raises ValueError."""
        start, stop = divmod(self._places[cid], 1 << _PLACE_BITS)
        block = self._body[start + _CID_BYTES : stop]
        try:
            return self._decode(block)
        except (ValueError, RecursionError):
            if cid != _CID_PREFIX + hashlib.sha256(block).digest():
                raise ValueError(f"the block at byte {start} is not what it should be") from None
            return None


def _sections(body: bytes) -> Iterator[slice]:
    """Yields the positions of the sections. Raises ValueError when the file ends within a section."""
    at = 0
    while at < len(body):
        begins, size, shift = at, 0, 0
        while at < len(body) and shift < 64:
            size |= (body[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not body[at - 1] & 0x80:
                break
        if not 0 < size <= len(body) - at:
            raise ValueError(f"the section at byte {begins} has no end")
        yield slice(at, at + size)
        at += size


def _as_json(value: Any) -> bytes:
    try:
        return UNREADABLE if value is None else msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return UNREADABLE


def _in_order(entries: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Yields the entries unchanged. Raises ValueError when a key is out of order.

    This finds nodes that are used twice, which could make a small file endless.
    """
    last = ""
    for key, link in entries:
        if key <= last:
            raise ValueError(f"{key!r} comes after {last!r}")
        last = key
        yield key, link


def _entries(blocks: _Blocks, node: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Yields key and link for each record below a node of the tree, in order."""
    if node is None:
        return
    tree = blocks[node]
    yield from _entries(blocks, tree["l"])
    key = b""
    for entry in tree["e"]:
        key = key[: entry["p"]] + entry["k"]
        yield key.decode("ascii"), entry["v"]
        yield from _entries(blocks, entry["t"])


def _libipld() -> Any:
    try:
        import libipld
    except ImportError:
        raise UsageError("history=car needs a package that is not installed: pip install 'harvester[car]'") from None
    return libipld

"""A whole repository (com.atproto.sync.getRepo, a CAR file) to its records, read with libipld.

Source: atproto.com/specs/repository (commit, Merkle search tree with prefix-compressed keys).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from harvester.exceptions import ParseError, UsageError
from harvester.parsers.bluesky.repository import RepoRecord


def parse_repository(body: bytes, did: str, collections: frozenset[str]) -> list[RepoRecord]:
    """The records of these collections, in key order. Raises ParseError for a file that is damaged or another's."""
    libipld = _libipld()
    try:
        header, blocks = libipld.decode_car(body)
        commit = blocks[header["roots"][0]]
        if commit["did"] != did:
            raise ParseError(f"the repository is of {commit['did']!r}")
        return [
            RepoRecord(f"at://{did}/{key}", libipld.encode_cid(link), msgspec.json.encode(blocks[link]))
            for key, link in _in_order(_entries(blocks, commit["data"]))
            if key.partition("/")[0] in collections
        ]
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
        raise ParseError(f"the repository is damaged: {error!r}") from None


def _in_order(entries: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """The same. Nodes that are used twice, which could make a small file endless, show in their keys."""
    last = ""
    for key, link in entries:
        if key <= last:
            raise ValueError(f"{key!r} comes after {last!r}")
        last = key
        yield key, link


def _entries(blocks: Mapping[bytes, Any], node: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Key and link of each record below a node of the tree, in order."""
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

"""A whole repository (com.atproto.sync.getRepo, a CAR file) to its records, read with libipld.

Source: atproto.com/specs/repository (commit, Merkle search tree with prefix-compressed keys).
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from harvester.exceptions import ParseError, UsageError
from harvester.parsers.bluesky.repository import RepoRecord

_CID_PREFIX = b"\x01\x71\x12\x20"
"""Of the identifier of a record or node; the SHA-256 of its block follows."""
_CID_BYTES = 36
UNREADABLE = b"null"
"""Stands for the value of a record that no library reads, though it is undamaged. Its address is known nevertheless."""


def parse_repository(body: bytes, did: str, collections: frozenset[str]) -> list[RepoRecord]:
    """The records of these collections, in key order. Raises ParseError for a file that is damaged or another's.

    A record that cannot be read costs its own value alone.
    """
    libipld = _libipld()
    try:
        try:
            header, blocks = libipld.decode_car(body)
        except (ValueError, RecursionError):  # it refuses the file for one bad block
            header, blocks = _decode_blocks(libipld, body)
        commit = blocks[header["roots"][0]]
        if commit["did"] != did:
            raise ParseError(f"the repository is of {commit['did']!r}")
        return [
            RepoRecord(f"at://{did}/{key}", libipld.encode_cid(link), _as_json(blocks[link]))
            for key, link in _in_order(_entries(blocks, commit["data"]))
            if key.partition("/")[0] in collections
        ]
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
        raise ParseError(f"the repository is damaged: {error!r}") from None


def _decode_blocks(libipld: Any, body: bytes) -> tuple[Any, dict[bytes, Any]]:
    """Returns the header and the blocks by identifier; None for a block that no library reads, though it is undamaged.

    Raises ValueError. Source: ipld.io/specs/transport/car/carv1
    """
    (_, first), *sections = _sections(body)
    blocks: dict[bytes, Any] = {}
    for at, section in sections:
        cid, block = section[:_CID_BYTES], section[_CID_BYTES:]
        try:
            blocks[cid] = libipld.decode_dag_cbor(block)
        except (ValueError, RecursionError):
            if cid != _CID_PREFIX + hashlib.sha256(block).digest():
                raise ValueError(f"the block at byte {at} is not what it should be") from None
            blocks[cid] = None
    return libipld.decode_dag_cbor(first), blocks


def _sections(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields where each section begins, and the section. Raises ValueError when the file ends within one."""
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
        yield begins, body[at : at + size]
        at += size


def _as_json(value: Any) -> bytes:
    try:
        return UNREADABLE if value is None else msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return UNREADABLE


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

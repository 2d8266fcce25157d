"""Builds a repository as a CAR file: commit, Merkle search tree, records."""

import hashlib
from collections.abc import Iterable
from typing import Any

from harvester.sandbox.dag_cbor import encode
from harvester.sandbox.ids import encode_block
from harvester.sandbox.records import SandboxRecords

Item = tuple[bytes, int, bytes]
"""An entry of the tree: key, layer, CID of the record."""


def repository(records: SandboxRecords, index: int) -> bytes:
    """Returns the CAR file of an account, as `com.atproto.sync.getRepo` sends it."""
    blocks: dict[bytes, bytes] = {}
    items: list[Item] = []
    for collection in records.collections(index):
        for key, build in records.entries(index, collection).items():
            cid, block = encode_block(build())
            blocks[cid] = block
            path = f"{collection}/{key}".encode()
            items.append((path, layer(path), cid))
    items.sort()
    tree: dict[bytes, bytes] = {}
    root = tree_root(items, tree)
    did = records.network.did(index)
    signature = hashlib.sha512(did.encode()).digest()
    commit = {"did": did, "rev": records.rev(index), "sig": signature, "data": root, "prev": None, "version": 3}
    head, commit_block = encode_block(commit)
    header = encode({"roots": [head], "version": 1})
    return _varint(len(header)) + header + b"".join(_sections({head: commit_block} | tree | blocks))


def tree_root(items: list[Item], tree: dict[bytes, bytes]) -> bytes:
    """Writes the nodes for sorted keys into `tree`, and returns the CID of the root."""
    return _node(items, max((item[1] for item in items), default=0), tree)


def layer(path: bytes) -> int:
    """Returns the layer of a key in the tree: half the number of leading zero bits in its digest."""
    digest = int.from_bytes(hashlib.sha256(path).digest())
    return (256 - digest.bit_length()) // 2


def _node(items: list[Item], level: int, tree: dict[bytes, bytes]) -> bytes:
    """Writes the node for keys of this layer and below, and returns its CID."""
    here = [place for place, item in enumerate(items) if item[1] == level]
    bounds = [*here, len(items)]
    entries: list[dict[str, Any]] = []
    previous = b""
    for place, following in zip(here, bounds[1:], strict=True):
        path, _, cid = items[place]
        shared = _shared(previous, path)
        right = _subtree(items[place + 1 : following], level, tree)
        entries.append({"p": shared, "k": path[shared:], "v": cid, "t": right})
        previous = path
    left = _subtree(items[: bounds[0]], level, tree)
    cid, block = encode_block({"l": left, "e": entries})
    tree[cid] = block
    return cid


def _subtree(items: list[Item], level: int, tree: dict[bytes, bytes]) -> bytes | None:
    return _node(items, level - 1, tree) if items else None


def _shared(one: bytes, other: bytes) -> int:
    amount = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        amount += 1
    return amount


def _sections(blocks: dict[bytes, bytes]) -> Iterable[bytes]:
    for cid, block in blocks.items():
        yield _varint(len(cid) + len(block)) + cid + block


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)

"""The interoperability files of the AT protocol: names of accounts and records, times, and the encoding of records."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from harvester.items.bluesky import is_at_uri, is_did
from harvester.parsers.bluesky.repository import key_time
from harvester.parsers.json_values import date_time
from harvester.sandbox.car import layer, tree_root
from harvester.sandbox.dag_cbor import CBOR_CID_PREFIX, cid_bytes, cid_text, encode
from harvester.spiders.seeds import Seeds
from tests.suites.result import Result

SYNTAX: dict[str, tuple[str, Callable[[str], Any]]] = {
    "did": ("DIDs of accounts", is_did),
    "handle": ("handles, as seeds", lambda text: text and all(isinstance(each, str) for each in Seeds(text))),
    "aturi": ("addresses of records", is_at_uri),
    "tid": ("keys that tell a time", lambda text: key_time(f"at://did:plc:x/c/{text}")),
    "datetime": ("times", date_time),
}
"""Beginning of two files -> what reads these words."""
STRICTER = {
    "aturi": "only records of accounts named by a DID are stored",
    "datetime": "no time of the year 0 can be stored",
}
MORE_LENIENT = {
    "handle": "a seed may have @ and spaces around it, and be a DID",
    "datetime": "a time that people's programs write otherwise is the same time",
}
"""Where more or less is taken on purpose, and why."""


def atproto(folder: Path) -> Iterator[Result]:
    """What the files call valid is taken, and what they call invalid is not."""
    for name, (what, is_taken) in SYNTAX.items():
        for kind in ("valid", "invalid"):
            result = Result("atproto interop", f"{what}, {kind}")
            for text in _lines(folder / "syntax" / f"{name}_syntax_{kind}.txt"):
                others = STRICTER if kind == "valid" else MORE_LENIENT
                result.count(bool(is_taken(text)) is (kind == "valid"), text[:80], is_chosen=name in others)
            yield result
    yield from _encoding(folder)
    yield from _trees(folder)


def _lines(path: Path) -> Iterator[str]:
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


def _encoding(folder: Path) -> Iterator[Result]:
    result = Result("atproto interop", "records in DAG-CBOR and their CIDs, as the sandbox writes them")
    for number, case in enumerate(json.loads((folder / "data-model" / "data-model-fixtures.json").read_bytes())):
        block = encode(_with_bytes(case["json"]))
        cid = cid_text(CBOR_CID_PREFIX + sha256(block).digest())
        result.count(block == _base64(case["cbor_base64"]) and cid == case["cid"], f"fixture {number}")
    yield result


def _with_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            _base64(value["$bytes"]) if "$bytes" in value else {name: _with_bytes(each) for name, each in value.items()}
        )
    return [_with_bytes(each) for each in value] if isinstance(value, list) else value


def _base64(text: str) -> bytes:
    return b64decode(text + "=" * (-len(text) % 4))


def _trees(folder: Path) -> Iterator[Result]:
    heights = Result("atproto interop", "heights of keys in the tree of a repository")
    for case in json.loads((folder / "mst" / "key_heights.json").read_bytes()):
        heights.count(layer(case["key"].encode()) == case["height"], case["key"])
    roots = Result("atproto interop", "roots of trees, before and after a commit")
    for case in json.loads((folder / "firehose" / "commit-proof-fixtures.json").read_bytes()):
        before = set(case["keys"])
        after = (before | set(case["adds"])) - set(case["dels"])
        for keys, root in ((before, case["rootBeforeCommit"]), (after, case["rootAfterCommit"])):
            items = sorted((key.encode(), layer(key.encode()), cid_bytes(case["leafValue"])) for key in keys)
            roots.count(cid_text(tree_root(items, {})) == root, case["comment"])
    yield from (heights, roots)

"""Repositories: every record of the collections asked for, or a ParseError; never part of a damaged one."""

import json
import random
from typing import Any

import libipld
import pytest

from harvester.exceptions import ParseError
from harvester.parsers.bluesky.car import parse_repository
from harvester.sandbox.car import _sections, _varint, repository
from harvester.sandbox.dag_cbor import cid_text
from harvester.sandbox.ids import encode_block
from harvester.sandbox.server import build_world

DID = "did:plc:ann"
POST, LIKE, REPOST = "app.bsky.feed.post", "app.bsky.feed.like", "app.bsky.feed.repost"
POSTS = frozenset({POST})


class Car:
    """A CAR file, block by block."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, bytes] = {}

    def add(self, value: Any) -> bytes:
        """The link to a new block."""
        cid, block = encode_block(value)
        self.blocks[cid] = block
        return cid

    def node(self, *entries: tuple[int, str, Any, bytes | None], left: bytes | None = None) -> bytes:
        """The link to a node of the tree: prefix length, rest of the key, record, right subtree."""
        rows = [{"p": p, "k": key.encode(), "v": self.add(value), "t": right} for p, key, value, right in entries]
        return self.add({"l": left, "e": rows})

    def file(self, tree: bytes | None, **commit: Any) -> bytes:
        root = self.add({"did": DID, "rev": "3k", "sig": b"s", "data": tree, "prev": None, "version": 3} | commit)
        header = libipld.encode_dag_cbor({"roots": [root], "version": 1})
        return _varint(len(header)) + header + b"".join(_sections(self.blocks))


def post(text: str) -> dict[str, Any]:
    return {"$type": POST, "text": text, "createdAt": "2024-01-01T00:00:00Z"}


def texts(body: bytes) -> list[str]:
    return [json.loads(record.value)["text"] for record in parse_repository(body, DID, POSTS)]


def refused(body: bytes, match: str = "damaged") -> None:
    with pytest.raises(ParseError, match=match):
        [*parse_repository(body, DID, POSTS)]


def test_records_of_the_collections_come_in_the_order_of_their_keys() -> None:
    car = Car()
    right = car.node((0, f"{POST}/3b", post("b"), None))
    left = car.node((0, f"{LIKE}/3a", {"$type": LIKE}, None))
    tree = car.node((0, f"{POST}/3a", post("a"), right), (len(POST) + 2, "c", post("c"), None), left=left)
    first, *_ = parse_repository(car.file(tree), DID, POSTS)
    assert (first.uri, first.cid) == (f"at://{DID}/{POST}/3a", cid_text(encode_block(post("a"))[0]))
    assert json.loads(first.value) == post("a")
    assert texts(car.file(tree)) == ["a", "b", "c"]
    assert len([*parse_repository(car.file(tree), DID, frozenset({POST, LIKE}))]) == 4
    assert [*parse_repository(car.file(tree), DID, frozenset({REPOST}))] == []


def test_empty_repository_has_no_records() -> None:
    car = Car()
    assert texts(car.file(car.node())) == []
    assert texts(Car().file(None)) == []


def test_repository_of_the_sandbox_is_read_whole() -> None:
    world = build_world(30, 5, 12)
    for account in (0, 3, 7):
        collections = frozenset({POST, LIKE, REPOST})
        records = [*parse_repository(repository(world, account), world.network.did(account), collections)]
        expected = {
            f"at://{world.network.did(account)}/{collection}/{key}"
            for collection in collections
            for key in world.entries(account, collection)
        }
        assert {record.uri for record in records} == expected
        assert len(records) == len(expected)


def test_repository_of_another_account_is_refused() -> None:
    car = Car()
    refused(car.file(car.node((0, f"{POST}/3a", post("a"), None)), did="did:plc:ben"), "'did:plc:ben'")


def test_file_that_ends_early_is_refused() -> None:
    car = Car()
    body = car.file(car.node(*((0, f"{POST}/3{n:03}", post(f"{n}"), None) for n in range(20))))
    assert len(texts(body)) == 20
    for end in range(0, len(body), 7):
        refused(body[:end])


@pytest.mark.parametrize(
    "body", [b"", b"<html>Bad Gateway</html>", b'{"error":"RepoNotFound"}', b"\x00" * 100, b"\xff" * 100]
)
def test_what_is_no_car_file_is_refused(body: bytes) -> None:
    refused(body)


@pytest.mark.parametrize("missing", ["record", "node", "commit"])
def test_missing_block_costs_the_whole_file(missing: str) -> None:
    car = Car()
    right = car.node((0, f"{POST}/3b", post("b"), None))
    tree = car.node((0, f"{POST}/3a", post("a"), right))
    car.file(tree)
    blocks = {"record": encode_block(post("b"))[0], "node": right, "commit": next(reversed(car.blocks))}
    body = car.file(tree)
    block = car.blocks[blocks[missing]]
    section = _varint(len(blocks[missing]) + len(block)) + blocks[missing] + block
    assert section in body
    refused(body.replace(section, b""))


@pytest.mark.parametrize(
    "node",
    [
        7,
        [],
        {"l": None},
        {"e": []},
        {"l": None, "e": None},
        {"l": None, "e": [7]},
        {"l": None, "e": [{"p": 0, "k": "text", "v": None, "t": None}]},
        {"l": None, "e": [{"p": 0, "k": b"\xff", "v": None, "t": None}]},
        {"l": None, "e": [{"p": "0", "k": b"x", "v": None, "t": None}]},
        {"l": None, "e": [{"p": 0, "k": POST.encode() + b"/1", "v": None, "t": None}]},
        {"l": None, "e": [{"p": 0, "k": POST.encode() + b"/1", "v": [1], "t": None}]},
        {"l": "text", "e": []},
    ],
)
def test_tree_of_another_shape_is_refused(node: Any) -> None:
    car = Car()
    refused(car.file(car.add(node)))


@pytest.mark.parametrize("commit", [{"data": 7}, {"data": b"nowhere"}, {"data": []}])
def test_commit_that_leads_nowhere_is_refused(commit: dict[str, Any]) -> None:
    refused(Car().file(None, **commit))


def test_node_used_twice_cannot_make_a_small_file_endless() -> None:
    """Each level doubles what is below it: read to the end, the 60 of them would yield 2**60 records."""
    car = Car()
    below = car.node((0, f"{POST}/a", post("a"), None))
    for _ in range(60):
        below = car.node((0, f"{POST}/b", post("b"), below), left=below)
    refused(car.file(below))


def test_node_that_leads_to_itself_is_refused() -> None:
    car = Car()
    itself = encode_block("its name is not the one of its content")[0]
    for node in ({"l": itself, "e": []}, {"l": None, "e": [{"p": 0, "k": b"x", "v": itself, "t": itself}]}):
        car.blocks[itself] = libipld.encode_dag_cbor(node)
        refused(car.file(itself))


def test_flipped_bytes_never_raise_anything_else() -> None:
    chance = random.Random(7)
    car = Car()
    right = car.node((0, f"{POST}/3b", post("b"), None))
    body = car.file(car.node((0, f"{POST}/3a", post("a"), right), (len(POST) + 2, "c", post("c"), None)))
    outcomes = {"read": 0, "refused": 0}
    for _ in range(3000):
        damaged = bytearray(body)
        for _ in range(chance.choice((1, 1, 3, 20))):
            damaged[chance.randrange(len(body))] = chance.randrange(256)
        try:
            [*parse_repository(bytes(damaged), DID, POSTS)]
            outcomes["read"] += 1
        except ParseError:
            outcomes["refused"] += 1
    assert all(outcomes.values())

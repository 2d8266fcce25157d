"""An odd character in one text costs that character: the other rows of its page are read, and so is its own."""

import hashlib
import json
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.items.bluesky import Like, Post
from harvester.parsers.bluesky import identity, repository
from harvester.parsers.bluesky.car import parse_repository
from harvester.parsers.hashtags import rows as hashtags
from harvester.parsers.json_text import MAX_LEVELS, mend
from harvester.sandbox.dag_cbor import CBOR_CID_PREFIX
from tests.parsers.cases import PROVENANCE, READERS, page
from tests.parsers.test_car import DID, LIKE, POST, Car, post

MENDED = {
    b"\\ud83d": "�",
    b"\\ude00": "�",
    b"\\uD83D": "�",
    b"\\ud83d\\ud83d\\ude00": "�😀",
    b"\xed\xa0\xbd": "�",
    b"\xed\xa0\xbd\xed\xb8\x80": "😀",
    b"\x01": "\x01",
    b"\t": "\t",
    b"\\x": "\\x",
    b"\\\\ud83d \\ud83d": "\\ud83d �",
}
"""What stands in a text -> how it is read."""


def with_text(name: str, odd: bytes) -> tuple[bytes, str]:
    """A page whose first text of an author begins so, and the rest of that text."""
    body = compact(page(name))
    at = body.index(b'"text":"') + len(b'"text":"')
    rest = json.loads(b'"' + body[at:].split(b'"', 1)[0] + b'"')
    return body[:at] + odd + body[at:], rest


def compact(body: bytes) -> bytes:
    return json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("odd", MENDED)
@pytest.mark.parametrize("name", ["feed", "quotes", "thread"])
def test_an_odd_character_in_a_post_costs_that_character_alone(name: str, odd: bytes) -> None:
    body, rest = with_text(name, odd)
    read, whole = READERS[name](body), READERS[name](page(name))
    assert [record.key for record in read.records] == [record.key for record in whole.records]
    assert len(read.rejects) == len(whole.rejects)
    texts = [record.text for record in read.records if isinstance(record, Post)]
    assert f"{MENDED[odd]}{rest}" in texts
    for record in read.records:
        json.loads(record.raw).__str__().encode()


def test_a_page_with_a_byte_order_mark_is_read() -> None:
    whole = READERS["feed"](page("feed"))
    assert len(READERS["feed"](b"\xef\xbb\xbf" + page("feed")).records) == len(whole.records)


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 5_000, 100_000])
def test_what_is_nested_without_end_costs_its_own_value(levels: int) -> None:
    body, _ = with_text("feed", b"")
    deep = body.replace(b'"text":"', b'"deep":' + b"[" * levels + b"]" * levels + b',"text":"', 1)
    assert len(READERS["feed"](deep).records) == len(READERS["feed"](page("feed")).records)
    assert json.loads(mend(b'{"a":' + b"[" * levels + b"]" * levels + b',"b":1}'))["b"] == 1


@pytest.mark.parametrize("cut", [b'{"posts":[{"text":"\\ud83d', b'{"posts":["\\ud83d"', b"[" * 5_000])
def test_an_answer_that_is_cut_is_not_mended(cut: bytes) -> None:
    with pytest.raises(ParseError):
        READERS["quotes"](cut)


def test_declarations_and_edges_are_read_beside_an_odd_character() -> None:
    value = b'{"value":{"$type":"x","note":"\\ud83d","bulkDataset":{"allow":false}}}'
    assert identity.parse_intents(value) == {"bulkDataset": False}
    service = b'[{"id":"#atproto_pds","serviceEndpoint":"https://pds.example"}]'
    document = b'{"alsoKnownAs":["\\udc00"],"service":' + service + b"}"
    assert identity.parse_did_document(document) == "https://pds.example"
    like = '{"uri":"at://did:plc:ann/app.bsky.feed.like/%d","cid":"c","value":%s}'
    subject = '{"subject":{"uri":"at://did:plc:ben/app.bsky.feed.post/3"},"via":"\\ud83d"}'
    rows = ",".join(like % (number, subject) for number in range(2))
    listed, _ = repository.parse_list_records(f'{{"records":[{rows}]}}'.encode(), "did:plc:ann", LIKE)
    assert len(repository.parse_edges(Like, listed, PROVENANCE).records) == 2


def test_rows_of_other_sources_are_read_beside_an_odd_character() -> None:
    rows = hashtags.rows_of(b'{"tags":[{"name":"a\\ud83d"},{"name":"b"}]}', "tags")
    assert [json.loads(bytes(row))["name"] for row in rows] == ["a�", "b"]
    assert hashtags.object_of(b'{"name":"\\ud83d"}') == {"name": "�"}


TEXT = b"\xa1dtext"
UNREADABLE: dict[str, bytes] = {
    "bytes that are no UTF-8": TEXT + b"\x61\xff",
    "half of a surrogate pair": TEXT + b"\x63\xed\xa0\xbd",
    "a number that is none": TEXT + b"\xfb\x7f\xf8\0\0\0\0\0\0",
    "a key that is a number": b"\xa1\x01\x61x",
    "nesting without end": TEXT + b"\x81" * 3_000 + b"\x80",
}


@pytest.mark.parametrize("block", UNREADABLE.values(), ids=UNREADABLE)
def test_a_record_of_a_repository_that_cannot_be_read_costs_its_own_value(block: bytes) -> None:
    """The address is known nevertheless, by which the AppView is asked for the post."""
    car = Car()
    cid = CBOR_CID_PREFIX + hashlib.sha256(block).digest()
    car.blocks[cid] = block
    rows: list[dict[str, Any]] = [
        {"p": 0, "k": f"{POST}/3{name}".encode(), "v": link, "t": None}
        for name, link in (("a", car.add(post("a"))), ("b", cid), ("c", car.add(post("c"))))
    ]
    body = car.file(car.add({"l": None, "e": rows}))
    records = [*parse_repository(body, DID, frozenset({POST}))]
    assert [record.uri[-2:] for record in records] == ["3a", "3b", "3c"]
    assert [json.loads(record.value) is None for record in records] == [False, True, False]
    with pytest.raises(ParseError, match="damaged"):
        [*parse_repository(body.replace(block, block[:-1] + b"\xfe"), DID, frozenset({POST}))]

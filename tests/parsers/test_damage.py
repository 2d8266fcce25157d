"""Whatever stands where a value should, a page yields records that can be kept, rejects, or a ParseError."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import bson
import msgspec
import pytest

from harvester.exceptions import ParseError
from harvester.parsers.bluesky import identity, repository
from tests.parsers.cases import READERS, Read, page

Path = tuple[str | int, ...]

DELETED = object()
VALUES: list[Any] = [
    DELETED,
    None,
    True,
    7,
    2**70,
    -1.5,
    "",
    "a string \0",
    "at://x",
    [],
    ["a string", None, [1]],
    {},
    {"$type": 5, "did": ["x"], "a key \0": 1, "labels": [None, {"val": "!no-unauthenticated", "src": []}]},
]


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """The ways to everything in a JSON value."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*at, key)
        yield from paths(part, (*at, key))


def with_one_row(page: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The page with each of its rows alone: what is bad in a row costs the others nothing (see below)."""
    rows = next((key for key, part in page.items() if isinstance(part, list) and part), None)
    if rows is None:
        yield page
    else:
        yield from ({**page, rows: [row]} for row in page[rows])


def replaced(value: Any, at: Path, new: Any) -> Any:
    """The value with something else at one place; what is not on the way there is shared."""
    key, *rest = at
    if rest:
        new = replaced(value[key], tuple(rest), new)
    if isinstance(value, list):
        return [part for i, part in enumerate(value) if i != key] if new is DELETED else _with(list(value), key, new)
    return {k: v for k, v in value.items() if k != key} if new is DELETED else _with(dict(value), key, new)


def _with(container: Any, key: Any, new: Any) -> Any:
    container[key] = new
    return container


def assert_can_be_kept(read: Read) -> None:
    for record in read.records:
        bson.encode(record.to_document())
        msgspec.json.decode(record.raw)
    for reject in read.rejects:
        assert reject.reason
        reject.key.encode()


@pytest.mark.parametrize("name", READERS)
def test_any_value_in_place_of_any_other(name: str) -> None:
    survived = places = 0
    for value in with_one_row(json.loads(page(name))):
        for at in paths(value):
            places += 1
            for new in VALUES:
                body = msgspec.json.encode(replaced(value, at, new)) if new != 2**70 else _huge(value, at)
                try:
                    assert_can_be_kept(READERS[name](body))
                    survived += 1
                except ParseError:
                    pass
                except Exception as error:
                    raise AssertionError(f"{name} with {new!r} at {at} of {value}") from error
    assert survived > places


def _huge(value: Any, at: Path) -> bytes:
    return json.dumps(replaced(value, at, 2**70)).encode()


@pytest.mark.parametrize("levels", [60, 400, 30_000])
@pytest.mark.parametrize("name", READERS)
def test_deep_nesting_in_place_of_every_other_value(name: str, levels: int) -> None:
    deep = [b"[" * levels + b"]" * levels, b'{"x":' * levels + b"1" + b"}" * levels]
    for value in with_one_row(json.loads(page(name))):
        for at in list(paths(value))[:: 2 if levels < 1_000 else 12]:
            body = msgspec.json.encode(replaced(value, at, "@@@"))
            for nested in deep:
                with suppress(ParseError):
                    assert_can_be_kept(READERS[name](body.replace(b'"@@@"', nested)))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in ("embeds", "feed", "quotes") else ()) for name in READERS],
)
def test_bad_bytes_anywhere_in_a_page(name: str) -> None:
    body = page(name)
    for at in range(0, len(body), 7):
        for bad in (b"\xff", b"\xed\xa0\x80", b"\0", b'\\"'):
            with suppress(ParseError):
                assert_can_be_kept(READERS[name](body[:at] + bad + body[at + 1 :]))


@pytest.mark.parametrize("name", ["likes", "reposts"])
def test_what_no_reader_could_read_again_in_what_an_account_s_own_server_sends(name: str) -> None:
    body = page(name)
    for at in range(len(body)):
        for bad in (b"\\ud800", b',"x":1e999', b'"x":1e999,'):
            with suppress(ParseError):
                assert_can_be_kept(READERS[name](body[:at] + bad + body[at:]))


NO_REPLIES: list[Any] = [None, 7, "x", [], {"post": 1, "replies": []}, {"replies": 3}, {"uri": {}}]
NO_ROWS: list[Any] = [None, 7, "x", [], {}, {"post": {}}, {"uri": {}}]


@pytest.mark.parametrize("name", ["followers", "profiles", "feed", "embeds", "quotes", "lists", "list"])
def test_a_bad_element_costs_only_itself(name: str) -> None:
    value = json.loads(page(name))
    rows = next(key for key, part in value.items() if isinstance(part, list))
    whole = READERS[name](page(name))
    for at in range(len(value[rows])):
        for new in NO_ROWS:
            read = READERS[name](msgspec.json.encode(replaced(value, (rows, at), new)))
            assert len(read.records) + len(read.rejects) == len(whole.records) + len(whole.rejects)
            assert len(read.records) >= len(whole.records) - 1


def test_a_bad_reply_costs_only_what_is_below_it() -> None:
    value = json.loads(page("thread"))
    whole = {record.key for record in READERS["thread"](page("thread")).records}
    for at in range(len(value["thread"]["replies"])):
        for new in NO_REPLIES:
            body = msgspec.json.encode(replaced(value, ("thread", "replies", at), new))
            read = READERS["thread"](body)
            lost = whole - {record.key for record in read.records}
            below = msgspec.json.encode(value["thread"]["replies"][at]).decode()
            assert all(key in below for key in lost)
            assert read.rejects


def test_reject_keeps_nothing_of_an_account_that_opted_out() -> None:
    value = json.loads(page("quotes"))
    for at in range(len(value["posts"])):
        body = msgspec.json.encode(replaced(value, ("posts", at, "record"), "no record"))
        for reject in READERS["quotes"](body).rejects:
            assert b"Not to be kept" not in reject.raw
    unreadable = page("quotes").replace(b'"indexedAt": "2024', b'"x": 1e999, "indexedAt": "2024')
    assert [reject.raw for reject in READERS["quotes"](unreadable).rejects] == [b""] * 5


ODD = [b"null", b"[]", b"7", b'"x"', b"{}", b'{"value":[]}', b'{"value":null}', b'{"value":{"bulkDataset":7}}']


@pytest.mark.parametrize("body", ODD)
def test_small_answers_of_any_shape_state_nothing(body: bytes) -> None:
    assert identity.parse_did_document(body) is None
    assert identity.parse_intents(body) == {}
    assert identity.parse_error(body) is None
    assert repository.created_at(body) is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b'{"error":', b"[" * 100_000])
def test_small_answers_that_are_not_json(body: bytes) -> None:
    with pytest.raises(ParseError):
        identity.parse_did_document(body)
    with pytest.raises(ParseError):
        identity.parse_intents(body)
    with pytest.raises(ParseError):
        repository.parse_list_records(body, "did:plc:ann", "app.bsky.feed.like")
    assert identity.parse_error(body) is None
    assert repository.created_at(body) is None

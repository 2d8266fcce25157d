"""Threads, DID documents, intents, error bodies and rows of a repository, in odd shapes."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.items.bluesky import Like, Repost
from harvester.parsers.bluesky import identity, repository, views
from harvester.parsers.bluesky import responses as parse
from tests.parsers.cases import PROVENANCE


def view(key: str, replies: int = 0) -> dict[str, Any]:
    return {
        "uri": f"at://did:plc:ann/app.bsky.feed.post/{key}",
        "cid": f"bafy{key}",
        "author": {"did": "did:plc:ann", "handle": "ann.example"},
        "record": {"text": key},
        "replyCount": replies,
        "indexedAt": "2024-01-01T00:00:00Z",
    }


def thread(node: Any) -> parse.ParsedThread:
    return parse.parse_thread(json.dumps({"thread": node}).encode(), PROVENANCE)


def keys(tree: parse.ParsedThread) -> list[str]:
    return [post.key.rpartition("/")[2] for post in tree.posts]


# Threads


@pytest.mark.parametrize("levels", [100, 400])
def test_deep_thread_is_read_to_the_end_or_refused(levels: int) -> None:
    node: dict[str, Any] = {"post": view(str(levels)), "replies": []}
    for level in reversed(range(levels)):
        node = {"post": view(str(level), 1), "replies": [node]}
    try:
        tree = thread(node)
    except ParseError:
        assert levels > 100  # what is asked for at once
    else:
        assert len(tree.posts) == levels + 1
        assert not tree.cut


def test_posts_whose_replies_are_left_out_are_cut() -> None:
    node = {
        "post": view("root", 3),
        "replies": [
            {"post": view("cut", 2)},
            {"post": view("leaf")},
            {"post": view("null", 2), "replies": None},
            {"post": view("hidden", 2), "replies": []},
            {"post": view("open", 1), "replies": [{"post": view("below", 0), "replies": []}]},
        ],
    }
    assert [uri.rpartition("/")[2] for uri in thread(node).cut] == ["cut", "null"]


def test_posts_at_the_deepest_level_with_empty_replies_are_cut() -> None:
    """A server that shows fewer levels than asked says so with empty lists."""
    deepest = [{"post": view("more", 4), "replies": []}, {"post": view("leaf"), "replies": []}]
    node = {"post": view("root", 1), "replies": [{"post": view("between", 2), "replies": deepest}]}
    assert [uri.rpartition("/")[2] for uri in thread(node).cut] == ["more"]


def test_root_whose_replies_are_all_hidden_is_not_asked_for_again() -> None:
    assert thread({"post": view("root", 5), "replies": []}).cut == []


def test_root_may_be_gone_blocked_or_not_known() -> None:
    gone = thread({"$type": "app.bsky.feed.defs#notFoundPost", "uri": "at://x/y/z", "notFound": True})
    assert (gone.posts, gone.not_found, gone.blocked) == ([], ["at://x/y/z"], [])
    blocked = thread({"uri": "at://x/y/z", "blocked": True, "author": {"did": "did:plc:x"}})
    assert (blocked.posts, blocked.not_found, blocked.blocked) == ([], [], ["at://x/y/z"])
    assert thread({"$type": "app.bsky.feed.defs#new"}) == parse.ParsedThread([], [], [], [], [], "")


@pytest.mark.parametrize(
    ("above", "topmost"),
    [
        ([], ""),
        ([{"uri": "at://x/y/z", "notFound": True}], ""),
        ([{"post": view("1")}], "1"),
        ([{"post": view("1")}, {"post": view("2")}, {"uri": "at://x/y/z", "blocked": True}], "2"),
        ([{"post": view("1")}, {"$type": "app.bsky.feed.defs#new"}], "1"),
        ([{"post": view("1")}, {"post": {"uri": 7}}], "1"),
    ],
)
def test_the_topmost_post_above_is_the_last_that_is_shown(above: list[dict[str, Any]], topmost: str) -> None:
    node: dict[str, Any] = {"post": view("0")}
    lowest = node
    for each in above:
        node["parent"] = {**each}
        node = node["parent"]
    assert thread(lowest).above.rpartition("/")[2] == topmost


def test_posts_come_level_by_level() -> None:
    below = [{"post": view("1.1"), "replies": []}]
    node = {
        "post": view("0", 2),
        "replies": [{"post": view("1", 1), "replies": below}, {"post": view("2"), "replies": []}],
    }
    assert keys(thread(node)) == ["0", "1", "2", "1.1"]


# Servers of accounts


def did_document(*services: Any) -> bytes:
    return json.dumps({"id": "did:plc:ann", "service": list(services)}).encode()


def pds(endpoint: Any, name: Any = "#atproto_pds") -> dict[str, Any]:
    return {"id": name, "type": "AtprotoPersonalDataServer", "serviceEndpoint": endpoint}


@pytest.mark.parametrize(
    ("endpoint", "origin"),
    [
        ("https://pds.example", "https://pds.example"),
        ("https://pds.example/", "https://pds.example"),
        ("http://localhost:2583", "http://localhost:2583"),
        ("https://[2001:db8::1]:443", "https://[2001:db8::1]:443"),
    ],
)
def test_server_of_an_account_is_found(endpoint: str, origin: str) -> None:
    others = [pds("https://labeler.example", "#atproto_labeler"), "x", None, {}, {"id": 7}]
    assert identity.parse_did_document(did_document(*others, pds(endpoint))) == origin
    assert identity.parse_did_document(did_document(pds(endpoint, "did:plc:ann#atproto_pds"))) == origin


@pytest.mark.parametrize(
    "endpoint",
    [
        "file:///etc/passwd",
        "ftp://pds.example",
        "//pds.example",
        "pds.example",
        "https://",
        "https://user:password@pds.example",
        "https://pds.example/path",
        "https://pds.example//",
        "https://pds.example?query",
        "https://pds.example#fragment",
        "https://pds.example\\@evil.example",
        "https://pds.example\n",
        "https://pds example",
        " https://pds.example",
        "javascript:alert(1)",
        "",
        None,
        7,
        ["https://pds.example"],
        {"uri": "https://pds.example"},
    ],
)
def test_address_that_is_no_server_s_is_not_taken(endpoint: Any) -> None:
    assert identity.parse_did_document(did_document(pds(endpoint))) is None


@pytest.mark.parametrize("services", [None, 7, "x", {}, []])
def test_did_document_without_a_server(services: Any) -> None:
    assert identity.parse_did_document(json.dumps({"service": services}).encode()) is None


# Intents


def test_intents_have_three_states() -> None:
    stated = {
        "$type": "org.user-intents.declaration",
        "updatedAt": "2024-01-01T00:00:00Z",
        "bulkDataset": {"allow": False, "updatedAt": "2024-01-01T00:00:00Z"},
        "protocolBridging": {"allow": True},
        "publicAccessArchive": {"updatedAt": "2024-01-01T00:00:00Z"},
        "syntheticContentGeneration": {"allow": "no"},
        "other": {"allow": None},
    }
    body = json.dumps({"uri": "at://x", "cid": "c", "value": stated}).encode()
    assert identity.parse_intents(body) == {"bulkDataset": False, "protocolBridging": True}


def test_intents_of_an_author_who_means_harm_are_few_and_storable() -> None:
    stated = {name: {"allow": True} for name in ("a\0b", "$set", "a.b", "", "x" * 65, "é")}
    stated |= {f"purpose{number}": {"allow": True} for number in range(1000)}
    assert list(identity.parse_intents(json.dumps({"value": stated}).encode())) == [f"purpose{n}" for n in range(32)]


# Errors


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error":"InvalidRequest","message":"Profile not found"}', ("InvalidRequest", "Profile not found")),
        (b'{"error":"NotFound"}', ("NotFound", "")),
        (b'{"error":"NotFound","message":null,"more":[1]}', ("NotFound", "")),
        (b'{"message":"DID not registered"}', None),
        (b'{"error":7}', None),
        (b'{"error":"X","message":7}', None),
        (b'{"error":{"code":400,"message":"Esri"}}', None),
        (b"<html>", None),
        (b'{"error":"X"', None),
        (b'{"error":"\xff"}', None),
        (b'{"error":"X","deep":' + b"[" * 50_000 + b"]" * 50_000 + b"}", None),
    ],
    ids=range(11),
)
def test_error_of_an_answer(body: bytes, error: tuple[str, str] | None) -> None:
    assert identity.parse_error(body) == error


# Rows of a repository


def test_rows_keep_their_value_as_it_came() -> None:
    body = b'{"records":[{"uri":"at://did:plc:ann/a.b/1","cid":"c","value":{"b" : 1,"a":[ ]}}],"cursor":""}'
    rows, cursor = repository.parse_list_records(body, "did:plc:ann", "a.b")
    assert [row.value for row in rows] == [b'{"b" : 1,"a":[ ]}']
    assert cursor == ""


@pytest.mark.parametrize("uri", ["at://did:plc:ben/a.b/1", "at://did:plc:ann/a.c/1", "at://ann.example/a.b/1", "1", ""])
def test_server_that_lists_records_of_others_is_not_believed(uri: str) -> None:
    rows = [{"uri": "at://did:plc:ann/a.b/0", "cid": "c", "value": {}}, {"uri": uri, "cid": "c", "value": {}}]
    with pytest.raises(ParseError, match=r" a\.b .*did:plc:ann"):
        repository.parse_list_records(json.dumps({"records": rows}).encode(), "did:plc:ann", "a.b")


@pytest.mark.parametrize("kind", [Repost, Like])
def test_edges_leave_to_the_authors_what_is_theirs(kind: type[Repost] | type[Like]) -> None:
    value = b'{"subject":{"uri":"at://did:plc:ben/a.b/1","cid":7},"createdAt":["x"],"more":{}}'
    row = repository.RepoRecord("at://did:plc:ann/app.bsky.feed.x/1", "c", value)
    (edge,) = repository.parse_edges(kind, [row], PROVENANCE).records
    assert isinstance(edge, (Repost, Like))
    assert (edge.did, edge.subject_did, edge.created_at, edge.raw) == ("did:plc:ann", "did:plc:ben", None, value)


@pytest.mark.parametrize("body", [b'{"subject":{"did":"did:plc:a","handle":"h"}}', b"{}"])
def test_page_that_has_lost_its_list_is_not_taken_for_an_empty_one(body: bytes) -> None:
    for parser in (parse.parse_graph, parse.parse_lists, parse.parse_feed, parse.parse_posts, parse.parse_profiles):
        with pytest.raises(ParseError):
            parser(body, PROVENANCE)


def test_empty_page_with_a_cursor_goes_on() -> None:
    assert parse.parse_feed(b'{"feed":[],"cursor":"next"}', PROVENANCE) == views.Parsed([], [], "next")
    body = b'{"subject":{"did":"did:plc:a","handle":"h"},"follows":[],"cursor":"next"}'
    assert parse.parse_graph(body, PROVENANCE) == (views.Parsed([], [], "next"), [])


GONE, HIDDEN = {"uri": "at://x/y/z", "notFound": True}, {"uri": "at://x/y/z", "blocked": True}


@pytest.mark.parametrize(
    ("replies", "reply", "is_cut_off"),
    [
        (1, {"root": GONE, "parent": view("p")}, True),
        (1, {"root": view("r"), "parent": GONE}, True),
        (1, {"root": HIDDEN, "parent": HIDDEN}, True),
        (1, {"root": view("r"), "parent": view("p"), "note": GONE}, False),
        (0, {"root": GONE, "parent": GONE}, False),
        (1, {"root": GONE}, False),
        (1, None, False),
    ],
)
def test_an_answered_reply_below_something_that_is_not_shown_is_cut_off(
    replies: int, reply: dict[str, Any] | None, is_cut_off: bool
) -> None:
    row = {"post": view("1", replies)} | ({"reply": reply} if reply else {})
    parsed = parse.parse_feed(json.dumps({"feed": [row]}).encode(), PROVENANCE)
    assert parsed.cut_off == ({parsed.records[0].key} if is_cut_off else set())


@pytest.mark.parametrize(
    ("key", "at"),
    [
        ("3jzfcijpj2z2a", datetime(2023, 6, 30, tzinfo=UTC)),
        ("2222222222222", datetime(1970, 1, 1, tzinfo=UTC)),
        ("3jzfcijpj2z2A", None),
        ("kjzfcijpj2z2a", None),
        ("3jzfcijpj2z2", None),
        ("self", None),
        ("1", None),
    ],
)
def test_a_key_says_when_it_was_made_if_it_is_a_tid(key: str, at: datetime | None) -> None:
    """The first and the bad ones are of the protocol's own examples."""
    made = repository.key_time(f"at://did:plc:ann/a.b/{key}")
    assert (made and made.date()) == (at and at.date())

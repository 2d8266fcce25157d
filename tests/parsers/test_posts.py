"""Posts: facets, times, references and labels as authors write them."""

import json
from datetime import UTC, datetime
from typing import Any

import bson
import msgspec
import pytest

from harvester.items.bluesky import Facet, Post
from harvester.parsers.bluesky.embeds import parse_embed, parse_facets
from harvester.parsers.bluesky.responses import parse_posts
from harvester.parsers.json_values import MOST_INT
from tests.parsers.cases import PROVENANCE

TEXT = "Olá 👋🏽 @ann.example sees #café at example.org/x"
MENTION, TAG, LINK = (f"app.bsky.richtext.facet#{kind}" for kind in ("mention", "tag", "link"))
INDEXED_AT = "2024-06-01T00:00:00Z"


def facet(start: Any, end: Any, *features: Any) -> dict[str, Any]:
    shown = list(features) or [{"$type": TAG, "tag": f"{start}"}]
    return {"index": {"byteStart": start, "byteEnd": end}, "features": shown}


def post(record: Any = None, **view: Any) -> Post:
    """The post that is read from a view with this record."""
    shown = {
        "uri": "at://did:plc:ann/app.bsky.feed.post/1",
        "cid": "bafy1",
        "author": {"did": "did:plc:ann", "handle": "ann.example"},
        "record": {"text": "text"} | (record or {}),
        "indexedAt": INDEXED_AT,
    }
    parsed = parse_posts(json.dumps({"posts": [shown | view]}).encode(), PROVENANCE)
    assert not parsed.rejects
    (found,) = parsed.records
    assert isinstance(found, Post)
    return found


def spans(*facets: Any, text: str = TEXT) -> list[tuple[int, int]]:
    return [(found.start, found.end) for found in parse_facets(text, list(facets))]


# Facets


def test_facets_of_the_facts_are_counted_in_code_points() -> None:
    found = parse_facets(
        TEXT,
        [
            facet(14, 26, {"$type": MENTION, "did": "did:plc:ann"}),
            facet(32, 38, {"$type": TAG, "tag": "café"}),
            facet(42, 55, {"$type": LINK, "uri": "https://example.org/x"}),
        ],
    )
    assert (len(TEXT), len(TEXT.encode())) == (47, 55)
    assert [(f.start, f.kind, f.value) for f in found] == [
        (7, "mention", "did:plc:ann"),
        (25, "tag", "café"),
        (34, "link", "https://example.org/x"),
    ]
    assert [TEXT[f.start : f.end] for f in found] == ["@ann.example", "#café", "example.org/x"]


def test_facet_may_span_the_whole_text() -> None:
    assert spans(facet(0, 55)) == [(0, 47)]
    assert spans(facet(0, 5), text="ascii") == [(0, 5)]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (14, 56),  # out of range
        (-1, 3),
        (56, 60),
        (26, 14),  # reversed
        (14, 14),  # empty
        (14, None),
        ("14", "26"),
        (14.0, 26.0),
        (True, 26),
        (2**70, 2**71),
    ],
)
@pytest.mark.parametrize("text", [TEXT, "x" * 55])
def test_facet_that_is_nowhere_is_dropped_alone(start: Any, end: Any, text: str) -> None:
    assert spans(facet(start, end), facet(32, 38), text=text) == spans(facet(32, 38), text=text) != []


@pytest.mark.parametrize(("start", "end"), [(3, 14), (0, 6), (5, 8)])
def test_facet_that_cuts_a_character_in_two_is_dropped(start: int, end: int) -> None:
    assert spans(facet(start, end)) == []
    assert spans(facet(start, end), text="x" * 55) == [(start, end)]


def test_overlapping_facets_are_dropped_but_for_the_first() -> None:
    text = "0123456789"
    assert spans(facet(4, 8), facet(2, 5), facet(5, 6), facet(8, 9), text=text) == [(2, 5), (5, 6), (8, 9)]
    assert spans(facet(0, 10), facet(2, 5), text=text) == [(0, 10)]
    assert spans(facet(2, 5), facet(2, 5), text=text) == [(2, 5)]


def test_all_features_of_a_facet_are_kept() -> None:
    features = [
        {"$type": TAG, "tag": "café"},
        {"$type": LINK, "uri": "https://example.org"},
        {"$type": "com.example.facet#new", "did": "did:plc:x"},
        {"$type": "app.bsky.richtext.facet#new"},
        {"$type": TAG, "tag": 7},
        {"tag": "without a type"},
        {"$type": ["no type"]},
        "no feature",
        None,
    ]
    assert parse_facets("café", [facet(0, 5, *features)]) == (
        Facet(0, 4, "tag", "café"),
        Facet(0, 4, "link", "https://example.org"),
        Facet(0, 4, "com.example.facet#new", ""),
        Facet(0, 4, "app.bsky.richtext.facet#new", ""),
        Facet(0, 4, "tag", ""),
        Facet(0, 4, "", ""),
        Facet(0, 4, "", ""),
    )


@pytest.mark.parametrize(
    "facets",
    [None, 7, "x", {}, [None], [7], [[]], [{}], [{"index": 7}], [{"index": {}, "features": []}], [facet(0, 1, 5)]],
)
def test_facets_that_are_none(facets: Any) -> None:
    assert parse_facets("text", facets) == ()
    assert post({"facets": facets}).facets == ()


# Times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-05T10:20:30.123Z", datetime(2024, 5, 5, 10, 20, 30, 123000, UTC)),
        ("2024-05-05T10:20:30.123456+09:00", datetime(2024, 5, 5, 1, 20, 30, 123456, UTC)),
        ("2024-05-05T10:20:30", datetime(2024, 5, 5, 10, 20, 30, tzinfo=UTC)),
        ("2024-05-05T10:20:30-23:59", datetime(2024, 5, 6, 10, 19, 30, tzinfo=UTC)),
        ("1999-12-31T23:59:59Z", datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("2099-01-01T00:00:00Z", datetime(2099, 1, 1, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("0001-01-01T00:00:00+01:00", None),
        ("9999-12-31T23:59:59-01:00", None),
        ("0000-01-01T00:00:00Z", None),
        ("12024-01-01T00:00:00Z", None),
        ("2024-02-30T00:00:00Z", None),
        ("2024-05-05T10:20:60Z", None),
        ("yesterday", None),
        ("", None),
        (1714900000, None),
        (None, None),
        ({"$date": 1}, None),
    ],
)
def test_created_at_may_be_absurd(text: Any, expected: datetime | None) -> None:
    found = post({"createdAt": text})
    indexed_at = datetime(2024, 6, 1, tzinfo=UTC)
    assert found.created_at == expected
    assert found.sort_at == (min(expected, indexed_at) if expected else indexed_at)
    if expected:
        assert found.created_at
        assert found.created_at.utcoffset() == expected.utcoffset()
        assert bson.decode(bson.encode(found.to_document()))["created_at"].year == expected.year


def test_post_without_any_time_has_none_to_sort_by() -> None:
    assert post({"createdAt": "2024-01-01T00:00:00Z"}, indexedAt="never").sort_at is None


# References


ROOT, PARENT = "at://did:plc:ben/app.bsky.feed.post/r", "at://did:plc:cyd/app.bsky.feed.post/p"


def test_reply_names_root_and_parent() -> None:
    found = post({"reply": {"root": {"uri": ROOT}, "parent": {"uri": PARENT}}})
    assert (found.root_uri, found.parent_uri) == (ROOT, PARENT)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        {},
        "x",
        {"root": {"uri": ROOT}},
        {"root": {"uri": ROOT}, "parent": {"uri": 7}},
        {"root": {"uri": "at://ben.example/app.bsky.feed.post/r"}, "parent": {"uri": PARENT}},
        {"root": {"uri": ROOT}, "parent": {"uri": "https://bsky.app/profile/cyd.example/post/p"}},
    ],
)
def test_reply_that_does_not_name_both_by_did_names_neither(reply: Any) -> None:
    found = post({"reply": reply})
    assert (found.root_uri, found.parent_uri) == (None, None)


def test_pins_labels_and_counts() -> None:
    found = post(
        labels=[
            {"src": "did:plc:a", "val": "porn"},
            {"src": "did:plc:b", "val": "porn"},
            {"src": "did:plc:b", "val": "porn", "neg": True},
            {"src": "did:plc:b", "val": "spam", "neg": True},
        ],
        likeCount=MOST_INT,
    )
    assert [(label.val, label.src) for label in found.labels] == [("porn", "did:plc:a")]
    assert found.like_count == MOST_INT
    assert not found.pinned
    assert not found.opt_outs


@pytest.mark.parametrize("src", ["did:plc:ann", "did:plc:labeler"])
def test_author_who_does_not_want_to_be_seen_is_noted_on_the_post(src: str) -> None:
    author = {"did": "did:plc:ann", "handle": "a.b", "labels": [{"src": src, "val": "!no-unauthenticated"}]}
    assert post(author=author).opt_outs == ("!no-unauthenticated",)


# Embeds


def quoting(levels: int) -> dict[str, Any]:
    """A quote of a quote of a quote..."""
    embeds = [quoting(levels - 1)] if levels else []
    author = {"did": "did:plc:ben", "handle": "ben.example"}
    kind = "app.bsky.embed.record#viewRecord"
    shown = {"$type": kind, "uri": f"at://x/{levels}", "author": author, "value": {"text": "x"}, "embeds": embeds}
    return {"$type": "app.bsky.embed.record#view", "record": shown}


def test_quotes_are_read_to_a_bounded_depth_that_mongodb_holds() -> None:
    depth, quote = 0, post(embed=quoting(90)).embed
    while quote and quote.quote:
        depth, quote = depth + 1, quote.quote.embed
    assert depth == 10


@pytest.mark.parametrize("levels", [45, 60, 150])
def test_unknown_embed_is_kept_as_it_came_unless_mongodb_could_not_hold_it(levels: int) -> None:
    view: dict[str, Any] = {"$type": "app.bsky.embed.hologram#view"}
    inner = view
    for _ in range(levels):
        inner["x"] = inner = {}
    assert parse_embed(view).unknown == ((view,) if levels == 45 else ())


@pytest.mark.parametrize("part", [{"a\0b": 1}, {"a": [2**63]}, {"a": {"b": -(2**63)}}])
def test_what_bson_cannot_hold_is_not_kept_of_threadgates_and_unknown_embeds(part: dict[str, Any]) -> None:
    found = post(threadgate={"record": part}, embed={"$type": "x#view"} | part)
    assert found.threadgate is None
    assert found.embed
    assert found.embed.unknown == ()
    bson.encode(found.to_document())
    assert msgspec.json.decode(found.raw)["threadgate"]["record"] == part


@pytest.mark.parametrize("labels", [[None, {"val": "!no-unauthenticated"}], [{"val": "!no-unauthenticated", "src": 7}]])
def test_opt_out_among_labels_that_cannot_be_read_is_honoured(labels: list[Any]) -> None:
    view = quoting(0)
    view["record"]["author"]["labels"] = labels
    found = post(embed=view)
    assert found.embed
    assert found.embed.quote
    assert (found.embed.quote.kind, found.embed.quote.text) == ("opted_out", None)
    assert b'"x"' not in found.raw

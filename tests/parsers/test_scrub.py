"""scrub: an account is taken out of whatever answers, staged lines and documents may hold of it."""

import copy
from typing import Any

import msgspec
import pytest

from harvester.items.bluesky import Embed, Quote
from harvester.parsers.bluesky.scrub import scrub
from tests.pipelines.records import quote_of

X, OTHER = "did:plc:x", "did:plc:other"
VIEW = {"did": X, "handle": "x.example", "displayName": "X", "avatar": "https://cdn/x"}
LEFT = {"did": X, "purged": True}


@pytest.mark.parametrize(
    ("value", "scrubbed"),
    [
        (VIEW, LEFT),
        ([VIEW, {"did": OTHER, "handle": "o"}], [LEFT, {"did": OTHER, "handle": "o"}]),
        ({"subject": VIEW, "list": 1}, {"subject": LEFT, "list": 1}),
        ({"uri": "at://x/1", "author": VIEW, "record": {"text": "secret"}}, {"uri": "at://x/1", "purged": True}),
        ({"uri": "at://x/1", "creator": VIEW, "name": "A list"}, {"uri": "at://x/1", "purged": True}),
        ({"author": {"did": X}, "text": "secret"}, {"purged": True}),
        ({"$type": "#viewBlocked", "uri": "at://x/1", "author": {"did": X}}, {"uri": "at://x/1", "purged": True}),
        (
            {"uri": "at://o/1", "author": {"did": OTHER}, "embeds": [{"record": {"uri": "at://x/1", "author": VIEW}}]},
            {"uri": "at://o/1", "author": {"did": OTHER}, "embeds": [{"record": {"uri": "at://x/1", "purged": True}}]},
        ),
        ({"uri": "at://x/1", "kind": "post", "did": X, "text": "s"}, {"uri": "at://x/1", "kind": "purged", "did": X}),
        (
            {"media_urls": [f"https://cdn/plain/{X}/a", "https://v/did%3Aplc%3Ax/b", f"https://cdn/{X}y/c"]},
            {"media_urls": [f"https://cdn/{X}y/c"]},
        ),
    ],
)
def test_what_is_about_the_account_is_emptied_once(value: Any, scrubbed: Any) -> None:
    before = copy.deepcopy(value)
    assert scrub(value, X) == (scrubbed, True)
    assert value == before
    assert scrub(scrubbed, X) == (scrubbed, False)


@pytest.mark.parametrize(
    "value",
    [
        {"did": OTHER, "handle": "x.example", "text": f"about {X}"},
        {"reply": {"parent": {"uri": f"at://{X}/app.bsky.feed.post/1", "cid": "c"}}},
        {"features": [{"$type": "app.bsky.richtext.facet#mention", "did": X}]},
        {"start": 0, "end": 2, "kind": "mention", "value": X},
        ["a", 1, None, True, 2.5, X],
        {"author": "somebody", "creator": None},
        "text",
        None,
    ],
)
def test_what_others_say_is_left_as_it_is(value: Any) -> None:
    scrubbed, changed = scrub(value, X)
    assert scrubbed is value
    assert not changed


def test_a_stored_quote_that_was_emptied_is_a_quote_still() -> None:
    stored = msgspec.to_builtins(Embed(quote=quote_of(OTHER, Embed(quote=quote_of(X)))))
    scrubbed, _ = scrub(stored, X)
    embed = msgspec.convert(scrubbed, Embed)
    assert embed.quote
    assert embed.quote.text == f"words of {OTHER}"
    assert embed.quote.embed == Embed(quote=Quote(quote_of(X).uri, "purged", did=X))

"""A record of each kind of Bluesky with all that it can hold, and one with as little as it can."""

from datetime import UTC, datetime
from typing import Any

from harvester.items import Provenance, Record, Usage
from harvester.items.bluesky import (
    AccountList,
    Embed,
    External,
    Facet,
    Follow,
    Image,
    Label,
    Like,
    ListItem,
    Post,
    Profile,
    Quote,
    Repost,
    Thread,
    Video,
)

DID, OTHER = "did:plc:alice", "did:web:bob.example"
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
CID = "bafyreia"
WHOLE = Provenance(
    "https://api.example/x?a=1&b=ü", AT, "bluesky", "bluesky-0123abcd-1", Usage("refused", "allowed", ("tdm=1",))
)
BARE = Provenance("https://api.example/y", AT, "bluesky", "bluesky-0123abcd-1")


def uri(collection: str, key: str = "3k", did: str = DID) -> str:
    return f"at://{did}/app.bsky.{collection}/{key}"


def whole() -> list[Record]:
    """With every field."""
    of: dict[str, Any] = {
        "did": DID,
        "provenance": WHOLE,
        "media_paths": {"0": f"{DID}/posts/{CID}_0.jpg"},
        "media_sources": {"0": "https://cdn.example/0.jpg"},
        "opt_outs": ("!no-unauthenticated",),
    }
    labels = (Label("!no-unauthenticated", DID), Label("spam"))
    facets = (Facet(0, 4, "mention", OTHER), Facet(5, 9, "link", "https://example.com/"))
    inner = Quote(uri("feed.post", "2", OTHER), "post", OTHER, "bob.example", CID, "inner", AT, Embed())
    quote = Quote(uri("feed.post", "1", OTHER), "post", OTHER, "bob.example", CID, "words", AT, Embed(quote=inner))
    embed = Embed(
        (Image("https://cdn.example/0.jpg", "https://cdn.example/0_t.jpg", "alt", CID, 4, 3), Image("https://cdn/1")),
        Video("https://video.example/p.m3u8", "https://video.example/t.jpg", "alt", CID, 16, 9),
        External("https://example.com/", "title", "description", "https://cdn.example/t.jpg"),
        quote,
        ({"$type": "app.example.embed", "n": [1, {"a": None}]},),
    )
    return [
        Profile(
            **of,
            raw=b'{"did":"did:plc:alice", "n": 1.0}',
            handle="alice.example",
            display_name="<b>Alice</b>",
            display_name_clean="Alice",
            description="of\nlines",
            description_clean="of lines",
            pronouns="she",
            website="https://alice.example/",
            avatar_url="https://cdn.example/a.jpg",
            banner_url="https://cdn.example/b.jpg",
            followers_count=3,
            follows_count=2,
            posts_count=1,
            created_at=AT,
            indexed_at=AT,
            labels=labels,
            pinned_post_uri=uri("feed.post"),
            starter_pack_uri=uri("graph.starterpack"),
            associated={"lists": 1, "chat": {"allowIncoming": "none"}},
            verification={"verifiedStatus": "valid"},
            intents={"bulkDataset": True},
        ),
        Follow(**of, subject_did=OTHER, raw=b'{"did":"did:web:bob.example"}'),
        Post(
            **of,
            raw=b'{\n "text": "a\\nb",\r\n "n": [1, 2]\n}',
            uri=uri("feed.post"),
            cid=CID,
            handle="alice.example",
            text="some words \U0001f98b",
            text_clean="some words \U0001f98b",
            created_at=AT,
            indexed_at=AT,
            sort_at=AT,
            langs=("en", "pt-BR"),
            tags=("tag",),
            facets=facets,
            root_uri=uri("feed.post", "0"),
            parent_uri=uri("feed.post", "1"),
            embed=embed,
            media_urls=("https://cdn.example/0.jpg",),
            labels=labels,
            reply_count=1,
            repost_count=2,
            like_count=3,
            quote_count=4,
            bookmark_count=5,
            threadgate={"uri": uri("feed.threadgate"), "record": {"allow": []}},
            pinned=True,
        ),
        Repost(
            **of,
            subject_uri=uri("feed.post", "1", OTHER),
            subject_did=OTHER,
            uri=uri("feed.repost"),
            created_at=AT,
            raw=b'{"reason":{}}',
        ),
        Like(
            **of,
            uri=uri("feed.like"),
            subject_uri=uri("feed.post", "1", OTHER),
            subject_did=OTHER,
            created_at=AT,
            raw=b'{"value":{"createdAt":"now"}}',
        ),
        Thread(
            **of,
            uri=uri("feed.post"),
            post_count=7,
            not_found=(uri("feed.post", "4"),),
            blocked=(uri("feed.post", "5"),),
            raw=b'{"thread":[]}',
        ),
        AccountList(
            **of,
            uri=uri("graph.list"),
            cid=CID,
            name="A list",
            purpose="curatelist",
            description="*of* some",
            description_clean="of some",
            item_count=2,
            list_uri=uri("graph.list", "other"),
            indexed_at=AT,
            raw=b'{"name":"A list"}',
        ),
        ListItem(
            **of,
            uri=uri("graph.listitem"),
            list_uri=uri("graph.list"),
            subject_did=OTHER,
            raw=b'{"subject":{"did":"did:web:bob.example"}}',
        ),
    ]


def bare() -> list[Record]:
    """With the fields that must be there, of an account of another name."""
    of: dict[str, Any] = {"did": OTHER, "provenance": BARE, "raw": b"{}"}
    counts: dict[str, Any] = dict.fromkeys(("reply_count", "repost_count", "like_count", "quote_count"), 0)
    return [
        Profile(**of),
        Follow(**of, subject_did=DID),
        Post(**of, uri=uri("feed.post", did=OTHER), cid=CID, text="", **counts),
        Repost(**of, subject_uri=uri("feed.post"), subject_did=DID),
        Like(**of, uri=uri("feed.like", did=OTHER), subject_uri=uri("feed.post"), subject_did=DID),
        Thread(**of, uri=uri("feed.post", did=OTHER), post_count=1),
        AccountList(**of, uri=uri("graph.list", did=OTHER), cid=CID, name="A list", purpose="modlist"),
        ListItem(**of, uri=uri("graph.listitem", did=OTHER), list_uri=uri("graph.list"), subject_did=DID),
    ]

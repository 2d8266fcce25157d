"""Records and crawlers for the tests of pipelines."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.utils.test import get_crawler

from harvester.items import RECORDS, Provenance
from harvester.items.bluesky import BlueskyRecord, Embed, Follow, Post, Profile, Quote, Repost

PAGE = Provenance(
    "https://api.example/page?cursor=1", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "bluesky", "bluesky-1"
)
KINDS = [kind for kind in RECORDS.values() if issubclass(kind, BlueskyRecord)]
"""Those of Bluesky."""
ALICE, BOB, CAROL = "did:plc:alice", "did:plc:bob", "did:web:carol.example"


def crawler(**arguments: Any) -> Crawler:
    """A crawler whose spider has these arguments; stats work, there is no engine."""
    made: Crawler = get_crawler(Spider)
    made.spider = Spider.from_crawler(made, name="bluesky")
    if arguments:
        made.spider.arguments = SimpleNamespace(**arguments)  # type: ignore[attr-defined]
    return made


def stats(of: Crawler) -> dict[str, Any]:
    return {name.removeprefix("harvester/"): value for name, value in of.stats.get_stats().items()}


def profile(did: str = ALICE, **fields: Any) -> Profile:
    return Profile(
        **{"did": did, "provenance": PAGE, "handle": "a.example", "raw": b'{"handle":"a.example"}', **fields}
    )


def post(did: str = ALICE, key: str = "1", **fields: Any) -> Post:
    counts = dict.fromkeys(("reply_count", "repost_count", "like_count", "quote_count"), 0)
    uri = f"at://{did}/app.bsky.feed.post/{key}"
    text = "some text"
    raw = msgspec.json.encode({"uri": uri, "record": {"text": text}})
    return Post(
        **{"did": did, "uri": uri, "cid": "c", "text": text, "provenance": PAGE, "raw": raw, **counts, **fields}
    )


def follow(did: str = ALICE, subject_did: str = BOB) -> Follow:
    return Follow(did=did, subject_did=subject_did, provenance=PAGE, raw=b"{}")


def repost(uri: str, created_at: datetime | None) -> Repost:
    """Of always the same post."""
    subject = f"at://{BOB}/app.bsky.feed.post/1"
    return Repost(
        did=ALICE, uri=uri, subject_uri=subject, subject_did=BOB, created_at=created_at, provenance=PAGE, raw=b"{}"
    )


def quote_of(did: str, embed: Embed | None = None) -> Quote:
    """A quoted post."""
    return Quote(
        f"at://{did}/app.bsky.feed.post/9", "post", did, "q.example", "c", f"words of {did}", PAGE.fetched_at, embed
    )

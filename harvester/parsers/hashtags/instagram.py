"""Instagram's Graph API: ids of hashtags, and media with one. It tells nobody who made them."""

from typing import Any

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.trend import Hashtag, TaggedPost, normal_tag
from harvester.parsers.hashtags.rows import (
    ParsedTrends,
    Row,
    VisitContext,
    each,
    hashtag,
    needed,
    number_of,
    object_of,
    rows_of,
    tags_in,
    web,
    webs,
)
from harvester.parsers.json_values import date_time, dictionary, string

SOURCE = "instagram"
FIELDS = "id,caption,media_type,media_url,permalink,timestamp,like_count,comments_count"


def parse_search(body: bytes, look: VisitContext, tag: str) -> Hashtag:
    """ig_hashtag_search: the hashtag with its id. Raises ParseError."""
    rows = rows_of(body, "data")
    if not rows:
        raise ParseError("the answer names no hashtag")
    raw = bytes(rows[0])
    return hashtag_of(object_of(raw), raw, look, tag)


def hashtag_of(row: Row, raw: bytes, look: VisitContext, tag: str) -> Hashtag:
    """Of the one row of an answer, which does not say the tag again."""
    return hashtag(look, tag, raw, id=needed(row, "id"))


def parse_media(body: bytes, provenance: Provenance) -> ParsedTrends:
    """top_media, recent_media: posts and films."""
    return each(rows_of(body, "data"), provenance, TaggedPost, lambda row, raw, _: [post_of(row, raw, provenance)])


def post_of(row: Row, raw: bytes, provenance: Provenance) -> TaggedPost:
    """Raises what is in parts.BAD."""
    text = string(row, "caption") or ""
    return TaggedPost(
        source=SOURCE,
        id=needed(row, "id"),
        page_url=web(row.get("permalink")),
        text=text,
        tags=tuple(dict.fromkeys(map(normal_tag, tags_in(text)))),
        created_at=date_time(row.get("timestamp")),
        reply_count=number_of(row.get("comments_count")),
        like_count=number_of(row.get("like_count")),
        media_urls=webs([row.get("media_url")]),
        provenance=provenance,
        raw=raw,
    )


def after(body: bytes) -> str:
    """Cursor of the next page; empty: there is none. Its address is not taken: it may hold the token."""
    paging: Any = object_of(body).get("paging")
    has_more = isinstance(paging, dict) and "next" in paging
    return (string(dictionary(paging, "cursors"), "after") or "") if has_more else ""

"""Parses Instagram's Graph API: ids of hashtags, and media with a hashtag. It does not name the authors."""

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
    """Parses ig_hashtag_search: the hashtag with its id. Raises ParseError."""
    rows = rows_of(body, "data")
    if not rows:
        raise ParseError("the answer names no hashtag")
    raw = bytes(rows[0])
    return hashtag_of(object_of(raw), raw, look, tag)


def hashtag_of(row: Row, raw: bytes, look: VisitContext, tag: str) -> Hashtag:
    """Returns the hashtag from the single row of a response, which does not repeat the tag."""
    return hashtag(look, tag, raw, id=needed(row, "id"))


def parse_media(body: bytes, provenance: Provenance) -> ParsedTrends:
    """Parses top_media and recent_media: posts and videos."""
    return each(rows_of(body, "data"), provenance, TaggedPost, lambda row, raw, _: [post_of(row, raw, provenance)])


def post_of(row: Row, raw: bytes, provenance: Provenance) -> TaggedPost:
    """Returns the post of a row. Raises rows.BAD."""
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
    """Returns the cursor of the next page; empty on the last page.

    The address of the next page is not used, since it may hold the token.
    """
    paging: Any = object_of(body).get("paging")
    has_more = isinstance(paging, dict) and "next" in paging
    return (string(dictionary(paging, "cursors"), "after") or "") if has_more else ""

"""Answers of the Bluesky API about trends and tags. Shapes: lexicons app.bsky.unspecced.getTrends, feed.searchPosts.

A search's posts are read by `parsers.bluesky`.
"""

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urljoin

from harvester.items import Record
from harvester.items.trend import Trend
from harvester.parsers.hashtags.rows import (
    ParsedTrends,
    Row,
    VisitContext,
    each,
    needed,
    number_of,
    object_of,
    rows_of,
    trend,
)
from harvester.parsers.json_values import date_time, string

SOURCE, PERIOD, ALL = "bluesky", "1d", "all"
COUNTED = "bluesky-posts"
"""Source of what was counted here, in posts that were harvested."""
SITE = "https://bsky.app"
"""What links of trends are relative to."""


class Hits(NamedTuple):
    """What a search says beside its posts."""

    cursor: str
    """Of the next page; empty: there is none."""
    total: int | None


def parse_trends(body: bytes, look: VisitContext) -> ParsedTrends:
    """getTrends: topics in their order."""
    rows = rows_of(body, "trends")
    return each(rows, look.provenance, Trend, lambda row, raw, number: trends_of(row, raw, number, look))


def trends_of(row: Row, raw: bytes, rank: int | None, look: VisitContext) -> Iterable[Record]:
    """Of one topic, of the hits of a search, or of a count. Raises what is in parts.BAD."""
    if "topic" in row:
        name, volume = string(row, "displayName") or needed(row, "topic"), number_of(row.get("postCount"))
        page_url = urljoin(SITE, string(row, "link") or "")
    else:
        name, volume, page_url = needed(row, "tag"), number_of(row.get("posts")), None
    yield trend(
        look,
        name,
        rank,
        raw,
        volume=volume,
        volume_raw=None if volume is None else str(volume),
        page_url=page_url,
        began_at=date_time(row.get("startedAt")),
    )


def parse_hits(body: bytes) -> Hits:
    """searchPosts, without its posts. Raises ParseError."""
    answer = object_of(body)
    return Hits(string(answer, "cursor") or "", number_of(answer.get("hitsTotal")))

"""Parses responses of the Bluesky API about trends and tags.

Shapes: lexicons app.bsky.unspecced.getTrends, feed.searchPosts. The posts in a search are read by `parsers.bluesky`.
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
"""Source of counts that harvester made itself, from harvested posts."""
SITE = "https://bsky.app"
"""Base of the relative links in trends."""


class Hits(NamedTuple):
    """The fields of a search response beside its posts."""

    cursor: str
    """Cursor of the next page; empty on the last page."""
    total: int | None


def parse_trends(body: bytes, look: VisitContext) -> ParsedTrends:
    """Parses getTrends: topics in their order."""
    rows = rows_of(body, "trends")
    return each(rows, look.provenance, Trend, lambda row, raw, number: trends_of(row, raw, number, look))


def trends_of(row: Row, raw: bytes, rank: int | None, look: VisitContext) -> Iterable[Record]:
    """Yields the records of a topic, of a search's hits, or of a count. Raises rows.BAD."""
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
    """Parses searchPosts without its posts. Raises ParseError."""
    answer = object_of(body)
    return Hits(string(answer, "cursor") or "", number_of(answer.get("hitsTotal")))

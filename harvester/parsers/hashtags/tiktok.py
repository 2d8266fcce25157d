"""Parses the hashtags of a country in TikTok's Creative Center.

The data comes from a response to the page's script, or from the page itself. A response with another code than 0 is a
refusal with HTTP status 200, not an empty list.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from harvester.exceptions import ParseError
from harvester.items import Record
from harvester.items.trend import Trend
from harvester.parsers.hashtags.rows import (
    ParsedTrends,
    Row,
    VisitContext,
    each,
    epoch,
    hashtag,
    needed,
    number_of,
    object_of,
    rows_of,
    trend,
)
from harvester.parsers.json_values import dictionary, string

SOURCE = "tiktok"
NO_PERMISSION = 40101
"""Code of a response to a call that was not signed by one of TikTok's own pages."""
_data = re.compile(rb'<script id="__NEXT_DATA__"[^>]*>(.*?)</script>', re.DOTALL).search
_PAGE_URL = "https://www.tiktok.com/tag/"


class TiktokPage(NamedTuple):
    """A page of the list."""

    read: ParsedTrends
    code: int
    """Code of the response; 0 for success."""
    said: str
    """Message of a refusal."""
    has_more: bool


def parse_list(body: bytes, look: VisitContext) -> TiktokPage:
    """Parses /popular_trend/hashtag/list: the hashtags of a page. Raises ParseError."""
    answer = object_of(body)
    code = answer.get("code")
    if type(code) is not int:
        raise ParseError("the answer has no code")
    if code:
        return TiktokPage(ParsedTrends([], [], 0), code, string(answer, "msg") or "", has_more=False)
    pages = dictionary(dictionary(answer, "data"), "pagination") or {}
    read = each(rows_of(body, "data", "list"), look.provenance, Trend, _build(look))
    return TiktokPage(read, 0, "", pages.get("has_more") is True)


def parse_page(body: bytes, look: VisitContext) -> ParsedTrends:
    """Parses the hashtags in the data that a page holds for its own script.

    Returns no rows if the page has no such data.
    """
    found = _data(body)
    rows = [msgspec.Raw(msgspec.json.encode(row)) for row in _rows_in(found[1])] if found else []
    return each(rows, look.provenance, Trend, _build(look))


def _rows_in(data: bytes) -> Iterator[Any]:
    """Yields the rows in a page's data. Raises ParseError when the data is not JSON."""
    state = dictionary(dictionary(dictionary(object_of(data), "props"), "pageProps"), "dehydratedState")
    queries = (state or {}).get("queries")
    for query in queries if isinstance(queries, list) else ():
        pages = (dictionary(dictionary(query, "state"), "data") or {}).get("pages")
        for page in pages if isinstance(pages, list) else ():
            if isinstance(page, dict) and isinstance(rows := page.get("list"), list):
                yield from rows


def _build(look: VisitContext) -> Any:
    def build(row: Row, raw: bytes, number: int) -> Iterable[Record]:
        return trends_of(row, raw, number_of(row.get("rank")) or number, look)

    return build


def trends_of(row: Row, raw: bytes, rank: int | None, look: VisitContext) -> Iterable[Record]:
    """Yields the records of a hashtag. The fields may be named in snake case or in camel case. Raises rows.BAD."""
    told = {re.sub("(?<=[a-z])[A-Z]", lambda letter: "_" + letter[0].lower(), name): row[name] for name in row}
    name, posts = needed(told, "hashtag_name"), number_of(told.get("publish_cnt"))
    change, page_url = told.get("rank_diff"), _PAGE_URL + name
    yield hashtag(
        look,
        name,
        raw,
        id=string(told, "hashtag_id"),
        page_url=page_url,
        post_count=posts,
        view_count=number_of(told.get("video_views")),
        industry=string(told, "industry_info", "value"),
    )
    yield trend(
        look,
        name,
        rank,
        raw,
        rank_change=change if type(change) is int else None,
        volume=posts,
        volume_raw=None if posts is None else str(posts),
        page_url=page_url,
        curve=tuple(_curve(told.get("trend"))),
    )


def _curve(points: Any) -> Iterator[tuple[datetime, float]]:
    for point in points if isinstance(points, list) else ():
        at = epoch(point.get("time")) if isinstance(point, dict) else None
        value = point.get("value") if at else None
        if at and isinstance(value, (int, float)):
            yield at, float(value)

"""Parses Google Trends' RSS: popular searches in a country. Namespace ht: https://trends.google.com/trending/rss."""

from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec
from lxml import etree

from harvester.exceptions import ParseError
from harvester.items import Record
from harvester.items.trend import Trend
from harvester.parsers.hashtags.rows import ParsedTrends, Row, VisitContext, each, needed, trend, volume_of, web, webs
from harvester.parsers.json_values import string

SOURCE, PERIOD = "google", "1d"
_HT = "{https://trends.google.com/trending/rss}"


def parse_rss(body: bytes, look: VisitContext) -> ParsedTrends:
    """Parses the trends in their order, with articles about them. Raises ParseError for another feed."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise ParseError(f"the answer is no feed: {error}") from None
    if root.tag != "rss" or root.find("channel") is None:
        raise ParseError(f"the answer is no feed, but <{root.tag}>")
    rows = [msgspec.Raw(msgspec.json.encode(_row(item))) for item in root.iterfind("channel/item")]
    return each(rows, look.provenance, Trend, lambda row, raw, number: trends_of(row, raw, number, look))


def _row(item: etree._Element) -> Row:
    """Returns an item as JSON, in the form that is staged: `ht:news_item` is a list, all other values are text."""
    news = [{_name(part): part.text or "" for part in each} for each in item.iterfind(f"{_HT}news_item")]
    return {_name(part): part.text or "" for part in item if part.tag != f"{_HT}news_item"} | {"news": news}


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else "comment"


def trends_of(row: Row, raw: bytes, rank: int | None, look: VisitContext) -> Iterable[Record]:
    """Yields the records of a feed item given as JSON. Raises rows.BAD."""
    volume, news = string(row, "approx_traffic"), row.get("news")
    articles = [string(each, "news_item_url") for each in news] if isinstance(news, list) else []
    yield trend(
        look,
        needed(row, "title"),
        rank,
        raw,
        volume=volume_of(volume),
        volume_raw=volume or None,
        page_url=web(row.get("link")),
        began_at=_time(string(row, "pubDate")),
        news=webs(articles),
    )


def _time(text: str | None) -> datetime | None:
    """Parses a date as in e-mails. A date without a zone is UTC."""
    try:
        at = parsedate_to_datetime(text or "")
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None

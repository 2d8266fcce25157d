"""Answers of Mastodon's API, and of servers that speak it: trends, timelines of tags, what an instance serves."""

import re
from collections.abc import Iterable
from html import unescape
from typing import NamedTuple

from w3lib.html import remove_tags

from harvester.items import Provenance, Record
from harvester.items.trend import DayOfUse, TaggedPost, Trend, normal_tag
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
    web,
    webs,
)
from harvester.parsers.json_values import date_time, dictionary, string

SOURCE, PERIOD = "mastodon", "1d"
_no_bot = re.compile(r"#nobot\b", re.IGNORECASE).search
_line_ends = re.compile(r"<br\s*/?>|</p>\s*(?=<p\b)", re.IGNORECASE)


class TagTimeline(NamedTuple):
    """A page of a tag's timeline."""

    read: ParsedTrends
    left_out: int
    """Posts of authors who do not want to be found or read by programs."""


def parse_trends(body: bytes, look: VisitContext) -> ParsedTrends:
    """/api/v1/trends/tags: each tag as trend and as hashtag. Numbers come as texts."""
    rows = rows_of(body)
    return each(rows, look.provenance, Trend, lambda row, raw, number: trends_of(row, raw, number, look))


def trends_of(row: Row, raw: bytes, rank: int | None, look: VisitContext) -> Iterable[Record]:
    """Of one tag. Its volume is that of the latest day."""
    name, days = needed(row, "name"), row.get("history")
    history = [_day(each) for each in days if isinstance(each, dict)] if isinstance(days, list) else []
    known = sorted(filter(None, history), key=lambda each: each.day, reverse=True)
    latest = known[0] if known else None
    page_url = web(row.get("url"))
    yield hashtag(look, name, raw, page_url=page_url)
    yield trend(
        look,
        name,
        rank,
        raw,
        volume=latest.uses if latest else None,
        volume_raw=str(latest.uses) if latest else None,
        page_url=page_url,
        history=tuple(known),
    )


def _day(told: Row) -> DayOfUse | None:
    day, uses = epoch(told.get("day")), number_of(told.get("uses"))
    return None if day is None or uses is None else DayOfUse(day, uses, number_of(told.get("accounts")))


def parse_timeline(body: bytes, provenance: Provenance, *, honour_opt_outs: bool) -> TagTimeline:
    """/api/v1/timelines/tag/...: its posts, without those of authors who refuse, if that is to be honoured."""
    left_out = 0

    def build(row: Row, raw: bytes, number: int) -> Iterable[Record]:
        nonlocal left_out
        if honour_opt_outs and refuses(row):
            left_out += 1
        else:
            yield post_of(row, raw, provenance)

    return TagTimeline(each(rows_of(body), provenance, TaggedPost, build), left_out)


def refuses(row: Row) -> bool:
    """Whether the author says not to be indexed, or asks in the bio to be left alone by programs."""
    account = dictionary(row, "account") or {}
    flags = account.get("noindex") is True or account.get("indexable") is False
    return flags or _no_bot(text_of(string(account, "note") or "")) is not None


def post_of(row: Row, raw: bytes, provenance: Provenance) -> TaggedPost:
    """Of a status. Raises what is in parts.BAD."""
    uri, tags, media = needed(row, "uri"), row.get("tags"), row.get("media_attachments")
    names = [string(each, "name") for each in tags] if isinstance(tags, list) else []
    urls = [web(string(each, "url"), string(each, "remote_url")) for each in media] if isinstance(media, list) else []
    return TaggedPost(
        source=SOURCE,
        id=uri,
        page_url=web(row.get("url"), uri),
        author=author_of(row),
        author_name=string(row, "account", "display_name") or None,
        text=text_of(string(row, "content") or ""),
        tags=tuple(dict.fromkeys(normal_tag(name) for name in names if name)),
        language=string(row, "language"),
        created_at=date_time(row.get("created_at")),
        edited_at=date_time(row.get("edited_at")),
        reply_count=number_of(row.get("replies_count")),
        repost_count=number_of(row.get("reblogs_count")),
        like_count=number_of(row.get("favourites_count")),
        media_urls=webs(urls),
        provenance=provenance,
        raw=raw,
    )


def author_of(row: Row) -> str | None:
    """The account's own address: `acct` has no host for accounts of the instance that was asked."""
    return string(row, "account", "uri") or string(row, "account", "url") or string(row, "account", "acct")


def text_of(html: str) -> str:
    """What an author wrote, of the HTML into which the instance made it."""
    lines = _line_ends.sub(lambda end: "\n\n" if end[0].startswith("</") else "\n", html)
    return unescape(remove_tags(lines)).strip()


def feeds_access(body: bytes) -> str:
    """/api/v2/instance: to whom it serves timelines of tags: `public`, `authenticated`, `disabled`; empty: unsaid.

    An instance may say it of posts of its own and of others: the more open one counts.
    """
    access = dictionary(dictionary(object_of(body), "configuration"), "timelines_access")
    told = (access or {}).get("hashtag_feeds")
    words = [told] if isinstance(told, str) else [*told.values()] if isinstance(told, dict) else []
    return next((word for word in ("public", "authenticated", "disabled") if word in words), "")

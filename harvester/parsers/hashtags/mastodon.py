"""Parses Mastodon's API, also on compatible servers: trends, timelines of tags, and the access rules of an instance."""

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
    """Number of posts whose authors do not want to be found or read by programs."""


def parse_trends(body: bytes, look: VisitContext) -> ParsedTrends:
    """Parses /api/v1/trends/tags: each tag as trend and as hashtag. Numbers arrive as texts."""
    rows = rows_of(body)
    return each(rows, look.provenance, Trend, lambda row, raw, number: trends_of(row, raw, number, look))


def trends_of(row: Row, raw: bytes, rank: int | None, look: VisitContext) -> Iterable[Record]:
    """Yields the records of a tag. The volume is the number of uses on the latest day."""
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
    """Parses /api/v1/timelines/tag/...: the posts, without posts of authors who refuse if `honour_opt_outs` is set."""
    left_out = 0

    def build(row: Row, raw: bytes, number: int) -> Iterable[Record]:
        nonlocal left_out
        if honour_opt_outs and refuses(row):
            left_out += 1
        else:
            yield post_of(row, raw, provenance)

    return TagTimeline(each(rows_of(body), provenance, TaggedPost, build), left_out)


def refuses(row: Row) -> bool:
    """True if the author refuses indexing, or asks in the bio to be left alone by programs."""
    account = dictionary(row, "account") or {}
    flags = account.get("noindex") is True or account.get("indexable") is False
    return flags or _no_bot(text_of(string(account, "note") or "")) is not None


def post_of(row: Row, raw: bytes, provenance: Provenance) -> TaggedPost:
    """Returns the post of a status. Raises rows.BAD."""
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
    """Returns the account's own address. `acct` lacks the host for accounts of the requested instance."""
    return string(row, "account", "uri") or string(row, "account", "url") or string(row, "account", "acct")


def text_of(html: str) -> str:
    """Returns the author's text from the instance's HTML."""
    lines = _line_ends.sub(lambda end: "\n\n" if end[0].startswith("</") else "\n", html)
    return unescape(remove_tags(lines)).strip()


def feeds_access(body: bytes) -> str:
    """Parses /api/v2/instance: who may read timelines of tags.

    Returns `public`, `authenticated` or `disabled`; empty if the instance does not state it. An instance may state it
    separately for its own posts and for posts of others: the more open value counts.
    """
    access = dictionary(dictionary(object_of(body), "configuration"), "timelines_access")
    told = (access or {}).get("hashtag_feeds")
    words = [told] if isinstance(told, str) else [*told.values()] if isinstance(told, dict) else []
    return next((word for word in ("public", "authenticated", "disabled") if word in words), "")

"""Reads staged lines of hashtags and trends back to records."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Raw, Struct

from harvester.exceptions import InvalidRecordError
from harvester.items import Provenance, Record
from harvester.items.trend import Hashtag, TaggedPost, Trend
from harvester.parsers.bluesky.staged import read_staged as bluesky_staged
from harvester.parsers.hashtags import bluesky, google, instagram, mastodon, tiktok, youtube
from harvester.parsers.hashtags.rows import Row, VisitContext, object_of
from harvester.parsers.json_values import dictionary

_is_key = re.compile(r"(?P<source>\S+) (?P<region>\S+) (?P<period>\S+) (?P<at>\S+Z) (?P<tag>.+)", re.DOTALL).fullmatch


def read_staged(kind: str, key: str, raw: bytes, provenance: Provenance) -> Record | None:
    """Returns the record of a line; None for an unknown kind of line.

    Raises InvalidRecordError and ParseError for a line that cannot be read.
    """
    row, source = object_of(raw), key.partition(" ")[0]
    if kind == TaggedPost.KIND:
        return _POSTS[source](row, raw, provenance)
    if kind == Hashtag.KIND:
        look, rank = VisitContext(source, "-", "-", provenance.fetched_at, provenance), None
        if source == instagram.SOURCE:
            asked = parse_qs(urlsplit(provenance.url).query).get("q", [key.partition(" ")[2]])[0]
            return instagram.hashtag_of(row, raw, look, asked)
    elif kind == Trend.KIND:
        look, rank = _look(key, provenance), row["rank"]
        raw = bytes(msgspec.json.decode(raw, type=_Ranked).row)
        row = object_of(raw)
    else:
        return bluesky_staged(kind, key, raw, provenance)
    made: Iterable[Record] = _TRENDS[source](row, raw, rank, look)
    return next((record for record in made if kind == record.KIND), None)


def author_of(raw: Any) -> str | None:
    """Returns the author of the post or video in a staged or rejected line."""
    row = dictionary(raw, "row") or raw  # the line of a trend has the row inside
    return mastodon.author_of(row) or youtube.author_of(row)


_POSTS: dict[str, Callable[[Row, bytes, Provenance], Record]] = {
    each.SOURCE: each.post_of for each in (instagram, mastodon, youtube)
}
_TRENDS: dict[str, Callable[[Row, bytes, int | None, VisitContext], Iterable[Record]]] = {
    each.SOURCE: each.trends_of for each in (bluesky, google, mastodon, tiktok, youtube)
} | {bluesky.COUNTED: bluesky.trends_of}


class _Ranked(Struct):
    row: Raw


def _look(key: str, provenance: Provenance) -> VisitContext:
    found = _is_key(key)
    if not found:
        raise InvalidRecordError(f"{Trend.KIND}: {key!r} is no key of one")
    at = datetime.strptime(found["at"], "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC)
    return VisitContext(found["source"], found["region"], found["period"], at, provenance)

"""Parses YouTube's Data API v3: popular videos of a country, and videos that a search for a hashtag finds."""

from collections.abc import Iterable
from html import unescape
from typing import NamedTuple

from harvester.items import Provenance, Record
from harvester.items.trend import TaggedPost, normal_tag
from harvester.parsers.hashtags.rows import (
    ParsedTrends,
    Row,
    VisitContext,
    each,
    needed,
    number_of,
    object_of,
    rows_of,
    tags_in,
    trend,
    web,
    webs,
)
from harvester.parsers.json_values import date_time, dictionary, string, strings

SOURCE, PERIOD, ALL = "youtube", "1d", "all"
_WATCH = "https://www.youtube.com/watch?v="


class AnswerExtras(NamedTuple):
    """The fields of a response beside its videos."""

    next_page: str
    """Token of the next page; empty on the last page."""
    total: int | None
    """Approximate number of results on all pages."""


def parse_popular(body: bytes, look: VisitContext, first: int) -> ParsedTrends:
    """Parses videos.list?chart=mostPopular: each video as trend and as post. `first` is the rank of the first video."""

    def build(row: Row, raw: bytes, number: int) -> Iterable[Record]:
        yield from trends_of(row, raw, number, look)
        yield post_of(row, raw, look.provenance)

    return each(rows_of(body, "items"), look.provenance, TaggedPost, build, first)


def parse_found(body: bytes, provenance: Provenance) -> ParsedTrends:
    """Parses search.list: videos as posts. Other results are left out."""

    def build(row: Row, raw: bytes, number: int) -> Iterable[Record]:
        if string(row, "id", "kind") in ("youtube#video", None):
            yield post_of(row, raw, provenance)

    return each(rows_of(body, "items"), provenance, TaggedPost, build)


def rest_of(body: bytes) -> AnswerExtras:
    """Returns the fields of a response beside its videos. Raises ParseError."""
    answer = object_of(body)
    return AnswerExtras(
        string(answer, "nextPageToken") or "", number_of((dictionary(answer, "pageInfo") or {}).get("totalResults"))
    )


def trends_of(row: Row, raw: bytes, rank: int | None, look: VisitContext) -> Iterable[Record]:
    """Yields the trend of a video, with the video's id as tag; or of a tag whose results were counted."""
    if "tag" in row:
        posts = number_of(row.get("posts"))
        yield trend(look, needed(row, "tag"), rank, raw, volume=posts, volume_raw=None if posts is None else str(posts))
        return
    views, video = string(row, "statistics", "viewCount"), needed(row, "id")
    title = needed(dictionary(row, "snippet") or {}, "title")
    told = {"volume": number_of(views), "volume_raw": views, "page_url": _WATCH + video, "author": author_of(row)}
    yield trend(look, title, rank, raw, tag=video, **told)


def author_of(row: Row) -> str | None:
    """Returns the channel of a video."""
    return string(row, "snippet", "channelId")


def post_of(row: Row, raw: bytes, provenance: Provenance) -> TaggedPost:
    """Returns the post of a video from either call. Raises rows.BAD."""
    video = string(row, "id", "videoId") or needed(row, "id")
    snippet, counts = dictionary(row, "snippet") or {}, dictionary(row, "statistics") or {}
    text = "\n\n".join(filter(None, (string(snippet, "title"), string(snippet, "description"))))
    text = unescape(text) if isinstance(row.get("id"), dict) else text  # searches return texts as HTML
    names = [*tags_in(text), *strings(snippet.get("tags"))]
    thumbnails = dictionary(snippet, "thumbnails") or {}
    return TaggedPost(
        source=SOURCE,
        id=video,
        page_url=web(_WATCH + video),
        author=author_of(row),
        author_name=string(snippet, "channelTitle"),
        text=text,
        tags=tuple(dict.fromkeys(map(normal_tag, names))),
        language=string(snippet, "defaultAudioLanguage") or string(snippet, "defaultLanguage"),
        created_at=date_time(snippet.get("publishedAt")),
        reply_count=number_of(counts.get("commentCount")),
        like_count=number_of(counts.get("likeCount")),
        view_count=number_of(counts.get("viewCount")),
        media_urls=webs([string(thumbnails, "high", "url") or string(thumbnails, "default", "url")]),
        provenance=provenance,
        raw=raw,
    )

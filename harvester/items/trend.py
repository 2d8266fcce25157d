"""The records of hashtags and trends: popular topics of a source, their volume over time, and posts with a tag."""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from msgspec import Struct

from harvester.items.base import WEB, Record

WORLD = "world"
"""Region of a source's figures for the whole world."""
_blank = re.compile(r"[\s\x00-\x1f\x7f]+")
_JOINING = "_\u00b7\u30fb\u200c\u200d"
"""Characters that join the words, or the letters, of a hashtag."""


def normal_tag(text: str) -> str:
    """Returns the normal form of a tag: without `#`, NFKC, in small letters, on one line."""
    return _blank.sub(" ", unicodedata.normalize("NFKC", text)).strip().lstrip("#").strip().casefold()


def is_of_tag(letter: str) -> bool:
    """True if a hashtag may hold the letter.

    These are letters, combining marks as in many scripts, digits, and the joining characters.
    """
    return letter.isalnum() or letter in _JOINING or unicodedata.category(letter).startswith("M")


def look_of(at: datetime, every: timedelta) -> datetime:
    """Returns the start of the source's period that contains `at`. All visits within one period count as one."""
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + (at - day) // every * every


class Hashtag(Record, frozen=True, kw_only=True):
    """A hashtag as a source describes it, at the latest visit."""

    KIND = "hashtag"
    COLLECTION = "hashtags"
    KEY = ("source", "tag")
    INDEXES = (("tag",),)

    source: str
    tag: str
    """In its normal form."""
    name: str
    """As the source writes it."""
    id: str | None = None
    """The source's own id."""
    page_url: str | None = None
    post_count: int | None = None
    view_count: int | None = None
    industry: str | None = None


class DayOfUse(Struct, frozen=True, omit_defaults=True):
    """The use of a tag on one day."""

    day: datetime
    uses: int
    accounts: int | None = None


class Trend(Record, frozen=True, kw_only=True):
    """A tag or topic in a list of a source at one visit: a point of a time series."""

    KIND = "trend"
    COLLECTION = "trends"
    KEY: ClassVar[tuple[str, ...]] = ("source", "region", "period", "tag")
    OWNERS = ("author",)
    COVERED = ("volume",)
    INDEXES = (("source", "region", "period", "looked_at"), ("tag", "looked_at"))

    source: str
    region: str
    """Code of a country, host of an instance, or WORLD."""
    period: str
    """Length of time that the source counts over: 1d, 7d, or `all`."""
    looked_at: datetime
    """Time of the visit, rounded down to the source's publishing interval."""
    tag: str
    """In its normal form. For a video, its id."""
    name: str
    """As the source writes it."""
    rank: int | None = None
    """Counts from 1. None if the tag was requested by name rather than found in a list."""
    rank_change: int | None = None
    """Change since the period before, as the source states it."""
    volume: int | None = None
    """Number of posts, searches or views. For a number like 20K+ the lower bound."""
    volume_raw: str | None = None
    """As the source writes it."""
    page_url: str | None = None
    author: str | None = None
    """Author of a video."""
    began_at: datetime | None = None
    history: tuple[DayOfUse, ...] = ()
    curve: tuple[tuple[datetime, float], ...] = ()
    """Popularity over the period; each value is a share of the maximum."""
    news: tuple[str, ...] = ()
    """Addresses of articles."""

    @property
    def key(self) -> str:
        """Returns the key. The tag comes last, since only the tag may hold spaces."""
        return f"{self.source} {self.region} {self.period} {self.looked_at:%Y-%m-%dT%H:%MZ} {self.tag}"

    def problem(self) -> str | None:
        if problem := Record.problem(self):
            return problem
        if self.rank is not None and self.rank < 1:
            return "rank is less than 1"
        return "volume is negative" if self.volume is not None and self.volume < 0 else None


class TaggedPost(Record, frozen=True, kw_only=True):
    """A post or video that a source shows for a tag, or among popular ones. Posts of Bluesky have their own type."""

    KIND = "tagged_post"
    COLLECTION = "tagged_posts"
    PLURAL = "posts with a tag"
    KEY = ("source", "id")
    OWNERS = ("author",)
    CLEANED: ClassVar[Mapping[str, str]] = {"text": "text_clean"}
    COVERED = ("text", "created_at")
    INDEXES = (("tags", "created_at"), ("source", "created_at"))

    source: str
    id: str
    """The source's own id, the same wherever the post is seen."""
    page_url: str | None = None
    author: str | None = None
    """Author as the source identifies it; None if the source does not."""
    author_name: str | None = None
    text: str = ""
    """Text of the author, without markup. For a video, title and description."""
    text_clean: str | None = None
    tags: tuple[str, ...] = ()
    """In their normal form."""
    language: str | None = None
    created_at: datetime | None = None
    edited_at: datetime | None = None
    reply_count: int | None = None
    repost_count: int | None = None
    like_count: int | None = None
    view_count: int | None = None
    media_urls: tuple[str, ...] = ()

    def problem(self) -> str | None:
        if problem := Record.problem(self):
            return problem
        return None if all(url.startswith(WEB) for url in self.media_urls) else "a media url is no web address"

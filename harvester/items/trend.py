"""The records of hashtags and trends: what many speak of at a source, how much at which time, and posts with a tag."""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from msgspec import Struct

from harvester.items.base import WEB, Record

WORLD = "world"
"""Region of what a source tells of all regions together."""
_blank = re.compile(r"[\s\x00-\x1f\x7f]+")
_JOINING = "_\u00b7\u30fb\u200c\u200d"
"""What joins the words, or the letters, of a hashtag."""


def normal_tag(text: str) -> str:
    """A tag by which two ways to write it are the same: without `#`, NFKC, in small letters, on one line."""
    return _blank.sub(" ", unicodedata.normalize("NFKC", text)).strip().lstrip("#").strip().casefold()


def is_of_tag(letter: str) -> bool:
    """Whether a hashtag may hold it: letters, the signs that many scripts add to them, digits, and what joins them."""
    return letter.isalnum() or letter in _JOINING or unicodedata.category(letter).startswith("M")


def look_of(at: datetime, every: timedelta) -> datetime:
    """When a look counts as taken that was taken then: all within one period of the source are one."""
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + (at - day) // every * every


class Hashtag(Record, frozen=True, kw_only=True):
    """A hashtag as a source knows it: the latest that was seen of it."""

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
    """The source's own."""
    page_url: str | None = None
    post_count: int | None = None
    view_count: int | None = None
    industry: str | None = None


class DayOfUse(Struct, frozen=True, omit_defaults=True):
    """How much a tag was used on a day."""

    day: datetime
    uses: int
    accounts: int | None = None


class Trend(Record, frozen=True, kw_only=True):
    """What a source said of a tag or topic when it was looked at: a point of a time series."""

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
    """Over which the source counts: 1d, 7d, or `all`."""
    looked_at: datetime
    """The time of looking, rounded down to how often the source has something new."""
    tag: str
    """In its normal form; of a video its id."""
    name: str
    """As the source writes it."""
    rank: int | None = None
    """From 1. None: the tag was asked for, and not found among others."""
    rank_change: int | None = None
    """Since the period before, as the source says it."""
    volume: int | None = None
    """How many posts, searches or views; of a number like 20K+ the least."""
    volume_raw: str | None = None
    """As the source writes it."""
    page_url: str | None = None
    author: str | None = None
    """Of a video: whose it is."""
    began_at: datetime | None = None
    history: tuple[DayOfUse, ...] = ()
    curve: tuple[tuple[datetime, float], ...] = ()
    """How popular it was over the period, each time as a share of the most."""
    news: tuple[str, ...] = ()
    """Addresses of articles."""

    @property
    def key(self) -> str:
        """The tag is last: it alone may hold spaces."""
        return f"{self.source} {self.region} {self.period} {self.looked_at:%Y-%m-%dT%H:%MZ} {self.tag}"

    def problem(self) -> str | None:
        if problem := Record.problem(self):
            return problem
        if self.rank is not None and self.rank < 1:
            return "rank is less than 1"
        return "volume is negative" if self.volume is not None and self.volume < 0 else None


class TaggedPost(Record, frozen=True, kw_only=True):
    """A post or video that a source shows for a tag, or among what is popular. Of Bluesky these are its own posts."""

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
    """The source's own, the same wherever it was seen."""
    page_url: str | None = None
    author: str | None = None
    """By which the source names it; None where it tells nobody."""
    author_name: str | None = None
    text: str = ""
    """What the author wrote, without markup; of a video title and description."""
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

"""Records of feeds: RSS, Atom, JSON Feed, and sitemaps, which are lists of pages."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from harvester.items.base import Record


class Feed(Record, frozen=True, kw_only=True, gc=False):
    """What a feed says of itself."""

    KIND: ClassVar[str] = "feed"
    COLLECTION: ClassVar[str] = "feeds"
    KEY: ClassVar[tuple[str, ...]] = ("feed_url",)

    feed_url: str
    """The address that was asked for."""
    form: str
    """rss, atom, json or sitemap."""
    title: str | None = None
    description: str | None = None
    """As it came: it may be HTML, which nobody has made safe."""
    page_url: str | None = None
    """Of the site that it is of."""
    language: str | None = None


class Enclosure(Struct, frozen=True, omit_defaults=True, gc=False):
    """A file that belongs to an entry, like the sound of a podcast."""

    url: str
    type: str | None = None
    size: int | None = None
    """Bytes, as the feed says."""


class FeedEntry(Record, frozen=True, kw_only=True, gc=False):
    """An entry of a feed, or a page that a sitemap lists."""

    KIND: ClassVar[str] = "feed_entry"
    COLLECTION: ClassVar[str] = "feed_entries"
    KEY: ClassVar[tuple[str, ...]] = ("feed_url", "id")
    CLEANED: ClassVar[Mapping[str, str]] = {"summary": "summary_text", "content": "content_text"}
    COVERED: ClassVar[tuple[str, ...]] = ("title", "page_url", "published_at")
    INDEXES: ClassVar[Sequence[tuple[str, ...]]] = (("feed_url", "published_at"), ("page_url",))

    feed_url: str
    id: str
    """Its own, else its address, else a digest of what it says."""
    page_url: str | None = None
    title: str | None = None
    """In the normal form NFC, as all its texts but for the summary and the content."""
    summary: str | None = None
    """As it came: it may be HTML, which nobody has made safe."""
    summary_text: str | None = None
    content: str | None = None
    """As it came, likewise."""
    content_text: str | None = None
    authors: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    published_at: datetime | None = None
    """UTC."""
    updated_at: datetime | None = None
    """UTC. Of a page of a sitemap, when it changed last."""
    withheld: dict[str, str] = {}  # noqa: RUF012  msgspec copies it
    """Why a date is absent that the feed says, with what stood there."""
    language: str | None = None
    enclosures: tuple[Enclosure, ...] = ()

"""Records of feeds: RSS, Atom, JSON Feed, and sitemaps, which are lists of pages."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from harvester.items.base import Record


class Feed(Record, frozen=True, kw_only=True, gc=False):
    """The description that a feed gives of itself."""

    KIND: ClassVar[str] = "feed"
    COLLECTION: ClassVar[str] = "feeds"
    KEY: ClassVar[tuple[str, ...]] = ("feed_url",)

    feed_url: str
    """The requested address."""
    form: str
    """rss, atom, json or sitemap."""
    title: str | None = None
    description: str | None = None
    """Unchanged, so it may be unsafe HTML."""
    page_url: str | None = None
    """Address of the site that publishes the feed."""
    language: str | None = None


class Enclosure(Struct, frozen=True, omit_defaults=True, gc=False):
    """A file that belongs to an entry, like the sound of a podcast."""

    url: str
    type: str | None = None
    size: int | None = None
    """Bytes, as stated in the feed."""


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
    """The entry's own id, else its address, else a digest of the content."""
    page_url: str | None = None
    title: str | None = None
    """In the normal form NFC, as all texts of the entry except the summary and the content."""
    summary: str | None = None
    """Unchanged, so it may be unsafe HTML."""
    summary_text: str | None = None
    content: str | None = None
    """Unchanged, so it may be unsafe HTML."""
    content_text: str | None = None
    authors: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    published_at: datetime | None = None
    """In UTC."""
    updated_at: datetime | None = None
    """In UTC. For a page of a sitemap, the time of the last change."""
    withheld: dict[str, str] = {}  # noqa: RUF012  msgspec copies it
    """Reasons why a date that the feed states is absent here, by field, with the text of the feed."""
    language: str | None = None
    enclosures: tuple[Enclosure, ...] = ()

"""The requests of the spider `hashtags`: kinds of items, their keys, and the time of a visit."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from scrapy import Request
from scrapy.http import Response

from harvester.items import Found
from harvester.items.trend import look_of, normal_tag
from harvester.meta import EXPECTS
from harvester.parsers.hashtags.rows import VisitContext
from harvester.spiders.hashtags.arguments import HashtagsArguments
from harvester.spiders.job import JobSpider

TAG, CHART = "tag", "chart"
"""Kinds of items: a hashtag at a source, and the source's trends. The item's input has the tag as typed."""


class WantedTag(NamedTuple):
    """The source, place and tag in an item's key."""

    source: str
    place: str
    """A region or an instance; empty where the source has neither."""
    tag: str = ""
    """The normalised tag; empty for trends."""

    @property
    def key(self) -> str:
        """The item's key: `google US`, `mastodon mastodon.social #cats`, `bluesky #cats`."""
        return " ".join(filter(None, (self.source, self.place, self.tag and f"#{self.tag}")))

    @classmethod
    def of(cls, key: str) -> "WantedTag":
        """Parses a key, and normalises its tag."""
        where, _, tag = key.partition("#")
        source, _, place = where.strip().partition(" ")
        return cls(source, place.strip(), normal_tag(tag))


def found(source: str, place: str, tag: str = "") -> Found:
    """Returns an item. Two spellings of a tag are one item; requests use the tag as typed."""
    key = WantedTag(source, place, normal_tag(tag)).key
    return Found(TAG, key, {TAG: tag}, depth=0) if tag else Found(CHART, key, depth=0)


class HashtagRequests(JobSpider):
    """The requests that all sources use."""

    Arguments = HashtagsArguments
    arguments: HashtagsArguments

    def ask(
        self,
        url: str,
        callback: Callable[..., Any],
        *,
        errback: Callable[..., Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Request:
        """Returns a request. `arguments` go to the callback."""
        return Request(url, callback, errback=errback, cb_kwargs=arguments, meta=dict(meta or {}))

    def ask_json(self, url: str, callback: Callable[..., Any], **more: Any) -> Request:
        """Returns a request for JSON."""
        return self.ask(url, callback, **more | {"meta": {EXPECTS: "json", **more.get("meta", {})}})

    def look(self, response: Response, source: str, region: str, period: str, every: timedelta) -> VisitContext:
        """Returns the context of a visit. `every`: time between two updates of the source."""
        seen = self.provenance(response)
        return VisitContext(source, region, period, look_of(seen.fetched_at, every), seen)

"""What all sources of the spider `hashtags` share: kinds of items and their keys, and how a look is dated."""

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
"""Kinds of items: a hashtag at a source, and what is popular there. The tag as it was given is in the item's input."""


class WantedTag(NamedTuple):
    """What an item asks for."""

    source: str
    place: str
    """A region or an instance; empty where the source has neither."""
    tag: str = ""
    """In its normal form; empty: what is popular."""

    @property
    def key(self) -> str:
        """Of the item: `google US`, `mastodon mastodon.social #cats`, `bluesky #cats`."""
        return " ".join(filter(None, (self.source, self.place, self.tag and f"#{self.tag}")))

    @classmethod
    def of(cls, key: str) -> "WantedTag":
        """As a key says it, in the usual form."""
        where, _, tag = key.partition("#")
        source, _, place = where.strip().partition(" ")
        return cls(source, place.strip(), normal_tag(tag))


def found(source: str, place: str, tag: str = "") -> Found:
    """An item. Two ways to write a tag are one item; it is asked for as it was given."""
    key = WantedTag(source, place, normal_tag(tag)).key
    return Found(TAG, key, {TAG: tag}, depth=0) if tag else Found(CHART, key, depth=0)


class HashtagRequests(JobSpider):
    """What all sources ask with."""

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
        """A request whose callback is given `arguments`."""
        return Request(url, callback, errback=errback, cb_kwargs=arguments, meta=dict(meta or {}))

    def ask_json(self, url: str, callback: Callable[..., Any], **more: Any) -> Request:
        """The same, of an API."""
        return self.ask(url, callback, **more | {"meta": {EXPECTS: "json", **more.get("meta", {})}})

    def look(self, response: Response, source: str, region: str, period: str, every: timedelta) -> VisitContext:
        """What was seen now. `every`: how often the source has something new."""
        seen = self.provenance(response)
        return VisitContext(source, region, period, look_of(seen.fetched_at, every), seen)

"""The spider `hostile`: reads whatever it is answered as spiders do, and follows all that it finds."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field
from scrapy import Request
from scrapy.http import Response, TextResponse
from twisted.python.failure import Failure

from harvester.exceptions import ParseError
from harvester.items import Media, Provenance, Record
from harvester.outcomes import verdict_of
from harvester.parsers.web.sitemap import SitemapEntry
from harvester.spiders.base import SpiderArguments
from harvester.spiders.sitemaps import SitemapSpider
from tests.hostile.behaviours import BEHAVIOURS

SHORT_S = 2.0
SLOW = {each.name for each in BEHAVIOURS if each.outcome == "timeout"}


class Trap(Record, frozen=True, kw_only=True, gc=False):
    """What came of a behaviour."""

    KIND = "trap"
    COLLECTION = "traps"
    KEY = ("name",)
    MEDIA_FIXED = True

    name: str
    title: str = ""
    picture_url: str | None = None

    def media(self) -> list[Media]:
        if not self.picture_url:
            return []
        climbs = "picture-path" in self.picture_url
        return [Media(self.picture_url, "../../../../escaped.jpg" if climbs else f"traps/{self.name}.jpg", "picture")]


class HostileArguments(SpiderArguments):
    """Which site."""

    urls: str = Field(description="Addresses of the behaviours")


class HostileSpider(SitemapSpider):
    """Every behaviour of the hostile site.

    Domain: hostile.example. Caveats: none. Arguments: `-a urls=http://...`.
    """

    name = "hostile"
    Arguments = HostileArguments
    arguments: HostileArguments

    async def start(self) -> AsyncIterator[Any]:
        for url in self.arguments.urls.split():
            timeout = {"download_timeout": SHORT_S} if _name(url) in SLOW else {}
            yield Request(url, errback=self.failed, meta={"trap": url, **timeout})

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        trap = response.meta["trap"]
        if b"xml" in (response.headers.get("Content-Type") or b""):
            async for request in self.parse_sitemap(response, "hostile.example", 1):
                yield request
            yield [self._record(trap)]
        elif b"json" in (response.headers.get("Content-Type") or b""):
            try:
                told = msgspec.json.decode(response.body)
                title, picture = str(told["title"]), told.get("picture")
            except (ValueError, RecursionError, LookupError, AttributeError) as error:
                raise ParseError(f"this is not the JSON that was wanted: {error!r:.200}") from None
            yield [self._record(trap, title, picture)]
        else:
            html = isinstance(response, TextResponse)
            links = response.css("a::attr(href)").getall() if html else []
            title = response.css("title::text").get("") if html else ""
            yield [self._record(trap, title[:10_000])]
            for link in links:
                try:
                    yield response.follow(link, self.linked, errback=self.link_failed, meta={"link": trap})
                except ValueError:
                    self.crawler.stats.inc_value("hostile/no_links")

    def page_request(self, entry: SitemapEntry) -> Request | None:
        return Request(entry.url, self.linked, errback=self.link_failed)

    def linked(self, response: Response) -> None:
        self.crawler.stats.inc_value("hostile/linked")

    def link_failed(self, failure: Failure) -> None:
        assert failure.value
        self.crawler.stats.inc_value(f"hostile/links/{verdict_of(failure.value).outcome}")

    def failed(self, failure: Failure) -> None:
        assert failure.value
        request: Request = failure.request  # type: ignore[attr-defined]
        _tell(_name(request.meta["trap"]), verdict_of(failure.value).outcome)

    def _record(self, trap: str, title: str = "", picture: str | None = None) -> Trap:
        _tell(_name(trap), "ok")
        provenance = Provenance(trap, datetime.now(UTC), self.name, self.crawl_id)
        return Trap(name=_name(trap), provenance=provenance, title=title, picture_url=picture)


def _name(url: str) -> str:
    return url.removeprefix("http://").partition(".")[0]


def _tell(name: str, outcome: str) -> None:
    with Path(os.environ["HOSTILE_TOLD"]).open("a") as told:
        print(name, outcome, file=told)

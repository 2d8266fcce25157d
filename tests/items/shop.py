"""A plain spider of a made-up bookshop, with a record of its own: python -m tests.items.shop SITE NAME."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings

from harvester.items import Media, Provenance, Record


class Book(Record, frozen=True, kw_only=True):
    """A book of the shop."""

    KIND = "book"
    COLLECTION = "books"
    KEY = ("number",)
    CLEANED = {"blurb": "blurb_clean"}  # noqa: RUF012
    COVERED = ("title", "price")
    INDEXES = (("price",),)

    number: int
    title: str
    price: float
    page_count: int
    blurb: str | None = None
    blurb_clean: str | None = None
    cover_url: str | None = None

    def media(self) -> list[Media]:
        if self.cover_url is None:
            return []
        return [Media(self.cover_url, "../../climbed.jpg" if self.number == 5 else f"books/{self.number}.jpg", "cover")]


class ShopSpider(Spider):
    """It knows nothing of harvester but its records."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield from response.follow_all(response.css("a.book::attr(href)").getall(), self.parse_book)
        yield from response.follow_all(response.css("a.next::attr(href)").getall())

    def parse_book(self, response: Response) -> Iterator[Book]:
        cover = response.css("img::attr(src)").get()
        yield Book(
            number=int(response.url.rpartition("/")[2]),
            title=response.css("h1::text").get(""),
            price=float(response.css(".price::text").re_first(r"[\d.]+") or 0),
            page_count=int(response.css(".pages::text").get("0")),
            blurb=response.css(".blurb::text").get(),
            cover_url=response.urljoin(cover) if cover else None,
            raw=response.body,
            provenance=Provenance(response.url, datetime.now(UTC), self.name),
        )


def main() -> None:
    site, name = sys.argv[1:]
    settings = Settings()
    settings.setmodule("harvester.settings")
    process = AsyncCrawlerProcess(settings)
    process.crawl(type(name, (ShopSpider,), {"name": name, "start_urls": [f"{site}/list/1"]}))
    process.start()


if __name__ == "__main__":
    main()

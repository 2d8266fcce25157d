"""A downloader middleware that has read in robots.txt how much time a site wants between requests."""

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler

from harvester.politeness.throttle import throttle_of


class CrawlDelays:
    """Tells of the delays in the setting CRAWL_DELAYS before the first request."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._delays: dict[str, float] = crawler.settings.getdict("CRAWL_DELAYS")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        while self._delays:
            throttle_of(self._crawler).set_crawl_delay(*self._delays.popitem())

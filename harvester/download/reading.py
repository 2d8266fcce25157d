"""The crawl's reader for content that may be expensive to read: see harvester.bounded."""

from scrapy import signals
from scrapy.crawler import Crawler

from harvester.bounded.reader import BoundedReader
from harvester.components import get_component


def reader_of(crawler: Crawler) -> BoundedReader:
    """Returns the crawl's reader. Its processes start when they are needed, and end with the crawl."""

    def make() -> BoundedReader:
        reader = BoundedReader()
        crawler.signals.connect(reader.close, signals.spider_closed, weak=False)
        return reader

    return get_component(crawler, BoundedReader, make)

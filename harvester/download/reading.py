"""Where a crawl reads what may cost much: see harvester.bounded."""

from scrapy import signals
from scrapy.crawler import Crawler

from harvester.bounded.reader import BoundedReader
from harvester.components import get_component


def reader_of(crawler: Crawler) -> BoundedReader:
    """Returns the reader of the crawl. Its processes start when they are needed, and end with the crawl."""

    def make() -> BoundedReader:
        reader = BoundedReader()
        crawler.signals.connect(reader.close, signals.spider_closed, weak=False)
        return reader

    return get_component(crawler, BoundedReader, make)

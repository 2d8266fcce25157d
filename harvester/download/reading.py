"""Where a crawl reads what may cost much: see harvester.bounded."""

from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.crawler import Crawler

from harvester.bounded.reader import BoundedReader

_made: WeakKeyDictionary[Crawler, BoundedReader] = WeakKeyDictionary()


def reader_of(crawler: Crawler) -> BoundedReader:
    """Returns the reader of the crawl. Its processes start when they are needed, and end with the crawl."""
    if crawler not in _made:
        reader = _made[crawler] = BoundedReader()
        crawler.signals.connect(reader.close, signals.spider_closed, weak=False)
    return _made[crawler]

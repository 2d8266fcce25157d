"""Where the components of a run count: dozens of times for each page."""

from scrapy.statscollectors import MemoryStatsCollector


class Stats(MemoryStatsCollector):
    """Scrapy's, which looks at each call for an argument that is no longer used: that takes longer than to count."""

    __getattribute__ = object.__getattribute__

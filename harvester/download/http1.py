"""The download handler of nearly all requests: Scrapy's on aiohttp, with our own look-up of names."""

from aiohttp import TCPConnector
from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler
from scrapy.crawler import Crawler

from harvester.download.dns import CachingResolver


class Http1DownloadHandler(AiohttpDownloadHandler):
    """Speaks HTTP/1.1, through a proxy when the request names one."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        connector = self._session.connector
        assert isinstance(connector, TCPConnector)
        connector._resolver = CachingResolver(crawler.stats)  # Scrapy's handler takes no resolver
        connector._use_dns_cache = False  # aiohttp's, of ten seconds, that knows of no failures

"""Downloader middleware: nothing is asked for an account that was purged while requests for it waited."""

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler

from harvester.download.addresses import Refused
from harvester.parsers.bluesky.scrub import PURGED
from harvester.privacy.purged import Purged, purged_of


class PurgedMiddleware:
    """A request that asks for others too goes out; nothing of the account is kept of its answer."""

    def __init__(self, purged: Purged) -> None:
        self._purged = purged

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(purged_of(crawler))

    def process_request(self, request: Request) -> None:
        if not self._purged.allows_address(request.url):
            raise Refused(PURGED)

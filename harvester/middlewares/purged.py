"""Downloader middleware: refuses requests for an account that was purged while they waited."""

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler

from harvester.download.addresses import Refused
from harvester.parsers.bluesky.scrub import PURGED
from harvester.privacy.purged import Purged, purged_of


class PurgedMiddleware:
    """Lets a request for several accounts pass; records of the purged account in its response are not saved."""

    def __init__(self, purged: Purged) -> None:
        self._purged = purged

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(purged_of(crawler))

    def process_request(self, request: Request) -> None:
        if not self._purged.allows_address(request.url):
            raise Refused(PURGED)

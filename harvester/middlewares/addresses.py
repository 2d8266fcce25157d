"""Downloader middleware: no request goes where no server can be, nor into a private network."""

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from harvester.config import Config, load_config
from harvester.download.addresses import refuse_private, unusable
from harvester.exceptions import AddressError


class AddressMiddleware:
    """Judges by the address alone. Where its host's name leads, the download handlers see when they connect."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(load_config())

    def process_request(self, request: Request) -> None:
        if (length := len(request.url)) > (most := self._config.max_url_bytes):
            raise AddressError(f"the address has {length:,} bytes; HARVESTER_MAX_URL_BYTES allows {most:,}")
        if fault := unusable(request.url):
            raise AddressError(fault)
        if refusal := refuse_private(request.url, self._config):
            raise IgnoreRequest(refusal)

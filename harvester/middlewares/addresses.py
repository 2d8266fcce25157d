"""Downloader middleware: no redirect leads a request for a picture into a private network."""

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest

from harvester.addresses import refuse_private
from harvester.config import Config, load_config
from harvester.middlewares.outcome import MEDIA


class AddressMiddleware:
    """Looks at every request for a picture, so also at what a redirect made of one."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(load_config())

    def process_request(self, request: Request) -> None:
        if request.meta.get(MEDIA) and (refusal := refuse_private(request.url, self._config)):
            raise IgnoreRequest(refusal)

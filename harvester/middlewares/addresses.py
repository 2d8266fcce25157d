"""Downloader middleware: no request goes where no server can be, and no picture or redirect into a private network."""

from typing import Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.httpobj import urlparse_cached

from harvester.addresses import fault_of, refuse_private
from harvester.config import Config, load_config
from harvester.exceptions import AddressError
from harvester.middlewares.outcome import MEDIA


class AddressMiddleware:
    """Looks closely at requests for pictures, and at what a redirect to another host made of any request."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(load_config())

    def process_request(self, request: Request) -> None:
        if request.url.startswith("http") and (fault := fault_of(urlparse_cached(request).netloc)):
            raise AddressError(fault)
        found_in_data = request.meta.get(MEDIA) or _leads_elsewhere(request)
        if found_in_data and (refusal := refuse_private(request.url, self._config)):
            raise IgnoreRequest(refusal)


def _leads_elsewhere(request: Request) -> bool:
    """Whether a redirect led to it from another host."""
    before = request.meta.get("redirect_urls", ())
    return any(urlsplit(url).netloc != urlsplit(request.url).netloc for url in before)

"""Downloader middleware: refuses URLs that lead to no server, or into a private network.

`data:` URLs, which contain their own response, pass.
"""

import logging
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotSupported

from harvester.config import NO_CONTACT, Config, load_config
from harvester.download.addresses import Refused, is_of_others, refuse_private, unusable
from harvester.exceptions import AddressError
from harvester.hosts import user_of
from harvester.masking import mask

logger = logging.getLogger(__name__)

DATA_SCHEME = "data:"


class AddressMiddleware:
    """Judges by the URL alone. The download handlers check the host's IP address when they connect.

    Without HARVESTER_CONTACT, the first request to a foreign site logs a warning.
    """

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._wants_contact = not config.contact

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, load_config())

    def process_request(self, request: Request) -> None:
        if (length := len(request.url)) > (most := self._config.max_url_bytes):
            raise AddressError(f"the address has {length:,} bytes; HARVESTER_MAX_URL_BYTES allows {most:,}")
        if request.url.startswith(DATA_SCHEME):
            return
        if fault := unusable(request.url):
            scheme = request.url.partition(":")[0].lower()
            if scheme not in ("http", "https"):  # as in Scrapy, whose exception errbacks know
                raise NotSupported(f"Unsupported URL scheme {scheme[:100]!r}: {fault}")
            raise AddressError(fault)
        if refusal := refuse_private(request.url, self._config):
            raise Refused(refusal)
        if user := user_of(request.url):  # Redis needs it; logs, reasons and dead letters do not
            mask.add_passing(user, user.partition(":")[2])
        if self._wants_contact and is_of_others(request.url, self._config):
            self._wants_contact = False
            self._crawler.stats.set_value("harvester/no_contact", 1)
            logger.warning("%s", NO_CONTACT)

"""The download handler of nearly all requests: Scrapy's on aiohttp, which looks up names and reads heads as we do."""

from functools import partial
from typing import Any

from aiohttp import ClientResponse, TCPConnector
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import LineTooLong
from scrapy import Request
from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Headers

from harvester.download.dns import CachingResolver
from harvester.download.head import MOST_HEAD, end_of_head, normalized, status_of

MOST_HEADERS = 10_000
"""Lines of a head; its size is bounded too."""


class Http1DownloadHandler(AiohttpDownloadHandler):
    """Speaks HTTP/1.1, through a proxy when the request names one."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        connector = self._session.connector
        assert isinstance(connector, TCPConnector)
        connector._resolver = CachingResolver(crawler.stats)  # Scrapy's handler takes no resolver
        connector._use_dns_cache = False  # aiohttp's, of ten seconds, that knows of no failures
        connector._factory = partial(LenientResponseHandler, loop=connector._loop)  # type: ignore[assignment]
        self._session._max_line_size = self._session._max_field_size = MOST_HEAD
        self._session._max_headers = MOST_HEADERS

    @staticmethod
    def _extract_headers(response: ClientResponse) -> Headers:
        """As they came: aiohttp's texts of them cannot be made bytes again when one is not UTF-8."""
        return Headers(response.raw_headers)

    @staticmethod
    def _request_headers(request: Request) -> Headers:
        return sendable(AiohttpDownloadHandler._request_headers(request))


def sendable(headers: Headers) -> Headers:
    """Headers that a library which wants texts can send: bytes that are not UTF-8 are read as latin-1."""
    try:
        headers.to_tuple_list()
    except UnicodeDecodeError:
        headers.encoding = "latin-1"
    return headers


class LenientResponseHandler(ResponseHandler):
    """aiohttp's side of a connection; it shows the parser heads in the form that it takes."""

    _head: bytearray | None = None
    """What has come of a head; None while a body comes."""

    def set_response_params(self, **params: Any) -> None:
        self._head = bytearray()
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        while self._head is not None and self._parser is not None:
            searched = len(self._head)
            self._head += data if searched else data.lstrip(b"\r\n")
            end = end_of_head(self._head, searched)
            if end is None:
                if len(self._head) > MOST_HEAD:
                    self._refuse(bytes(self._head))
                return
            head, data = bytes(self._head[:end]), bytes(self._head[end:])
            self._head = None
            if end:
                head = normalized(head)
                if 100 <= status_of(head) < 200 and status_of(head) != 101:  # the head of the answer follows
                    super().data_received(head)
                    self._head = bytearray()
                    continue
            data = head + data  # without an end aiohttp says what is wrong with it
        super().data_received(data)

    def _refuse(self, head: bytes) -> None:
        """Of a head that has no end."""
        if self.transport is not None:
            self.transport.close()
        self.set_exception(LineTooLong(head[:100], MOST_HEAD))

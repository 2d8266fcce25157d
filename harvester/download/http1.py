"""The download handler of nearly all requests: Scrapy's on aiohttp, which looks up names and reads heads as we do."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from aiohttp import ClientResponse, TCPConnector
from aiohttp.abc import ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong
from aiohttp.tracing import Trace
from scrapy import Request
from scrapy.core.downloader.handlers._aiohttp import AiohttpDownloadHandler, _ClientResponse
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadFailedError
from scrapy.http import Headers
from yarl import URL

from harvester.config import load_config
from harvester.download.addresses import permitted
from harvester.download.dns import CachingResolver
from harvester.download.head import MOST_HEAD, end_of_head, normalized, status_of
from harvester.stores.descriptors import SMALL, allowed

MOST_HEADERS = 10_000
"""Lines of a head; its size is bounded too."""

MOST_INTERIM = 20
"""Answers 1xx before the answer; each costs as much as one."""

_to_proxy: ContextVar[bool] = ContextVar("_to_proxy")
"""Whether the request that is being sent goes through a proxy: then it is the proxy that is looked up."""


class Http1DownloadHandler(AiohttpDownloadHandler):
    """Speaks HTTP/1.1, through a proxy when the request names one. Connects to no private address unless permitted."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._config = load_config()
        connector = self._session.connector
        assert isinstance(connector, TCPConnector)
        connector._resolver = CachingResolver.of(crawler)  # Scrapy's handler takes no resolver
        connector._force_close = allowed() < SMALL  # connections that wait for another request hold files
        connector._use_dns_cache = False  # aiohttp's, of ten seconds, that knows of no failures
        connector._factory = partial(LenientResponseHandler, loop=connector._loop)  # type: ignore[assignment]
        self._session._max_line_size = self._session._max_field_size = MOST_HEAD
        self._session._max_headers = MOST_HEADERS
        self._session._build_url = _as_given  # type: ignore[method-assign, assignment]
        self._resolve = connector._resolve_host
        connector._resolve_host = self._resolve_permitted  # type: ignore[method-assign]  # literal addresses, too

    @staticmethod
    def _extract_headers(response: ClientResponse) -> Headers:
        """As they came: aiohttp's texts of them cannot be made bytes again when one is not UTF-8."""
        return Headers(response.raw_headers)

    @staticmethod
    def _request_headers(request: Request) -> Headers:
        return sendable(AiohttpDownloadHandler._request_headers(request))

    @asynccontextmanager
    async def _make_request(self, request: Request, timeout: float) -> AsyncIterator[_ClientResponse]:
        _to_proxy.set(bool(request.meta.get("proxy")))
        async with super()._make_request(request, timeout) as response:
            try:
                yield response
            except HttpProcessingError as error:
                raise DownloadFailedError(error.message) from error

    async def _resolve_permitted(
        self, host: str, port: int, traces: Sequence[Trace] | None = None
    ) -> list[ResolveResult]:
        """What aiohttp connects to: exactly these addresses, so that a name cannot change its mind in between."""
        found = await self._resolve(host, port, traces=traces)
        if _to_proxy.get():
            return found  # the user's own
        good = permitted(host, port, [each["host"] for each in found], self._config)
        return [each for each in found if each["host"] in good]


def _as_given(url: str | URL) -> URL:
    """Keeps escapes like %2F and %27, which aiohttp would decode: what is signed with them would break."""
    return URL(str(url), encoded=True)


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
    _interim = 0

    def set_response_params(self, **params: Any) -> None:
        self._head = bytearray()
        self._interim = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._skip_payload and self._head is None:
            return
        while self._head is not None and self._parser is not None:
            searched = len(self._head)
            self._head += data if searched else data.lstrip(b"\r\n")
            end = end_of_head(self._head, searched)
            if end is None:
                if len(self._head) > MOST_HEAD:
                    self._refuse(LineTooLong(bytes(self._head[:100]), MOST_HEAD))
                return
            head, data = bytes(self._head[:end]), bytes(self._head[end:])
            self._head = None
            if end:
                head = normalized(head)
                if 100 <= status_of(head) < 200 and status_of(head) != 101:  # the head of the answer follows
                    self._interim += 1
                    if self._interim > MOST_INTERIM:
                        self._refuse(BadHttpMessage(f"more than {MOST_INTERIM} interim answers"))
                        return
                    super().data_received(head)
                    self._head = bytearray()
                    continue
                if self._skip_payload:  # of HEAD: some servers send a body all the same, of which more may come later
                    self.force_close()
                    data = b""
            data = head + data  # without an end aiohttp says what is wrong with it
        super().data_received(data)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Told to whoever reads the body, too: aiohttp lets him wait when it finds the fault after the head."""
        payload = self._payload
        if isinstance(exc, HttpProcessingError) and payload is not None and not payload.is_eof():
            self._payload = None
            payload.set_exception(exc, *cause)
        super().set_exception(exc, *cause)

    def _refuse(self, error: HttpProcessingError) -> None:
        """Of a head that has no end, or heads that have none."""
        if self.transport is not None:
            self.transport.close()
        self.set_exception(error)

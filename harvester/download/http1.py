"""The download handler for nearly all requests: Scrapy's handler on aiohttp, with our resolver and our reading of
heads."""

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
"""Maximum number of lines of a head; its size has a limit too."""

MOST_INTERIM = 20
"""Maximum number of 1xx responses before the response; each costs as much as a response."""

_to_proxy: ContextVar[bool] = ContextVar("_to_proxy")
"""True if the current request goes through a proxy, so that the proxy's name is looked up."""


class Http1DownloadHandler(AiohttpDownloadHandler):
    """Speaks HTTP/1.1, through a proxy if the request has one. Connects to no private address unless permitted."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._config = load_config()
        connector = self._session.connector
        assert isinstance(connector, TCPConnector)
        connector._resolver = CachingResolver.of(crawler)  # Scrapy's handler takes no resolver
        connector._force_close = allowed() < SMALL  # an idle connection holds a file
        connector._use_dns_cache = False  # aiohttp's cache lasts ten seconds and has no failures
        connector._factory = partial(LenientResponseHandler, loop=connector._loop)  # type: ignore[assignment]
        self._session._max_line_size = self._session._max_field_size = MOST_HEAD
        self._session._max_headers = MOST_HEADERS
        self._session._build_url = _as_given  # type: ignore[method-assign, assignment]
        self._resolve = connector._resolve_host
        connector._resolve_host = self._resolve_permitted  # type: ignore[method-assign]  # literal addresses too

    @staticmethod
    def _extract_headers(response: ClientResponse) -> Headers:
        """Returns the raw headers, because aiohttp's strings cannot be turned back into bytes that are not UTF-8."""
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
        """Returns the permitted addresses. aiohttp connects to exactly these, so that a name cannot change in
        between."""
        found = await self._resolve(host, port, traces=traces)
        if _to_proxy.get():
            return found  # the user's own proxy
        good = permitted(host, port, [each["host"] for each in found], self._config)
        return [each for each in found if each["host"] in good]


def _as_given(url: str | URL) -> URL:
    """Keeps escapes such as %2F and %27. aiohttp would decode them, and break a signature over the address."""
    return URL(str(url), encoded=True)


def sendable(headers: Headers) -> Headers:
    """Returns headers for a library that wants strings: bytes that are not UTF-8 are read as latin-1."""
    try:
        headers.to_tuple_list()
    except UnicodeDecodeError:
        headers.encoding = "latin-1"
    return headers


class LenientResponseHandler(ResponseHandler):
    """aiohttp's side of a connection. It repairs heads before the parser reads them."""

    _head: bytearray | None = None
    """The bytes of a head so far; None while a body arrives."""
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
                if 100 <= status_of(head) < 200 and status_of(head) != 101:  # the head of the response follows
                    self._interim += 1
                    if self._interim > MOST_INTERIM:
                        self._refuse(BadHttpMessage(f"more than {MOST_INTERIM} interim answers"))
                        return
                    super().data_received(head)
                    self._head = bytearray()
                    continue
                if self._skip_payload:  # HEAD: some servers send a body nevertheless, even late
                    self.force_close()
                    data = b""
            data = head + data  # without an end aiohttp reports the fault
        super().data_received(data)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Raises the exception in the reader of the body too, which aiohttp leaves waiting after a fault behind the
        head."""
        payload = self._payload
        if isinstance(exc, HttpProcessingError) and payload is not None and not payload.is_eof():
            self._payload = None
            payload.set_exception(exc, *cause)
        super().set_exception(exc, *cause)

    def _refuse(self, error: HttpProcessingError) -> None:
        """Ends the connection for a head without an end, or too many interim heads."""
        if self.transport is not None:
            self.transport.close()
        self.set_exception(error)

"""The download handler for sites with `[<site>.http] http2 = true` in their entry: Scrapy's handler on httpx2.

Scrapy's own HTTP/2 handler takes no proxies, fails with a server that speaks only HTTP/1.1, and fails in ways that are
not in our rules. This handler fails with the same exceptions as the handler for all other sites.
"""

import logging
import socket
from collections.abc import Iterable
from typing import Any

import httpx2
from httpcore2 import AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout
from scrapy import Request
from scrapy.core.downloader.handlers._httpx import HttpxDownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Headers

from harvester.config import Config, load_config
from harvester.download.addresses import permitted
from harvester.download.dns import CachingResolver

for _name in ("httpx2", "httpcore2", "hpack"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # at INFO they log every request with its headers


class Http2DownloadHandler(HttpxDownloadHandler):
    """Speaks HTTP/2 over TLS with servers that support it, else HTTP/1.1. Reads HTTPX_HTTP2_ENABLED."""

    def __init__(self, crawler: Crawler) -> None:
        self._backend = PermittedBackend(CachingResolver.of(crawler), load_config())
        super().__init__(crawler)

    def _make_client(self, proxy_url: str | None = None) -> httpx2.AsyncClient:
        client = _ExactClient.of(super()._make_client(proxy_url))
        if proxy_url is None:  # else it connects to the proxy, which is the user's own
            transport: Any = client._transport
            transport._pool._network_backend = self._backend  # httpx2 takes no backend
        return client

    @staticmethod
    def _extract_headers(response: Any) -> Headers:
        """Returns the raw headers, because httpx2's strings lose bytes that are not UTF-8."""
        return Headers(response.headers.raw)

    @staticmethod
    def _request_headers(request: Request) -> Headers:
        return _HeadersOfBytes(HttpxDownloadHandler._request_headers(request))


class _ExactClient(httpx2.AsyncClient):
    """Requests the address unchanged; httpx2 would resolve dots and escape some characters again."""

    @classmethod
    def of(cls, client: httpx2.AsyncClient) -> "_ExactClient":
        client.__class__ = cls  # Scrapy's handler creates the client
        assert isinstance(client, cls)
        return client

    def build_request(self, method: str, url: httpx2.URL | str, **given: Any) -> httpx2.Request:
        _, _, after_scheme = str(url).partition("#")[0].partition("://")
        target = "/" + after_scheme.partition("/")[2]
        extensions = {**(given.pop("extensions", None) or {}), "target": target.encode()}
        return super().build_request(method, url, extensions=extensions, **given)


class PermittedBackend(AsyncNetworkBackend):
    """Looks up names with the crawl's resolver, and connects to no private address unless permitted."""

    def __init__(self, resolver: CachingResolver, config: Config) -> None:
        self._resolver = resolver
        self._config = config
        self._backend = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        try:
            found = await self._resolver.resolve(host, port, socket.AF_UNSPEC)
        except OSError as error:
            raise ConnectError(str(error)) from error
        failure: Exception = ConnectError(f"{host} has no address")
        for address in permitted(host, port, [each["host"] for each in found], self._config):
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (ConnectError, ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


class _HeadersOfBytes(Headers):
    """Returns raw bytes, because httpx2 sends bytes unchanged, and only ASCII strings."""

    def to_tuple_list(self) -> list[tuple[Any, Any]]:
        return [(name, value) for name, values in self.items() for value in values]

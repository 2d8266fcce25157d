"""The download handler of sites whose entry says `[<site>.transport] http2 = true`: Scrapy's on httpx2.

It was chosen over Scrapy's own HTTP/2 handler, which takes no proxies, gives up when a server turns out to speak
HTTP/1.1 only, and has failures of its own; this one fails with the same exceptions as the handler of all others.
"""

import logging
from typing import Any

from scrapy import Request
from scrapy.core.downloader.handlers._httpx import HttpxDownloadHandler
from scrapy.http import Headers

for _name in ("httpx2", "httpcore2", "hpack"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # below it, every request with its headers


class Http2DownloadHandler(HttpxDownloadHandler):
    """Speaks HTTP/2 with servers that do, over TLS; else HTTP/1.1. Reads HTTPX_HTTP2_ENABLED."""

    @staticmethod
    def _extract_headers(response: Any) -> Headers:
        """As they came: httpx2's texts of them are other bytes again when one is not UTF-8."""
        return Headers(response.headers.raw)

    @staticmethod
    def _request_headers(request: Request) -> Headers:
        return _HeadersOfBytes(HttpxDownloadHandler._request_headers(request))


class _HeadersOfBytes(Headers):
    """httpx2 takes bytes as they are, and of texts only ASCII."""

    def to_tuple_list(self) -> list[tuple[Any, Any]]:
        return [(name, value) for name, values in self.items() for value in values]

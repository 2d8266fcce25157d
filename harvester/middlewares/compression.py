"""Downloader middleware: answers are decompressed as Scrapy does; one that cannot be is an outcome like all others."""

import zlib

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from harvester.exceptions import DecodingError
from harvester.middlewares.outcome import failed_on_its_way_back

DECODED = "decoded"
"""Flag of an answer whose body has another length than its headers say."""


class CompressionMiddleware(HttpCompressionMiddleware):
    """In place of Scrapy's, whose exceptions no middleware hears of: they come up on an answer's way back."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler=crawler)
        self._crawler = crawler

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        encoding = b", ".join(response.headers.getlist("Content-Encoding")).decode("latin-1")
        if not encoding:
            return response
        error: Exception
        try:
            decoded = super().process_response(request, response)
        except IgnoreRequest as too_large:
            error = too_large
        except Exception as broken:  # noqa: BLE001  each library has its own
            error = DecodingError(f"the answer is not {encoding[:50]} as it says: {broken}")
        else:
            assert isinstance(decoded, Response)
            if decoded is response:
                return response
            if not _ends_early(response.body, decoded.body):
                return decoded.replace(flags=[*decoded.flags, DECODED])
            error = DecodingError("the answer is cut short")
        if isinstance(error, DecodingError) and response.status >= 400:
            return response  # its status says enough
        return await failed_on_its_way_back(self._crawler, request, error)


def _ends_early(body: bytes, decoded: bytes) -> bool:
    """Whether a gzip file has no end, of which Scrapy gives what there is. What is no gzip file is not looked at."""
    if body[:2] != b"\x1f\x8b" or int.from_bytes(body[-4:], "little") == len(decoded) % 2**32:
        return False
    gzip = zlib.decompressobj(wbits=31)
    try:
        gzip.decompress(body)
    except zlib.error:
        return True
    return not gzip.eof

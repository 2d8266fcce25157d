"""Downloader middleware: answers are decompressed as Scrapy does; one that cannot be is an outcome like all others."""

import zlib

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response, TextResponse
from scrapy.responsetypes import responsetypes
from scrapy.utils import _compression

from harvester.exceptions import DecodingError
from harvester.middlewares.outcome import failed_on_its_way_back

_compression._CHUNK_SIZE = 16 * 1024 * 1024  # default 64 KiB: for each, deflate and brotli copy all that is left

DECODED = "decoded"
"""Flag of an answer whose body has another length than its headers say."""
MOST_CODINGS = 5
"""Of one answer. A head may name thousands, each as much work as its body is long."""
MOST_OF_NOTHING = 32
"""Bytes of a whole stream that holds nothing."""


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
            if "Content-Encoding" in decoded.headers:  # nobody can decode it, or there is only its head
                return decoded if request.method == "HEAD" else _as_it_is(decoded)
            is_stopped = "download_stopped" in response.flags  # a spider wants no more of it: StopDownload(fail=False)
            if is_stopped or not _ends_early(encoding.strip().lower(), response.body, decoded.body):
                decoded.flags.append(DECODED)
                return decoded
            error = DecodingError("the answer is cut short")
        if isinstance(error, DecodingError) and response.status >= 400:
            return response  # its status says enough
        return await failed_on_its_way_back(self._crawler, request, error)

    @staticmethod
    def _split_encodings(content_encoding: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        to_decode, to_keep = HttpCompressionMiddleware._split_encodings(content_encoding)
        if len(to_decode) > MOST_CODINGS:
            raise ValueError(f"it names {len(to_decode):,} codings, and at most {MOST_CODINGS} are taken off")
        return to_decode, to_keep

    def _warn_unknown_encoding(self, response: Response, encodings: list[bytes]) -> None:
        """Scrapy says it of each page."""


def _as_it_is(response: Response) -> Response:
    """As browsers take a coding that is none, like utf-8 or identity. To Scrapy the page would be no HTML for it."""
    headers = response.headers.copy()
    del headers["Content-Encoding"]
    kind = responsetypes.from_args(headers=headers, url=response.url, body=response.body)
    untold = {"encoding": None} if issubclass(kind, TextResponse) else {}  # it may be told of another kind otherwise
    return response.replace(cls=kind, headers=headers, **untold)


def _ends_early(encoding: str, body: bytes, decoded: bytes) -> bool:
    """Whether a stream has no end: Scrapy gives what there is. Of others than gzip it is told when that is nothing."""
    if encoding not in ("gzip", "x-gzip"):
        return not decoded and len(body) > MOST_OF_NOTHING
    if int.from_bytes(body[-4:], "little") == len(decoded) % 2**32:
        return False
    gzip = zlib.decompressobj(wbits=31)
    try:
        gzip.decompress(body, max_length=len(decoded) + 1)
    except zlib.error:
        return True
    return not gzip.eof

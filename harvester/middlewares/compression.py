"""Downloader middleware: decompresses responses as Scrapy does; a failure becomes an outcome like all others."""

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response, TextResponse
from scrapy.responsetypes import responsetypes

from harvester.exceptions import DecodingError
from harvester.middlewares.outcome import failed_on_its_way_back
from harvester.middlewares.unpacking import unpack

DECODED = "decoded"
"""The flag of a response whose body length differs from its headers."""
MOST_CODINGS = 5
"""Maximum number of codings of a response. A header may name thousands, each as much work as the whole body."""


class CompressionMiddleware(HttpCompressionMiddleware):
    """Replaces Scrapy's middleware, whose exceptions no other middleware sees: they are raised on the way back."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler=crawler)
        self._crawler = crawler
        self._is_whole = True
        """True if all streams of the last response reached their end."""

    async def process_response(self, request: Request, response: Response) -> Request | Response:  # type: ignore[override]
        encoding = b", ".join(response.headers.getlist("Content-Encoding")).decode("latin-1")
        if not encoding:
            return response
        error: Exception
        cause: Exception | None = None
        try:
            decoded = super().process_response(request, response)
        except IgnoreRequest as too_large:
            error = too_large
        except Exception as broken:  # noqa: BLE001  each library has its own
            error, cause = DecodingError(f"the answer is not {encoding[:50]} as it says: {broken}"), broken
        else:
            assert isinstance(decoded, Response)
            if "Content-Encoding" in decoded.headers:  # unknown coding, or only a head
                return decoded if request.method == "HEAD" else _as_it_is(decoded)
            is_stopped = "download_stopped" in response.flags  # a spider wants only a part: StopDownload(fail=False)
            if is_stopped or self._is_whole:
                decoded.flags.append(DECODED)
                return decoded
            error = DecodingError("the answer is cut short")
        if isinstance(error, DecodingError) and response.status >= 400:
            return response  # its status says enough
        return await failed_on_its_way_back(self._crawler, request, error, cause)

    def _handle_encoding(self, body: bytes, content_encoding: list[bytes], max_size: int) -> tuple[bytes, list[bytes]]:
        to_decode, to_keep = self._split_encodings(content_encoding)
        self._is_whole = True
        for encoding in to_decode:
            body, is_whole = unpack(encoding, body, max_size)
            self._is_whole = self._is_whole and is_whole
        return body, to_keep

    @staticmethod
    def _split_encodings(content_encoding: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        to_decode, to_keep = HttpCompressionMiddleware._split_encodings(content_encoding)
        if len(to_decode) > MOST_CODINGS:
            raise ValueError(f"it names {len(to_decode):,} codings, and at most {MOST_CODINGS} are taken off")
        return to_decode, to_keep

    def _warn_unknown_encoding(self, response: Response, encodings: list[bytes]) -> None:
        """Logs no warning for each page, as Scrapy would."""


def _as_it_is(response: Response) -> Response:
    """Ignores an invalid coding like utf-8 or identity, as browsers do. Scrapy would not take such a page for HTML."""
    headers = response.headers.copy()
    del headers["Content-Encoding"]
    kind = responsetypes.from_args(headers=headers, url=response.url, body=response.body)
    untold = {"encoding": None} if issubclass(kind, TextResponse) else {}
    return response.replace(cls=kind, headers=headers, **untold)

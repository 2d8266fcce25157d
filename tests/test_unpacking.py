"""A stream that is cut anywhere is told from a whole one, in each content coding; what can be had of it is had."""

import gzip
import zlib
from random import Random
from unittest.mock import AsyncMock, patch

import brotli  # type: ignore[import-untyped]
import pytest
from backports import zstd
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.exceptions import DecodingError
from harvester.middlewares import compression
from harvester.middlewares.compression import CompressionMiddleware
from harvester.middlewares.unpacking import unpack

PAGE = Random(1).randbytes(3000) + b"<p>" * 3000
_bare = zlib.compressobj(wbits=-15)
WHOLE = {
    "gzip": (b"gzip", gzip.compress(PAGE)),
    "gzip of two members": (b"gzip", gzip.compress(PAGE[:2000]) + gzip.compress(PAGE[2000:])),
    "gzip with an empty member": (b"x-gzip", gzip.compress(PAGE) + gzip.compress(b"")),
    "gzip and zeros": (b"gzip", gzip.compress(PAGE) + b"\0" * 512),
    "gzip and something else": (b"gzip", gzip.compress(PAGE) + b"\r\n<!-- cached -->"),
    "deflate": (b"deflate", zlib.compress(PAGE)),
    "bare deflate": (b"deflate", _bare.compress(PAGE) + _bare.flush()),
    "br": (b"br", brotli.compress(PAGE)),
    "zstd": (b"zstd", zstd.compress(PAGE)),
    "zstd of two frames": (b"zstd", zstd.compress(PAGE[:2000]) + zstd.compress(PAGE[2000:])),
}
CUT = [name for name in WHOLE if "else" not in name and "zeros" not in name and "empty" not in name]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_stream_is_read_wholly(name: str) -> None:
    assert unpack(*WHOLE[name], 0) == (PAGE, True)


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("part", [0.3, 0.5, 0.9, -1])
def test_a_stream_that_is_cut_is_not_whole(name: str, part: float) -> None:
    coding, body = WHOLE[name]
    unpacked, is_whole = unpack(coding, body[: int(len(body) * part) if part > 0 else -1], 0)
    assert not is_whole
    assert PAGE.startswith(unpacked)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_what_becomes_too_large_is_given_up(coding: bytes) -> None:
    with pytest.raises(ValueError, match="exceeded"):
        unpack(coding, next(body for name, (kind, body) in WHOLE.items() if kind == coding), 5000)


@pytest.mark.parametrize(("codings", "outer"), [("gzip, br", brotli.compress), ("deflate, gzip", gzip.compress)])
async def test_each_of_several_codings_must_have_its_end(codings: str, outer: object) -> None:
    assert callable(outer)
    inner = gzip.compress(PAGE) if codings.startswith("gzip") else zlib.compress(PAGE)
    assert await _unpacked(codings, outer(inner)) == PAGE
    assert await _unpacked(codings, outer(inner[:-9])) is None
    assert await _unpacked(codings, outer(inner)[:-9]) is None


@pytest.mark.parametrize("name", CUT)
async def test_an_answer_that_is_cut_is_no_page(name: str) -> None:
    coding, body = WHOLE[name]
    assert await _unpacked(coding.decode(), body) == PAGE
    assert await _unpacked(coding.decode().upper(), body[:-1]) is None


async def _unpacked(codings: str, body: bytes) -> bytes | None:
    """The page; None when it is told that the answer is cut short."""
    request = Request("http://county.example/")
    response = Response(request.url, headers={"Content-Encoding": codings}, body=body)
    with patch.object(compression, "failed_on_its_way_back", AsyncMock(return_value=request)) as failed:
        found = await CompressionMiddleware(get_crawler()).process_response(request, response)
    if failed.called:
        assert isinstance(failed.call_args.args[2], DecodingError)
        return None
    assert isinstance(found, Response)
    return found.body

"""The head of an answer is read as browsers read it: odd bytes, lines and sizes. What none reads is tried once."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from scrapy import Request
from scrapy.http import Headers
from scrapy.utils.test import get_crawler

from harvester.download.head import normalized
from harvester.download.http1 import Http1DownloadHandler, sendable
from tests.crawling import Plan, Site, crawl

ODD = "caf\u00e9".encode("latin-1") + b"\xff\xfe"
BODY = b'{"fine":true}'
LENGTH = b"Content-Length: 13\r\n"
KIND = b"Content-Type: application/json\r\n"


def head(status: bytes = b"HTTP/1.1 200 OK\r\n", *lines: bytes, kind: bytes = KIND, length: bytes = LENGTH) -> bytes:
    return status + kind + length + b"".join(lines) + b"\r\n" + BODY


READ = {
    "any-header": head(b"HTTP/1.1 200 OK\r\n", b"X-Odd: " + ODD + b"\r\n", b"Server: " + ODD + b"\r\n"),
    "cookie": head(b"HTTP/1.1 200 OK\r\n", b"Set-Cookie: a=" + ODD + b"; path=/\r\n", b"Set-Cookie: " + ODD + b"\r\n"),
    "content-type": head(kind=b"Content-Type: application/json; charset=" + ODD + b"\r\n"),
    "disposition": head(b"HTTP/1.1 200 OK\r\n", b"Content-Disposition: attachment; filename=" + ODD + b".json\r\n"),
    "encoding": head(b"HTTP/1.1 200 OK\r\n", b"Content-Language: " + ODD + b"\r\n", b"Vary: " + ODD + b"\r\n"),
    "etag": head(b"HTTP/1.1 200 OK\r\n", b'ETag: "' + ODD + b'"\r\nLast-Modified: ' + ODD + b"\r\n"),
    "limits": head(b"HTTP/1.1 200 OK\r\n", b"RateLimit: " + ODD + b"\r\nX-RateLimit-Reset: " + ODD + b"\r\n"),
    "control": head(b"HTTP/1.1 200 OK\r\n", b"Cache-Control: " + ODD + b"\r\nExpires: " + ODD + b"\r\n"),
    "usage": head(b"HTTP/1.1 200 OK\r\n", b"X-Robots-Tag: " + ODD + b"\r\ntdm-reservation: " + ODD + b"\r\n"),
    "name": head(b"HTTP/1.1 200 OK\r\n", ODD + b": x\r\n", b"no colon\r\n", b": no name\r\n", b"sp ace: x\r\n"),
    "reason": head(b"HTTP/1.1 200 " + ODD + b"\r\n"),
    "no-reason": head(b"HTTP/1.1 200\r\n"),
    "spaces": head(b"http/1.1   200   OK  \r\n"),
    "http-1.0": head(b"HTTP/1.0 200\r\n"),
    "http-2": head(b"HTTP/2 200\r\n"),
    "icy": head(b"ICY 200 OK\r\n"),
    "line-feeds": head().replace(b"\r\n", b"\n"),
    "folded": head(b"HTTP/1.1 200 OK\r\n", b"X-Long: a\r\n b\r\n\tc\r\n"),
    "space-before-colon": head(b"HTTP/1.1 200 OK\r\n", b"X-A : b\r\n"),
    "same-length-twice": head(b"HTTP/1.1 200 OK\r\n", LENGTH, b"Content-Length: 13, 13\r\n"),
    "no-length": head(length=b"Content-Length: many\r\n"),
    "length-and-chunks": b"HTTP/1.1 200 OK\r\n"
    + KIND
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n"
    + BODY
    + b"\r\n0\r\n\r\n",
    "identity": head(b"HTTP/1.1 200 OK\r\n", b"Transfer-Encoding: Identity\r\n"),
    "zero-byte": head(b"HTTP/1.1 200 OK\r\n", b"X-Zero: a\x00b\r\n"),
    "control-byte": head(b"HTTP/1.1 200 OK\r\n", b"X-Bell: a\x07b\x7f\rc\r\n"),
    "line-of-200-kB": head(b"HTTP/1.1 200 OK\r\n", b"X-Long: " + b"a" * 200_000 + b"\r\n"),
    "a-thousand-lines": head(b"HTTP/1.1 200 OK\r\n", *(b"X-%d: a\r\n" % number for number in range(1000))),
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + head(),
    "blank-lines-first": b"\r\n\r\n" + head(),
}
UNREAD = {
    "two-lengths": head(b"HTTP/1.1 200 OK\r\n", b"Content-Length: 14\r\n"),
    "http-0.9": BODY * 10,
    "no-status": head(b"HTTP/1.1 fine\r\n"),
    "status-of-4": head(b"HTTP/1.1 2000 OK\r\n"),
    "smtp": b"220 mail.example ESMTP ready\r\n",
    "too-large": head(b"HTTP/1.1 200 OK\r\n", b"X-Long: " + b"a" * 300_000 + b"\r\n"),
    "too-many-lines": head(b"HTTP/1.1 200 OK\r\n", b"X: a\r\n" * 60_000),
}
LIMITED = head(b"HTTP/1.1 429 " + ODD + b"\r\n", b"X-Odd: " + ODD + b"\r\n", b"Retry-After: 1\r\n")
"""The first answer to each of two requests."""
OTHER = {
    "denied": (head(b"HTTP/1.1 999 Request denied\r\n"), "blocked"),
    "missing": (head(b"HTTP/1.1 404 \r\n", b"X-Odd: " + ODD + b"\r\n"), "not_found"),
    "to-odd": (head(b"HTTP/1.1 302 Found\r\n", b"Location: /\xe9?" + ODD + b"\r\n"), ""),
}


class RawSite:
    """Answers with bytes as they are, each on a connection of its own, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            path = request.split(b" ", 2)[1].decode("latin-1").strip("/")
            if path == "robots.txt":
                writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nX-Odd: \xff\r\n\r\n")
            else:
                self.asked.append(path)
                first = path == "limited" and self.asked.count(path) == 1
                other = OTHER.get(path, (LIMITED,) if first else None)
                writer.write(other[0] if other else READ.get(path) or UNREAD.get(path) or head())
            await writer.drain()
            if path == "identity":  # its length alone tells where it ends
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def raw_site() -> AsyncIterator[RawSite]:
    site = RawSite()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield site


async def test_heads_are_read_as_browsers_do_and_what_none_reads_is_tried_once(tmp_path: Path) -> None:
    async with raw_site() as site:
        names = [*READ, *UNREAD, *OTHER]
        settings = {"HARVESTER_BACKOFF_FACTOR": 0, "DOWNLOAD_TIMEOUT": 5}
        urls = [f"{site.url}/{name}" for name in names]
        plan = Plan(urls, settings=settings)
        crawled = await crawl(plan, tmp_path, requests_per_second="0", concurrent_per_host="8")
    came = {result.url.rpartition("/")[2]: result.outcome or str(result.status) for result in crawled.results}
    assert came == dict.fromkeys(READ, "200") | dict.fromkeys(UNREAD, "invalid") | {
        name: outcome or "200" for name, (_, outcome) in OTHER.items()
    }, crawled.log
    tries = {name: site.asked.count(name) for name in (*READ, *UNREAD)}
    assert tries == dict.fromkeys(tries, 1)
    said = {result.said for result in crawled.results if result.url.rpartition("/")[2] in UNREAD}
    assert all("HTTP" in each for each in said), said
    assert "harvester/unclassified" not in crawled.stats


async def test_a_body_that_follows_the_answer_to_head_spoils_neither_it_nor_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    handler = Http1DownloadHandler(get_crawler())
    try:
        async with Site() as site:
            requests = [Request(site.url, method=method) for method in ("HEAD", "HEAD", "GET")]
            answers = [await handler.download_request(request) for request in requests]
    finally:
        await handler.close()
    assert [(answer.status, answer.body) for answer in answers] == [(200, b""), (200, b""), (200, BODY)]


@pytest.mark.parametrize("plain", [head().partition(BODY)[0]])
def test_a_head_that_is_as_it_should_be_is_left_as_it_is(plain: bytes) -> None:
    assert normalized(plain) is plain


async def test_a_429_with_an_odd_byte_in_a_header_is_obeyed(tmp_path: Path) -> None:
    async with raw_site() as site:
        url = f"{site.url}/limited"
        crawled = await crawl(Plan([url], settings={"HARVESTER_BACKOFF_FACTOR": 0}), tmp_path)
    assert [result.status for result in crawled.of(url)] == [200]
    assert crawled.stats["harvester/outcomes/rate_limited"] == 1
    assert len(site.asked) == 2
    assert re.search(r"\b127\.0\.0\.1:\d+ .*\b\d+ s\b", crawled.log), crawled.log


def test_a_header_that_a_site_gave_can_be_sent_back_whatever_its_bytes() -> None:
    assert sendable(Headers({"If-None-Match": b'"caf\xe9"'})).to_tuple_list() == [("If-None-Match", '"caf\u00e9"')]
    assert sendable(Headers({"Cookie": "a=\u00fc"})).to_tuple_list() == [("Cookie", "a=\u00fc")]

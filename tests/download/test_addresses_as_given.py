"""What is asked for on the wire is what stands in the address, byte for byte: signatures and ids hang on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from scrapy import Request
from scrapy.core.downloader.handlers import DownloadHandlerProtocol
from scrapy.utils.test import get_crawler

from harvester.config import load_config
from harvester.download.http1 import Http1DownloadHandler
from harvester.download.http2 import Http2DownloadHandler
from harvester.publish.events import Event
from harvester.publish.webhook import Poster

ESCAPES = "".join(f"%{octet:02X}" for octet in range(256))
SMALL_ESCAPES = "".join(f"%{octet:02x}" for octet in range(256))
PLAIN = "-._~!$&()*+,;=:@'%25"
TARGETS = [
    f"/{ESCAPES}?{ESCAPES}",
    f"/{SMALL_ESCAPES}?a={SMALL_ESCAPES}",
    f"/{PLAIN}?{PLAIN}/?",
    "/a/../b/./c//d/%2e%2e/",
    "/%",
    "/100%/%zz?%",
    "/s3?X-Amz-Signature=a%2Fb%2Bc%3D&X-Amz-Credential=k%2F20260101%2Fus&plus=a+b&twice=%252F",
    "/id/at%3A%2F%2Fdid%3Aplc%3Ax%2Fapp.bsky.feed.post%2F1",
    "/OData('it%27s')?$filter=name%20eq%20'x'",
    "/a?",
    "/",
]


class Wire:
    """A raw server that keeps each request line and answers all of them alike, as a server and as a proxy."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.lines.append(head.split(b"\r\n")[0].decode("latin-1"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()


@asynccontextmanager
async def wire() -> AsyncIterator[Wire]:
    site = Wire()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    async with server:
        yield site


@asynccontextmanager
async def speaking(
    handler_class: type[Http1DownloadHandler | Http2DownloadHandler],
) -> AsyncIterator[DownloadHandlerProtocol]:
    handler = handler_class(get_crawler())
    try:
        yield handler
    finally:
        await handler.close()


@pytest.mark.parametrize("handler_class", [Http1DownloadHandler, Http2DownloadHandler])
@pytest.mark.parametrize("through_proxy", [False, True])
async def test_the_target_on_the_wire_is_that_of_the_address(
    handler_class: type[Http1DownloadHandler | Http2DownloadHandler],
    through_proxy: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    async with wire() as site, speaking(handler_class) as handler:
        origin = "http://site.example" if through_proxy else f"http://127.0.0.1:{site.port}"
        meta = {"proxy": f"http://127.0.0.1:{site.port}"} if through_proxy else {}
        expected = []
        for target in TARGETS:
            request = Request(f"{origin}{target}#fragment", meta=meta)
            expected.append(request.url.removesuffix("#fragment"))
            await handler.download_request(request)
    asked = [line.removeprefix("GET ").removesuffix(" HTTP/1.1") for line in site.lines]
    assert asked == [each if through_proxy else each.removeprefix(origin) for each in expected]


async def test_a_webhook_is_posted_to_its_address_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signature of a receiver's address may hold escapes."""
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "true")
    async with wire() as site:
        poster = Poster(load_config(), 1, 5.0)
        try:
            for target in TARGETS[:8]:
                await poster.post(f"http://127.0.0.1:{site.port}{target}", [], Event("1", "", "", b"{}"))
        finally:
            await poster.close()
    expected = [
        Request(f"http://site.example{target}").url.removeprefix("http://site.example") for target in TARGETS[:8]
    ]
    assert [line.split(" ")[1] for line in site.lines] == expected

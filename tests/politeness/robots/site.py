"""A web site on loopback that answers as it is told, and remembers what it was asked."""

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy


class Reply(NamedTuple):
    """What the site sends."""

    status: int = 200
    body: bytes = b"fine"
    headers: Mapping[str, str] = {}
    """Several lines of one name: a value of several lines."""
    kind: str = "text/plain"
    after_s: float = 0.0
    missing: int = 0
    """Bytes that are announced and never come."""


class Asked(NamedTuple):
    """A request that came."""

    at: float
    """Monotonic time."""
    path: str
    headers: CIMultiDictProxy[str]


class WebSite:
    """`async with WebSite(...) as site`. `replies` are those to a path in turn, the last one for ever."""

    def __init__(self, replies: Mapping[str, list[Reply]] | None = None) -> None:
        self.replies = {"/robots.txt": [Reply(404)], **(replies or {})}
        self.log: list[Asked] = []
        self.url = self.name = ""
        self.gate = asyncio.Event()
        """Until it is set, robots.txt is not answered."""
        self.gate.set()

    async def __aenter__(self) -> Self:
        self._runner = web.AppRunner(self._application(), access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.name = f"127.0.0.1:{self._runner.addresses[0][1]}"
        self.url = f"http://{self.name}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def asked(self, path: str) -> list[Asked]:
        """The requests for a path, in their order."""
        return [each for each in self.log if each.path == path]

    def pages(self) -> list[str]:
        """The paths that were asked for, but for robots.txt."""
        return [each.path for each in self.log if each.path != "/robots.txt"]

    def reply(self, path: str, headers: CIMultiDictProxy[str], number: int) -> Reply:
        """To the `number`th request (from 0) for a path."""
        replies = self.replies.get(path, [Reply()])
        return replies[min(number, len(replies) - 1)]

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        return application

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path_qs
        number = len(self.asked(path))
        self.log.append(Asked(time.monotonic(), path, CIMultiDictProxy(CIMultiDict(request.headers))))
        reply = self.reply(path, request.headers, number)
        if path == "/robots.txt":
            await self.gate.wait()
        await asyncio.sleep(reply.after_s)
        named = {"Content-Type": reply.kind, **reply.headers}
        headers = CIMultiDict((name, line) for name, lines in named.items() for line in lines.split("\n"))
        if not reply.missing:
            return web.Response(status=reply.status, body=reply.body, headers=headers)
        cut = web.StreamResponse(status=reply.status, headers=headers)
        cut.content_length = len(reply.body) + reply.missing
        await cut.prepare(request)
        await cut.write(reply.body)
        assert request.transport
        request.transport.close()
        return cut

"""A site that answers well until it is told otherwise, and counts what it was asked."""

import asyncio
from collections import Counter
from types import TracebackType
from typing import Self

from tests.listening import close


class Site:
    """`async with Site(...) as site: ...site.url...`. From the n-th page on it answers with `then`."""

    def __init__(self, turns_after: int | None = None, then: int | str = 403) -> None:
        self._turns_after = turns_after
        self._then = then
        self.body = "fine"
        self.has_turned = False
        self.well: Counter[str] = Counter()
        """Path -> how often it was answered well."""
        self.badly: Counter[str] = Counter()
        """The same of bad answers."""
        self.url = self.name = ""

    def recover(self) -> None:
        self._turns_after, self.has_turned = None, False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.name = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"http://{self.name}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                status, body = self._answer(head.split(b" ", 2)[1].decode())
                head = (
                    f"HTTP/1.1 {status} X\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                )
                writer.write(head + body.encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, path: str) -> tuple[int, str]:
        if path == "/robots.txt":
            return 404, ""
        if self._turns_after is not None and self.well.total() >= self._turns_after:
            self.has_turned = True
        if not self.has_turned:
            self.well[path] += 1
            return 200, self.body
        self.badly[path] += 1
        return (200, self._then) if isinstance(self._then, str) else (self._then, "no")

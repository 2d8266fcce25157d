"""The hostile site on loopback: a name for each behaviour, all at one port, which writes bytes as they are told."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from tests.hostile.behaviours import BEHAVIOURS, Answer, Place
from tests.hostile.wire import JSON, head, page
from tests.listening import close

DOMAIN = "hostile.example"
INWARD = f"inward.{DOMAIN}"


class HostileSite:
    """`async with HostileSite() as site`. Beside it a canary, which is to hear of nobody."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()
        """Requests by behaviour and path without its query."""
        self.unknown: list[str] = []
        """Requests to hosts of which there is no behaviour."""
        self.alarms: list[str] = []
        """What the canary has heard."""
        self._ended = asyncio.Event()
        self._all = {each.name: each for each in BEHAVIOURS}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self._canary = await asyncio.start_server(self._hear, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.canary = f"127.0.0.1:{self._canary.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        await close(self._server)
        await close(self._canary)

    def url(self, name: str) -> str:
        return f"http://{self.host(name)}/"

    def host(self, name: str) -> str:
        return f"{name}.{DOMAIN}:{self.port}"

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.alarms.append((await reader.read(1000)).decode("latin-1") or "a connection")
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            first = await reader.readexactly(1)
            if first == b"\x16":  # TLS
                writer.close()
                return
            request = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = request.split(" ", 2)[1].partition("?")[0]
            host = next((line[6:] for line in request.split("\r\n") if line.lower().startswith("host: ")), "")
            for part in self._answer(host, path):
                if self._ended.is_set():
                    break
                if isinstance(part, float):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._ended.wait(), part)
                else:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)  # what is read as fast as it is written lets nobody else write
        writer.close()

    def _answer(self, host: str, path: str) -> Iterator[bytes | float]:
        name = host.partition(".")[0]
        behaviour = self._all.get(name)
        self.asked[name, path] += 1
        if behaviour is None:
            self.unknown.append(f"{host}{path}")
            return
        if path == behaviour.path:
            port = self.canary.rpartition(":")[2]
            answer: Answer = behaviour.answer(Place(self.host(name), self.canary, f"{INWARD}:{port}"))
            yield from (answer,) if isinstance(answer, bytes) else answer
        elif path == "/robots.txt":
            yield head("HTTP/1.1 404 Not Found", "Content-Length: 0", "Connection: close")
        elif path == "/" and behaviour.picture:
            yield page(f'{{"title":"fine","picture":"http://{self.host(name)}/picture"}}'.encode(), *JSON)
        else:
            yield page()

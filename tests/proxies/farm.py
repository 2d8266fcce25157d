"""Real proxies on loopback, each with its manners, and the sites behind them.

A proxy forwards what comes in absolute form and opens tunnels for CONNECT; all of it it writes down.
"""

import asyncio
import contextlib
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from tests.listening import close

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Asked(NamedTuple):
    """What came to a proxy or to a site."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    at: float = 0.0
    """Monotonic time."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b"<html>fine</html>"
    headers: Mapping[str, str] = {}


class Listener:
    """A server on a loopback port. It ends with its block."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked: list[Asked] = []
        self.name = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._context)
        self.name = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await close(self._server)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http{'s' if self._context else ''}://{self.name}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            while await self._serve((reader, writer)):
                pass
        with contextlib.suppress(ConnectionError, RuntimeError, ssl.SSLError):
            writer.close()

    async def _serve(self, streams: Streams) -> bool:
        asked = (await read_head(streams[0]))._replace(at=time.monotonic())
        self.asked.append(asked)
        return await self.answer(asked, streams)

    async def answer(self, asked: Asked, streams: Streams) -> bool:
        """Sends an answer; whether the connection is kept."""
        raise NotImplementedError


async def read_head(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    return Asked(method, target, {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line})


async def send(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    headers = {"Content-Type": "text/html", "Content-Length": str(len(answer.body)), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "\r\n"]).encode() + answer.body)
    await writer.drain()
    return True


class Site(Listener):
    """A site. It refuses whom it does not like, by what the proxy says of itself in `x-via`."""

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        refuses: Sequence[str] = (),
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(context)
        self._answers = answers or {}
        self.refuses = list(refuses)
        """Names of proxies; `direct` are those that come without one."""

    async def answer(self, asked: Asked, streams: Streams) -> bool:
        writer = streams[1]
        if asked.path == "/robots.txt":
            return await send(writer, Answer(404, b""))
        if asked.headers.get("x-via", "direct") in self.refuses:
            return await send(writer, Answer(403, b"<html><title>Access denied</title>Your address is blocked.</html>"))
        return await send(writer, self._answers.get(asked.path, Answer()))

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked if asked.path != "/robots.txt"]


class Proxy(Listener):
    """A proxy.

    `says`: its own answer instead of the site's, to plain requests and to CONNECT. `users`: who is let in, with which
    password; all are when it is empty. `delay_s`: how long it thinks.
    """

    def __init__(
        self,
        label: str = "",
        *,
        says: Answer | None = None,
        says_on_connect: Answer | None = None,
        users: Mapping[str, str] | None = None,
        delay_s: float = 0.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(context)
        self.label = label
        self.says, self.says_on_connect = says, says_on_connect
        self.users = users or {}
        self._delay_s = delay_s

    def lets_in(self, asked: Asked) -> bool:
        known = {"Basic " + b64encode(f"{user}:{word}".encode()).decode() for user, word in self.users.items()}
        return not known or asked.headers.get("proxy-authorization", "") in known

    def pages(self) -> list[str]:
        """Paths that were asked for in absolute form, but for robots.txt."""
        return [each.path for each in self.asked if each.method != "CONNECT" and each.path != "/robots.txt"]

    async def answer(self, asked: Asked, streams: Streams) -> bool:
        writer = streams[1]
        await asyncio.sleep(self._delay_s)
        if not self.lets_in(asked):
            return await send(writer, Answer(407, b"who are you?", {"Proxy-Authenticate": "Basic realm=farm"}))
        if asked.method == "CONNECT":
            return await self._tunnel(asked, streams)
        if self.says:
            return await send(writer, self.says)
        parts = urlsplit(asked.target)
        theirs, ours = await asyncio.open_connection(parts.hostname, parts.port)
        kept = {name: value for name, value in asked.headers.items() if not name.startswith("proxy-")}
        kept |= {"connection": "close", "x-via": self.label}
        lines = [f"{asked.method} {parts.path or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in kept.items())]
        ours.write("\r\n".join([*lines, "\r\n"]).encode())
        head = await theirs.readuntil(b"\r\n\r\n")
        length = int(next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length" in line))
        writer.write(head + await theirs.readexactly(length))
        ours.close()
        await writer.drain()
        return True

    async def _tunnel(self, asked: Asked, streams: Streams) -> bool:
        reader, writer = streams
        if self.says_on_connect:
            await send(writer, self.says_on_connect)
            return False
        host, _, port = asked.target.rpartition(":")
        theirs, ours = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        await asyncio.gather(_pipe(reader, ours), _pipe(theirs, writer))
        return False


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(ConnectionError, RuntimeError):
        writer.close()

"""The tree or the web as a site: `python -m tests.sandbox.tree_site <tree | web> <pages> <seed>` prints its port, and
ends with its parent.

It is asyncio's bare protocol, since it shares the machine with the crawlers that are tested. `/_control/progress`
tells how many pages were answered and how many requests each User-Agent sent; `/_control/log` how often each path
was answered, refusals left out.
"""

import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from typing import Any

import msgspec
import uvloop
from PIL import Image

from tests.sandbox.tree import Item, Tree
from tests.sandbox.web import Web

_REASONS = {
    200: b"OK",
    301: b"Moved Permanently",
    302: b"Found",
    404: b"Not Found",
    500: b"Error",
    503: b"Service Unavailable",
}
_encode = msgspec.json.encode


class Site:
    """What it answers, and what it was asked."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._refused: Counter[int] = Counter()
        self._hung_up: Counter[int] = Counter()
        self._log: Counter[str] = Counter()
        self._agents: Counter[str] = Counter()
        self._pages = 0
        """Different ones answered."""
        self._png = _png()
        self._rooms: dict[str, Callable[[int], bytes]] = {
            "page": self._page,
            "moved": self._moved,
            "twice": lambda number: _answer(302, b"", b"text/plain", b"Location: /moved/%d\r\n" % number),
            "broken": lambda number: _answer(500, b"{}"),
            "missing": lambda number: _answer(404, b"{}"),
            "check": lambda number: _answer(200, _encode({"items": [self._tree.checked(number)]})),
            "picture": lambda number: _answer(200, self._png, b"image/png"),
        }

    def answer(self, path: str, agent: str) -> bytes:
        """The whole answer to a request; empty: the connection is closed without one."""
        if path == "/_control/progress":
            return _answer(200, _encode({"pages": self._pages, "agents": self._agents}))
        if path == "/_control/log":
            return _answer(200, _encode(self._log))
        _, room, name = (*path.split("/", 2), "", "")[:3]
        number = name.removesuffix(".png")
        if room not in self._rooms or not number.isdecimal():
            return _answer(404, b"{}")
        self._agents[agent] += 1
        return self._rooms[room](int(number)) if room == "page" else self._counted(path, self._rooms[room](int(number)))

    def delay_s(self, path: str) -> float:
        """How long the answer to it takes."""
        _, room, number = (*path.split("/", 2), "", "")[:3]
        slow = isinstance(self._tree, Web) and room == "page" and number.isdecimal()
        return self._tree.delay_s(int(number)) if slow else 0.0  # type: ignore[attr-defined]

    def _counted(self, path: str, answer: bytes) -> bytes:
        self._log[path] += 1
        return answer

    def _page(self, number: int) -> bytes:
        tree = self._tree
        if number >= tree.pages:
            return _answer(404, b"{}")
        if isinstance(tree, Web) and self._hung_up[number] < tree.hang_ups(number):
            self._hung_up[number] += 1
            return b""
        if self._refused[number] < tree.refusals(number):
            self._refused[number] += 1
            return _answer(503, b'{"error":"Busy","message":"in a moment"}')
        path = f"/page/{number}"
        self._pages += path not in self._log
        self._log[path] += 1
        told: dict[str, str | list[str] | list[Item]] = {
            "items": tree.items(number),
            "links": tree.links(number),
            "missing": tree.missing(number),
            "check": tree.check(number),
        }
        return _answer(200, _encode(told))

    def _moved(self, number: int) -> bytes:
        status = self._tree.redirect_status(number)
        return _answer(status, b"", b"text/plain", b"Location: /page/%d\r\n" % number)


class Connection(asyncio.Protocol):
    """One connection, kept open."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            answer = self._site.answer(path, _agent(head))
            if delay_s := self._site.delay_s(path):
                asyncio.get_running_loop().call_later(delay_s, self._send, answer)
            else:
                self._send(answer)

    def _send(self, answer: bytes) -> None:
        if not answer:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write(answer)


def _agent(head: bytes) -> str:
    _, _, rest = head.partition(b"\r\nUser-Agent: ")
    return rest.partition(b"\r\n")[0].decode()


def _answer(status: int, body: bytes, kind: bytes = b"application/json", headers: bytes = b"") -> bytes:
    start = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\n" % (status, _REASONS[status], kind)
    return b"%s%sContent-Length: %d\r\n\r\n%s" % (start, headers, len(body), body)


def _png() -> bytes:
    written = BytesIO()
    Image.new("RGB", (8, 8), "green").save(written, "PNG")
    return written.getvalue()


async def _serve(tree: Tree) -> None:
    site = Site(tree)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(site), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    kind, pages, seed = sys.argv[1:]
    uvloop.run(_serve((Web if kind == "web" else Tree)(int(pages), int(seed))))

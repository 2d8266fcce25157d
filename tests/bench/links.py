"""A tree of small JSON pages on loopback, for the frontier's measurements.

    python -m tests.bench.links <pages> [sites]

Prints a port for each site; all have the same pages. Page k links to its ten children and to one page that others link
to as well; it carries one record. The server speaks just enough HTTP that it costs little beside the crawler that is
measured.
"""

import asyncio
import sys
from typing import cast

import msgspec
import uvloop

CHILDREN = 10


def links_of(page: int, pages: int) -> list[int]:
    """The pages that a page links to: new ones, then one that is linked twice."""
    first = page * CHILDREN + 1
    return [*range(first, min(first + CHILDREN, pages)), (page + 1) % pages]


def page_body(page: int, pages: int) -> bytes:
    """What the page says."""
    record = {"id": page, "title": f"Page {page}", "price": page * 7 % 1000 / 10, "in_stock": page % 3 > 0}
    return msgspec.json.encode({"links": [f"/page/{k}" for k in links_of(page, pages)], "record": record})


class Connection(asyncio.Protocol):
    """Answers GET /page/<k> and /robots.txt, keeps the connection open."""

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._unread = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while b"\r\n\r\n" in self._unread:
            head, _, self._unread = self._unread.partition(b"\r\n\r\n")
            self._transport.write(self._answer(head.split(b" ", 2)[1]))

    def _answer(self, path: bytes) -> bytes:
        kind, body = b"application/json", b""
        if path.startswith(b"/page/"):
            body = page_body(int(path[6:]), self._pages)
        elif path == b"/robots.txt":
            kind, body = b"text/plain", b"User-agent: *\nAllow: /\n"
        else:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (kind, len(body), body)


async def serve(pages: int, sites: int = 1) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(lambda: Connection(pages), "127.0.0.1", 0) for _ in range(sites)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:])))

"""Answers for every site of the web with the pages that a project saved.

Which page an address gets is decided when it is first asked for, and holds in all later runs of the spider: that of
the test which names the address, else the next page that was not given yet, else a made-up one, else 404.
"""

import hashlib
import mimetypes
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from tests.projects.made_up import made_up
from tests.projects.names import Names
from tests.projects.pages import Saved

ABSENT, MADE_UP = "", "made up"
"""What stands in a book for an address without a page, and for one whose page is made up."""
_TEXT = ("text/", "application/json", "application/xml", "application/javascript")


def bare(url: str) -> str:
    """An address without what differs between two ways to write it."""
    parts = urlsplit(url)
    query = "&".join(sorted(f"{name}={value}" for name, value in parse_qsl(parts.query, keep_blank_values=True)))
    return f"{parts.hostname}{parts.path.rstrip('/')}{'?' if query else ''}{query}"


@dataclass
class Book:
    """What each request of a spider is answered with."""

    pages: Sequence[Saved]
    makes_up: bool = False
    """Whether addresses without a page get a made-up one."""
    given: dict[str, str] = field(default_factory=dict)
    """Request -> file."""

    def page(self, method: str, url: str, body: bytes) -> str:
        """The file that answers a request, ABSENT or MADE_UP."""
        key = request_key(method, url, body)
        if key not in self.given:
            self.given[key] = self._found(url)
        return self.given[key]

    def _found(self, url: str) -> str:
        parts = urlsplit(url)
        if parts.path == "/robots.txt":
            return ABSENT
        whole, path = bare(url), bare(url).partition("?")[0]
        named = [page for page in self.pages if page.url]
        for page in named:
            if bare(page.url) == whole:
                return page.file
        for page in named:
            if bare(page.url).partition("?")[0] == path:
                return page.file
        given = set(self.given.values())
        kind = _kind(parts.path)
        left = [page for page in self.pages if page.file not in given and kind in ("", _kind(page.file))]
        left.sort(key=lambda page: urlsplit(page.url).hostname != parts.hostname)
        if left:
            return left[0].file
        return MADE_UP if self.makes_up else ABSENT


def _kind(path: str) -> str:
    """Of a path that names a kind of file; empty for what may be a page."""
    kind = mimetypes.guess_type(path)[0] or ""
    return "" if kind == "text/html" else kind


def request_key(method: str, url: str, body: bytes) -> str:
    """Names a request: method, address and what its body is."""
    return f"{method} {url.partition('://')[2]} {hashlib.sha1(body).hexdigest()[:12] if body else ''}".strip()


class StandIn:
    """Listens on two ports of loopback, for http and https, while one spider runs."""

    def __init__(self, book: Book, names: Names) -> None:
        self._book, self._names = book, names
        self.requests: Counter[str] = Counter()
        """What came, but for robots.txt."""
        self.failed: set[str] = set()
        """Those of them that had no page."""
        self.ports: list[int] = []

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        for context in (None, self._names.context()):
            site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
            await site.start()
            server = site._server
            assert server is not None
            self.ports.append(server.sockets[0].getsockname()[1])  # type: ignore[attr-defined]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        scheme = "https" if request.secure else "http"
        url = f"{scheme}://{request.headers.get('Host', '')}{request.raw_path}"
        page = self._book.page(request.method, url, body)
        if request.path != "/robots.txt":
            key = request_key(request.method, url, body)
            self.requests[key] += 1
            if page == ABSENT:
                self.failed.add(key)
        if page == ABSENT:
            return web.Response(status=404, text="There is no such page.")
        if page == MADE_UP:
            return made_up(url)
        return _file(Path(page))


def _file(path: Path) -> web.Response:
    kind = mimetypes.guess_type(path.name)[0] or "text/html"
    if kind.startswith(_TEXT):
        kind += "; charset=utf-8"
    return web.Response(body=path.read_bytes(), headers={"Content-Type": kind})

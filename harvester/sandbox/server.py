"""The site: one process and one port for AppView, PDS, PLC directory, image server and control."""

import asyncio
import gzip
import re
import time
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web

from harvester.sandbox.endpoints import Endpoints
from harvester.sandbox.faults import INSTEAD, SPOILED, WIRE, Faults
from harvester.sandbox.journal import Journal, JournalEntry, endpoint_of
from harvester.sandbox.network import Network
from harvester.sandbox.posts import Posts
from harvester.sandbox.profiles import Profiles
from harvester.sandbox.records import SandboxRecords
from harvester.sandbox.responses import SandboxAnswer, XrpcError, error_answer, json_answer
from harvester.sandbox.sessions import Sessions
from harvester.sandbox.sources.sources import Sources
from harvester.sandbox.truth import truth
from harvester.sandbox.views import Views

_ACTOR_KEYS = ("actor=", "repo=", "did=", "uri=", "uris=", "actors=", "handle=", "list=", "starterPack=")
_TRUTH_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the site."""

    accounts: int = 2_000
    seed: int = 1
    posts: int = 30
    page_size: int = 100
    thread_depth: int = 50
    cache: int = 50_000
    log_size: int = 20_000
    prerender: int = 0
    access_seconds: float = 7_200


def build_world(accounts: int, seed: int, posts: int) -> SandboxRecords:
    """Builds the generated network with all its records."""
    network = Network(accounts, seed)
    written = Posts(network, posts)
    return SandboxRecords(network, written, Profiles(network, written))


class Window:
    """Counts requests in windows of five minutes, for the RateLimit headers."""

    def __init__(self, limit: int, seconds: int = 300) -> None:
        self.limit, self.seconds, self.enforced = limit, seconds, False
        self._ends, self._used = 0.0, 0

    def count(self) -> tuple[dict[str, str], bool]:
        """Counts a request. Returns the headers, and True if the limit is exceeded and enforced."""
        now = time.time()
        if now >= self._ends:
            self._ends, self._used = now + self.seconds, 0
        self._used += 1
        headers = {
            "ratelimit-limit": str(self.limit),
            "ratelimit-remaining": str(max(0, self.limit - self._used)),
            "ratelimit-reset": str(int(self._ends)),
            "ratelimit-policy": f"{self.limit};w={self.seconds}",
        }
        exceeded = self.enforced and self._used > self.limit
        if exceeded:
            headers["retry-after"] = str(max(1, int(self._ends - now)))
        return headers, exceeded


class SandboxSite:
    """Responds to all requests."""

    def __init__(self, options: Options, base: str) -> None:
        self.options, self.base = options, base
        self.records = build_world(options.accounts, options.seed, options.posts)
        self.network = self.records.network
        self.sessions = Sessions(self.network, options.access_seconds)
        views = Views(self.records, base, options.page_size, options.cache)
        self.sources = Sources(base)
        self.endpoints = Endpoints(views, self.sessions, options.thread_depth, self.sources.clock)
        self.faults = Faults()
        self.journal = Journal(options.log_size)
        self.windows = {"pds": Window(3_000), "repo": Window(6_000), "session": Window(30)}
        self._rendered: OrderedDict[tuple[str, bool], tuple[bytes, dict[str, str]]] = OrderedDict()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = request.raw_path
        path, _, query = raw.partition("?")
        if path.startswith("/_control/"):
            return await self._control(request, path)
        endpoint = endpoint_of(path)
        journal = self.journal  # a request may outlast its client, and must not count in the next journal
        began = journal.begin(endpoint)
        status = 0
        try:
            response = await self._respond(request, raw, path, query)
            status = 0 if request.transport is None or request.transport.is_closing() else response.status
            return response
        finally:
            authorized = "authorization" in request.headers
            journal.end(endpoint, JournalEntry(began, request.method, raw, status, _actor(query), authorized))

    async def _respond(self, request: web.BaseRequest, raw: str, path: str, query: str) -> web.StreamResponse:
        fault = self.faults.pick(unquote(raw)) if self.faults.active else None
        answer = INSTEAD[fault.kind](fault, request) if fault and fault.kind in INSTEAD else None
        if answer is None:
            if fault is None and self.options.prerender and request.method == "GET":
                return await self._prerendered(request, raw, path, query)
            answer = await self._answer(request, path, query)
            if fault is not None and fault.kind in SPOILED:
                answer = SPOILED[fault.kind](fault, answer)
        if fault is not None and fault.kind in WIRE:
            sent = await WIRE[fault.kind](fault, request, answer)
            if sent is not None:
                return sent
        return self._packed(request, answer)

    async def _answer(self, request: web.BaseRequest, path: str, query: str) -> SandboxAnswer:
        if (of_source := self.sources.answer(path, query, request.headers)) is not None:
            return of_source
        headers: dict[str, str] = {}
        try:
            role = self.endpoints.role(path)
            if role is not None:
                headers, exceeded = self.windows[role].count()
                if exceeded:
                    answer = error_answer("RateLimitExceeded", "Rate Limit Exceeded", 429)
                    answer.headers = headers
                    return answer
            body = await request.read() if request.method == "POST" else b""
            answer = self.endpoints.answer(_verb(request), path, query, request.headers.get("authorization"), body)
        except XrpcError as error:
            answer = error.answer()
        answer.headers = headers | answer.headers
        return answer

    def _packed(self, request: web.BaseRequest, answer: SandboxAnswer) -> web.Response:
        body, headers = answer.body, {"access-control-allow-origin": "*", "x-powered-by": "Express"}
        headers["content-type"] = answer.content_type
        if "content-encoding" not in answer.headers and not answer.content_type.startswith("image/"):
            headers["vary"] = "Accept-Encoding"
            if answer.status != 302:
                headers["etag"] = f'W/"{len(body):x}-{zlib.crc32(body):08x}"'
            if answer.status == 200 and request.headers.get("if-none-match") == headers["etag"]:
                return web.Response(status=304, headers=headers)
            if len(body) > 1_024 and "gzip" in request.headers.get("accept-encoding", ""):
                body = gzip.compress(body, 1, mtime=0)
                headers["content-encoding"] = "gzip"
        return web.Response(body=body, status=answer.status, headers=headers | answer.headers)

    async def _prerendered(self, request: web.BaseRequest, raw: str, path: str, query: str) -> web.Response:
        """Returns a saved response, so that benchmarks measure the client and not this site."""
        key = (raw, "gzip" in request.headers.get("accept-encoding", ""))
        kept = self._rendered.get(key)
        if kept is None:
            response = self._packed(request, await self._answer(request, path, query))
            if response.status == 200 and isinstance(response.body, bytes):
                self._rendered[key] = (response.body, dict(response.headers))
                if len(self._rendered) > self.options.prerender:
                    self._rendered.popitem(last=False)
            return response
        return web.Response(body=kept[0], headers=kept[1])

    # Control

    async def _control(self, request: web.BaseRequest, path: str) -> web.Response:
        name = path.removeprefix("/_control/")
        sent = await request.read()
        try:
            value = self._controlled(request, name, msgspec.json.decode(sent, type=dict[str, Any]) if sent else {})
        except (KeyError, TypeError, ValueError, re.error, msgspec.MsgspecError) as error:
            said = {"error": f"{type(error).__name__}: {error}"}
            return web.Response(body=msgspec.json.encode(said), status=400, content_type="application/json")
        return web.Response(body=json_answer(value).body, content_type="application/json")

    def _controlled(self, request: web.BaseRequest, name: str, body: Any) -> object:
        if name == "faults":
            if request.method == "DELETE":
                self.faults.remove({int(number) for number in request.query.getall("id", ())})
            elif request.method == "POST":
                return self.faults.add(body).report()
            return [fault.report() for fault in self.faults.active]
        if name == "log":
            if request.method == "DELETE":
                self.journal = Journal(self.options.log_size)
            last = request.query.get("last")
            return self.journal.report(None if last is None else int(last)) | {
                "faults": [fault.report() for fault in self.faults.active]
            }
        if name == "settings":
            return self._set(body)
        if name == "truth":
            found = truth(self.records)
            return found.report() if self.network.size <= _TRUTH_LIMIT else found.totals()
        raise ValueError(f"no control named {name!r}")

    def _set(self, wishes: dict[str, Any]) -> dict[str, Any]:
        """Changes settings of the running site.

        A number in `pds_limit`, `repo_limit` or `session_limit` enforces that limit, and null ends it. `window_seconds`
        is the length of all windows, and `access_seconds` the lifetime of access tokens. `revoke` and `expire` name an
        account whose sessions or access tokens end. All settings of `Sources.set` are accepted too.
        """
        self.sources.set(wishes)
        for name, window in self.windows.items():
            if f"{name}_limit" in wishes:
                limit = wishes[f"{name}_limit"]
                window.enforced = limit is not None
                window.limit = limit if limit is not None else window.limit
        if "window_seconds" in wishes:
            for window in self.windows.values():
                window.seconds = wishes["window_seconds"]
        self.sessions.access_seconds = wishes.get("access_seconds", self.sessions.access_seconds)
        if "revoke" in wishes:
            self.sessions.revoke(wishes["revoke"])
        if "expire" in wishes:
            self.sessions.expire(wishes["expire"])
        return wishes


def _verb(request: web.BaseRequest) -> str:
    return "GET" if request.method == "HEAD" else request.method


def _actor(query: str) -> str | None:
    for part in query.split("&"):
        if part.startswith(_ACTOR_KEYS):
            return unquote(part.partition("=")[2])
    return None


async def serve(options: Options, port: int = 0, host: str = "127.0.0.1") -> tuple[web.ServerRunner, str]:
    """Starts the site. Returns the runner and the address of the listening server."""
    site: list[SandboxSite] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return await site[0].handle(request)

    runner = web.ServerRunner(web.Server(handle, access_log=None), handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    loop = asyncio.get_running_loop()
    assert runner.server is not None
    listener = await loop.create_server(runner.server, host, port, backlog=1_024)
    base = f"http://{host}:{listener.sockets[0].getsockname()[1]}"
    site.append(SandboxSite(options, base))
    return runner, base

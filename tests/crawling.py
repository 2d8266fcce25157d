"""A real crawl on loopback: a site that answers as it is told, and a spider that asks and tells what came of it.

The spider runs in a process of its own, with the project's settings and downloader middlewares, and no pipelines:
`python -m tests.crawling` with a Plan as JSON. It prints a Crawled as JSON.
"""

import asyncio
import importlib
import json
import os
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.settings import Settings
from twisted.python.failure import Failure

from harvester.download import dns
from harvester.outcomes import verdict_of
from tests.forking import Forked, fork
from tests.listening import close
from tests.root import ROOT

LONGEST_S = 240
"""A crawl that takes longer hangs."""
_length_in = re.compile(rb"\r\ncontent-length: *([1-9]\d*)", re.IGNORECASE).search


class Answer(NamedTuple):
    """What the site sends."""

    status: int = 200
    body: bytes = b'{"fine":true}'
    headers: Mapping[str, str] = {}
    kind: str = "application/json"
    missing: int = 0
    """Bytes that are announced and never come: the connection is closed instead."""
    silent: bool = False
    """Whether the connection is closed without an answer."""
    endless: bool = False
    """Whether zeros follow without end. No length is announced."""


class Arrival(NamedTuple):
    """A request that came."""

    at: float
    """Monotonic time."""
    path: str


class Site:
    """`async with Site(...) as site: ...site.url...`. `answers` are those to a path in turn, the last one for ever.

    A form that is posted is told as if it stood in the path, behind a question mark.
    """

    robots = Answer(404, b"", kind="text/plain")
    """What /robots.txt says."""
    port = 0
    """Where it listens; 0: at a free one."""

    def __init__(self, answers: Mapping[str, list[Answer]] | None = None) -> None:
        self.answers = answers or {}
        self.arrivals: list[Arrival] = []
        self.heads: dict[str, list[str]] = {}
        """Path -> the heads of the requests for it."""
        self.at_once = self.most_at_once = 0
        self.robots_at = 0.0
        """When robots.txt was asked for last. It is not among the arrivals."""
        self.url = self.name = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.name = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"http://{self.name}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close(self._server)

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(arrival.path == path for arrival in self.arrivals)

    async def answer(self, path: str, number: int) -> Answer:
        """The answer to the `number`th request (from 0) for a path. Override it to wait for something first."""
        answers = self.answers.get(path, [Answer()])
        return answers[min(number, len(answers) - 1)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        if form := _length_in(head):
            path += "?" + (await reader.readexactly(int(form[1]))).decode()
        if path == "/robots.txt":
            self.robots_at = time.monotonic()
            answer = self.robots
        else:
            number = len(self.heads.get(path, ()))
            self.arrivals.append(Arrival(time.monotonic(), path))
            self.heads.setdefault(path, []).append(head.decode("latin-1"))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                answer = await self.answer(path, number)
            finally:
                self.at_once -= 1
        if answer.silent:
            return False
        length = len(answer.body) + answer.missing
        headers = {"Content-Type": answer.kind, "Content-Length": str(length), **answer.headers}
        if answer.endless:
            headers |= {"Connection": "close"}
            del headers["Content-Length"]
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "\r\n"]).encode() + answer.body)
        await writer.drain()
        while answer.endless:
            writer.write(bytes(65_536))
            await writer.drain()
        return not answer.missing


class Plan(msgspec.Struct):
    """What a crawl does."""

    urls: list[str]
    closing_url: str | None = None
    """Whose answer ends the run, with the reason `enough`."""
    settings: dict[str, Any] = {}
    patches: dict[str, Any] = {}
    """Module and constant (`harvester.politeness.throttle.WINDOW_S`) -> its value."""
    names: dict[str, str] = {}
    """Host names of the test's own -> the address they have. Of others, the system is asked."""


class Result(msgspec.Struct):
    """What a request came to: an answer (`status`), or a failure."""

    url: str
    status: int = 0
    error: str = ""
    """Class of what the errback was given."""
    outcome: str = ""
    tries: int = 1
    said: str = ""


class Crawled(msgspec.Struct):
    """What a crawl came to."""

    results: list[Result]
    stats: dict[str, Any]
    log: str = ""

    def of(self, url: str) -> list[Result]:
        return [result for result in self.results if result.url == url]


async def start(plan: Plan, folder: Path, **variables: str) -> Forked:
    """A crawl under way, with HARVESTER_* variables."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
    environment = own | {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings"}
    environment |= {"HARVESTER_ALLOW_PRIVATE_HOSTS": "true"}
    environment |= {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}
    return await fork("tests.crawling", msgspec.json.encode(plan).decode(), cwd=folder, env=environment)


async def end(process: Forked) -> Crawled:
    """What it came to. Fails when it does not end."""
    out, log = await process.end(LONGEST_S)
    assert process.returncode == 0, log
    crawled = msgspec.json.decode(out, type=Crawled)
    crawled.log = log
    return crawled


async def crawl(plan: Plan, folder: Path, **variables: str) -> Crawled:
    """A whole crawl."""
    return await end(await start(plan, folder, **variables))


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something to become true."""
    async with asyncio.timeout(LONGEST_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Asker(Spider):
    """Asks for every address of its plan at once."""

    name = "asker"
    WAITS_OUT_FAULTS = True  # as harvester's own spiders
    plan: Plan
    results: list[Result]

    async def start(self) -> AsyncIterator[Any]:
        for url in self.plan.urls:
            yield Request(url, self.parse, errback=self.failed, dont_filter=True, cb_kwargs={"asked": url})

    def parse(self, response: Response, **kwargs: Any) -> None:
        self.results.append(Result(kwargs["asked"], response.status))
        if kwargs["asked"] == self.plan.closing_url:
            raise CloseSpider("enough")

    def failed(self, failure: Failure) -> None:
        error: Any = failure.value
        url = failure.request.cb_kwargs["asked"]  # type: ignore[attr-defined]
        verdict, tries = verdict_of(error), getattr(error, "tries", 1)
        self.results.append(Result(url, 0, type(error).__name__, str(verdict.outcome), tries, verdict.reason))


def know(names: Mapping[str, str]) -> None:
    """Has these names looked up as the test says."""
    ask_system = dns.ask_system

    def look_up(host: str, family: socket.AddressFamily) -> list[dns.Address]:
        return [(socket.AF_INET, names[host])] if host in names else ask_system(host, family)

    dns.ask_system = look_up


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    for name, value in plan.patches.items():
        module, _, constant = name.rpartition(".")
        assert hasattr(importlib.import_module(module), constant)
        setattr(importlib.import_module(module), constant, value)
    know(plan.names)
    settings = Settings()
    settings.setmodule("harvester.settings")
    settings.setdict(
        {
            "ITEM_PIPELINES_BASE": {},
            "SPIDER_MIDDLEWARES_BASE": {"harvester.middlewares.httperror.HttpErrorMiddleware": 50},
            "LOG_LEVEL": "DEBUG",
        }
        | plan.settings,
        "cmdline",
    )
    settings.set("EXTENSIONS_BASE", {"scrapy.extensions.corestats.CoreStats": 0}, "cmdline")
    settings.set("SCHEDULER", "scrapy.core.scheduler.Scheduler", "cmdline")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Asker)
    results: list[Result] = []
    process.crawl(crawler, plan=plan, results=results)
    process.start()
    stats = {name: value for name, value in crawler.stats.get_stats().items() if isinstance(value, (str, int, float))}
    sys.stdout.buffer.write(msgspec.json.encode(Crawled(results, json.loads(json.dumps(stats)))))


if __name__ == "__main__":
    main()

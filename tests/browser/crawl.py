"""A real crawl of pages that a browser renders: a process of its own, with the project's settings.

`python -m tests.browser.crawl` with a Plan as JSON. It prints a Crawled as JSON.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response, TextResponse
from scrapy.settings import Settings
from twisted.python.failure import Failure

from harvester.outcomes import verdict_of
from tests.crawling import know
from tests.forking import Forked, fork
from tests.root import ROOT

LONGEST_S = 240
"""A crawl that takes longer hangs."""


class Wish(msgspec.Struct):
    """A request."""

    url: str
    meta: dict[str, Any] = {}
    headers: dict[str, str] = {}


class Plan(msgspec.Struct):
    """What a crawl does."""

    wishes: list[Wish]
    settings: dict[str, Any] = {}
    patches: dict[str, Any] = {}
    """Module and constant (`harvester.browser.pool.PAGES_A_BROWSER`) -> its value."""
    names: dict[str, str] = {}
    """Host names of the test's own -> the address they have."""
    one_by_one: bool = False
    """Whether each waits for the answer to the one before."""
    quiet: bool = False
    """Whether texts are left out of the result."""


class Result(msgspec.Struct):
    """What a request came to."""

    url: str
    status: int = 0
    text: str = ""
    captured: list[tuple[str, int, str]] = []
    """Address, status and text of each answer."""
    sent: list[bytes] = []
    """The body of the request for each."""
    kind: str = ""
    """Class of the response, or of the error."""
    outcome: str = ""
    said: str = ""
    at: float = 0.0


class Crawled(msgspec.Struct):
    """What a crawl came to."""

    results: list[Result]
    stats: dict[str, Any]
    log: str = ""

    def of(self, url: str) -> Result:
        [result] = [result for result in self.results if result.url == url]
        return result


async def start(plan: Plan, folder: Path, **variables: str) -> Forked:
    """A crawl under way, with HARVESTER_* variables."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
    environment = own | {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings"}
    environment |= {"HARVESTER_ALLOW_PRIVATE_HOSTS": "true", "HARVESTER_REQUESTS_PER_SECOND": "0"}
    environment |= {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    with (folder / "log").open("wb") as log:
        return await fork("tests.browser.crawl", cwd=folder, env=environment, log=log.fileno())


async def end(process: Forked, folder: Path, longest_s: float = LONGEST_S) -> Crawled:
    """What it came to. Fails when it does not end."""
    out, _ = await process.end(longest_s)
    log = (folder / "log").read_text(errors="replace")
    assert process.returncode == 0, log[-6000:]
    crawled = msgspec.json.decode(out, type=Crawled)
    crawled.log = log
    return crawled


async def crawl(plan: Plan, folder: Path, **variables: str) -> Crawled:
    """A whole crawl."""
    return await end(await start(plan, folder, **variables), folder)


class Renderer(Spider):
    """Asks for what its plan wishes."""

    name = "renderer"
    plan: Plan
    results: list[Result]

    async def start(self) -> AsyncIterator[Any]:
        for number, _ in enumerate(self.plan.wishes[:1] if self.plan.one_by_one else self.plan.wishes):
            yield self._request(number)

    def _request(self, number: int) -> Request:
        wish = self.plan.wishes[number]
        return Request(
            wish.url,
            self.parse,
            errback=self.failed,
            dont_filter=True,
            headers=wish.headers,
            meta=dict(wish.meta),
            cb_kwargs={"number": number},
        )

    def parse(self, response: Response, number: int) -> Any:
        text = response.text if isinstance(response, TextResponse) and not self.plan.quiet else ""
        captured = [(each.url, each.status, each.text) for each in response.meta.get("captured", ())]
        url = self.plan.wishes[number].url
        kind = type(response).__name__
        sent = [each.request.body for each in response.meta.get("captured", ())]
        self.results.append(Result(url, response.status, text, captured, sent, kind, "ok", at=time.time()))
        return self._next(number)

    def failed(self, failure: Failure) -> Any:
        error: Any = failure.value
        number = failure.request.cb_kwargs["number"]  # type: ignore[attr-defined]
        url, outcome = self.plan.wishes[number].url, str(verdict_of(error).outcome)
        kind = type(error).__name__
        self.results.append(Result(url, kind=kind, outcome=outcome, said=str(error), at=time.time()))
        return self._next(number)

    def _next(self, number: int) -> Any:
        if self.plan.one_by_one and number + 1 < len(self.plan.wishes):
            yield self._request(number + 1)


def main() -> None:
    plan = msgspec.json.decode(Path("plan.json").read_bytes(), type=Plan)
    for name, value in plan.patches.items():
        module, _, constant = name.rpartition(".")
        assert hasattr(importlib.import_module(module), constant), name
        setattr(importlib.import_module(module), constant, value)
    know(plan.names)
    settings = Settings()
    settings.setmodule("harvester.settings")
    settings.setdict(
        {
            "ITEM_PIPELINES_BASE": {},
            "SPIDER_MIDDLEWARES_BASE": {"harvester.middlewares.httperror.HttpErrorMiddleware": 50},
        }
        | plan.settings,
        "cmdline",
    )
    settings.set("EXTENSIONS_BASE", {"scrapy.extensions.corestats.CoreStats": 0}, "cmdline")
    settings.set("SCHEDULER", "scrapy.core.scheduler.Scheduler", "cmdline")
    settings.set("HARVESTER_BACKOFF_FACTOR", 0.01, "cmdline")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Renderer)
    results: list[Result] = []
    process.crawl(crawler, plan=plan, results=results)
    process.start()
    stats = {name: value for name, value in crawler.stats.get_stats().items() if isinstance(value, (str, int, float))}
    sys.stdout.buffer.write(msgspec.json.encode(Crawled(results, json.loads(json.dumps(stats)))))


if __name__ == "__main__":
    main()

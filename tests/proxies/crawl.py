"""A crawl in a process of its own, its requests in the frontier or not: `python -m tests.proxies.crawl` with a Plan.

It prints what each request came to, the stats, and credentials that were seen where none may be.
"""

import asyncio
import importlib
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings
from twisted.python.failure import Failure

from harvester.outcomes import verdict_of
from tests.crawling import LONGEST_S
from tests.forking import fork
from tests.root import ROOT


class Plan(msgspec.Struct):
    """What a crawl does."""

    spider: str
    urls: Sequence[str]
    metas: Sequence[dict[str, Any]] = ()
    """Of the requests, in the order of the addresses."""
    leased: bool = True
    settings: dict[str, Any] = {}
    patches: dict[str, Any] = {}
    """Module and constant -> its value."""
    until: str = ""
    """A stat. When it is set, and no request is worked on any more, the run ends though some wait."""


class Crawled(msgspec.Struct):
    """What it came to."""

    outcomes: dict[str, str]
    """By address; only of those that came to an end."""
    leaks: list[str]
    stats: dict[str, Any]
    log: str = ""
    code: int = 0

    def ended(self, outcome: str) -> list[str]:
        return [url for url, each in self.outcomes.items() if each == outcome]


async def crawl(folder: Path, plan: Plan, **variables: str) -> Crawled:
    """A whole crawl, with HARVESTER_* variables beside those of this process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings"}
    environment |= {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}
    process = await fork("tests.proxies.crawl", msgspec.json.encode(plan).decode(), cwd=folder, env=environment)
    out, log = await process.end(LONGEST_S)
    assert out, log
    crawled = msgspec.json.decode(out, type=Crawled)
    crawled.log, crawled.code = log, process.returncode or 0
    return crawled


class Asker(Spider):
    """Asks for every address of its plan."""

    plan: Plan
    crawled: Crawled
    watching: "asyncio.Future[None]"

    async def start(self) -> AsyncIterator[Any]:
        for receiver, signal in (
            (self.watch, signals.request_scheduled),
            (self.watch, signals.request_left_downloader),
        ):
            self.crawler.signals.connect(receiver, signal=signal)
        if self.plan.until:
            self.watching = asyncio.ensure_future(self.end_when_all_wait())
        metas = self.plan.metas or [{}] * len(self.plan.urls)
        for url, meta in zip(self.plan.urls, metas, strict=True):
            yield Request(url, errback=self.failed, dont_filter=True, meta=dict(meta))

    async def end_when_all_wait(self) -> None:
        quiet = 0
        assert self.crawler.engine
        while quiet < 10:
            await asyncio.sleep(0.1)
            scheduler: Any = self.crawler.engine.scheduler
            quiet = quiet + 1 if self.crawler.stats.get_value(self.plan.until) and not len(scheduler) else 0
        await self.crawler.engine.close_spider_async(reason="all_wait")

    def parse(self, response: Response, **kwargs: Any) -> None:
        assert response.request
        self.watch(response.request)
        self.crawled.outcomes[response.url] = f"{response.status}"

    def failed(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]
        self.watch(request)
        error: Any = failure.value
        self.crawled.outcomes[request.url] = f"{verdict_of(error).outcome}: {verdict_of(error).reason}"

    def watch(self, request: Request) -> None:
        names = {name.decode().lower() for name in request.headers}
        if "proxy-authorization" in names or any(name.startswith("zyte-") for name in names) or "proxy" in request.meta:
            self.crawled.leaks.append(f"{request.url}: {sorted(names)}")


def main() -> None:
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    for name, value in plan.patches.items():
        module, _, constant = name.rpartition(".")
        assert hasattr(importlib.import_module(module), constant)
        setattr(importlib.import_module(module), constant, value)
    settings = Settings()
    settings.setmodule("harvester.settings")
    frontier, memory = "harvester.frontier.scheduler.Scheduler", "scrapy.core.scheduler.Scheduler"
    told = {
        "SCHEDULER": frontier if plan.leased else memory,
        "ITEM_PIPELINES_BASE": {},
        "EXTENSIONS_BASE": {"scrapy.extensions.corestats.CoreStats": 0},
        "LOG_LEVEL": "DEBUG",
        "HARVESTER_BACKOFF_FACTOR": 0.01,
        "ROBOTSTXT_OBEY": False,
        **plan.settings,
    }
    settings.setdict(told, "cmdline")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(type(plan.spider, (Asker,), {"name": plan.spider}))
    crawled = Crawled({}, [], {})
    process.crawl(crawler, plan=plan, crawled=crawled)
    process.start()
    stats = crawler.stats.get_stats()
    crawled.stats = {key: value for key, value in stats.items() if isinstance(value, (str, int, float))}
    sys.stdout.buffer.write(msgspec.json.encode(json.loads(json.dumps(msgspec.to_builtins(crawled)))))


if __name__ == "__main__":
    main()

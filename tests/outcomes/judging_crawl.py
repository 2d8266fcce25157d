"""A crawl of the frontier whose callbacks judge their pages, in a process of its own: `python -m ... <site> <name>`.

It prints what was told of each path, in order, the items, and the stats, as JSON.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings
from twisted.python.failure import Failure

from harvester.exceptions import PageFailed, ParseError
from harvester.fetch.steps import JudgingStep, get_steps
from harvester.outcomes import Verdict, verdict_of
from tests.crawling import LONGEST_S
from tests.forking import fork
from tests.root import ROOT


class Judging(Spider):
    """Its callbacks say what the path asks for."""

    site: str
    paths: str

    async def start(self) -> AsyncIterator[Any]:
        for path in self.paths.split():
            callback = getattr(self, f"on_{path[1:]}", self.parse)  # of an address, there is none
            yield Request(urljoin(self.site, path), callback, errback=self.failed)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"path": urlsplit(response.url).path}

    def failed(self, failure: Failure) -> Iterator[Any]:
        assert failure.value
        path = urlsplit(failure.request.url).path  # type: ignore[attr-defined]
        yield {"path": f"{path} came to {verdict_of(failure.value).outcome}"}

    def on_absent(self, response: Response) -> None:
        raise PageFailed("not_found", "no such parcel")

    def on_lazily(self, response: Response) -> Iterator[Any]:
        yield {"path": "before"}
        yield Request(f"{self.site}/linked")
        raise PageFailed("empty", "no rows")

    async def on_slowly(self, response: Response) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        yield {"path": "slowly"}
        raise PageFailed("too_many", "1,200 rows, of which 1,000 are shown")

    def on_refused(self, response: Response) -> None:
        raise PageFailed("policy_denied", "the disclaimer forbids it")

    def on_drifted(self, response: Response) -> None:
        raise ParseError("no table of owners")

    def on_mends(self, response: Response) -> Iterator[Any]:
        if response.body == b"half a page":
            raise ParseError("no table of owners")
        yield from self.parse(response)

    def on_faulty(self, response: Response) -> None:
        raise KeyError("owner")

    def on_faulty_lazily(self, response: Response) -> Iterator[Any]:
        yield {"path": "faulty"}
        raise KeyError("owner")


class Judged(NamedTuple):
    reason: str
    told: dict[str, list[str]]
    """Path -> outcomes in order."""
    items: list[str]
    stats: dict[str, Any]
    log: str


async def crawl(folder: Path, spider: str, site: str, *paths: str) -> Judged:
    """A whole crawl. HARVESTER_* variables are those of this process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings"}
    arguments = [spider, site, " ".join(paths)]
    process = await fork("tests.outcomes.judging_crawl", *arguments, cwd=folder, env=environment)
    out, log = await process.end(LONGEST_S)
    assert process.returncode == 0, log
    reason, told, items, stats = json.loads(out)
    return Judged(reason, told, items, stats, log)


def main() -> None:
    name, site, paths = sys.argv[1:]
    settings = Settings()
    settings.setmodule("harvester.settings")
    given = {"ITEM_PIPELINES_BASE": {}, "HARVESTER_BACKOFF_FACTOR": 0.01}
    given["EXTENSIONS_BASE"] = dict.fromkeys(
        ("scrapy.extensions.corestats.CoreStats", "scrapy.extensions.logcount.LogCount"), 0
    )
    settings.setdict(given, "cmdline")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(type(name, (Judging,), {"name": name}))
    told: dict[str, list[str]] = {}
    items: list[str] = []

    def hear(request: Request, verdict: Verdict, response: Response | None) -> None:
        told.setdefault(urlsplit(request.url).path, []).append(verdict.outcome)

    def collect(item: Any) -> None:
        items.append(item["path"])

    get_steps(crawler).add(JudgingStep.QUOTA, hear)
    crawler.signals.connect(collect, signals.item_scraped)
    process.crawl(crawler, site=site, paths=paths)
    process.start()
    stats = {key: value for key, value in crawler.stats.get_stats().items() if isinstance(value, (str, int, float))}
    print(json.dumps([stats.get("finish_reason", ""), told, items, stats]))


if __name__ == "__main__":
    main()

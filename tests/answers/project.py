"""A project of Scrapy as its users write it, in a process of its own: `python -m ... plain|ours <what it asks for>`.

The same spider, middleware and settings run under plain Scrapy and under harvester. What they saw is printed as JSON.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Response, TextResponse
from scrapy.settings import Settings
from twisted.python.failure import Failure

from tests.crawling import LONGEST_S
from tests.forking import fork
from tests.root import ROOT

NUMBER = 543
"""Of the middleware: that of Scrapy's template."""


class Saw(NamedTuple):
    """What a project saw of each address, in order, and Scrapy's stats."""

    events: dict[str, list[list[Any]]]
    stats: dict[str, Any]
    log: str
    verdicts: dict[str, str]
    """Path -> the outcome that the failure of its errback names, where it names one."""


class ProjectMiddleware:
    """Notes what it is asked, and answers as the path wants it."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> "ProjectMiddleware":
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Any:
        spider = self._crawler.spider
        spider.note(request, "response", response.status)
        if b"captcha" in response.body:
            return get_retry_request(request, spider=spider, reason="captcha") or response
        if "/solved" in request.url:
            return TextResponse(request.url, body=b"solved", encoding="utf-8", request=request)
        if "/relabelled" in request.url:
            return response.replace(status=404)
        if "/ignored" in request.url:
            raise IgnoreRequest("not today")
        if "/breaks" in request.url:
            raise KeyError("of the project")
        return response

    def process_exception(self, request: Request, exception: Exception) -> Any:
        spider = self._crawler.spider
        spider.note(request, "exception", type(exception).__name__)
        if "/fallback" in request.url:
            return TextResponse(request.url, body=b"fallback", encoding="utf-8", request=request)
        if "/once-more" in request.url and not request.meta.get("asked_once_more"):
            return request.replace(dont_filter=True, url=self._crawler.spider.site, meta={"asked_once_more": True})
        return None


class Project(Spider):
    """Asks for what it is given, and notes what its callback and errback get."""

    name = "project"
    site: str
    asks: list[dict[str, Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.events: dict[str, list[list[Any]]] = {}
        self.verdicts: dict[str, str] = {}

    async def start(self) -> AsyncIterator[Any]:
        for ask in self.asks:
            meta = {**ask.get("meta", {}), "asked": ask["url"]}
            yield Request(ask["url"], self.parse, errback=self.failed, meta=meta)

    def note(self, request: Request, *event: Any) -> None:
        parts = urlsplit(request.meta.get("asked", request.url))
        name = parts.netloc if parts.path == "/" else parts._replace(scheme="", netloc="").geturl()
        self.events.setdefault(name, []).append(list(event))

    async def parse(self, response: Response) -> None:
        assert response.request
        assert self.crawler.engine
        self.note(response.request, "callback", response.status, response.meta.get("retry_times", 0))
        if "/inline" in response.url:
            for path in ("/missing", "/broken", "/page"):
                request = Request(response.urljoin(path), meta={"asked": response.urljoin(f"{path}?inline")})
                answer = await self.crawler.engine.download_async(request)
                self.note(response.request, "inline", answer.status)
        if response.url == self.settings["ENOUGH"]:
            raise CloseSpider("enough")

    def failed(self, failure: Failure) -> None:
        error, request = failure.value, failure.request  # type: ignore[attr-defined]
        status = getattr(getattr(error, "response", None), "status", None)
        self.note(request, "errback", type(error).__name__, status, request.meta.get("retry_times", 0))
        if verdict := getattr(error, "verdict", None):
            self.verdicts[urlsplit(request.meta["asked"]).path] = str(verdict.outcome)


async def run(kind: str, folder: Path, asks: list[dict[str, Any]], settings: dict[str, Any], **variables: str) -> Saw:
    """A whole crawl of the project; `kind`: plain, or ours."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HARVESTER_REQUESTS_PER_SECOND": "0", **variables}
    given = json.dumps([asks, settings])
    process = await fork("tests.answers.project", kind, given, cwd=folder, env=environment)
    out, log = await process.end(LONGEST_S)
    assert process.returncode == 0, log
    events, stats, verdicts = json.loads(out)
    return Saw(events, stats, log, verdicts)


async def run_both(
    folder: Path, asks: list[dict[str, Any]], settings: dict[str, Any], **variables: str
) -> tuple[Saw, Saw]:
    """Of plain Scrapy, and of harvester."""
    return tuple(await asyncio.gather(*(run(kind, folder, asks, settings, **variables) for kind in ("plain", "ours"))))  # type: ignore[return-value]


def main() -> None:
    kind, given = sys.argv[1:]
    asks, own = json.loads(given)
    settings = Settings()
    if kind == "ours":
        settings.setmodule("harvester.settings")
        silent = {"ITEM_PIPELINES": {}, "EXTENSIONS": {"scrapy.extensions.corestats.CoreStats": 0}}
        settings.setdict(silent | {"HARVESTER_BACKOFF_FACTOR": 0.01}, "cmdline")
    else:
        settings.set("TELNETCONSOLE_ENABLED", False)
    components = {"tests.answers.project.ProjectMiddleware": NUMBER}
    settings.set("DOWNLOADER_MIDDLEWARES", {**settings.getdict("DOWNLOADER_MIDDLEWARES"), **components}, "project")
    settings.setdict(own, "project")
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Project)
    process.crawl(crawler, asks=asks, site=asks[0]["url"])
    process.start()
    spider: Any = crawler.spider
    stats = {name: value for name, value in crawler.stats.get_stats().items() if isinstance(value, (str, int, float))}
    print(json.dumps([spider.events, stats, spider.verdicts]))


if __name__ == "__main__":
    main()

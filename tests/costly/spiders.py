"""A spider that parses pages where it runs, as most do; and one of repositories."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.outcomes import verdict_of
from harvester.parsers.bluesky.car import read_repository
from harvester.spiders.base import HarvesterSpider, SpiderArguments
from harvester.spiders.bluesky.lists import COLLECTIONS, repository_bounds
from tests.costly.bodies import DID


def note(url: str, outcome: str, reason: str) -> None:
    with Path(os.environ["COSTLY_NOTED"]).open("a") as file:
        file.write(f"{url}\t{outcome}\t{reason}\n")


def note_failure(failure: Failure) -> None:
    verdict = verdict_of(failure.value)  # type: ignore[arg-type]
    note(failure.request.url, str(verdict.outcome), verdict.reason)  # type: ignore[attr-defined]


class RepositoriesSpider(HarvesterSpider):
    """Counts the records of repositories.

    Domain: that of each. Caveats: none. Arguments: `-a urls=http://...,http://...`.
    """

    class Arguments(SpiderArguments):
        urls: str

    name = "repositories"

    async def start(self) -> AsyncIterator[Any]:
        for url in self.arguments.urls.split(","):  # type: ignore[attr-defined]
            meta = {"download_maxsize": self.config.max_repository_mb * 1024 * 1024}
            yield Request(url, errback=self.failed, meta=meta)

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        bounds = repository_bounds(len(response.body))
        wanted = frozenset(COLLECTIONS.values())
        async for rows in self.read_items(bounds, read_repository, response.body, DID, wanted):
            yield {"count": len(rows)}
        note(response.url, "ok", "")

    def failed(self, failure: Failure) -> None:
        note_failure(failure)


class LinksSpider(Spider):
    """Counts the links of pages.

    Domain: that of each page. Caveats: none. Arguments: `-a urls=http://...,http://...`.
    """

    name = "links"
    urls: str

    async def start(self) -> AsyncIterator[Any]:
        for url in self.urls.split(","):
            yield Request(url, errback=self.failed)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        kind = (response.headers.get("Content-Type") or b"").decode()
        count = len(response.json()) if "json" in kind else len(response.css("a::attr(href)").getall())  # type: ignore[attr-defined]
        yield {"url": response.url, "count": count}
        note(response.url, "ok", "")

    def failed(self, failure: Failure) -> None:
        note_failure(failure)

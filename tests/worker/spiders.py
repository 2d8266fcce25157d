"""Spiders whose workers live and die as a test wants. They fetch `data:` addresses, so they need no site."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from scrapy import Request
from scrapy.http import Response

from harvester.jobs.documents import JobItem
from harvester.spiders.base import HarvesterSpider, SpiderArguments
from harvester.spiders.job import JobSpider

LAST_WORDS = "I was told to end"
Manner = Literal["works", "grows", "dies", "exits", "breaks", "clings", "sleeps"]


class MannersArguments(SpiderArguments):
    """How a worker behaves."""

    manner: Manner = Field("works", description="what it does beside its work")
    pages: int = Field(0, description="how many it fetches; 0: for ever")
    code: int = Field(0, description="exit code of one that exits")
    unless: str = Field("", description="a file; where it exists, the worker only works")


class PlainSpider(HarvesterSpider):
    """Its requests wait in Redis, as those of most spiders."""

    name = "plain"
    Arguments = SpiderArguments


class ListedSpider(JobSpider):
    """Has jobs."""

    name = "listed"

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request]:
        yield from ()


class MannersSpider(HarvesterSpider):
    """Fetches one page after the other, and behaves as told.

    grows: 20 MB with every page. dies: by SIGKILL, before the first page. exits: with `code`, likewise. breaks:
    by an exception of `start`, likewise. clings: its pages never end, so that it cannot drain.
    sleeps: its page lets nothing else of the process run.
    """

    name = "manners"
    custom_settings = {  # noqa: RUF012
        "SCHEDULER": "scrapy.core.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
        "ITEM_PIPELINES_BASE": {},
        "SPIDER_MIDDLEWARES_BASE": {"harvester.middlewares.httperror.HttpErrorMiddleware": 50},
        "DOWNLOADER_MIDDLEWARES_BASE": {},
    }
    Arguments = MannersArguments
    arguments: MannersArguments

    async def start(self) -> AsyncIterator[Any]:
        if self.manner == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.manner == "exits":
            raise self.stop("told", LAST_WORDS, self.arguments.code)
        if self.manner == "breaks":
            raise KeyError("a fault of the spider")
        fetched = 0
        while not self.arguments.pages or fetched < self.arguments.pages:
            fetched += 1
            yield Request(f"data:,{fetched}", self.parse, dont_filter=True)
            await asyncio.sleep(0.02)

    @property
    def manner(self) -> Manner:
        return "works" if self.arguments.unless and Path(self.arguments.unless).exists() else self.arguments.manner

    async def parse(self, response: Response, **kwargs: Any) -> None:
        self.crawler.stats.inc_value("harvester/pages")
        self.crawler.stats.inc_value("harvester/records/stored/post", 2)
        if self.manner == "grows":
            ballast.append(bytes([1]) * 20_000_000)
        if self.manner == "sleeps":
            Path("sleeps").touch()  # noqa: ASYNC240
            time.sleep(600)  # noqa: ASYNC251
        if self.manner == "clings":
            Path("clings").touch()  # noqa: ASYNC240
            await asyncio.Event().wait()


ballast: list[bytes] = []
"""Of a worker that grows."""

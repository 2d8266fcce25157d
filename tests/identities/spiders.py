"""The spider `chains`: searches whose results lie in a session, and their details; through the frontier."""

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

from pydantic import Field
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.identities import health
from harvester.outcomes import verdict_of
from harvester.settings import EXTENSIONS
from harvester.spiders.base import HarvesterSpider, SpiderArguments

DETAILS = 3
"""Of each search, one after the other."""
OTHERS = 30
"""Pages of the other site."""


class ChainsArguments(SpiderArguments):
    """Which searches."""

    url: str = Field(pattern=r"^http://127\.0\.0\.1:\d+$", description="Address of the county")
    other: str = Field("", description="Address of a site without identities")
    chains: int = Field(10, description="Number of searches")


class ChainsSpider(HarvesterSpider):
    """Each search is a chain of requests; a chain whose session has ended begins anew.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a url=http://127.0.0.1:<port>`.
    """

    name = "chains"
    Arguments = ChainsArguments
    arguments: ChainsArguments

    async def start(self) -> AsyncIterator[Any]:
        for number in range(self.arguments.chains):
            yield self._search(f"q{number}")
        if self.arguments.other:
            for number in range(OTHERS):
                yield Request(f"{self.arguments.other}/cookie?number={number}", self.parse_other)

    def parse_other(self, response: Response) -> None:
        """Nothing follows."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        assert response.request
        if "Set-Cookie" in response.headers or "Cookie" in response.request.headers:
            self.crawler.stats.inc_value("chains/leaked")
        yield self._detail(kwargs["query"], 1)

    def parse_detail(self, response: Response, query: str, index: int) -> Iterator[Any]:
        told = response.json()  # type: ignore[attr-defined]
        self.crawler.stats.inc_value("chains/right" if told["q"] == query else "chains/wrong")
        if index < DETAILS:
            yield self._detail(query, index + 1)

    def failed(self, failure: Failure) -> Iterator[Any]:
        request: Request = failure.request  # type: ignore[attr-defined]
        outcome = verdict_of(failure.value).outcome  # type: ignore[arg-type]
        self.crawler.stats.inc_value(f"chains/{outcome}")
        if outcome == "session_expired":
            yield self._search(request.cb_kwargs["query"])

    def _search(self, query: str) -> Request:
        url = f"{self.arguments.url}/search?q={query}"
        meta = {"identity_chain": query}
        kwargs = {"query": query}
        return Request(url, self.parse, errback=self.failed, meta=meta, cb_kwargs=kwargs, dont_filter=True)

    def _detail(self, query: str, index: int) -> Request:
        meta = {"identity_chain": query, "identity_chain_end": index == DETAILS}
        return Request(
            f"{self.arguments.url}/detail?q={query}&index={index}",
            self.parse_detail,
            errback=self.failed,
            meta=meta,
            cb_kwargs={"query": query, "index": index},
            dont_filter=True,
        )


class EchoesArguments(SpiderArguments):
    """Which pages."""

    urls: str = Field(description="Addresses, with spaces between")


class EchoesSpider(HarvesterSpider):
    """Asks for pages; its callback breaks on each, and says with what. The run is judged.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a urls=...`.
    """

    name = "echoes"
    Arguments = EchoesArguments
    arguments: EchoesArguments
    custom_settings = {"EXTENSIONS": EXTENSIONS, "HARVESTER_BACKOFF_FACTOR": 0.01}  # noqa: RUF012

    async def start(self) -> AsyncIterator[Any]:
        health.REST_S = 0.1  # a minute is long for a test
        for url in self.arguments.urls.split():
            yield Request(url, self.parse)

    def parse(self, response: Response, **kwargs: Any) -> None:
        logging.getLogger(__name__).warning("It says %s", response.text)
        raise ValueError(response.text)

"""The spider `tree`, by which the tests crawl tests/sandbox/tree.py."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic import Field
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.items import Provenance
from harvester.outcomes import verdict_of
from harvester.spiders.base import HarvesterSpider, SpiderArguments
from tests.chaos.records import TreeItem


class TreeArguments(SpiderArguments):
    """Which tree."""

    url: str = Field(pattern=r"^http://127\.0\.0\.1:\d+$", description="Address of the tree's site")
    poison: int = Field(-1, description="Number of a page that kills the process which reads it")


class TreeSpider(HarvesterSpider):
    """Every page of the tree, its items and pictures; what is missing, too.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a url=http://127.0.0.1:<port>`.
    """

    name = "tree"
    Arguments = TreeArguments
    arguments: TreeArguments

    async def start(self) -> AsyncIterator[Any]:
        yield self._request("/page/0", depth=0)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        """A page: links first, so that a worker killed in the middle has queued some of them."""
        page, depth = int(response.url.rpartition("/")[2]), kwargs["depth"]
        if page == self.arguments.poison:
            os.kill(os.getpid(), signal.SIGKILL)
        told = msgspec.json.decode(response.body)
        for link in told["links"]:
            yield self._request(link, depth=depth + 1)
        if told["missing"]:
            yield self._request(told["missing"], depth=depth, page=page)
        if told["check"]:
            url = self.arguments.url + told["check"]
            yield Request(url, self.parse_check, priority=1, dont_filter=True, cb_kwargs={"page": page})
        yield [self._record(self.provenance(response), *item) for item in told["items"]]

    def parse_check(self, response: Response, page: int) -> Iterator[Any]:
        for item in msgspec.json.decode(response.body)["items"]:
            yield self._record(self.provenance(response), *item)

    def failed(self, failure: Failure) -> Iterator[Any]:
        """An address at which nothing is, is a record too; one that is broken is a dead letter."""
        request: Request = failure.request  # type: ignore[attr-defined]
        if "/broken/" in request.url:
            return
        assert verdict_of(failure.value).outcome == "not_found", failure.value  # type: ignore[arg-type]
        provenance = Provenance(request.url, datetime.now(UTC), self.name, self.crawl_id)
        yield self._record(provenance, request.meta["page"], "missing", 404, "")

    def _request(self, path: str, depth: int, **meta: Any) -> Request:
        """The deeper, the later."""
        url = self.arguments.url + path
        return Request(url, errback=self.failed, priority=-depth, meta=meta, cb_kwargs={"depth": depth})

    def _record(self, provenance: Provenance, page: int, part: str, value: int, picture: str) -> TreeItem:
        url = self.arguments.url + picture if picture else None
        return TreeItem(page=page, provenance=provenance, part=part, value=value, picture_url=url)

"""A spider that parses pages where it runs, as most do."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.outcomes import verdict_of


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
        self._note(response.url, "ok", "")

    def failed(self, failure: Failure) -> None:
        verdict = verdict_of(failure.value)  # type: ignore[arg-type]
        self._note(failure.request.url, str(verdict.outcome), verdict.reason)  # type: ignore[attr-defined]

    @staticmethod
    def _note(url: str, outcome: str, reason: str) -> None:
        with Path(os.environ["COSTLY_NOTED"]).open("a") as file:
            file.write(f"{url}\t{outcome}\t{reason}\n")

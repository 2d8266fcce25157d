"""The spider `street`, by which the tests crawl tests/sandbox/street.py."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field
from scrapy import Request
from scrapy.http import Response

from harvester.spiders.base import HarvesterSpider, SpiderArguments
from tests.sandbox.street_plan import Page


class Inputs(msgspec.Struct):
    """The pages of one site that are to be asked for."""

    url: str
    pages: int


class StreetArguments(SpiderArguments):
    """Which sites."""

    sites: Path = Field(description="File with a JSON list of Inputs")


class StreetSpider(HarvesterSpider):
    """Pages /page/0, /page/1, ... of every site, in turn. Its inputs are requests; nothing follows from a page.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a sites=<file>`.
    """

    name = "street"
    Arguments = StreetArguments
    arguments: StreetArguments

    async def start(self) -> AsyncIterator[Any]:
        sites = msgspec.json.decode(self.arguments.sites.read_bytes(), type=list[Inputs])
        for page in range(max(site.pages for site in sites)):
            for site in sites:
                if page < site.pages:
                    yield Request(f"{site.url}/page/{page}", priority=-page)

    def parse(self, response: Response, **kwargs: Any) -> None:
        """Raises when it is not the page that was asked for."""
        page = msgspec.json.decode(response.body, type=Page)
        assert response.url.endswith(f"/page/{page.page}"), response.url

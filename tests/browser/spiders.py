"""The spider `rendered`: pages that a browser renders, some of them of use only when they are asked for again."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic import Field
from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import PageFailed
from harvester.spiders.base import HarvesterSpider, SpiderArguments

RENDERING = {"steps": [{"wait_for": "#ready", "timeout_s": 60}], "capture": ["*/data/*"], "timeout_s": 90}


class RenderedArguments(SpiderArguments):
    """Which pages."""

    url: str = Field(pattern=r"^http://127\.0\.0\.1:\d+$", description="Address of the site")
    paths: str = Field(description="Paths, with commas between them")


class RenderedSpider(HarvesterSpider):
    """Each page is rendered, and leads to one more, with the whole meta of its answer.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a url=http://127.0.0.1:<port> -a paths=/list/1,/list/2`.
    """

    name = "rendered"
    Arguments = RenderedArguments
    arguments: RenderedArguments

    async def start(self) -> AsyncIterator[Any]:
        meta = {"render": True, "rendering": RENDERING}
        for path in self.arguments.paths.split(","):
            yield Request(self.arguments.url + path, meta=meta)

    def parse(self, response: Response) -> Any:
        if "not yet" in response.text:
            raise PageFailed("layout_changed", "it is not ready yet")
        assert response.request
        if "X-Token" in response.request.headers:
            self.crawler.stats.inc_value("rendered/leaked")
        meta = response.meta | {"render": False}
        yield Request(f"{self.arguments.url}/who?after", self.parse_last, meta=meta, dont_filter=True)

    def parse_last(self, response: Response) -> None:
        """Nothing follows."""
        self.crawler.stats.inc_value("rendered/last")

"""The spider `inputs`: one page for each input, of one site or more."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from pydantic import Field
from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from harvester.exceptions import PageFailed
from harvester.items import Provenance, Record
from harvester.spiders.base import HarvesterSpider, SpiderArguments


class Parcel(Record, frozen=True, kw_only=True, gc=False):
    """What a page yields."""

    KIND = "parcel"
    COLLECTION = "parcels"
    KEY = ("number",)
    COVERED = ("number", "owner")

    number: str
    owner: str | None = None


class InputsArguments(SpiderArguments):
    """Which sites, and how many inputs of each."""

    urls: str = Field(description="addresses of the sites, comma-separated")
    inputs: int = Field(description="how many of each site")


class InputsSpider(HarvesterSpider):
    """Asks for every input; a page may yield a record.

    Domain: 127.0.0.1. Caveats: none. Arguments: `-a urls=http://127.0.0.1:<port> -a inputs=N`.
    """

    name = "inputs"
    Arguments = InputsArguments
    arguments: InputsArguments

    async def start(self) -> AsyncIterator[Any]:
        for number in range(self.arguments.inputs):
            for url in self.arguments.urls.split(","):
                yield Request(f"{url}/page/{number}", errback=self.failed)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        number = response.url.rpartition("/")[2]
        text = response.text
        if text == "nothing":
            raise PageFailed("empty", "there is no such parcel")
        if text.startswith("parcel"):
            owner = text.partition(" of ")[2] or None
            provenance: Provenance = self.provenance(response)
            yield Parcel(provenance=provenance, number=number, owner=owner)

    def failed(self, failure: Failure) -> None:
        """Its fate is told by the frontier."""

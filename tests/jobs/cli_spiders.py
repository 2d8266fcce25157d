"""Spiders that items are submitted to. Their records are those of Bluesky."""

from collections.abc import AsyncIterator
from typing import Any, Literal

from msgspec.structs import replace
from pydantic import Field

from harvester.exceptions import UsageError
from harvester.items import Found, bluesky  # noqa: F401  with them come records
from harvester.spiders.base import HarvesterSpider, SpiderArguments


class ParcelsArguments(SpiderArguments):
    """Which county."""

    county: Literal["oak", "elm"] = Field("oak", description="where the parcels are")
    job: str = Field("", description="the job to work at")


class ParcelsSpider(HarvesterSpider):
    """Takes parcels and owners. A parcel's number has digits, and is known without its leading zeros."""

    name = "parcels"
    Arguments = ParcelsArguments
    ITEM_KINDS = ("parcel", "owner")
    arguments: ParcelsArguments

    async def start(self) -> AsyncIterator[Any]:
        print(f"working at {self.arguments.job}, {self.settings['MARK']}")
        return
        yield

    @classmethod
    def check_item(cls, found: Found) -> Found:
        if found.kind == "parcel" and not found.key.isdecimal():
            raise UsageError(f"{found.key!r} is no number of a parcel")
        return replace(found, key=found.key.lstrip("0") or "0")


class PlainSpider(HarvesterSpider):
    """Takes no items."""

    name = "plain"
    Arguments = SpiderArguments

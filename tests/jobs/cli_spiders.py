"""Spiders that items are submitted to. Their records are those of Bluesky."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec.structs import replace
from pydantic import Field
from scrapy import Request

from harvester.exceptions import UsageError
from harvester.items import Found, bluesky  # noqa: F401  with them come records
from harvester.jobs.documents import JobItem
from harvester.spiders.base import HarvesterSpider, SpiderArguments
from harvester.spiders.job import JobSpider


class ParcelsArguments(SpiderArguments):
    """Which county."""

    county: Literal["oak", "elm"] = Field("oak", description="where the parcels are")


class ParcelsSpider(JobSpider):
    """Takes parcels and owners. A parcel's number has digits, and is known without its leading zeros."""

    name = "parcels"
    Arguments = ParcelsArguments
    ITEM_KINDS = ("parcel", "owner")

    @classmethod
    def check_item(cls, found: Found) -> Found:
        if found.kind == "parcel" and not found.key.isdecimal():
            raise UsageError(f"{found.key!r} is no number of a parcel")
        return replace(found, key=found.key.lstrip("0") or "0")

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request]:
        yield from ()

    @classmethod
    def limits_of(cls, arguments: SpiderArguments) -> dict[str, int]:
        return {"owner": 100}


class NoticesArguments(SpiderArguments):
    """Which pages, and how often."""

    pages: str = Field("", description="addresses, comma-separated")
    recheck: str = Field("every 1h", description="when they are looked at again")
    looks_a_day: int | None = Field(None, description="the most looks a day")

    def identity(self) -> dict[str, Any]:
        return {}


class NoticesSpider(JobSpider):
    """Looks at pages again and again."""

    name = "notices"
    Arguments = NoticesArguments
    ITEM_KINDS = ("page",)

    @classmethod
    def first_items(cls, arguments: NoticesArguments) -> Iterable[Found]:
        return (Found("page", key) for key in arguments.pages.split(",") if key)

    @classmethod
    def recheck_of(cls, arguments: NoticesArguments) -> str | None:
        return arguments.recheck

    @classmethod
    def looks_a_day_of(cls, arguments: NoticesArguments) -> int | None:
        return arguments.looks_a_day

    @classmethod
    def check_item(cls, found: Found) -> Found:
        return replace(found, key=found.input.get("url", found.key))

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request]:
        yield from ()


class PlainSpider(HarvesterSpider):
    """Takes no items."""

    name = "plain"
    Arguments = SpiderArguments

"""A record names the job item that its page was fetched for."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from harvester.config import Config
from tests.jobs.cli_spiders import ParcelsArguments, ParcelsSpider


@pytest.mark.parametrize(
    ("meta", "item"),
    [
        ({}, ""),
        ({"harvester_items": [["job:parcel:1", 3]]}, "job:parcel:1"),
        ({"harvester_items": [["job:parcel:1", 3], ["job:parcel:2", 1]]}, ""),
    ],
)
def test_a_record_names_its_item_when_its_page_was_fetched_for_it_alone(
    config: Config, meta: dict[str, Any], item: str
) -> None:
    spider = ParcelsSpider(config, ParcelsArguments())
    response = Response("https://x.test/1", request=Request("https://x.test/1", meta=meta))
    assert spider.provenance(response).item == item

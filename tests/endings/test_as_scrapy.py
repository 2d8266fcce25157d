"""A project's spider ends, and its log speaks, as under plain Scrapy."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.crawling import Answer, Site
from tests.docs.conftest import Ended, House, house

__all__ = ["house"]
PAGES = 6
SHOP = """
from scrapy import Spider
from scrapy.exceptions import CloseSpider


class Own:
    def process_item(self, item):
        return item


class Shop(Spider):
    name = "shop"
    start_urls = [f"SITE/{number}" for number in range(6)]
    ends_at = breaks_at = "none"

    def parse(self, response):
        number = response.url.rpartition("/")[2]
        yield {"page": number}
        if number == self.ends_at:
            raise CloseSpider("seen enough")
        if number == self.breaks_at:
            self.break_down()

    def break_down(self):
        raise KeyError("of the callback")
"""
OF_BOTH = """
SPIDER_MODULES = ["shop"]
CONCURRENT_REQUESTS = 1
"""
FASTER = """
from scrapy.core.engine import ExecutionEngine

ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 600.0  # default 5.0; nothing waits for it
"""


class Pair:
    """A project under harvester, and its twin under plain Scrapy."""

    def __init__(self, house: House) -> None:
        self.house = house

    async def crawl(self, words: str = "") -> Ended:
        return await self.house.run(f"harvester crawl shop {words}".rstrip())

    async def crawl_plain(self, words: str = "") -> Ended:
        plain = self.house._replace(environment=self.house.environment | {"SCRAPY_PROJECT": "plain"})
        return await plain.run(f"scrapy crawl shop {words}".rstrip())

    def stored(self) -> set[str]:
        return {row["page"] for row in self.house.database["shop"].find()}

    def last_run(self) -> dict[str, Any]:
        [run] = self.house.database["runs"].find().sort("started_at", -1).limit(1)
        return run


@pytest.fixture
async def pair(house: House) -> AsyncIterator[Pair]:
    async with Site({f"/{number}": [Answer()] for number in range(PAGES)}) as site:
        files = {
            "shop.py": SHOP.replace("SITE", site.url),
            "ours.py": f"from harvester.settings import *\n{FASTER}{OF_BOTH}",
            "plain.py": OF_BOTH + 'LOG_FORMAT = "%(levelname)s: %(message)s"',
            "scrapy.cfg": "[settings]\ndefault = ours\nplain = plain\n",
        }
        for name, text in files.items():
            (house.folder / name).write_text(text)
        yield Pair(house)


async def test_a_limit_that_the_user_set_is_no_failure_and_the_rest_is_left(pair: Pair) -> None:
    limit = "-s CLOSESPIDER_PAGECOUNT=3"  # robots.txt is one
    plain, ended = await pair.crawl_plain(limit), await pair.crawl(limit)
    assert (plain.code, ended.code) == (0, 0), ended.log
    run = pair.last_run()
    assert (run["finish_reason"], run["exit_code"], run["state"]) == ("closespider_pagecount", 0, "interrupted")
    some = pair.stored()
    assert 0 < len(some) < PAGES
    assert re.search(rf"requests left +{PAGES - len(some)}\n", ended.log)
    assert ended.log.rstrip().endswith(f"crawl shop {limit}")
    assert (await pair.crawl()).code == 0
    assert pair.stored() == {str(number) for number in range(PAGES)}
    assert pair.last_run()["verdict"] == "passed"


async def test_a_spider_that_closes_itself_ends_as_in_scrapy(pair: Pair) -> None:
    words = "-a ends_at=2"
    plain, ended = await pair.crawl_plain(words), await pair.crawl(words)
    assert (plain.code, ended.code) == (0, 0), ended.log
    assert "(seen enough)" in plain.log
    run = pair.last_run()
    assert (run["finish_reason"], run["exit_code"], run["verdict"]) == ("seen enough", 0, "not judged")
    assert pair.stored() >= {"0", "1", "2"}


async def test_what_no_store_confirmed_is_not_called_stored(pair: Pair) -> None:
    off = dict.fromkeys(("harvester.pipelines.mongo.MongoPipeline", "harvester.pipelines.items.ItemsPipeline"))
    with (pair.house.folder / "ours.py").open("a") as settings:
        settings.write(f"ITEM_PIPELINES = {{**{off}, 'shop.Own': 300}}\n")
    ended = await pair.crawl()
    assert (ended.code, pair.stored()) == (0, set()), ended.log
    run = pair.last_run()
    assert (run["counts"], run["verdict"]) == ({}, "passed")
    assert re.search(r" new records +none\n", ended.log)
    assert re.search(r" not stored +6 items\b", ended.log)


async def test_debug_lines_and_tracebacks_are_those_of_scrapy_and_nolog_says_nothing(pair: Pair) -> None:
    words = "-a breaks_at=3 -L DEBUG"
    plain, ended = await pair.crawl_plain(words), await pair.crawl(words)
    for sign in (
        "Crawled (200) <GET ",
        "Scraped from <200 ",
        "{'page': '3'}",
        "in break_down\n",
        "\nKeyError: 'of the",
    ):
        assert ended.log.count(sign) == plain.log.count(sign) > 0, sign
    quiet = await pair.crawl("-a breaks_at=3 --nolog")
    assert (quiet.code, quiet.out, quiet.log) == (ended.code, "", "")
    shown = await pair.crawl("-a breaks_at=3")
    assert (shown.log.count("Traceback"), shown.log.count("Crawled (")) == (1, 0)
    assert json.dumps(pair.last_run()["errors"]) != "[]"

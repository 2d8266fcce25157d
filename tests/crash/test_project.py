"""A project of ten spiders gives the same items after twenty SIGKILLs as under plain Scrapy without any."""

import asyncio
import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.crawling import LONGEST_S, Answer, Site
from tests.docs.conftest import House, house
from tests.endings.test_as_scrapy import FASTER
from tests.forking import fork

__all__ = ["house"]
SPIDERS, LISTS, MEETINGS, KILLS = 10, 8, 3, 2
REQUESTS = LISTS * (1 + MEETINGS)
PROJECT = f"""
from datetime import datetime, time

import scrapy


class Meeting(scrapy.Item):
    title = scrapy.Field()
    start = scrapy.Field()
    ends = scrapy.Field()
    source = scrapy.Field()


class Agency(scrapy.Spider):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"SITE/{{self.name}}/list/{{number}}" for number in range({LISTS})]

    def parse(self, response):
        for number in range({MEETINGS}):
            meeting = Meeting(title=f"{{response.url[-1]}} of {{number}}", start=datetime(2026, 1, 1 + number, 18, 30))
            url = response.url.replace("/list/", "/meeting/") + f"-{{number}}"
            given = {{"ends": time(20, number)}}
            yield scrapy.Request(url, self.parse_meeting, meta={{"item": meeting}}, cb_kwargs=given)

    def parse_meeting(self, response, ends):
        meeting = response.meta["item"]
        meeting["ends"], meeting["source"] = ends, response.url
        yield meeting


for number in range({SPIDERS}):
    name = f"agency_{{number}}"
    globals()[name] = type(name, (Agency,), {{"name": name, "__module__": __name__, "item_key": "source"}})
"""
SETTINGS = 'SPIDER_MODULES = ["agencies"]\nCONCURRENT_REQUESTS_PER_DOMAIN = 2\n'


async def crawl_and_kill(house: House, site: Site, spider: str, arrivals: int) -> None:
    """Kills a crawl once it has made so many requests."""
    words = ["crawl", spider, "-o", f"{spider}.jsonl"]
    harvester = str(Path(sys.executable).with_name("harvester"))
    process = await fork(harvester, *words, cwd=house.folder, env=house.environment)
    while len(site.arrivals) < arrivals and process.returncode is None:  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    process.kill()
    await process.end(LONGEST_S)


def lines(path: Path) -> Counter[str]:
    return Counter(path.read_text().splitlines())


@pytest.mark.slow
async def test_a_project_that_is_killed_twenty_times_gives_the_items_of_plain_scrapy(house: House) -> None:
    chance = random.Random(7)
    pages = {
        f"/agency_{spider}/{path}": [Answer()]
        for spider in range(SPIDERS)
        for number in range(LISTS)
        for path in (f"list/{number}", *(f"meeting/{number}-{each}" for each in range(MEETINGS)))
    }
    async with Site(pages) as site:
        files = {
            "agencies.py": PROJECT.replace("SITE", site.url),
            "ours.py": f"{FASTER}{SETTINGS}ADDONS = {{'harvester.Addon': 500}}\n",
            "plain.py": SETTINGS,
            "scrapy.cfg": "[settings]\ndefault = ours\nplain = plain\n",
        }
        for name, text in files.items():
            (house.folder / name).write_text(text)
        plain = house._replace(environment=house.environment | {"SCRAPY_PROJECT": "plain"})
        for number in range(SPIDERS):
            spider = f"agency_{number}"
            assert (await plain.run(f"scrapy crawl {spider} -o {spider}.plain.jsonl")).code == 0
            for _ in range(KILLS):
                site.arrivals.clear()
                await crawl_and_kill(house, site, spider, chance.randint(1, REQUESTS // KILLS))
            ended = await house.run(f"harvester crawl {spider} -o {spider}.jsonl")
            assert ended.code == 0, ended.log
            expected = lines(house.folder / f"{spider}.plain.jsonl")
            assert expected.total() == LISTS * MEETINGS
            assert lines(house.folder / f"{spider}.jsonl") == expected
            stored = {row["source"]: row["title"] for row in house.database[spider].find()}
            assert stored == {item["source"]: item["title"] for item in map(json.loads, expected)}

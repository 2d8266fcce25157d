"""What -o and FEEDS hold of a crawl that was stopped or killed, and continued: what all of its runs gave, once."""

import asyncio
import csv
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.crawling import LONGEST_S, Answer, Site
from tests.docs.conftest import House, house
from tests.endings.test_as_scrapy import FASTER
from tests.forking import fork

__all__ = ["house"]
PAGES, KILLS, BETWEEN = 120, 3, 25
SHOP = f"""
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from scrapy import Spider


@dataclass
class Offer:
    page: int
    day: date


class Shop(Spider):
    name = "shop"
    start_urls = [f"SITE/{{number}}" for number in (0, 1, 1)]
    breaks = ""

    def parse(self, response):
        number = int(response.url.rpartition("/")[2])
        yield {{"page": number, "price": Decimal("1.50"), "text": "long" * 200}}
        if str(number) in self.breaks:
            raise ValueError("in the midst of a page")
        yield Offer(number, date(2026, 1, 31))
        yield {{"page": number, "price": Decimal("1.50")}}  # the same once more
        if number + 2 < {PAGES}:
            yield response.follow(f"/{{number + 2}}")
"""
FEEDS = """
SPIDER_MODULES = ["shop"]
CONCURRENT_REQUESTS_PER_DOMAIN = 2
FEEDS = {
    "lines.jsonl": {"format": "jsonl"},
    "list.json": {"format": "json", "overwrite": True},
    "table.csv": {"format": "csv", "overwrite": OVERWRITE, "fields": ["page", "price", "day"]},
}
"""


def prepare(house: House, site: Site) -> House:
    """Returns the twin of the house under plain Scrapy."""
    files = {
        "shop.py": SHOP.replace("SITE", site.url),
        "ours.py": f"from harvester.settings import *\n{FASTER}{FEEDS}".replace("OVERWRITE", "False"),
        "plain.py": FEEDS.replace("OVERWRITE", "True"),
        "scrapy.cfg": "[settings]\ndefault = ours\nplain = plain\n",
    }
    for name, text in files.items():
        (house.folder / name).write_text(text)
    return house._replace(environment=house.environment | {"SCRAPY_PROJECT": "plain"})


def written(folder: Path) -> dict[str, Counter[str]]:
    """The lines of each file, in any order, and removes it."""
    lines = (folder / "lines.jsonl").read_text().splitlines()
    rows = json.loads((folder / "list.json").read_text())
    with (folder / "table.csv").open(newline="") as file:
        table = [json.dumps(row) for row in csv.DictReader(file)]
    for name in ("lines.jsonl", "list.json", "table.csv"):
        (folder / name).unlink()
    return {"lines": Counter(lines), "list": Counter(map(json.dumps, rows)), "table": Counter(table)}


async def kill(house: House, site: Site, command: str, arrivals: int) -> None:
    """Kills a run once the site was asked so often."""
    program, *words = command.split()
    process = await fork(str(Path(sys.executable).with_name(program)), *words, cwd=house.folder, env=house.environment)
    while len(site.arrivals) < arrivals:
        assert process.returncode is None
        await asyncio.sleep(0.005)
    process.kill()
    await process.end(LONGEST_S)


@pytest.fixture
def pages() -> dict[str, list[Answer]]:
    return {f"/{number}": [Answer()] for number in range(PAGES)}


async def test_feeds_of_a_crawl_that_was_killed_hold_what_one_that_was_not_gives(
    house: House, pages: dict[str, list[Answer]]
) -> None:
    async with Site(pages) as site:
        plain = prepare(house, site)
        assert (await plain.run("scrapy crawl shop")).code == 0
        expected = written(house.folder)
        assert expected["lines"].total() == 3 * (PAGES + 1)

        (house.folder / "lines.jsonl").write_text("mine\n")
        site.arrivals.clear()
        await kill(house, site, "harvester crawl shop", BETWEEN)
        await house.runs("harvester frontier drop shop --yes")  # so the next one begins anew
        site.arrivals.clear()
        for number in range(KILLS):
            await kill(house, site, "harvester crawl shop", (number + 1) * BETWEEN)
        limited = await house.run("harvester crawl shop -s CLOSESPIDER_PAGECOUNT=10")
        assert limited.code == 0, limited.log
        ended = await house.run("harvester crawl shop")
        assert ended.code == 0, ended.log
    found = written(house.folder)
    assert found["lines"] == expected["lines"] + Counter(["mine"])
    assert found["list"] == expected["list"]
    assert found["table"] == expected["table"]
    assert not list((house.folder / "data" / "feeds").rglob("shop")), "nothing is saved of a crawl that is over"


async def test_dead_letters_that_are_tried_again_add_to_feeds_what_was_missing(
    house: House, pages: dict[str, list[Answer]]
) -> None:
    async with Site(pages) as site:
        plain = prepare(house, site)
        settings = house.folder / "shop.py"
        settings.write_text(settings.read_text().replace(f"< {PAGES}", "< 2"))
        assert (await plain.run("scrapy crawl shop")).code == 0
        expected = written(house.folder)["list"]
        for breaks, given in (("01", 3), ("1", 5)):
            broken = await house.run(f"harvester crawl shop -a breaks={breaks} -O list.json")
            assert broken.code == 6, broken.log
            assert len(json.loads((house.folder / "list.json").read_text())) == given
            await house.runs("harvester frontier replay shop --all")
        ended = await house.run("harvester crawl shop -o -:json")
    assert Counter(map(json.dumps, json.loads(ended.out))) == expected

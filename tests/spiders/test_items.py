"""A spider of a project, or of a file, yields dicts and the like: they are stored, staged, written and exported."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

from pyarrow import parquet

from harvester.items.raw import read_back
from harvester.stores.staging import read_segment
from tests.crawling import Answer, Site
from tests.docs.conftest import House
from tests.numbers import numbers_of

SETTINGS = """
from harvester.settings import *
from scrapy.core.engine import ExecutionEngine

ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 600.0  # default 5.0; nothing waits for it
SPIDER_MODULES = ["shop"]
ITEM_PIPELINES |= {"shop.Prices": 300}
"""
SHOP = """
from dataclasses import dataclass
from datetime import timedelta

from itemadapter import ItemAdapter
from scrapy import Field, Item, Spider
from scrapy.exceptions import DropItem


@dataclass
class Offer:
    sku: str
    price: float
    was: int | None = None


class Book(Item):
    sku = Field()
    title = Field()
    price = Field()


class Prices:
    def process_item(self, item):
        if ItemAdapter.is_item(item) and "price" in ItemAdapter(item):
            if not ItemAdapter(item)["price"]:
                raise DropItem("it is given away")
            ItemAdapter(item)["price"] += 1
        return item


class ShopSpider(Spider):
    name = "corner-shop"
    item_key = "sku"
    start_urls = ["SITE/first"]

    def parse(self, response):
        yield {"sku": "dict", "price": 1.5, "tags": ["a", {"deep": 2}], "day": response.text.strip()}
        yield [Offer("offer", 2, was=int(response.text)), Book(sku="book", title="Ä", price=3)]
        yield {"sku": "free", "price": 0}
        yield {"no": "key", "page": response.text}
        yield "no item"
        yield {"sku": "huge", "number": 2**70}
        yield from response.follow_all(["/second"], self.parse_more)

    def parse_more(self, response):
        yield {"sku": "later", "odd": [{"took": timedelta(1)}, Book(sku="inner")]}
"""
PAGES = {"/first": [Answer(body=b"1"), Answer(body=b"2")], "/second": [Answer(body=b"-")]}


def rejected(folder: Path) -> list[str]:
    return [json.loads(line)["reason"] for path in folder.rglob("*.zst") for line in read_segment(path)]


async def test_items_of_a_project_are_stored_under_their_key_and_a_later_run_replaces_them(house: House) -> None:
    async with Site(PAGES) as site:
        for name, text in (("settings.py", SETTINGS), ("shop.py", SHOP.replace("SITE", site.url))):
            (house.folder / name).write_text(text)
        (house.folder / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
        house.environment["HARVESTER_MAX_ERROR_RATIO"] = "1"
        files = ["all.jsonl", "all.json", "all.csv", "all.parquet"]
        ended = await house.run("scrapy crawl corner-shop " + " ".join(f"-O {file}" for file in files))
        assert ended.code == 6, ended.log  # three were rejected: its pages are not all as expected

        collection = house.database["corner_shop"]
        stored = {row["_id"]: row for row in collection.find()}
        assert stored.keys() == {"dict", "offer", "book", "later"}, "what its own pipeline drops is not stored"
        about = stored["dict"].pop("provenance")
        assert (about["url"], about["spider"]) == (f"{site.url}/first", "corner-shop")
        assert stored["dict"] == {
            "_id": "dict", "sku": "dict", "price": 2.5, "tags": ["a", {"deep": 2}], "day": "1"
        }  # fmt: skip
        assert (stored["offer"]["was"], stored["book"]["title"]) == (1, "Ä")
        reasons = rejected(house.folder / "data" / "rejects")
        named = ("given away", "'sku'", " str ", "MongoDB can only handle")
        assert [sum(name in reason for reason in reasons) for name in named] == [1] * len(named), reasons
        assert len(reasons) == len(named)
        staged = [
            read_back(line)
            for path in (house.folder / "data" / "staging" / "corner-shop").rglob("*.zst")
            for line in read_segment(path)
        ]
        assert {json.loads(raw)["sku"] for raw in staged} == {*stored, "huge"}
        assert "4 items" in ended.log

        lines = [json.loads(line) for line in (house.folder / "all.jsonl").read_text().splitlines()]
        assert {line["sku"] for line in lines} == stored.keys()
        odd = [{"took": "P1D"}, {"sku": "inner"}]
        assert [line["odd"] for line in lines if "odd" in line] == [odd], "JSON has no words for these"
        assert {line["sku"] for line in json.loads((house.folder / "all.json").read_text())} == stored.keys()
        with (house.folder / "all.csv").open(encoding="utf-8", newline="") as file:
            assert {row["sku"] for row in csv.DictReader(file)} == stored.keys()
        assert set(parquet.read_table(house.folder / "all.parquet").to_pydict()["sku"]) == stored.keys()

        await _again(house, collection)
        await _exported(house)


async def _again(house: House, collection: Any) -> None:
    shutil.copytree(house.folder / "data" / "staging", house.folder / "kept" / "staging")
    ended = await house.run("scrapy crawl corner-shop")
    assert "SCHEDULER_PERSIST" in ended.log
    again = {row["_id"]: row for row in collection.find()}
    assert again["dict"]["day"] == "2"
    assert again["offer"]["was"] == 2
    assert len(again) == 4

    await house.run("harvester import")
    assert {row["_id"]: row for row in collection.find()} == again
    collection.drop()
    imported = await house.run("harvester import kept")
    assert imported.code == 6, "one that MongoDB cannot hold is staged, too"
    assert {row["_id"]: row.get("was") for row in collection.find()} == {
        key: 1 if key == "offer" else None for key in again
    }
    await house.run("harvester import")
    assert {row["_id"]: row for row in collection.find()} == again


async def _exported(house: House) -> None:
    said = await house.runs("harvester export corner_shop --where price>2.6 --to some.parquet")
    assert (numbers_of(said), "some.parquet" in said) == ([2], True)
    rows = parquet.read_table(house.folder / "some.parquet").to_pylist()
    assert [(row["_id"], row["price"], row["was"], row["title"]) for row in rows] == [
        ("book", 4.0, None, "Ä"),
        ("offer", 3.0, 2, None),
    ]
    assert rows[0]["provenance.url"].endswith("/first")
    await house.runs("harvester export corner_shop --to all.csv")
    with (house.folder / "all.csv").open(encoding="utf-8", newline="") as file:
        assert [row["tags"] for row in csv.DictReader(file) if row["_id"] == "dict"] == ['["a",{"deep":2}]']


FILE = """
from scrapy import Spider


class Alone(Spider):
    name = "alone"
    start_urls = ["SITE/first"]

    def parse(self, response):
        yield {"page": response.text}
        yield from response.follow_all(["/second"], callback=self.parse_second)

    def parse_second(self, response):
        yield {"page": response.text}
"""


async def test_a_spider_in_a_file_is_crawled_in_a_folder_without_a_project(house: House) -> None:
    async with Site(PAGES) as site:
        (house.folder / "alone.py").write_text(FILE.replace("SITE", site.url))
        ran = await house.run("harvester crawl alone.py -o pages.csv")
        assert ran.code == 0, ran.log
        assert sorted(row["page"] for row in house.database["alone"].find()) == ["-", "1"]
        assert sorted((house.folder / "pages.csv").read_text().splitlines()) == ["-", "1", "page"]

        refused = {
            "harvester crawl none.py": "none.py",
            "harvester crawl broken.py": "broken.py .*SyntaxError: '\\(' was never closed",
            "harvester crawl own/json.py": "own/json.py ",
            "harvester crawl settings.py": "settings.py ",
            "harvester crawl nobody": "'nobody'",
        }
        (house.folder / "settings.py").write_text("")
        (house.folder / "broken.py").write_text("import scrapy\nclass Broken(\n")
        (house.folder / "own").mkdir()
        (house.folder / "own" / "json.py").write_text(FILE)
        for command, said in refused.items():
            ended = await house.run(command)
            assert (ended.code, bool(re.search(said, ended.log + ended.out))) == (2, True), ended.log

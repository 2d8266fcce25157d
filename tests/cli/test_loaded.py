"""A command of a Scrapy project loads what it uses, and starts the faster for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.conftest import House, house

__all__ = ["house"]
SCRAPY = Path(sys.executable).with_name("scrapy")
SHOP = """
import gc
import sys

from scrapy import Spider


class Shop(Spider):
    name = "shop"

    async def start(self):
        yield {"page": 1, "looks": gc.isenabled(), "of_loaded": any(each is sys for each in gc.get_objects())}
"""
OF_OTHERS = {"ftfy", "harvester.parsers.hashtags", "harvester.spiders.counties", "jsonschema", "scrapinghub"}
"""What cleans texts of records, reads their sites, and runs a project's own monitors."""


@pytest.fixture
def project(house: House) -> House:
    (house.folder / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    (house.folder / "settings.py").write_text('SPIDER_MODULES = ["shop"]\nADDONS = {"harvester.Addon": 500}\n')
    (house.folder / "shop.py").write_text(SHOP)
    return house


def loaded_by(command: str, project: House) -> set[str]:
    """What a process of its own loads for the command, which must not fail."""
    typed = [sys.executable, "-X", "importtime", str(SCRAPY), *command.split()]
    ran = subprocess.run(typed, cwd=project.folder, env=project.environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return {line.split()[-1] for line in ran.stderr.splitlines() if line.startswith("import time:")}


def test_a_crawl_loads_nothing_that_only_other_crawls_use(project: House) -> None:
    loaded = loaded_by("crawl shop", project)
    assert "harvester.pipelines.mongo" in loaded
    assert not loaded & OF_OTHERS
    assert project.database["shop"].count_documents({"page": 1}) == 1


def test_a_list_of_spiders_loads_no_crawl(project: House) -> None:
    loaded = loaded_by("list", project)
    assert "harvester.addon" in loaded
    assert not loaded & {"aiohttp", "pymongo", "redis", "harvester.commands.crawl"}


def test_a_crawl_looks_for_garbage_but_not_among_what_is_loaded(project: House) -> None:
    loaded_by("crawl shop", project)
    [page] = project.database["shop"].find({}, {"_id": 0, "looks": 1, "of_loaded": 1})
    assert page == {"looks": True, "of_loaded": False}

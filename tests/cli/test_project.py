"""A Scrapy project gets harvester by one line, and is told before a crawl what that means for its spiders."""

import os
import re
from pathlib import Path

import pytest
from scrapy.settings import Settings

from harvester.addon import Addon
from tests.forking import Ran, run

SHOP = """
import scrapy
from scrapy.loader import ItemLoader


class Shop(scrapy.Spider):
    name = "shop"
    start_urls = ["http://127.0.0.1:1/"]

    def parse(self, response):
        def inner(response):
            yield {}

        yield scrapy.Request("http://127.0.0.1:1/a", callback=lambda response: None)
        yield scrapy.Request("http://127.0.0.1:1/b", callback=inner)
        yield scrapy.Request("http://127.0.0.1:1/c", callback=self.last, meta={"loader": ItemLoader(), "page": 1})

    def last(self, response):
        yield {}


class Keep:
    def process_item(self, item):
        return item
"""
SETTINGS = """BOT_NAME = "bazaar"
SPIDER_MODULES = ["shop"]
ITEM_PIPELINES = {"shop.Keep": 300}
"""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
        (folder / "shop.py").write_text(SHOP)
        self.set(SETTINGS)

    def set(self, settings: str) -> None:
        (self.folder / "settings.py").write_text(settings)

    def call(self, *words: str, program: str = "harvester") -> Ran:
        own = {name: value for name, value in os.environ.items() if not name.startswith("SCRAPY_")}
        return run(program, *words, cwd=self.folder, env=own)

    def scrapy(self, *words: str) -> Ran:
        return self.call(*words, program="scrapy")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize("others", ["", "ADDONS = {'shop.Keep': 100}"])
def test_one_line_is_added_once_and_leaves_other_add_ons_alone(project: Project, others: str) -> None:
    project.set(SETTINGS + others)
    refused = project.call("crawl", "shop")
    assert refused.returncode == 2
    assert "harvester project add" in refused.stderr
    for _ in range(2):
        ran = project.call("project", "add")
        assert ran.returncode == 0, ran.stderr
    text = (project.folder / "settings.py").read_text()
    assert text.startswith(SETTINGS + others)
    assert text.count("harvester.Addon") == 1
    values: dict[str, dict[str, int]] = {}
    exec(text, values)
    assert values["ADDONS"] == {**({"shop.Keep": 100} if others else {}), "harvester.Addon": 500}


def test_what_stands_beside_harvester_and_what_no_other_process_can_have_is_named(project: Project) -> None:
    project.call("project", "add")
    ran = project.call("project", "check")
    assert ran.returncode == 0, ran.stderr
    assert "ITEM_PIPELINES: shop.Keep" in ran.stdout
    lines = [line for line in ran.stdout.splitlines() if "shop.py, line " in line]
    expected = [number for number, line in enumerate(SHOP.splitlines(), 1) if "Request(" in line]
    assert [int(line.partition(", line ")[2].partition(":")[0]) for line in lines] == expected
    assert {path.name for path in project.folder.iterdir()} == {"scrapy.cfg", "shop.py", "settings.py", "__pycache__"}


def test_what_harvester_replaces_is_not_said_to_stand_beside_it(project: Project) -> None:
    replaced = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
    project.set(f"{SETTINGS}ADDONS = {{'harvester.Addon': 500}}\nDOWNLOADER_MIDDLEWARES = {{'{replaced}': 543}}\n")
    ran = project.call("project", "check")
    assert (ran.returncode, "DOWNLOADER_MIDDLEWARES" in ran.stdout, "shop.Keep" in ran.stdout) == (0, False, True)


def test_what_cannot_hold_beside_harvester_is_refused_by_name(project: Project) -> None:
    project.set(f"{SETTINGS}SCHEDULER = 'scrapy_redis.scheduler.Scheduler'\nSCHEDULER_SERIALIZER = 'pickle'\n")
    project.call("project", "add")
    ran = project.call("project", "check")
    assert ran.returncode == 2
    assert "shop: SCHEDULER = " in ran.stdout
    assert "  SCHEDULER_SERIALIZER: " in ran.stdout


def test_without_a_project_or_its_settings_it_is_said_what_is_missing(project: Project) -> None:
    (project.folder / "settings.py").unlink()
    for words in (("project", "add"), ("project", "check")):
        assert project.call(*words).returncode == 2
    (project.folder / "scrapy.cfg").unlink()
    ran = project.call("project", "add")
    assert (ran.returncode, "scrapy.cfg" in ran.stderr) == (2, True)


def test_commands_of_the_project_leave_harvesters_crawl_as_it_is(project: Project) -> None:
    (project.folder / "tools").mkdir()
    (project.folder / "tools" / "__init__.py").touch()
    (project.folder / "tools" / "hello.py").write_text(
        "from scrapy.commands import ScrapyCommand\n\n\n"
        "class Command(ScrapyCommand):\n    def short_desc(self):\n        return ''\n\n"
        "    def run(self, args, opts):\n        print('hello')\n"
    )
    project.set(f"{SETTINGS}COMMANDS_MODULE = 'tools'\nADDONS = {{'harvester.Addon': 500}}\n")
    assert project.scrapy("hello").stdout == "hello\n"
    ran = project.scrapy("crawl", "shop", "-a", "help")
    assert ran.returncode == 0, ran.stderr
    unknown = project.scrapy("crawl", "shopp")
    assert (unknown.returncode, re.findall(r"\bshopp?\b", unknown.stderr)[:2]) == (2, ["shopp", "shop"])


@pytest.mark.parametrize("line", ["{'harvester.Adon': 500}", "{'harvestr.Addon': 500}"])
def test_a_line_that_names_no_add_on_is_refused_by_all_programs(project: Project, line: str) -> None:
    project.set(f"{SETTINGS}ADDONS = {line}\n")
    for ran in (project.call("project", "check"), project.call("crawl", "shop"), project.scrapy("crawl", "shop")):
        assert ran.returncode == 2, ran.stderr
        assert "ADDONS" in ran.stderr
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("ITEM_PIPELINES = {'shop.Kepe': 300}", "shop.Kepe"),
        ("DOWNLOADER_MIDDLEWARES = {'shop.Kepe': 543}", "shop.Kepe"),
        ("SPIDER_MIDDLEWARES = {'shopp.Keep': 543}", "shopp.Keep"),
        ("EXTENSIONS = {'shop': 5}", "shop"),
    ],
)
def test_a_component_that_cannot_be_imported_is_refused_by_check_and_by_crawl(
    project: Project, setting: str, named: str
) -> None:
    project.set(f"{SETTINGS}{setting}\nADDONS = {{'harvester.Addon': 500}}\n")
    checked, crawled = project.call("project", "check"), project.call("crawl", "shop")
    assert (checked.returncode, crawled.returncode) == (2, 2), crawled.stderr
    for said in (checked.stdout, crawled.stderr):
        assert setting.partition(" ")[0] in said
        assert repr(named) in said
        assert "Traceback" not in said


def test_a_component_that_is_off_need_not_exist_as_in_scrapy(project: Project) -> None:
    project.set(f"{SETTINGS}DOWNLOADER_MIDDLEWARES = {{'shop.Gone': None}}\nADDONS = {{'harvester.Addon': 500}}\n")
    assert project.call("project", "check").returncode == 0
    settings = Settings({"DOWNLOADER_MIDDLEWARES": {"harvester.addon.Gone": None}})
    Addon().update_settings(settings)
    assert settings.getdict("DOWNLOADER_MIDDLEWARES") == {"harvester.addon.Gone": None}


@pytest.mark.parametrize("value", ["['shop.Keep']", "'shop.Keep'"])
def test_a_list_in_place_of_a_dict_is_refused_by_its_name(project: Project, value: str) -> None:
    project.set(f"{SETTINGS}ADDONS = {{'harvester.Addon': 500}}\nITEM_PIPELINES = {value}\n")
    ran = project.call("project", "check")
    assert (ran.returncode, "ITEM_PIPELINES" in ran.stderr, "shop.Keep" in ran.stderr) == (2, True, True)
    project.set(f"{SETTINGS}ADDONS = ['harvester.Addon']\n")
    ran = project.call("crawl", "shop")
    assert (ran.returncode, "ADDONS = ['harvester.Addon']" in ran.stderr) == (2, True)


def test_a_variable_of_harvester_among_the_settings_is_told_by_check_and_by_crawl(project: Project) -> None:
    project.set(f"{SETTINGS}ADDONS = {{'harvester.Addon': 500}}\nHARVESTER_ALLOW_PRIVATE_HOSTS = True\n")
    checked = project.call("project", "check")
    assert (checked.returncode, "  HARVESTER_ALLOW_PRIVATE_HOSTS: " in checked.stdout) == (0, True)
    crawled = project.call("crawl", "shop")
    assert (crawled.returncode, "HARVESTER_ALLOW_PRIVATE_HOSTS" in crawled.stderr) == (6, True)

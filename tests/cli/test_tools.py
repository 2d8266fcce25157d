"""Scrapy's developer tools work in a project of harvester, and leave nothing behind."""

import asyncio
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import scrapy.commands as scrapy_commands
from scrapy.settings import Settings, default_settings
from typer.main import get_command

from harvester.addon import COMPONENTS, Addon
from harvester.cli.app import app
from harvester.commands.standalone import be_alone
from tests.crawling import Answer, Site
from tests.forking import Ran, run
from tests.root import ROOT

Scrapy = Callable[..., Coroutine[Any, Any, Ran]]
BOOK = b"<html><title>Books</title><h1>Dune</h1><a href='/book/2'>next</a></html>"
BOOKS = """
from harvester.items import Record
from harvester.spiders.base import HarvesterSpider


class Book(Record, frozen=True, kw_only=True):
    KIND = "book"
    COLLECTION = "books"
    KEY = ("title",)

    title: str


class BooksSpider(HarvesterSpider):
    name = "books"

    def parse(self, response):
        yield [self.book(response)]
        yield response.follow(response.css("a")[0], self.parse)

    def book(self, response):
        return Book(title=response.css("h1::text").get(), raw=response.body, provenance=self.provenance(response))
"""
PLAIN = """
import scrapy


class Plain(scrapy.Spider):
    name = "plain"

    async def start(self):
        yield scrapy.Request(self.url)

    def parse(self, response):
        yield {"title": response.css("h1::text").get()}
"""


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"__pycache__"}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    page = Answer(body=BOOK, kind="text/html")
    async with Site({"/book/1": [page], "/closed/1": [page]}) as site:
        site.robots = Answer(body=b"User-agent: *\nDisallow: /closed/\n", kind="text/plain")
        yield site


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    (folder / "settings.py").write_text("from harvester.settings import *\nSPIDER_MODULES = ['books']\n")
    (folder / "books.py").write_text(BOOKS)
    (folder / "plain.py").write_text(PLAIN)
    (folder / "browser").write_text('#!/bin/sh\ncp "${1#file://}" seen.html\n')
    (folder / "browser").chmod(0o755)
    return folder


@pytest.fixture
def scrapy(project: Path) -> Scrapy:
    """Calls a command in the project's folder. It must leave nothing there but the files it is told to write."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{project}",
        "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
        "BROWSER": str(project / "browser"),
        "NO_PROXY": "127.0.0.1",
    }
    environment.pop("SCRAPY_SETTINGS_MODULE", None)

    async def call(*words: str, leaves: str = "", program: str = "scrapy") -> Ran:
        before = names_in(project)
        ran = await asyncio.to_thread(run, program, *words, cwd=project, env=environment)
        assert names_in(project) - before == set(leaves.split()), ran.stderr
        return ran

    return call


async def test_a_page_is_fetched_as_the_project_would(scrapy: Scrapy, site: Site) -> None:
    ran = await scrapy("fetch", f"{site.url}/book/1")
    assert (ran.returncode, ran.stdout.encode().strip()) == (0, BOOK), ran.stderr
    assert "User-Agent: harvester" in site.heads["/book/1"][0]
    assert "Warning" not in ran.stderr


async def test_what_robots_txt_closes_is_not_fetched(scrapy: Scrapy, site: Site) -> None:
    ran = await scrapy("fetch", f"{site.url}/closed/1")
    assert not ran.stdout.strip()
    assert f"{site.url}/closed/1" in ran.stderr
    assert "robots.txt" in ran.stderr
    assert not site.arrivals


def test_a_site_is_asked_no_faster_than_is_configured_and_not_again_when_it_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "4")
    monkeypatch.setenv("HARVESTER_CONCURRENT_PER_HOST", "3")
    brought = {"ADDONS": {"harvester.Addon": 500}, "SPIDER_MODULES": ["harvester.spiders.feeds"]}
    settings = Settings(brought)
    Addon.update_pre_crawler_settings(settings)
    be_alone(settings)
    assert (settings.getfloat("DOWNLOAD_DELAY"), settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")) == (0.25, 3)
    slower = Settings({**brought, "DOWNLOAD_DELAY": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 1})
    be_alone(slower)
    assert (slower.getfloat("DOWNLOAD_DELAY"), slower.getint("CONCURRENT_REQUESTS_PER_DOMAIN")) == (2, 1)
    assert not settings.getbool("RETRY_ENABLED")
    assert settings["DOWNLOAD_DELAY_JITTER"] == 0


async def test_the_shell_has_the_response(scrapy: Scrapy, site: Site) -> None:
    ran = await scrapy("shell", f"{site.url}/book/1", "-c", "response.css('h1::text').get()")
    assert (ran.returncode, ran.stdout.strip().splitlines()[-1]) == (0, "Dune"), ran.stderr
    named = await scrapy("shell", "--spider", "books", f"{site.url}/book/1", "-c", "spider.book(response).key")
    assert (named.returncode, named.stdout.strip().splitlines()[-1]) == (0, "Dune"), named.stderr


async def test_no_thread_runs_on_while_the_shell_ends(scrapy: Scrapy, site: Site) -> None:
    """The event loop of Scrapy's shell would: now and then the process ended with a segmentation fault."""
    count = "__import__('atexit').register(lambda: print('threads:', __import__('threading').active_count()))"
    ran = await scrapy("shell", f"{site.url}/book/1", "-c", count)
    assert (ran.returncode, ran.stdout.strip().splitlines()[-1]) == (0, "threads: 1"), ran.stderr


async def test_the_speed_of_scrapy_is_measured_and_told(scrapy: Scrapy) -> None:
    ran = await scrapy("bench", "-s", "CLOSESPIDER_TIMEOUT=1")
    assert ran.returncode == 0, ran.stderr
    assert "Warning" not in ran.stderr
    assert re.search(r"Crawled [1-9]\d* pages \(at [1-9]", ran.stderr), ran.stderr


async def test_a_page_is_shown_in_a_browser(scrapy: Scrapy, site: Site, project: Path) -> None:
    ran = await scrapy("view", f"{site.url}/book/1", leaves="seen.html")
    assert ran.returncode == 0, ran.stderr
    assert "Dune" in (project / "seen.html").read_text()


async def test_what_a_callback_yields_is_shown_and_may_be_written(scrapy: Scrapy, site: Site, project: Path) -> None:
    words = ["parse", "--spider", "books", "--nocolour", f"{site.url}/book/1"]
    ran = await scrapy(*words, "-o", "books.jsonl", leaves="books.jsonl")  # Scrapy's parse does not know -O
    assert ran.returncode == 0, ran.stderr
    assert "'_id': 'Dune'" in ran.stdout
    assert f"<GET {site.url}/book/2>" in ran.stdout
    [line] = (project / "books.jsonl").read_text().splitlines()
    assert (json.loads(line)["kind"], json.loads(line)["title"]) == ("book", "Dune")


async def test_contracts_are_checked_as_by_scrapy(scrapy: Scrapy, site: Site, project: Path) -> None:
    contract = f'"""Reads a book.\n\n        @url {site.url}/book/1\n        @returns items %d\n        """'
    for number, code in ((1, 0), (12, 1)):  # of another length: Python reads its cache by size and second
        (project / "books.py").write_text(
            BOOKS.replace("yield [self.book(response)]", f"{contract % number}\n        yield self.book(response)")
        )
        for program in ("scrapy", "harvester"):
            ran = await scrapy("check", "books", program=program)
            assert (ran.returncode, "Ran 1 contract in" in ran.stderr) == (code, True), ran.stderr
    assert len(site.heads["/book/1"]) == 4


def test_each_command_of_scrapy_is_one_of_harvester() -> None:
    of_scrapy = {module.name for module in pkgutil.iter_modules(scrapy_commands.__path__)}
    assert of_scrapy - get_command(app).commands.keys() == set()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["ITEM_PIPELINES", "SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES", "EXTENSIONS"])
def test_tools_keep_what_the_project_has_of_its_own(name: str) -> None:
    own = {"shop.Own": 543}
    settings = Settings({name: own, "ADDONS": {"harvester.Addon": 500}, "SPIDER_MODULES": ["harvester.spiders.feeds"]})
    be_alone(settings)
    Addon.update_pre_crawler_settings(settings)
    assert settings.getdict(name) == own
    of_scrapy: dict[str, int] = getattr(default_settings, f"{name}_BASE")
    of_harvester = settings.getdict(f"{name}_BASE").keys() - of_scrapy.keys()
    assert of_harvester <= {
        "harvester.commands.standalone.RefusalMiddleware",
        "harvester.middlewares.addresses.AddressMiddleware",
        "harvester.stores.feeds.RecordFeeds",
    }


async def test_a_spider_in_a_file_runs(scrapy: Scrapy, site: Site, project: Path) -> None:
    words = ["runspider", "plain.py", "-a", f"url={site.url}/book/1", "-O", "out.json"]
    ran = await scrapy(*words, leaves="out.json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads((project / "out.json").read_text()) == [{"title": "Dune"}]


async def test_a_spider_in_a_file_that_works_at_jobs_is_told_how_to_run(scrapy: Scrapy, project: Path) -> None:
    (project / "jobs.py").write_text(
        "from harvester.spiders.bluesky.spider import BlueskySpider\nclass Mine(BlueskySpider):\n    name = 'mine'\n"
    )
    ran = await scrapy("runspider", "jobs.py")
    assert ran.returncode == 2
    for named in ("Mine", "MongoDB", "SPIDER_MODULES"):
        assert named in ran.stdout + ran.stderr


async def test_a_new_spider_is_written_into_the_project_that_asks_for_it(scrapy: Scrapy, project: Path) -> None:
    ran = await scrapy("genspider", "more", "example.org", leaves="more.py")
    assert ran.returncode == 0, ran.stderr
    assert not (ROOT / "harvester" / "spiders" / "more.py").exists()


def test_a_script_keeps_the_event_loop_of_the_reactor_that_it_has_installed() -> None:
    script = """
from scrapy.utils.reactor import install_reactor
install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
from scrapy.utils.test import get_crawler
print(get_crawler(settings_dict={"ADDONS": {"harvester.Addon": 500}}).settings["SCHEDULER"])
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "harvester.frontier.scheduler.Scheduler"), ran.stderr


def test_a_project_without_spider_middlewares_of_scrapy_has_those_of_harvester() -> None:
    settings = Settings({"ADDONS": {"harvester.Addon": 500}, "SPIDER_MIDDLEWARES_BASE": {}})
    Addon().update_settings(settings)
    assert settings["SPIDER_MIDDLEWARES_BASE"] == COMPONENTS["SPIDER_MIDDLEWARES"]

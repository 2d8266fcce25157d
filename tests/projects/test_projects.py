"""What the comparison of public projects stands on: which page an address gets, and what it calls different."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.projects.compare import FAILURE_TOLD, differences
from tests.projects.pages import Saved, saved_pages
from tests.projects.run import Ran
from tests.projects.stand_in import ABSENT, Book
from tests.root import ROOT

SPIDER = """
import scrapy

class Meetings(scrapy.Spider):
    name = "meetings"
    start_urls = ["https://city.example/meetings?b=2&a=1"]

    def parse(self, response):
        for title in response.css("li::text").getall():
            yield {"title": title}
        yield response.follow("/other", self.parse_other)

    def parse_other(self, response):
        with open("found.txt", "w") as file:
            file.write(response.text)
"""
TEST = """
from city.spiders.meetings import Meetings

def test_meetings():
    response = file_response(join("files", "meetings.html"), url="https://city.example/meetings?a=1&b=2")
    other = file_response(join("files", "other.html"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two saved pages, of one of which its test names the address."""
    folder = tmp_path / "city"
    files = {
        "scrapy.cfg": "[settings]\ndefault = city.settings\n",
        "city/__init__.py": "",
        "city/settings.py": 'SPIDER_MODULES = ["city.spiders"]\n',
        "city/spiders/__init__.py": "",
        "city/spiders/meetings.py": SPIDER,
        "tests/test_meetings.py": TEST,
        "tests/files/meetings.html": "<ul><li>One</li><li>Two</li></ul>",
        "tests/files/other.html": "<p>Other</p>",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_an_address_gets_the_page_that_a_test_names_for_it_and_others_the_pages_left_over(project: Path) -> None:
    pages = saved_pages(project, {"meetings": "city.spiders.meetings"})["meetings"]
    meetings, other = str(project / "tests/files/meetings.html"), str(project / "tests/files/other.html")
    assert pages == [Saved(meetings, "https://city.example/meetings?a=1&b=2"), Saved(other, "")]
    book = Book(pages)
    assert book.page("GET", "https://city.example/robots.txt", b"") == ABSENT
    assert book.page("GET", "http://city.example/meetings/?b=2&a=1", b"") == meetings
    assert book.page("POST", "https://city.example/search", b"q=1") == other
    assert book.page("POST", "https://city.example/search", b"q=2") == ABSENT
    assert book.page("POST", "https://city.example/search", b"q=1") == other


def _ran(exit_code: str = "0", **more: object) -> Ran:
    values: dict[str, object] = {"items": [{"a": 1, "at": "10:00"}], "requests": {"GET x/a?t=1": 1}} | more
    return Ran(exit_code, 1.0, **values)  # type: ignore[arg-type]


def test_an_item_a_file_a_request_and_an_exit_code_more_or_less_are_told() -> None:
    plain = _ran(files={"a": "1"})
    ours = _ran("1", items=[], files={"a": "2"}, requests={"GET x/b": 2})
    assert set(differences(plain, ours)) == {"items", "files", "more requests", "fewer requests", "exit code"}
    assert differences(plain, _ran(files={"a": "1"})) == {}


def test_an_item_that_mongodb_does_not_hold_is_told() -> None:
    twice = _ran(items=[{"a": 1}, {"a": 1}, {"a": 2}])
    assert differences(twice, replace(twice, stored=2)) == {}
    assert set(differences(twice, replace(twice, stored=0))) == {"stored"}


def test_what_plain_scrapy_gives_otherwise_each_time_is_not_compared() -> None:
    again = _ran(items=[{"a": 1, "at": "10:01"}], requests={"GET x/a?t=2": 1})
    ours = _ran(items=[{"a": 1, "at": "10:02"}], requests={"GET x/a?t=3": 1})
    assert differences(_ran(), ours, again) == {}
    assert set(differences(_ran(), _ran(items=[{"a": 2, "at": "10:02"}]), again)) == {"items"}
    assert set(differences(_ran(), replace(ours, requests={"GET x/a?t=3": 1, "GET x/a?t=4": 1}), again)) == {
        "more requests"
    }


def test_a_failed_request_may_be_tried_again() -> None:
    plain = _ran(failed=["GET x/a?t=1"])
    assert differences(plain, _ran(requests={"GET x/a?t=1": 3}, failed=["GET x/a?t=1"])) == {}
    assert set(differences(_ran(), _ran(requests={"GET x/a?t=1": 2}))) == {"more requests"}


def test_only_a_run_that_failed_may_end_with_another_exit_code() -> None:
    assert set(differences(_ran(errors=1), _ran("6"))) == {FAILURE_TOLD}
    assert set(differences(_ran(items=[]), _ran("6", items=[]))) == {FAILURE_TOLD}
    assert set(differences(_ran(), _ran("6"))) == {"exit code"}
    assert set(differences(_ran(errors=1), _ran("1"))) == {"exit code"}


@pytest.mark.long
def test_a_project_gives_the_same_on_both_sides(project: Path, tmp_path: Path) -> None:
    words = (sys.executable, "-m", "tests.projects", str(project), "--runs", str(tmp_path / "runs"))
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)  # its servers are its own, and end with it
    assert ran.returncode == 0, ran.stderr
    assert "| city | 1 | 1 | 1 | 1 | 2 | 2 | 1 | 0 | 0 | 0 |" in ran.stdout
    ours = Ran.read(tmp_path / "runs" / "city" / "meetings" / "ours" / "ran.json")
    assert sorted(item["title"] for item in ours.items) == ["One", "Two"]
    assert ours.files.keys() == {"found.txt 1"}
    assert sorted(ours.requests) == ["GET city.example/meetings?b=2&a=1", "GET city.example/other"]

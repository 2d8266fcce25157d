"""The report is one valid page that needs nothing else, and shows text as text."""

from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from harvester.monitors.history import Earlier
from harvester.monitors.judgement import Judged, Judgement
from harvester.monitors.report import render

STARTED = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
NASTY = '<script>alert("&")</script>'
JUDGEMENT = Judgement("failed", [Judged("Refusals", "passed", "None."), Judged("Error ratio", "failed", NASTY)])


def run(posts: int = 0, **fields: Any) -> dict[str, Any]:
    """A document of `runs`."""
    return {
        "_id": "20260102-030400-abcdef",
        "spider": "toy",
        "crawl": "toy-1",
        "resumed": False,
        "host": "here",
        "arguments": {},
        "started_at": STARTED,
        "finished_at": STARTED + timedelta(minutes=5),
        "finish_reason": "finished",
        "counts": {"post": posts} if posts else {},
        "parsed": {"post": posts} if posts else {},
        "rejected": {},
        "outcomes": {},
        "errors": [],
        "coverage": {"post": {"text": 0.5}} if posts else {},
        "items": {"account": {"done": 1203, "failed": 2}},
        **fields,
    }


class Checker(HTMLParser):
    """Knows whether tags are closed in order, and collects text and what would be loaded from elsewhere."""

    VOID = frozenset({"meta", "br", "link", "img"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.resources: list[str | None] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.resources += [value for name, value in attributes if name in ("src", "href", "srcset")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("earlier", [None, Earlier([], []), Earlier([run(2000)], [run(2000)])])
@pytest.mark.parametrize("posts", [0, 1000])
def test_the_page_is_valid_and_loads_nothing(posts: int, earlier: Earlier | None) -> None:
    page = render(run(posts), JUDGEMENT, earlier, "scrapy crawl toy")
    checked = Checker(page)
    assert page.startswith("<!doctype html>")
    assert checked.resources == []
    assert not checked.tags & {"script", "link", "img", "iframe"}
    assert "url(" not in page
    assert "@import" not in page


def test_the_page_shows_foreign_text_as_text() -> None:
    errors = [{"outcome": "blocked", "host": NASTY, "times": 3, "said": NASTY}]
    page = render(run(1, errors=errors, arguments={"seeds": [NASTY]}, spider=NASTY), JUDGEMENT, None, NASTY)
    checked = Checker(page)
    assert "script" not in checked.tags
    assert checked.text.count(NASTY) == 7


def test_the_page_says_what_happened() -> None:
    errors = [{"outcome": "rate_limited", "host": "api.test", "times": 1234, "said": ""}]
    earlier = Earlier([run(2000, coverage={"post": {"text": 1.0}})], [])
    arguments = {"seeds": ["a.test", "b.test"], "depth": 2, "since": None}
    command = "scrapy crawl toy -a depth=2"
    page = render(run(1000, errors=errors, arguments=arguments), JUDGEMENT, earlier, command)
    text = " ".join(Checker(page).text.split())
    for part in (
        "failed",
        "5 min",
        "1,000",
        "2,000",
        "50.0%",
        "100.0%",
        "rate limited",
        "1,234",
        "a.test, b.test",
        "job toy-1",
        "1,203",
    ):
        assert part in text
    assert command in text
    assert "since" not in text
    assert text.index("Error ratio: failed") < text.index("Refusals: passed")


def test_the_page_of_a_run_that_was_not_judged_says_why_once() -> None:
    skipped = Judgement(
        "not judged", [Judged("a", "skipped", "Ended by hand."), Judged("b", "skipped", "Ended by hand.")]
    )
    assert Checker(render(run(), skipped, None, "x")).text.count("Ended by hand.") == 1

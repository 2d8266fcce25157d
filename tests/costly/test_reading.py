"""Some of the bodies, as spiders have them read: each comes to an end, and what is asked for after it is answered."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from harvester.bounded.process import BoundedProcess, Bounds
from harvester.exceptions import ParseError, TooCostlyError
from harvester.items import Provenance
from harvester.parsers.web.endpoint import MAX_ROWS, EndpointDeclaration, read_rows, read_whole
from harvester.parsers.web.feed import feeds_of_page, parse_feed
from harvester.parsers.web.weight import count_elements
from tests.costly.bodies import ENDPOINTS, FEEDS, PAGES, rss

BOUNDS = Bounds(cpu_s=0.5, memory_mb=48, result_mb=8, silence_s=600.0)
SEEN = Provenance("https://a.example/f", datetime.now(UTC), "feeds")


@pytest.fixture(scope="module")
def process() -> Iterator[BoundedProcess]:
    process = BoundedProcess()
    yield process
    process.close()


def feed(process: BoundedProcess, name: str) -> Any:
    body = FEEDS[name]
    if name.startswith("page"):
        return process.call(BOUNDS, feeds_of_page, body.make(), SEEN.url)
    return process.call(BOUNDS, parse_feed, body.make(), SEEN.url, body.kind, SEEN)


def endpoint(process: BoundedProcess, name: str) -> Any:
    body = ENDPOINTS[name]
    wanted = EndpointDeclaration(**body.declared)
    if wanted.rows:
        return process.call(BOUNDS, read_rows, body.make(), body.kind, wanted, "")
    return process.call(BOUNDS, read_whole, body.make(), body.kind, wanted)


@pytest.mark.parametrize("name", ["RSS of 30,000 items", "2 MB of open tags"])
def test_a_feed_that_costs_too_much_is_ended(process: BoundedProcess, name: str) -> None:
    with pytest.raises(TooCostlyError, match=r"memory|computing"):
        feed(process, name)
    small = process.call(BOUNDS, parse_feed, rss(b"<item><guid>1</guid></item>"), SEEN.url, "application/xml", SEEN)
    assert [entry.id for entry in small.entries] == ["1"]


@pytest.mark.parametrize(
    "name",
    [
        "JMESPath that doubles",
        "JMESPath: lists of lists",
        "schema: (a+)+$",
        "schema: uniqueItems",
        "JSON of 1.9 M rows",
    ],
)
def test_an_answer_that_costs_too_much_is_ended(process: BoundedProcess, name: str) -> None:
    with pytest.raises(TooCostlyError, match=r"memory|computing"):
        endpoint(process, name)
    assert process.call(BOUNDS, read_rows, b"[1]", "", EndpointDeclaration("@"), "").rows[0].text == b"1"


def test_more_rows_than_are_read_are_told() -> None:
    with pytest.raises(Exception, match=f"{MAX_ROWS:,}") as refused:
        read_rows(b"[" + b",".join([b"1"] * (MAX_ROWS + 1)) + b"]", "", EndpointDeclaration("@"), "")
    assert getattr(refused.value, "outcome", "") == "invalid"


@pytest.mark.parametrize("name", ["HTML: 1 M attributes", "JSON: 1.9 M rows"])
def test_a_page_that_costs_too_much_is_ended(process: BoundedProcess, name: str) -> None:
    with pytest.raises(TooCostlyError):
        process.call(BOUNDS, count_elements, PAGES[name].make(), "utf-8")
    assert process.call(BOUNDS, count_elements, b"<p>1</p>", "utf-8") == 3


def test_what_a_parser_refuses_is_refused_as_before(process: BoundedProcess) -> None:
    with pytest.raises(ParseError, match="no JSON"):
        process.call(BOUNDS, read_rows, b"<html>", "", EndpointDeclaration("@"), "")

"""`harvester spiders new`: whatever the address and the page, what it writes compiles, or nothing is written."""

import ast
from datetime import UTC, date, datetime
from typing import Any

import pytest

from harvester.cli.one_page import check_address
from harvester.cli.spider_template import StartPage, spider
from harvester.exceptions import ParseError, UsageError
from harvester.items import Provenance


@pytest.mark.parametrize("control", ["\r", "\n", "\t", "\x00", "\x1b", "\x7f", "\x85", "\u2028"])
def test_an_address_with_a_character_that_cannot_be_seen_is_refused(control: str) -> None:
    for url in (
        f"http://site.example/?x=1{control}",
        f"http://site.{control}example/",
        f"{control}http://site.example/",
    ):
        with pytest.raises(UsageError, match="character") as raised:
            check_address(url)
        assert control not in str(raised.value)


@pytest.mark.parametrize("end", ["", '"', "'", "\\", '\\"', "\r", "\n", "$x", "{x}", "é", "\U0001f600", "\u2028"])
def test_what_is_written_compiles_and_holds_the_address(end: str) -> None:
    page = StartPage(f"http://site.example/?x={end}", b"<title>A</title>", is_json=False, encoding="utf-8")
    files = spider("county", page, "sites", date(2026, 1, 31))
    for path in ("sites/spiders/county.py", "tests/test_county.py"):
        nodes = ast.walk(ast.parse(files[path]))
        assert page.url in [node.value for node in nodes if isinstance(node, ast.Constant)]
    compile(files["sites/parsers/county.py"], "county.py", "exec")


def test_an_empty_page_has_no_title_for_the_command_and_for_the_parser_it_writes() -> None:
    page = StartPage("http://site.example/", b"", is_json=False, encoding="utf-8")
    with pytest.raises(UsageError, match="title"):
        spider("county", page, "sites", date(2026, 1, 31))
    written = spider("county", page._replace(body=b"<title>A</title>"), "sites", date(2026, 1, 31))
    parser: dict[str, Any] = {"__name__": "county"}
    exec(written["sites/parsers/county.py"], parser)
    with pytest.raises(ParseError, match="title"):
        parser["parse_page"](b"", Provenance(page.url, datetime.now(UTC), "county"))


def test_json_of_too_many_levels_is_refused_by_the_command_and_by_the_parser_it_writes() -> None:
    deep = b"[" * 200_000
    with pytest.raises(UsageError, match="JSON"):
        spider(
            "county",
            StartPage("http://site.example/", deep, is_json=True, encoding="utf-8"),
            "sites",
            date(2026, 1, 31),
        )
    written: dict[str, Any] = {"__name__": "county_json"}
    page = StartPage("http://site.example/", b"[1]", is_json=True, encoding="utf-8")
    exec(spider("county_json", page, "sites", date(2026, 1, 31))["sites/parsers/county_json.py"], written)
    with pytest.raises(ParseError, match="JSON"):
        written["parse_page"](deep, Provenance("http://site.example/", datetime.now(UTC), "county_json"))

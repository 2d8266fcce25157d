"""How the pages of an endpoint's list lead to each other, in each of the ways that there are."""

import json
from typing import Any

import pytest
from scrapy.http import Headers, TextResponse

from harvester.exceptions import ParseError
from harvester.parsers.web.endpoint import EndpointDeclaration, read_rows
from harvester.recheck.stopping import Position
from harvester.spiders.endpoints.definition import Endpoint
from harvester.spiders.endpoints.spider import address_of, next_of

URL = "https://api.example.org/prices?shop=1&p=x"


def leads_to(pages: dict[str, Any], document: Any, response: TextResponse) -> tuple[str | None, int | None]:
    """Where a page with this document leads, and how many rows it says there are."""
    given = endpoint(**pages)
    read = read_rows(json.dumps({"of": document, "rows": []}).encode(), "", _inside(given.wanted), "")
    return next_of(given, read.next, response), read.total


def _inside(wanted: EndpointDeclaration) -> EndpointDeclaration:
    inside: Any = {name: f"of.{path.strip('/')}" for name in ("next", "total") if (path := getattr(wanted, name))}
    return wanted._replace(rows="rows", **inside)


def endpoint(**pages: Any) -> Endpoint:
    return Endpoint(url=URL, rows="@", pages=pages)


@pytest.mark.parametrize(
    ("pages", "at", "address"),
    [
        ({"by": "cursor", "parameter": "p", "at": "next"}, None, URL),
        ({"by": "cursor", "parameter": "p", "at": "next"}, "a b&c", "https://api.example.org/prices?shop=1&p=a+b%26c"),
        ({"by": "page", "parameter": "p"}, 1, "https://api.example.org/prices?shop=1&p=1"),
        ({"by": "offset", "parameter": "from"}, 19, f"{URL}&from=19"),
        ({"by": "link"}, "https://api.example.org/2", "https://api.example.org/2"),
        ({"by": "next", "at": "next"}, "https://api.example.org/2", "https://api.example.org/2"),
    ],
)
def test_a_page_has_an_address(pages: dict[str, Any], at: Position, address: str) -> None:
    assert address_of(endpoint(**pages), at) == address


@pytest.mark.parametrize(
    ("pages", "document", "link", "to"),
    [
        ({"by": "cursor", "parameter": "p", "at": "meta.next"}, {"meta": {"next": 7}}, "", "7"),
        ({"by": "cursor", "parameter": "p", "at": "meta.next"}, {"meta": {"next": None}}, "", None),
        ({"by": "cursor", "parameter": "p", "at": "meta.next"}, {}, "", None),
        ({"by": "next", "at": "/next"}, {"next": "/prices?p=2"}, "", "https://api.example.org/prices?p=2"),
        ({"by": "next", "at": "/next"}, {"next": ""}, "", None),
        ({"by": "link"}, [], '<?p=2>; rel="next"', "https://api.example.org/prices?p=2"),
        ({"by": "link"}, [], "", None),
    ],
)
def test_a_page_leads_to_the_next(pages: dict[str, Any], document: Any, link: str, to: str | None) -> None:
    response = TextResponse(URL, headers=Headers({"Link": link} if link else {}))
    assert leads_to(pages, document, response) == (to, None)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"next": "https://elsewhere.example/"}, "https://elsewhere.example/"),
        ({"next": "http://[x/"}, "Invalid IPv6 URL"),
        ({"next": ["x"]}, "list"),
    ],
)
def test_a_page_that_leads_elsewhere_is_none(document: Any, said: str) -> None:
    with pytest.raises(ParseError) as refused:
        leads_to({"by": "next", "at": "next"}, document, TextResponse(URL))
    assert said in str(refused.value)


def test_how_many_rows_there_are_is_read_where_the_answer_says_it() -> None:
    pages = {"by": "page", "parameter": "p", "total": "meta.total"}
    assert leads_to(pages, {"meta": {"total": 12}}, TextResponse(URL)) == (None, 12)
    assert leads_to(pages, {"meta": {"total": "12"}}, TextResponse(URL)) == (None, None)

"""Only http and https are fetched, whoever leads elsewhere: seeds, links, redirects."""

from pathlib import Path

import pytest
from scrapy import Request
from scrapy.exceptions import NotSupported
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.exceptions import AddressError
from harvester.middlewares.addresses import AddressMiddleware
from tests.crawling import Answer, Plan, Site, crawl

NONE_OF_OURS = [
    "file:///etc/hostname",
    "FILE://localhost/etc/hostname",
    "ftp://127.0.0.1/a",
    "s3://bucket/key",
    "gopher://127.0.0.1/a",
    "javascript://%0aalert(1)",
    "view-source:http://127.0.0.1/",
    "blob:http://127.0.0.1/5",
    "http:///x",
    "https:///",
    "https://:80/",
    "http://ann@/",
    "http://a..example/",
    "http://%00.example/",
    "http://127.0.0.1%2f@a%2fb/",
]
LEADING_AWAY = [
    "data:text/plain,secret",
    "DATA:text/plain;base64,c2VjcmV0",
    *(url for url in NONE_OF_OURS if url != "http:///x"),  # as a redirect: /x of the same host
    "javascript:alert(1)",
    "http://[::1/",
    "mailto:ann@example.org",
    "http:",
    "https://",
    "//",
    "file:/etc/hostname",
    "\tfile:///etc/hostname",
]


async def test_an_address_that_holds_its_answer_is_read_as_by_scrapy_and_nobody_is_asked(tmp_path: Path) -> None:
    async with Site({}) as site:
        crawled = await crawl(Plan(["data:text/plain,held", "DATA:text/plain;base64,aGVsZA=="]), tmp_path)
    assert [(result.status, result.outcome) for result in crawled.results] == [(200, "")] * 2, crawled.results
    assert not site.arrivals


async def test_what_is_no_web_address_is_invalid_at_once_and_nothing_is_read(tmp_path: Path) -> None:
    async with Site({f"/{n}": [Answer(302, headers={"Location": to})] for n, to in enumerate(LEADING_AWAY)}) as site:
        redirects = [f"{site.url}/{number}" for number in range(len(LEADING_AWAY))]
        crawled = await crawl(Plan([*NONE_OF_OURS, *redirects]), tmp_path, requests_per_second="0")
    for url in [*NONE_OF_OURS, *redirects]:
        (result,) = crawled.of(url)
        assert (result.status, result.outcome, result.tries) == (0, "invalid", 1), result
        assert result.said.removeprefix("invalid: ")
    assert {arrival.path for arrival in site.arrivals} == {f"/{number}" for number in range(len(LEADING_AWAY))}
    assert crawled.stats.get("harvester/unclassified", 0) == 0, crawled.log
    assert "Traceback" not in crawled.log


@pytest.mark.parametrize(
    "url",
    ["http://a.example\\@127.0.0.1/", "http://a\t.example/", "http://a.example/\n", "HTTP:///x"],
)
def test_an_address_that_is_sent_as_it_is_is_looked_at_as_it_is(url: str) -> None:
    request = Request("http://a.example/", meta={"verbatim_url": True}).replace(url=url)
    with pytest.raises(AddressError):
        AddressMiddleware(get_crawler(), Config(allow_private_hosts=True)).process_request(request)


@pytest.mark.parametrize("url", ["FILE:///etc/passwd", "foo://bar"])
def test_another_scheme_is_refused_by_the_exception_that_scrapy_raises(url: str) -> None:
    with pytest.raises(NotSupported):
        AddressMiddleware(get_crawler(), Config()).process_request(Request(url))

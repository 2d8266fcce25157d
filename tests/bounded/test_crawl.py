"""Pages that would cost a callback much, in a real crawl: each has an outcome and a sentence, and others go on."""

import asyncio

import pytest

from tests.crawling import Answer, Crawled, Plan, Site, crawl

HTML, JSON = "text/html; charset=utf-8", "application/json"
COSTLY = {
    "/attributes": (b"<html><body " + b" ".join(b'a%d="1"' % n for n in range(100_000)) + b">", HTML, "seconds"),
    "/quoted-attributes": (b"<p " + b" ".join(b"a%d='<>'" % n for n in range(100_000)) + b">", HTML, "seconds"),
    "/elements": (b"<html><body>" + b'<a href="/1">x</a>' * 150_000, HTML, "elements"),
    "/links": (b"<html><body>" + b'<a href="/1">x</a>' * 60_000, HTML, "elements"),
    "/rows": (b'[{"a":1}' + b',{"a":1}' * 1_900_000 + b"]", JSON, "memory"),
    "/xml": (b'<?xml version="1.0"?><r>' + b"<x/>" * 150_000 + b"</r>", "text/xml", "elements"),
}
FINE = {
    "/small": (b"<p>small</p>", HTML),
    "/long-text": (b"<html><body><p>" + b"word " * 400_000 + b"</p>", HTML),
    "/picture-inside": (b'<html><body><img src="data:image/png;base64,' + b"A" * 3_000_000 + b'">', HTML),
    "/table": (b"<table>" + b"<tr><td>1</td><td>2</td></tr>" * 15_000 + b"</table>", HTML),
    "/ids": (b'{"ids":[1' + b",1234567" * 1_000_000 + b"]}", JSON),
    "/no-json": (b"{" * 300_000 + b"}", JSON),
    "/text": (b"<" * 300_000, "text/plain"),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    costly = {path: [Answer(body=body, kind=kind)] for path, (body, kind, _) in COSTLY.items()}
    answers = costly | {path: [Answer(body=body, kind=kind)] for path, (body, kind) in FINE.items()}

    async def run() -> Crawled:
        async with Site(answers) as site:
            plan = Plan([f"{site.url}{path}" for path in answers])
            return await crawl(plan, tmp_path_factory.mktemp("crawl"), requests_per_second="0")

    return asyncio.run(run())


@pytest.mark.parametrize("path", COSTLY)
def test_a_page_that_costs_too_much_is_no_page_and_says_why(path: str, crawled: Crawled) -> None:
    (result,) = [each for each in crawled.results if each.url.endswith(path)]
    assert (result.status, result.outcome, result.tries) == (0, "invalid", 1)
    assert COSTLY[path][2] in result.said


@pytest.mark.parametrize("path", FINE)
def test_large_pages_that_cost_little_are_parsed(path: str, crawled: Crawled) -> None:
    (result,) = [each for each in crawled.results if each.url.endswith(path)]
    assert result.status == 200, result


def test_a_small_page_does_not_wait_for_those_that_cost_much(crawled: Crawled) -> None:
    """It was asked for after the costly ones."""
    paths = [result.url.rpartition("/")[2] for result in crawled.results]
    assert paths.index("small") < min(paths.index("attributes"), paths.index("rows"))

"""The records of a page travel together, and what it says of job items with them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from harvester.exceptions import InvalidRecordError
from harvester.items import Batch, Found, ItemResult, Reject, Stage
from harvester.items.bluesky import Follow
from harvester.middlewares.batch import BatchMiddleware
from tests.parsers.cases import PROVENANCE

REQUEST = Request("https://api.example")
REJECT = Reject("post", "why", "at://x", b"{}", "https://api.example")


def follow(number: int) -> Follow:
    return Follow(did=f"did:plc:{number}", subject_did="did:plc:ann", provenance=PROVENANCE)


ONE, TWO, THREE = map(follow, (1, 2, 3))


def through(*outputs: Any, of: Sequence[Any] = ()) -> list[Any]:
    """What passes the middleware when a page yields that; `of`: the job items that it was fetched for."""
    page = Response("https://x.example")
    page.request = Request(page.url, meta={"job": "job", "harvester_items": of})

    async def result() -> AsyncIterator[Any]:
        for output in outputs:
            yield output

    async def run() -> list[Any]:
        middleware = BatchMiddleware()
        return [out async for out in middleware.process_spider_output(page, result())]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([], []),
        ([ONE, TWO], [Batch([ONE, TWO])]),
        ([[ONE, TWO], THREE], [Batch([ONE, TWO, THREE])]),
        ([[]], []),
        ([ONE, REJECT], [Batch([ONE], (REJECT,))]),
        ([REJECT], [Batch([], (REJECT,))]),
        ([ONE, REQUEST, TWO], [REQUEST, Batch([ONE, TWO])]),
        ([{"other": "item"}, ONE], [{"other": "item"}, Batch([ONE])]),
    ],
)
def test_what_a_callback_yields_is_batched(outputs: list[Any], expected: list[Any]) -> None:
    assert through(*outputs) == expected


FOUND, STAGE, SAID = Found("page", "b"), Stage("job:page:a", "half"), ItemResult("job:page:a", "done", "ok")


def test_what_a_callback_says_of_items_travels_with_its_records() -> None:
    passed = through(FOUND, ONE, STAGE, TWO, SAID, of=[["job:page:a", 2]])
    of_items: dict[str, Any] = {
        "job": "job",
        "items": (("job:page:a", 2),),
        "found": (FOUND,),
        "stages": (STAGE,),
        "said": (SAID,),
    }
    assert passed == [Batch([ONE, TWO], (), **of_items)]
    assert through(FOUND, of=[["job:page:a", 2]])[0].found == (FOUND,)


@pytest.mark.parametrize(("output", "of"), [(FOUND, []), (STAGE, []), (STAGE, [["job:page:b", 1]]), (SAID, [])])
def test_a_page_says_nothing_of_items_that_it_was_not_fetched_for(output: Any, of: list[Any]) -> None:
    with pytest.raises(InvalidRecordError):
        through(ONE, output, of=of)


def test_a_callback_that_fails_yields_no_batch() -> None:
    async def failing() -> AsyncIterator[Any]:
        yield ONE
        yield FOUND
        raise ValueError("a fault of the spider")

    async def run(passed: list[Any]) -> None:
        middleware = BatchMiddleware()
        async for output in middleware.process_spider_output(Response("https://x.example"), failing()):
            passed.append(output)

    passed: list[Any] = []
    with pytest.raises(ValueError, match="a fault"):
        asyncio.run(run(passed))
    assert passed == []

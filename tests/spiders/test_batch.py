"""The records of a page travel together, and a change of the ledger never before the records it depends on."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from harvester.frontier.changes import Ended, SeedEnded
from harvester.items import Batch, Reject
from harvester.items.bluesky import Follow
from harvester.middlewares.batch import BatchMiddleware
from tests.parsers.cases import PROVENANCE

REQUEST = Request("https://api.example")
REJECT = Reject("post", "why", "at://x", b"{}", "https://api.example")
DONE, MORE = Ended("did:plc:a", "skipped", "x"), SeedEnded("a.test", "did:plc:a")


def follow(number: int) -> Follow:
    return Follow(did=f"did:plc:{number}", subject_did="did:plc:ann", provenance=PROVENANCE)


ONE, TWO, THREE = map(follow, (1, 2, 3))


def through(*outputs: Any) -> list[Any]:
    async def result() -> AsyncIterator[Any]:
        for output in outputs:
            yield output

    async def run() -> list[Any]:
        middleware = BatchMiddleware()
        return [out async for out in middleware.process_spider_output(Response("https://x.example"), result())]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([], []),
        ([ONE, TWO], [Batch([ONE, TWO], [])]),
        ([[ONE, TWO], THREE], [Batch([ONE, TWO, THREE], [])]),
        ([[]], []),
        ([DONE], [Batch([], [DONE])]),
        ([ONE, REJECT, DONE, MORE], [Batch([ONE], [DONE, MORE], (REJECT,))]),
        ([ONE, DONE, TWO, MORE], [Batch([ONE], [DONE]), Batch([TWO], [MORE])]),
        ([DONE, ONE], [Batch([], [DONE]), Batch([ONE], [])]),
        ([DONE, [ONE]], [Batch([], [DONE]), Batch([ONE], [])]),
        ([DONE, REJECT], [Batch([], [DONE]), Batch([], [], (REJECT,))]),
        ([ONE, REQUEST, DONE], [REQUEST, Batch([ONE], [DONE])]),
        ([{"other": "item"}, ONE], [{"other": "item"}, Batch([ONE], [])]),
    ],
)
def test_what_a_callback_yields_is_batched(outputs: list[Any], expected: list[Any]) -> None:
    assert through(*outputs) == expected


def test_a_callback_that_fails_yields_no_change_of_the_ledger() -> None:
    async def failing() -> AsyncIterator[Any]:
        yield ONE
        yield DONE
        raise ValueError("a fault of the spider")

    async def run(passed: list[Any]) -> None:
        middleware = BatchMiddleware()
        async for output in middleware.process_spider_output(Response("https://x.example"), failing()):
            passed.append(output)

    passed: list[Any] = []
    with pytest.raises(ValueError, match="a fault"):
        asyncio.run(run(passed))
    assert passed == []

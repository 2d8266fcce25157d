"""What a lease comes to when its request has failed."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from scrapy import Field, Item, Request
from scrapy.utils.misc import arg_to_iter
from twisted.python.failure import Failure

from harvester.exceptions import DecodingError, ParseError, RedirectError
from harvester.frontier.in_flight import InFlight, WatchedErrback
from harvester.frontier.messages import Dead, ItemRef
from harvester.outcomes import Outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (DecodingError("the answer is cut short"), Outcome.NETWORK),
        (RedirectError("it leads nowhere"), Outcome.INVALID),
        (ParseError("a fault of an errback"), Outcome.INVALID),
    ],
)
def test_request_that_reads_outcomes_itself_is_told_of_as_any_other(error: Exception, outcome: Outcome) -> None:
    lease = InFlight("1", "county.example")
    failure = Failure(error)  # type: ignore[no-untyped-call]
    failure.request = Request("http://county.example/", meta={"dont_retry": True})  # type: ignore[attr-defined]
    WatchedErrback(lease, lambda failure: None, lambda *_: None)(failure)
    fate = lease.fate()
    assert isinstance(fate, Dead)
    assert fate.outcome is outcome
    assert fate.reason.startswith("ParseError: ") == isinstance(error, ParseError)


class Book(Item):
    title = Field()


async def _of(value: Any) -> Any:
    return value


def _failed() -> Failure:
    failure = Failure(DecodingError("the answer is cut short"))  # type: ignore[no-untyped-call]
    failure.request = Request("http://county.example/")  # type: ignore[attr-defined]
    return failure


BOOK, ROW, MORE = Book(title="x"), {"title": "x"}, Request("http://county.example/more")
RETURNED: dict[str, tuple[Callable[[Failure], Any], list[Any]]] = {
    "an item": (lambda _: BOOK, [BOOK]),
    "a dict": (lambda _: ROW, [ROW]),
    "a request": (lambda _: MORE, [MORE]),
    "a list": (lambda _: [ROW, MORE], [ROW, MORE]),
    "nothing": (lambda _: None, []),
    "an item, later": (lambda _: _of(BOOK), [BOOK]),
    "a dict, later": (lambda _: _of(ROW), [ROW]),
    "a request, later": (lambda _: _of(MORE), [MORE]),
    "a list, later": (lambda _: _of([ROW, MORE]), [ROW, MORE]),
    "nothing, later": (lambda _: _of(None), []),
}


@pytest.mark.parametrize("kind", RETURNED)
async def test_an_errback_may_return_what_a_callback_may(kind: str) -> None:
    errback, expected = RETURNED[kind]
    lease = InFlight("1", "county.example", (ItemRef("job:a", 1),))
    output = WatchedErrback(lease, errback, lambda *_: None)(_failed())
    told = [each async for each in output] if isinstance(output, AsyncIterator) else list(arg_to_iter(output))
    assert told == expected
    assert [type(each) for each in told] == [type(each) for each in expected]
    assert (lease.error, lease.answered) == (None, bool(expected))


def test_an_errback_that_returns_its_failure_has_not_dealt_with_it() -> None:
    lease = InFlight("1", "county.example", (ItemRef("job:a", 1),))
    failure = _failed()
    assert WatchedErrback(lease, lambda given: given, lambda *_: None)(failure) is failure
    assert isinstance(lease.fate(), Dead)

"""What a lease comes to when its request has failed."""

import pytest
from scrapy import Request
from twisted.python.failure import Failure

from harvester.exceptions import DecodingError, ParseError, RedirectError
from harvester.frontier.in_flight import InFlight, WatchedErrback
from harvester.frontier.messages import Dead
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

"""A lease that this worker holds: the events of the request, and the one operation that ends the lease."""

import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

from scrapy import Request
from scrapy.exceptions import CloseSpider, IgnoreRequest, ScrapyDeprecationWarning
from scrapy.utils.misc import arg_to_iter
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from harvester.browser.render_options import forget_answer
from harvester.exceptions import FetchError, HarvesterError, NotStoredError
from harvester.frontier.messages import Dead, Done, ItemRef, Operation, Release, Skip
from harvester.internal_meta import (
    ATTEMPTS,
    ITEMS,
    LEASE,
    LOCAL_ATTEMPTS,
    NOT_BEFORE,
    PARKED,
    PROBE,
    RETRY_REASON,
    START,
    UNREACHED_SINCE,
)
from harvester.items.receipts import PageRecords, begin_page
from harvester.masking import mask
from harvester.outcomes import Outcome, Verdict, verdict_of
from harvester.shutdown import RunEnding
from harvester.sites import load_sites, policy_of

_OURS = (LEASE, NOT_BEFORE, ATTEMPTS, RETRY_REASON, PROBE, PARKED, LOCAL_ATTEMPTS, UNREACHED_SINCE, ITEMS, START)
MOST_REASON = 1000
"""Maximum number of characters of an exception's text in a dead letter."""


@dataclass(slots=True)
class InFlight:
    """A request in progress."""

    id: str
    site: str
    items: tuple[ItemRef, ...] = ()
    """The job items that the request belongs to; requests that it yields belong to them too."""
    part: str = ""
    """The part of the items that the request fetches; empty: not given."""
    moved: bool = False
    """True if it continues as another request: a retry or a redirect."""
    exhausted: bool = False
    """True if its callback has finished."""
    delivered: bool = False
    """True if its response reached the spider middlewares; they then also see the errback's output."""
    answered: bool = False
    """True if its errback yielded output; its items are then not retried for the failure."""
    verdict: Verdict | None = None
    """The verdict on a failed download, or on a page that its callback could not use."""
    error: str | None = None
    """The description of a fault of the program, or of an unexpected page."""
    given_back: bool = False
    """True if the run ends before the work is done."""
    afterwards: Callable[[], None] | None = None
    """Called when the frontier has acknowledged the end with outcome ok, and has all requests that it yielded."""
    records: PageRecords = field(default_factory=PageRecords)
    """The records that its callback or errback yielded."""
    request: Request | None = None
    """The request as the engine has it."""
    is_sent: bool = False
    """True if the engine has handed it to the downloader."""
    leads_to: str = ""
    """The URL of the request that the downloader returned in place of a response; it is refused if not `moved`."""

    def fate(self) -> Operation:
        """Returns the operation that ends the lease when the request is finished here."""
        records = self.records
        if self.given_back or self.records.interrupted:
            return Release(self.id)
        if self.error is not None:
            return Dead(self.id, Outcome.INVALID, self.error)
        if self.verdict is not None and not self.answered:
            reason = self.verdict.reason if self.items else self.verdict.told()  # items are counted by their reasons
            if self.part:
                reason = f"{self.part}: {self.verdict.outcome}: {reason}"
            if not policy_of(load_sites().named(self.site), self.verdict.outcome).dead:
                return Done(self.id, self.verdict.outcome, records.rejected, records.stored, reason, records.new)
            end = Skip if self.verdict.outcome is Outcome.POLICY_DENIED else Dead
            return end(self.id, self.verdict.outcome, reason)
        if self.exhausted or self.answered:
            return Done(self.id, rejected=records.rejected, records=records.stored, new=records.new)
        return Dead(self.id, Outcome.INVALID, "it ended without an answer and without an error")

    def failed_by(self, error: BaseException) -> None:
        """Notes an exception of a callback, an errback or an item pipeline."""
        if isinstance(error, (CloseSpider, RunEnding)):
            self.given_back = True
        else:
            self.error = f"{type(error).__name__}: {mask(str(error), MOST_REASON)}{_place_of(error)}"

    def not_stored(self) -> NotStoredError:
        """Returns the error that describes the records without a result."""
        return NotStoredError(
            f"{self.records.unsettled:,} of {self.records.yielded:,} records were neither stored nor rejected"
        )


class WatchedErrback:
    """Wraps the errback of a leased request to see each failure, even without an errback."""

    def __init__(
        self, lease: InFlight, errback: Callable[[Failure], Any] | None, prepare: Callable[[Request, InFlight], None]
    ) -> None:
        self.lease = lease
        self.errback = errback
        self._prepare = prepare
        """Called with each request that the errback yields, and the lease."""

    def __call__(self, failure: Failure) -> Any:
        error = failure.value
        assert error is not None
        if not self.lease.delivered:
            begin_page(failure, self.lease.records)
        if isinstance(error, RunEnding):  # spiders do not see it
            self.lease.given_back = True
            return ()
        if isinstance(error, HarvesterError) and not isinstance(error, (FetchError, IgnoreRequest)):
            self.lease.failed_by(error)
        else:
            self.lease.verdict = verdict_of(error)
        if self.errback is None:
            failure.raiseException()
        try:
            output = self.errback(failure)
        except BaseException as raised:
            self._raised(raised, error)
            raise
        if isinstance(output, Deferred):
            message = f"{self.errback} returned a Deferred. Returning Deferreds from spider errbacks is deprecated."
            warnings.warn(message, ScrapyDeprecationWarning, stacklevel=2)  # as Scrapy warns
        if hasattr(output, "__aiter__") or isawaitable(output):
            return self._watch_async(output, error)
        return output if isinstance(output, Failure) else self._watch(arg_to_iter(output), error)

    def _yielded(self, output: Any) -> Any:
        if isinstance(output, Request) and not self.lease.delivered:
            output = apart(output)
            self._prepare(output, self.lease)
        self.lease.answered = bool(self.lease.items)
        return output

    def _watch(self, outputs: Iterable[Any], error: BaseException) -> Iterator[Any]:
        try:
            for output in outputs:
                yield self._yielded(output)
        except BaseException as raised:
            self._raised(raised, error)
            raise

    async def _watch_async(self, output: Any, error: BaseException) -> AsyncIterator[Any]:
        try:
            if isawaitable(output):
                for each in arg_to_iter(await output):
                    yield self._yielded(each)
            else:
                async for each in output:
                    yield self._yielded(each)
        except BaseException as raised:
            self._raised(raised, error)
            raise

    def _raised(self, raised: BaseException, error: BaseException) -> None:
        if raised is not error and not isinstance(raised, GeneratorExit):
            self.lease.failed_by(raised)


def apart(request: Request) -> Request:
    """Copies a request in progress that a callback yields again: its lease stays with the page."""
    return request.copy() if LEASE in request.meta else request


def fresh(request: Request) -> Request:
    """Returns a yielded request without the meta that it may have copied from the request before it."""
    for name in _OURS:
        request.meta.pop(name, None)
    forget_answer(request)
    if isinstance(request.errback, WatchedErrback):
        request.errback = request.errback.errback
    return request


def _place_of(error: BaseException) -> str:
    """Returns file and line where the exception was raised, for the person who fixes it."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"

"""A lease in this worker's hands: what happened to its request, and the one fate that follows from it."""

import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from harvester.items.receipts import Receipt
from harvester.masking import mask
from harvester.meta import (
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
from harvester.outcomes import Outcome, Verdict, verdict_of
from harvester.shutdown import RunEnding
from harvester.sites import load_sites, policy_of

_OURS = (LEASE, NOT_BEFORE, ATTEMPTS, RETRY_REASON, PROBE, PARKED, LOCAL_ATTEMPTS, UNREACHED_SINCE, ITEMS, START)
MOST_REASON = 1000
"""Characters of an exception's text that a dead letter keeps."""


@dataclass(slots=True)
class InFlight:
    """A request that is being worked on."""

    id: str
    site: str
    items: tuple[ItemRef, ...] = ()
    """To which it belongs, and what follows from it."""
    part: str = ""
    """What it asks for of them; empty: nobody said."""
    moved: bool = False
    """Whether it goes on as another request: a retry, a redirect."""
    exhausted: bool = False
    """Whether its callback was run to the end."""
    delivered: bool = False
    """Whether its answer has come to the spider middlewares: what its errback yields passes them, too."""
    answered: bool = False
    """Whether its errback yielded something: its items are not tried again for its failure."""
    verdict: Verdict | None = None
    """On a download that failed, or a page that its callback found to be no use."""
    error: str | None = None
    """What is wrong with this program, or with the page it did not expect."""
    given_back: bool = False
    """Whether the run ends before the work is done."""
    afterwards: Callable[[], None] | None = None
    """Called when the frontier has heard that the work is done, with outcome ok, and has all that followed from it."""
    records: int = 0
    """That its callback or errback yielded."""
    unsettled: int = 0
    """Of these, such as are neither stored nor rejected."""
    rejected: int = 0
    """Of these, such as were rejected with a written reason."""
    new: int = 0
    """Of these, such as were stored and not known before."""

    @contextmanager
    def handling(self, item: Any, page: Any) -> Iterator[None]:
        """While the pipelines handle an item that its callback or errback yielded for that answer or failure."""
        receipt = Receipt(item, page)
        self.records += receipt.total
        self.unsettled += receipt.total
        try:
            with receipt.under_way():
                yield
        finally:
            self.unsettled -= receipt.total - len(receipt.open)
            self.rejected += receipt.rejected
            self.new += receipt.new
            self.given_back = self.given_back or receipt.interrupted

    def fate(self) -> Operation:
        """What the frontier is told when nothing more will happen to the request here."""
        if self.given_back:
            return Release(self.id)
        if self.error is not None:
            return Dead(self.id, Outcome.INVALID, self.error)
        if self.verdict is not None and not self.answered:
            reason = self.verdict.reason if self.items else self.verdict.told()  # items are counted by their reasons
            if self.part:
                reason = f"{self.part}: {self.verdict.outcome}: {reason}"
            if not policy_of(load_sites().named(self.site), self.verdict.outcome).dead:
                return Done(self.id, self.verdict.outcome, self.rejected, self._stored, reason, self.new)
            end = Skip if self.verdict.outcome is Outcome.POLICY_DENIED else Dead
            return end(self.id, self.verdict.outcome, reason)
        if self.exhausted or self.answered:
            return Done(self.id, rejected=self.rejected, records=self._stored, new=self.new)
        return Dead(self.id, Outcome.INVALID, "it ended without an answer and without an error")

    @property
    def _stored(self) -> int:
        return self.records - self.unsettled - self.rejected

    def failed_by(self, error: BaseException) -> None:
        """Notes an exception of a callback, an errback or an item pipeline."""
        if isinstance(error, (CloseSpider, RunEnding)):
            self.given_back = True
        else:
            self.error = f"{type(error).__name__}: {mask(str(error), MOST_REASON)}{_place_of(error)}"

    def not_stored(self) -> NotStoredError:
        """What is wrong with its records, in words."""
        return NotStoredError(f"{self.unsettled:,} of {self.records:,} records were neither stored nor rejected")


class WatchedErrback:
    """Stands before the errback of a leased request: sees each failure, also when there is no errback."""

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
        if isinstance(error, RunEnding):  # nothing that a spider is told of
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
            warnings.warn(message, ScrapyDeprecationWarning, stacklevel=2)  # as Scrapy, which is given a coroutine
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
    """A copy of a request that is under way, as a callback yields it again: its lease stays with the page."""
    return request.copy() if LEASE in request.meta else request


def fresh(request: Request) -> Request:
    """A request that a callback yielded, without what it may have copied from the one it came from."""
    for name in _OURS:
        request.meta.pop(name, None)
    forget_answer(request)
    if isinstance(request.errback, WatchedErrback):
        request.errback = request.errback.errback
    return request


def _place_of(error: BaseException) -> str:
    """Where in a file the exception was raised, for the person who mends it."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"

"""Spider middleware: notes the events of a leased request, and checks the requests that a callback yields."""

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.exceptions import PageFailed, ParseError
from harvester.frontier.attempts import attempts_of
from harvester.frontier.codec import UnserialisableRequestError
from harvester.frontier.in_flight import InFlight, apart
from harvester.frontier.scheduler import Scheduler, check_frontier
from harvester.identities.chains import end_chain
from harvester.items import LINK, Batch, Reject
from harvester.items.receipts import begin_page
from harvester.outcomes import Outcome, Verdict

logger = logging.getLogger(__name__)

MOST_WRITTEN = 100
"""Maximum number of a page's unqueueable requests that are written to the rejects. Further ones are only counted."""
MOST_KEPT = 1000
"""Maximum number of characters of their URLs."""


class LeaseMiddleware:
    """Nearest the engine: a callback has finished when all its output has passed the other middlewares.

    A callback that yields faster than the frontier accepts waits here, so that memory stays constant. A request that
    cannot be queued is rejected, and the rest of the page continues.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._attempts = attempts_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        check_frontier(crawler)
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in start:
            if isinstance(output, Request):
                with suppress(UnserialisableRequestError):  # the scheduler refuses it, and the others continue
                    self._scheduler.prepare(output, rooted=True)
                await self._scheduler.room()
            yield output

    def process_spider_input(self, response: Response) -> None:
        """Begins the page, as the first spider middleware. The output of its errback then also comes here."""
        lease = self._scheduler.lease_of(response.request)
        begin_page(response, lease.records if lease else None)
        if lease:
            lease.delivered = True

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        lease = self._scheduler.lease_of(response.request)
        refused = 0
        try:
            async for output in result:
                if isinstance(output, Request):
                    output = apart(output)
                    try:
                        self._scheduler.prepare(output, lease)
                    except UnserialisableRequestError as error:
                        refused += 1
                        self._scheduler.note_refused(output, error)
                        if refused <= MOST_WRITTEN:
                            yield _rejected(output, error, response)
                        continue
                    await self._scheduler.room()
                yield output
        except Exception as error:
            self._note(response, lease, error)
            raise
        if lease and not (lease.moved or lease.verdict):  # else its callback raised PageFailed
            lease.exhausted = True
            self._attempts.page_read(response)

    def process_spider_exception(self, response: Response, exception: Exception) -> Iterable[Any] | None:
        """Handles an exception of a callback. Output that it yielded before continues."""
        lease = self._scheduler.lease_of(response.request)
        if lease is None or not isinstance(exception, (PageFailed, ParseError)):
            self._note(response, lease, exception)
            return None
        follows = self._attempts.page_failed(response, exception)
        if isinstance(follows, Request):
            self._scheduler.enqueue_request(follows)
        else:
            lease.verdict = follows
            if response.request:
                end_chain(self._crawler, response.request)
        return ()

    def _note(self, response: Response, lease: InFlight | None, error: Exception) -> None:
        if lease is None or lease.error is not None or lease.given_back:
            return
        lease.failed_by(error)
        if lease.error is not None:
            self._attempts.page_read(response, Verdict(Outcome.INVALID, lease.error, rule="program"))

    @property
    def _scheduler(self) -> Scheduler:
        assert self._crawler.engine
        scheduler = self._crawler.engine.scheduler
        assert isinstance(scheduler, Scheduler)
        return scheduler


def _rejected(request: Request, error: UnserialisableRequestError, response: Response) -> Batch:
    url = request.url[:MOST_KEPT]
    return Batch([], (Reject(LINK, str(error), url, b"", response.url[:MOST_KEPT]),))

"""Downloader middleware: gives every attempt of a request one outcome, whose policy decides on a retry."""

import logging
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from harvester.frontier.attempts import attempts_of, verdict_of_page
from harvester.internal_meta import KNOWN_VERDICT, LEASE, MEDIA
from harvester.masking import mask
from harvester.outcomes import (
    OK,
    Outcome,
    RequestFailed,
    Verdict,
    classify_exception,
    give_verdict,
    verdict_of,
)
from harvester.shutdown import RunEnding

logger = logging.getLogger(__name__)


class OutcomeMiddleware:
    """Replaces Scrapy's RetryMiddleware: a project's middlewares before it see only final results.

    A result is the response or exception of the last attempt. After they have seen it, HttpErrorMiddleware passes a
    response without a page to the errback; an exception reaches the errback directly. Both carry the verdict.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._stats = crawler.stats
        self._attempts = attempts_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        self._attempts.note_answer(request)
        if _reads_statuses(request):
            return response
        verdict = _known(request) or verdict_of_page(request, response)
        is_usual = 200 <= response.status < 300
        if verdict.outcome is Outcome.OK:
            if not request.meta.get(MEDIA):
                self._stats.inc_value("harvester/pages")
            if LEASE not in request.meta or not is_usual:  # else its callback takes part in the decision
                self._attempts.tell(request, OK, response)
            if not is_usual:
                self._attempts.note_page(response)
            return response
        advices = self._attempts.tell(request, verdict, response)
        return await self._attempts.retry(request, verdict, response, advices) or response

    async def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if type(exception) is IgnoreRequest:  # raised by a foreign middleware, not by a site
            return None
        return await self._failed(request, exception)

    async def _failed(self, request: Request, exception: Exception) -> Request | None:
        if isinstance(exception, RunEnding) or _reads_statuses(request):
            return None
        if isinstance(exception, RequestFailed):  # from another middleware, which knows that a retry is useless
            self._attempts.tell(request, exception.verdict, None)
            return None
        verdict, advice = _known(request) or classify_exception(exception), None
        if verdict.outcome is Outcome.LOCAL:
            verdict, advice = self._attempts.excuse(request, exception, verdict)
        advices = self._attempts.tell(request, verdict, None, advice)
        return await self._attempts.retry(request, verdict, exception, advices)

    async def answer_failed(self, request: Request, error: Exception) -> Request | None:
        """Returns the retry of a request whose response another middleware could not use, or None."""
        self._attempts.note_answer(request)
        return await self._failed(request, error)


async def failed_on_its_way_back(
    crawler: Crawler, request: Request, error: Exception, cause: Exception | None = None
) -> Request:
    """Handles an exception of a `process_response`, which Scrapy passes to no other middleware.

    Returns the retry, or raises `cause`, Scrapy's own exception for it, if there is one. Requests that read statuses
    themselves always get `error`.
    """
    outcomes = crawler.get_downloader_middleware(OutcomeMiddleware)
    again = await outcomes.answer_failed(request, error) if outcomes else None
    if again is not None:
        return again
    if cause is None or _reads_statuses(request):
        raise error
    give_verdict(cause, verdict_of(error), getattr(error, "tries", 1))
    raise cause


def _reads_statuses(request: Request) -> bool:
    """Returns True if the request belongs to harvester and reads statuses itself: robots.txt or a login."""
    return bool(request.meta.get("dont_retry")) and LEASE not in request.meta


def _known(request: Request) -> Verdict | None:
    """Returns the verdict that another middleware has set, if any."""
    known = request.meta.pop(KNOWN_VERDICT, None)
    if not known:
        return None
    outcome, reason, *rule = known
    return Verdict(Outcome(outcome), mask(reason), rule=rule[0] if rule else "middleware")

"""Downloader middleware: every request gets one outcome; what follows is read from its policy."""

import logging
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from harvester.browser.render_options import captured_of, render_options_of
from harvester.frontier.attempts import attempts_of
from harvester.masking import mask
from harvester.meta import KNOWN_VERDICT, LEASE, MEDIA, NEXT_TRY
from harvester.outcomes import OK, AnswerRefused, Outcome, RequestFailed, Verdict, classify, classify_exception
from harvester.shutdown import RunEnding
from harvester.sites import load_sites

logger = logging.getLogger(__name__)


class OutcomeMiddleware:
    """Callbacks see answers with outcome ok; errbacks see a RequestFailed; retries happen in between.

    Callbacks also see the statuses for which they ask as in Scrapy: handle_httpstatus_list and the like.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._stats = crawler.stats
        settings = crawler.settings
        self._wants_all = settings.getbool("HTTPERROR_ALLOW_ALL")
        self._wanted = getattr(crawler.spider, "handle_httpstatus_list", settings.getlist("HTTPERROR_ALLOWED_CODES"))
        self._attempts = attempts_of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        self._attempts.note_answer(request)
        if _reads_statuses(request):
            return response
        verdict = _known(request) or _judged(request, response)
        if verdict.outcome is Outcome.OK:
            if not request.meta.get(MEDIA):
                self._stats.inc_value("harvester/pages")
            if LEASE not in request.meta or not 200 <= response.status < 300:  # else its callback has a say in it
                self._attempts.tell(request, OK, response)
            return response
        self._attempts.tell(request, verdict, response)
        is_wanted = self._is_wanted(request, response)
        if is_wanted and LEASE in request.meta:
            request.meta.pop(NEXT_TRY, None)
            return response
        try:
            return await self._attempts.follow(request, verdict, response)
        except AnswerRefused:
            if is_wanted:  # by a pipeline, as for files: it is given the last answer
                return response
            raise

    def _is_wanted(self, request: Request, response: Response) -> bool:
        """Whether its callback reads this status itself. What a spider says of all holds for requests of its own."""
        meta = request.meta
        if 200 <= response.status < 300:
            return False
        if "handle_httpstatus_all" in meta or "handle_httpstatus_list" in meta:
            return bool(meta.get("handle_httpstatus_all")) or response.status in meta.get("handle_httpstatus_list", ())
        return LEASE in meta and (self._wants_all or response.status in self._wanted)

    async def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if type(exception) is IgnoreRequest:  # somebody else's middleware has said it, and no site
            return None
        return await self._failed(request, exception)

    async def _failed(self, request: Request, exception: Exception) -> Request | None:
        if isinstance(exception, RunEnding) or _reads_statuses(request):
            return None
        if isinstance(exception, RequestFailed):  # of another middleware, which knows that there is no use in trying
            self._attempts.tell(request, exception.verdict, None)
            return None
        verdict = _known(request) or classify_exception(exception)
        if verdict.outcome is Outcome.LOCAL:
            self._attempts.excuse(request, exception, verdict)
        self._attempts.tell(request, verdict, None)
        return await self._attempts.follow(request, verdict)

    async def answer_failed(self, request: Request, error: Exception) -> Request | None:
        """What follows from an answer of which another middleware could make nothing."""
        self._attempts.note_answer(request)
        return await self._failed(request, error)


async def failed_on_its_way_back(crawler: Crawler, request: Request, error: Exception) -> Request:
    """What follows from an exception of a `process_response`, which Scrapy tells to no other middleware.

    The next try, or raises: RequestFailed, or the error itself to those who read statuses themselves.
    """
    outcomes = crawler.get_downloader_middleware(OutcomeMiddleware)
    again = await outcomes.answer_failed(request, error) if outcomes else None
    if again is None:
        raise error
    return again


def _reads_statuses(request: Request) -> bool:
    """Whether it is for one of ours who does that: for robots.txt, or a login. Of others `dont_retry` says no more."""
    return bool(request.meta.get("dont_retry")) and LEASE not in request.meta


def _known(request: Request) -> Verdict | None:
    """The verdict of a middleware that knows better."""
    known = request.meta.pop(KNOWN_VERDICT, None)
    return Verdict(Outcome(known[0]), mask(known[1]), rule="middleware") if known else None


def _judged(request: Request, response: Response) -> Verdict:
    """The verdict on the answer; on what its page captured, too, when it is wished so."""
    site = load_sites().of(request.url)
    verdict = classify(response, request, site.outcomes.own)
    captured = captured_of(response)
    if not captured or verdict.outcome is not Outcome.OK or not render_options_of(request, site).judge_captured:
        return verdict
    last = {answer.url: answer for answer in captured}  # a page may ask again by itself for what failed
    verdicts = (classify(answer, answer.request, load_sites().of(answer.url).outcomes.own) for answer in last.values())
    return next((verdict for verdict in verdicts if verdict.outcome is not Outcome.OK), OK)

"""Downloader middleware: every request gets one outcome; what follows is read from its policy."""

import logging
import random
import time
from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector

from harvester.browser.render_options import captured_of, render_options_of
from harvester.download.addresses import host_of
from harvester.exceptions import LocalFault, NotStoredError
from harvester.frontier.leases import LEASE, LOCAL_TRIES, NOT_BEFORE, TRIES, WHY
from harvester.masking import mask
from harvester.outcomes import OK, Outcome, RequestFailed, Verdict, classify, classify_exception, classify_page
from harvester.shutdown import RunEnding, pause
from harvester.signals import KNOWN_VERDICT, NEXT_TRY, NextTry, outcome_told
from harvester.sites import load_sites, policy_of

logger = logging.getLogger(__name__)

MEDIA = "harvester_media"
"""Key in Request.meta: this request is for a picture. Pictures are counted by their pipeline."""

MOST_HOSTS = 5_000
"""Hosts whose failures are counted apart, and that are remembered to have answered."""
OTHERS = "others"
"""What further hosts are counted as."""


class OutcomeMiddleware:
    """Callbacks see answers with outcome ok; errbacks see a RequestFailed; retries happen in between.

    HARVESTER_BACKOFF_FACTOR (default 1.0) multiplies the time before each retry; for tests of retries.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._answered: set[str] = set()
        self._factor = crawler.settings.getfloat("HARVESTER_BACKOFF_FACTOR", 1.0)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        self._note_answer(request)
        if request.meta.get("dont_retry"):  # for those who read statuses themselves
            return response
        verdict = _known(request) or _judged(request, response)
        if verdict.outcome is Outcome.OK:
            if not request.meta.get(MEDIA):
                self._stats.inc_value("harvester/pages")
            if LEASE not in request.meta:  # else its callback has a say in it
                self.tell(request, OK, response)
            return response
        self.tell(request, verdict, response)
        return await self._follow(request, verdict)

    async def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if isinstance(exception, RunEnding) or request.meta.get("dont_retry"):
            return None
        if isinstance(exception, RequestFailed):  # of another middleware, which knows that there is no use in trying
            self.tell(request, exception.verdict, None)
            return None
        verdict = _known(request) or classify_exception(exception)
        if verdict.outcome is Outcome.LOCAL:
            self._excuse(request, exception, verdict)
        self.tell(request, verdict, None)
        return await self._follow(request, verdict)

    async def answer_failed(self, request: Request, error: Exception) -> Request | None:
        """What follows from an answer of which another middleware could make nothing."""
        self._note_answer(request)
        return await self.process_exception(request, error)

    def _note_answer(self, request: Request) -> None:
        if len(self._answered) >= MOST_HOSTS:
            self._answered.clear()
        self._answered.add(host_of(request.url))

    def tell(self, request: Request, verdict: Verdict, response: Response | None) -> None:
        """Tells the outcome of a try to all who judge by it, and counts it, unless one of them says that it is none."""
        self._crawler.signals.send_catch_log(outcome_told, request=request, verdict=verdict, response=response)
        if not request.meta.get(MEDIA) and request.meta.get(NEXT_TRY) != NextTry.FREE:
            count(self._stats, verdict, request.url)

    def _excuse(self, request: Request, exception: Exception, verdict: Verdict) -> None:
        """A fault of this machine is no try, until the machine was often enough well for others."""
        counts = exception.counts if isinstance(exception, LocalFault) else True
        tries = request.meta.get(LOCAL_TRIES, 0) + counts
        request.meta[LOCAL_TRIES] = tries
        most = policy_of(load_sites().of(request.url), verdict.outcome).retries
        request.meta[NEXT_TRY] = NextTry.NONE.value if tries > most else NextTry.FREE.value

    # What a callback says of its page; only requests of the frontier are tried again for it ------------------

    def page_read(self, response: Response, verdict: Verdict = OK) -> None:
        """The callback has come to its end."""
        assert response.request
        if not response.request.meta.get("dont_retry"):
            self.tell(response.request, verdict, response)

    def page_failed(self, response: Response, error: Exception) -> Request | Verdict:
        """The callback raised PageFailed or ParseError: the request that follows, or the verdict that it ends with."""
        request = response.request
        assert request
        verdict = classify_page(response, error)
        self.tell(request, verdict, response)
        return self._again(request, verdict) or verdict

    def not_stored(self, request: Request, error: NotStoredError) -> Request | Verdict:
        """The page was read and its records were lost on their way: what follows. Its try was told of before."""
        verdict = classify_exception(error)
        count(self._stats, verdict, request.url)
        return self._again(request, verdict) or verdict

    # What follows from an outcome ---------------------------------------------------------------------------

    async def _follow(self, request: Request, verdict: Verdict) -> Request:
        again = self._again(request, verdict)
        if again is None:
            raise RequestFailed(verdict, request.meta.get(TRIES, 0) + 1)
        if LEASE not in request.meta:
            await pause(self._crawler, again.meta.pop(NOT_BEFORE) - time.time())
            del again.meta[WHY]
        return again

    def _again(self, request: Request, verdict: Verdict) -> Request | None:
        """The next try, with the time until which it waits; None when there is none."""
        outcome = verdict.outcome
        host = host_of(request.url)
        policy = policy_of(load_sites().of(request.url), outcome)
        tries = request.meta.get(TRIES, 0) + 1
        retries = policy.retries
        if outcome is Outcome.NETWORK and host not in self._answered:
            retries = min(retries, 2)  # a host that never answered is probably not there
        other_way = request.meta.pop(NEXT_TRY, None)
        if other_way == NextTry.NONE or (tries > retries and other_way is None):
            return None
        if other_way == NextTry.FREE:
            tries -= 1
        logger.debug("%s from %s, try %d of %d: %s", outcome, host, tries, retries + 1, verdict.reason)
        backoff_s = min(policy.backoff_s * 2 ** max(0, tries - 1), policy.most_backoff_s) * random.uniform(0.5, 1.0)
        again = request.replace(dont_filter=True, priority=request.priority + 10)
        again.meta[TRIES] = tries
        again.meta[NOT_BEFORE] = time.time() + backoff_s * self._factor
        again.meta[WHY] = (outcome, verdict.reason, other_way != NextTry.FREE)
        return again


async def failed_on_its_way_back(crawler: Crawler, request: Request, error: Exception) -> Request:
    """What follows from an exception of a `process_response`, which Scrapy tells to no other middleware.

    The next try, or raises: RequestFailed, or the error itself to those who read statuses themselves.
    """
    outcomes = crawler.get_downloader_middleware(OutcomeMiddleware)
    again = await outcomes.answer_failed(request, error) if outcomes else None
    if again is None:
        raise error
    return again


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


def count(stats: StatsCollector, verdict: Verdict, url: str) -> None:
    """Counts an outcome, a failure by its host; of failures that no rule knows, the first of a kind is logged."""
    outcome = verdict.outcome
    stats.inc_value(f"harvester/outcomes/{outcome}")
    if outcome is Outcome.OK:
        return
    host = _counted(stats, outcome, host_of(url))
    if policy_of(load_sites().of(url), outcome).error:
        stats.inc_value(f"harvester/errors/{outcome}/{host}")
        stats.set_value(f"harvester/said/{outcome}/{host}", verdict.reason[:200])
    if not verdict.known:
        stats.inc_value("harvester/unclassified")
        kind = f"harvester/unclassified/{verdict.rule}/{host}"
        stats.inc_value(kind)
        if stats.get_value(kind) == 1:
            logger.warning("No rule knows this failure of %s: %s", host, verdict.told())


def _counted(stats: StatsCollector, outcome: Outcome, host: str) -> str:
    """The host by which a failure is counted: a page may name hosts without end."""
    if stats.get_value(f"harvester/errors/{outcome}/{host}") is None:
        if stats.get_value("harvester/failing_hosts", 0) >= MOST_HOSTS:
            return OTHERS
        stats.inc_value("harvester/failing_hosts")
    return host

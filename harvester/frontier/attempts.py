"""What follows from the outcome of one attempt: it is told to all who judge by it, counted, and perhaps tried again."""

import logging
import random
import time
from collections.abc import Collection
from math import inf
from typing import NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, DownloadConnectionRefusedError
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector
from scrapy.utils.python import global_object_name
from scrapy.utils.response import response_status_message

from harvester.components import get_component
from harvester.download.addresses import host_of
from harvester.download.local_health import waits_out_faults
from harvester.exceptions import LocalFault, NotStoredError
from harvester.fetch.decide import Advice, AttemptResult, decide, strongest
from harvester.fetch.steps import get_steps
from harvester.frontier.retries import NEVER, ProjectRetries
from harvester.meta import (
    ATTEMPTS,
    LEASE,
    LOCAL_ATTEMPTS,
    MEDIA,
    NOT_BEFORE,
    RETRY_REASON,
    UNREACHED_SINCE,
)
from harvester.outcomes import OK, Outcome, Verdict, classify_exception, classify_page, give_verdict
from harvester.outcomes.classifier import UNKNOWN_STATUS
from harvester.shutdown import pause
from harvester.sites import load_sites, policy_of

logger = logging.getLogger(__name__)

MOST_HOSTS = 5_000
"""Hosts whose failures are counted apart, and that are remembered to have answered."""
OTHERS = "others"
"""What further hosts are counted as."""
UNREACHED_S = 30.0
"""How long a spider that was written for Scrapy waits for a host that has no address or a closed port."""
_READ_AS_IN_SCRAPY = (UNKNOWN_STATUS, "no-content")
"""Rules for answers like 202 and 204, which are no pages. A project's callbacks read them, as in Scrapy."""
_UNREACHED = (CannotResolveHostError, DownloadConnectionRefusedError)


def attempts_of(crawler: Crawler) -> "Attempts":
    """Those of the crawl."""
    return get_component(crawler, Attempts, lambda: Attempts(crawler))


class Attempts:
    """The attempts of all requests of one crawl.

    HARVESTER_BACKOFF_FACTOR (default 1.0) multiplies the time before each retry; for tests of retries.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._answered: set[str] = set()
        self._factor = crawler.settings.getfloat("HARVESTER_BACKOFF_FACTOR", 1.0)
        self._project = ProjectRetries(crawler.settings)
        self._allows_all = crawler.settings.getbool("HTTPERROR_ALLOW_ALL")
        allowed = crawler.settings.getlist("HTTPERROR_ALLOWED_CODES")
        self._allowed: Collection[int] = getattr(crawler.spider, "handle_httpstatus_list", allowed)
        self._is_patient = waits_out_faults(crawler)
        self._steps = get_steps(crawler)
        self._final: WeakKeyDictionary[Response, Final] = WeakKeyDictionary()

    def note_answer(self, request: Request) -> None:
        """The host of the request is there."""
        if len(self._answered) >= MOST_HOSTS:
            self._answered.clear()
        self._answered.add(host_of(request.url))

    def tell(
        self, request: Request, verdict: Verdict, response: Response | None, advice: Advice | None = None
    ) -> list[Advice]:
        """Has all steps judge an attempt, and counts it unless one of them advises that it does not count.

        Returns the advice of the steps, and the given one, for the decision that follows.
        """
        advices = [*([advice] if advice else []), *self._steps.judge(request, verdict, response)]
        if not request.meta.get(MEDIA) and strongest(advices) is not Advice.FREE:
            count(self._stats, verdict, request.url)
        return advices

    def excuse(self, request: Request, exception: Exception, verdict: Verdict) -> tuple[Verdict, Advice | None]:
        """Returns the verdict that counts for a fault of this machine, and the advice for the next attempt.

        Such a fault is no try, until the machine was often enough well for others. When its spider has waited for
        long enough, the verdict is that on the exception itself.
        """
        fault = LocalFault.behind(exception)
        if fault is not exception and time.time() > self._given_up_at(request, exception):
            del exception.local_fault  # type: ignore[attr-defined]
            return classify_exception(exception), None
        counts = fault.counts if fault else True
        tries = request.meta.get(LOCAL_ATTEMPTS, 0) + counts
        request.meta[LOCAL_ATTEMPTS] = tries
        most = policy_of(load_sites().of(request.url), verdict.outcome).retries
        return verdict, Advice.NONE if tries > most else Advice.FREE

    # What a callback says of its page; only requests of the frontier are tried again for it ------------------

    def page_read(self, response: Response, verdict: Verdict = OK) -> None:
        """The callback has come to its end. An answer of which it reads the status itself was told of before."""
        assert response.request
        is_told = verdict is OK and not 200 <= response.status < 300
        if not is_told:
            self.tell(response.request, verdict, response)

    def page_failed(self, response: Response, error: Exception) -> Request | Verdict:
        """The callback raised PageFailed or ParseError: the request that follows, or the verdict that it ends with."""
        request = response.request
        assert request
        verdict = classify_page(response, error)
        advices = self.tell(request, verdict, response)
        return self._next(request, verdict, advices) or verdict

    def not_stored(self, request: Request, error: NotStoredError) -> Request | Verdict:
        """The page was read and its records were lost on their way: what follows. Its try was told of before."""
        verdict = classify_exception(error)
        count(self._stats, verdict, request.url)
        return self._next(request, verdict, ()) or verdict

    # What follows from an outcome ---------------------------------------------------------------------------

    async def retry(
        self, request: Request, verdict: Verdict, failed: Response | Exception, advices: Collection[Advice]
    ) -> Request | None:
        """Returns the next attempt, when its time has come or to wait in the frontier; None when what failed is final.

        `advices`: what `tell` has returned.
        """
        retries = policy_of(load_sites().of(request.url), verdict.outcome).retries
        bound = self._project.bound(request, failed, retries)
        until = self._given_up_at(request, failed) if bound is None else inf
        again = self._next(request, verdict, advices, bound)
        if again is None or again.meta[NOT_BEFORE] > until:
            tries = request.meta.get(ATTEMPTS, 0) + 1
            if (retries if bound is None else bound != NEVER) and not request.meta.get("dont_retry"):
                self._stats.inc_value("retry/max_reached")
                logger.debug("Gave up retrying %s (failed %d times): %s", request, tries, verdict.reason)
            self._end(failed, Final(verdict, tries))
            return None
        if again.meta[RETRY_REASON][2]:
            self._stats.inc_value("retry/count")
            self._stats.inc_value(f"retry/reason_count/{_as_scrapy_says(failed)}")
        if LEASE not in request.meta:
            await pause(self._crawler, again.meta.pop(NOT_BEFORE) - time.time())
            del again.meta[RETRY_REASON]
        return again

    def final(self, response: Response) -> "Final | None":
        """What was judged of an answer for which there is no further try; None of a page, and of what was not judged.

        An answer with another status than pages have is noted also when the rules of its site call it one.
        """
        return self._final.get(response)

    def is_refused(self, request: Request, response: Response) -> bool:
        """Whether the answer is no page, and nobody has asked for its status, as one does in Scrapy."""
        final, meta = self._final.get(response), request.meta
        if final is None or final.verdict.outcome is Outcome.OK:
            return False
        if 200 <= response.status < 300:
            return self._is_patient or final.verdict.rule not in _READ_AS_IN_SCRAPY
        if meta.get("handle_httpstatus_all"):
            return False
        if "handle_httpstatus_list" in meta:
            return response.status not in meta["handle_httpstatus_list"]
        return not (self._allows_all or response.status in self._allowed)

    def note_page(self, response: Response) -> None:
        """The rules of its site call it a page, whatever its status."""
        self._final[response] = Final(OK, 1)

    def _end(self, failed: Response | Exception, final: "Final") -> None:
        if isinstance(failed, Response):
            self._final[failed] = final
        else:
            give_verdict(failed, *final)

    def _given_up_at(self, request: Request, failed: Response | Exception) -> float:
        """When nobody waits any longer for a host that cannot be reached, in seconds of the epoch."""
        if self._is_patient or not isinstance(failed, _UNREACHED):
            return inf
        since: float = request.meta.setdefault(UNREACHED_SINCE, time.time())
        return since + UNREACHED_S

    def _next(
        self, request: Request, verdict: Verdict, advices: Collection[Advice], bound: int | None = None
    ) -> Request | None:
        """Returns the next attempt, with the time until which it waits; None when there is none.

        `bound`: the retries that the project's settings allow, where they say so.
        """
        attempt = AttemptResult(
            verdict.outcome,
            tries=request.meta.get(ATTEMPTS, 0) + 1,
            retried=request.meta.get("retry_times", 0),
            max_retries=bound,
            host_answered=host_of(request.url) in self._answered,
            dont_retry=bool(request.meta.get("dont_retry")),
        )
        retry = decide(attempt, policy_of(load_sites().of(request.url), verdict.outcome), advices)
        if retry is None:
            return None
        logger.debug("Retrying %s (failed %d times): %s: %s", request, attempt.tries, verdict.outcome, verdict.reason)
        again = request.replace(dont_filter=True, priority=request.priority + self._project.adjustment(request))
        again.meta[ATTEMPTS] = attempt.tries if retry.is_counted else attempt.tries - 1
        if retry.is_counted:
            again.meta["retry_times"] = attempt.retried + 1  # as Scrapy counts them, for get_retry_request
        again.meta[NOT_BEFORE] = time.time() + retry.backoff_s * random.uniform(0.5, 1.0) * self._factor
        again.meta[RETRY_REASON] = (verdict.outcome, verdict.reason, retry.is_counted)
        return again


class Final(NamedTuple):
    """What a request came to when it is tried no more."""

    verdict: Verdict
    tries: int


def _as_scrapy_says(failed: Response | Exception) -> str:
    """Why a request is tried again, as Scrapy's stats name it."""
    if isinstance(failed, Response):
        return response_status_message(failed.status)
    return global_object_name(type(failed))


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

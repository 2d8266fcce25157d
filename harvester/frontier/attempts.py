"""Handles the outcome of an attempt: reports it to all judges, counts it, and decides whether to retry."""

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

from harvester.browser.render_options import captured_of, render_options_of
from harvester.components import get_component
from harvester.download.addresses import host_of
from harvester.download.local_health import waits_out_faults
from harvester.exceptions import LocalFault, NotStoredError
from harvester.fetch.decide import Advice, AttemptResult, decide, strongest
from harvester.fetch.steps import get_steps
from harvester.frontier.retries import NEVER, ProjectRetries
from harvester.internal_meta import ATTEMPTS, LEASE, LOCAL_ATTEMPTS, MEDIA, NOT_BEFORE, RETRY_REASON, UNREACHED_SINCE
from harvester.outcomes import OK, Outcome, Verdict, classify, classify_exception, classify_page, give_verdict
from harvester.outcomes.classifier import UNKNOWN_STATUS
from harvester.shutdown import pause
from harvester.sites import load_sites, policy_of

logger = logging.getLogger(__name__)

MOST_HOSTS = 5_000
"""Maximum number of hosts whose failures are counted separately, and of hosts remembered because they answered."""
OTHERS = "others"
"""The name that counts the failures of further hosts."""
UNREACHED_S = 30.0
"""Seconds that a spider written for Scrapy waits for a host that has no address or whose port is closed."""
_READ_AS_IN_SCRAPY = (UNKNOWN_STATUS, "no-content")
"""Rules for statuses like 202 and 204, which carry no page. Callbacks of a project receive them, as in Scrapy."""
_UNREACHED = (CannotResolveHostError, DownloadConnectionRefusedError)


def attempts_of(crawler: Crawler) -> "Attempts":
    """Returns the Attempts of the crawl."""
    return get_component(crawler, Attempts, lambda: Attempts(crawler))


class Attempts:
    """The attempts of all requests in a crawl.

    HARVESTER_BACKOFF_FACTOR (default 1.0) multiplies the delay before each retry; meant for tests of retries.
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
        """Notes that the host of the request has answered, so it exists."""
        if len(self._answered) >= MOST_HOSTS:
            self._answered.clear()
        self._answered.add(host_of(request.url))

    def tell(
        self, request: Request, verdict: Verdict, response: Response | None, advice: Advice | None = None
    ) -> list[Advice]:
        """Reports an attempt to all steps, and counts it unless their advice makes it free.

        Returns the advice of the steps, with the given advice, for the decision that follows.
        """
        advices = [*([advice] if advice else []), *self._steps.judge(request, verdict, response)]
        if not request.meta.get(MEDIA) and strongest(advices) is not Advice.FREE:
            count(self._stats, verdict, request.url)
        return advices

    def excuse(self, request: Request, exception: Exception, verdict: Verdict) -> tuple[Verdict, Advice | None]:
        """Returns the verdict for a fault of this machine, and the advice for the next attempt.

        Such a fault spends no attempt, unless the machine worked often enough for other requests. Once the spider has
        waited long enough, the verdict is the one for the exception itself.
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

    # Verdicts of a callback on its page; only requests of the frontier are retried for them -------------------

    def page_read(self, response: Response, verdict: Verdict = OK) -> None:
        """Reports a page whose callback has finished. A response without a success status was reported before."""
        assert response.request
        is_told = verdict is OK and not 200 <= response.status < 300
        if not is_told:
            self.tell(response.request, verdict, response)

    def page_failed(self, response: Response, error: Exception) -> Request | Verdict:
        """Returns the retry, or the final verdict, after the callback raised PageFailed or ParseError."""
        request = response.request
        assert request
        verdict = classify_page(response, error)
        advices = self.tell(request, verdict, response)
        return self._next(request, verdict, advices) or verdict

    def not_stored(self, request: Request, error: NotStoredError) -> Request | Verdict:
        """Returns the retry or the final verdict of a page whose records were lost. Its attempt was reported before."""
        verdict = classify_exception(error)
        count(self._stats, verdict, request.url)
        return self._next(request, verdict, ()) or verdict

    # Decisions after an outcome -----------------------------------------------------------------------------

    async def retry(
        self, request: Request, verdict: Verdict, failed: Response | Exception, advices: Collection[Advice]
    ) -> Request | None:
        """Returns the next attempt, when it is due or to wait in the frontier; None if the failure is final.

        `advices`: the result of `tell`.
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
        """Returns the verdict on a response that is not retried; None for a page, and for an unjudged response.

        A response without a success status is also noted when the site's rules call it a page.
        """
        return self._final.get(response)

    def is_refused(self, request: Request, response: Response) -> bool:
        """Returns True if the response has no page, and neither request nor spider wants its status, as in Scrapy."""
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
        """Notes that the rules of the site call the response a page, whatever its status."""
        self._final[response] = Final(OK, 1)

    def _end(self, failed: Response | Exception, final: "Final") -> None:
        if isinstance(failed, Response):
            self._final[failed] = final
        else:
            give_verdict(failed, *final)

    def _given_up_at(self, request: Request, failed: Response | Exception) -> float:
        """Returns until when to wait for a host that cannot be reached, in epoch seconds."""
        if self._is_patient or not isinstance(failed, _UNREACHED):
            return inf
        since: float = request.meta.setdefault(UNREACHED_SINCE, time.time())
        return since + UNREACHED_S

    def _next(
        self, request: Request, verdict: Verdict, advices: Collection[Advice], bound: int | None = None
    ) -> Request | None:
        """Returns the next attempt, with the time until which it waits; None if the failure is final.

        `bound`: number of retries that the project's settings allow; None: they set no number.
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
            again.meta["retry_times"] = attempt.retried + 1  # as Scrapy counts retries, for get_retry_request
        again.meta[NOT_BEFORE] = time.time() + retry.backoff_s * random.uniform(0.5, 1.0) * self._factor
        again.meta[RETRY_REASON] = (verdict.outcome, verdict.reason, retry.is_counted)
        return again


class Final(NamedTuple):
    """The verdict on a request that is not retried."""

    verdict: Verdict
    tries: int


def _as_scrapy_says(failed: Response | Exception) -> str:
    """Returns the reason of a retry, as Scrapy's stats name it."""
    if isinstance(failed, Response):
        return response_status_message(failed.status)
    return global_object_name(type(failed))


def count(stats: StatsCollector, verdict: Verdict, url: str) -> None:
    """Counts an outcome, and failures by host. Logs the first failure of a kind that no rule knows."""
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
    """Returns the host that a failure is counted for, or OTHERS: a page may name any number of hosts."""
    if stats.get_value(f"harvester/errors/{outcome}/{host}") is None:
        if stats.get_value("harvester/failing_hosts", 0) >= MOST_HOSTS:
            return OTHERS
        stats.inc_value("harvester/failing_hosts")
    return host


def verdict_of_page(request: Request, response: Response) -> Verdict:
    """Returns the verdict on the response; also on the responses that its page captured, if the site wants that."""
    site = load_sites().of(request.url)
    verdict = classify(response, request, site.outcomes.own)
    captured = captured_of(response)
    if not captured or verdict.outcome is not Outcome.OK or not render_options_of(request, site).judge_captured:
        return verdict
    last = {answer.url: answer for answer in captured}  # a page may itself repeat a failed request
    verdicts = (classify(answer, answer.request, load_sites().of(answer.url).outcomes.own) for answer in last.values())
    return next((verdict for verdict in verdicts if verdict.outcome is not Outcome.OK), OK)

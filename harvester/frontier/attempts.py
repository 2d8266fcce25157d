"""What follows from the outcome of one attempt: it is told to all who judge by it, counted, and perhaps tried again."""

import logging
import random
import time
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector

from harvester.download.addresses import host_of
from harvester.exceptions import LocalFault, NotStoredError
from harvester.meta import ATTEMPTS, LEASE, LOCAL_ATTEMPTS, MEDIA, NEXT_TRY, NOT_BEFORE, RETRY_REASON
from harvester.outcomes import OK, AnswerRefused, Outcome, RequestFailed, Verdict, classify_exception, classify_page
from harvester.shutdown import pause
from harvester.signals import NextTry, outcome_told
from harvester.sites import load_sites, policy_of

logger = logging.getLogger(__name__)

MOST_HOSTS = 5_000
"""Hosts whose failures are counted apart, and that are remembered to have answered."""
OTHERS = "others"
"""What further hosts are counted as."""

_made: WeakKeyDictionary[Crawler, "Attempts"] = WeakKeyDictionary()


def attempts_of(crawler: Crawler) -> "Attempts":
    """Those of the crawl."""
    if crawler not in _made:
        _made[crawler] = Attempts(crawler)
    return _made[crawler]


class Attempts:
    """The attempts of all requests of one crawl.

    HARVESTER_BACKOFF_FACTOR (default 1.0) multiplies the time before each retry; for tests of retries.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._answered: set[str] = set()
        self._factor = crawler.settings.getfloat("HARVESTER_BACKOFF_FACTOR", 1.0)

    def note_answer(self, request: Request) -> None:
        """The host of the request is there."""
        if len(self._answered) >= MOST_HOSTS:
            self._answered.clear()
        self._answered.add(host_of(request.url))

    def tell(self, request: Request, verdict: Verdict, response: Response | None) -> None:
        """Tells the outcome of a try to all who judge by it, and counts it, unless one of them says that it is none."""
        self._crawler.signals.send_catch_log(outcome_told, request=request, verdict=verdict, response=response)
        if not request.meta.get(MEDIA) and request.meta.get(NEXT_TRY) != NextTry.FREE:
            count(self._stats, verdict, request.url)

    def excuse(self, request: Request, exception: Exception, verdict: Verdict) -> None:
        """A fault of this machine is no try, until the machine was often enough well for others."""
        counts = exception.counts if isinstance(exception, LocalFault) else True
        tries = request.meta.get(LOCAL_ATTEMPTS, 0) + counts
        request.meta[LOCAL_ATTEMPTS] = tries
        most = policy_of(load_sites().of(request.url), verdict.outcome).retries
        request.meta[NEXT_TRY] = NextTry.NONE.value if tries > most else NextTry.FREE.value

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
        self.tell(request, verdict, response)
        return self._next(request, verdict) or verdict

    def not_stored(self, request: Request, error: NotStoredError) -> Request | Verdict:
        """The page was read and its records were lost on their way: what follows. Its try was told of before."""
        verdict = classify_exception(error)
        count(self._stats, verdict, request.url)
        return self._next(request, verdict) or verdict

    # What follows from an outcome ---------------------------------------------------------------------------

    async def follow(self, request: Request, verdict: Verdict, response: Response | None = None) -> Request:
        """The next attempt, when its time has come or to wait in the frontier. Raises RequestFailed."""
        again = self._next(request, verdict)
        if again is None:
            tries = request.meta.get(ATTEMPTS, 0) + 1
            raise AnswerRefused(verdict, tries, response) if response else RequestFailed(verdict, tries)
        if LEASE not in request.meta:
            await pause(self._crawler, again.meta.pop(NOT_BEFORE) - time.time())
            del again.meta[RETRY_REASON]
        return again

    def _next(self, request: Request, verdict: Verdict) -> Request | None:
        """The next attempt, with the time until which it waits; None when there is none."""
        outcome = verdict.outcome
        host = host_of(request.url)
        policy = policy_of(load_sites().of(request.url), outcome)
        tries = request.meta.get(ATTEMPTS, 0) + 1
        retries = policy.retries
        if outcome is Outcome.NETWORK and host not in self._answered:
            retries = min(retries, 2)  # a host that never answered is probably not there
        other_way = request.meta.pop(NEXT_TRY, None)
        is_last = tries > retries or request.meta.get("dont_retry")
        if other_way == NextTry.NONE or (is_last and other_way is None):
            return None
        if other_way == NextTry.FREE:
            tries -= 1
        logger.debug("%s from %s, try %d of %d: %s", outcome, host, tries, retries + 1, verdict.reason)
        backoff_s = min(policy.backoff_s * 2 ** max(0, tries - 1), policy.most_backoff_s) * random.uniform(0.5, 1.0)
        again = request.replace(dont_filter=True, priority=request.priority + 10)
        again.meta[ATTEMPTS] = tries
        again.meta[NOT_BEFORE] = time.time() + backoff_s * self._factor
        again.meta[RETRY_REASON] = (outcome, verdict.reason, other_way != NextTry.FREE)
        return again


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

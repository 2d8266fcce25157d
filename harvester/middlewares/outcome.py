"""Downloader middleware: every request gets one outcome; what follows is read from its policy."""

import logging
import random
import time
from typing import Self
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector

from harvester.ending import Stopped, pause
from harvester.frontier.leases import LEASE, NOT_BEFORE, TRIES, WHY
from harvester.outcomes import (
    OK,
    POLICIES,
    Outcome,
    RequestFailed,
    Verdict,
    classify_answer,
    classify_exception,
    policy_of,
)
from harvester.parsers.identity import parse_error
from harvester.signals import outcome_told
from harvester.sites import load_sites

logger = logging.getLogger(__name__)

MEDIA = "harvester_media"
"""Key in Request.meta: this request is for a picture. Pictures are counted by their pipeline."""


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
        self._answered.add(urlsplit(request.url).netloc)
        if request.meta.get("dont_retry"):  # for those who read statuses themselves
            return response
        verdict = classify(response)
        self._tell(request, verdict, response)
        if verdict is OK:
            if not request.meta.get(MEDIA):
                self._stats.inc_value("harvester/pages")
                self._stats.inc_value("harvester/outcomes/ok")
            return response
        return await self._follow(request, verdict)

    async def process_exception(self, request: Request, exception: Exception) -> Request | None:
        if isinstance(exception, (RequestFailed, Stopped)) or request.meta.get("dont_retry"):
            return None
        verdict = classify_exception(exception)
        self._tell(request, verdict, None)
        return await self._follow(request, verdict)

    def _tell(self, request: Request, verdict: Verdict, response: Response | None) -> None:
        self._crawler.signals.send_catch_log(outcome_told, request=request, verdict=verdict, response=response)

    async def _follow(self, request: Request, verdict: Verdict) -> Request:
        outcome = verdict.outcome
        host = urlsplit(request.url).netloc
        policy = policy_of(load_sites().of(request.url), outcome)
        if not request.meta.get(MEDIA):
            count(self._stats, verdict, request.url)
        tries = request.meta.get(TRIES, 0) + 1
        retries = policy.retries
        if outcome is Outcome.NETWORK and host not in self._answered:
            retries = min(retries, 2)  # a host that never answered is probably not there
        if tries > retries:
            raise RequestFailed(verdict, tries)
        logger.debug("%s from %s, try %d of %d: %s", outcome, host, tries, retries + 1, verdict.reason)
        backoff_s = min(policy.backoff_s * 2 ** (tries - 1), policy.most_backoff_s) * random.uniform(0.5, 1.0)
        again = request.replace(dont_filter=True, priority=request.priority + 10)
        again.meta[TRIES] = tries
        if LEASE in request.meta:
            again.meta[NOT_BEFORE] = time.time() + backoff_s * self._factor
            again.meta[WHY] = (outcome, verdict.reason, True)
        else:
            await pause(self._crawler, backoff_s * self._factor)
        return again


def classify(response: Response) -> Verdict:
    """The outcome of an answer, its body looked at as far as that takes."""
    if response.status == 200:
        if b"json" in (response.headers.get("Content-Type") or b""):
            end = response.body[-16:].rstrip()
            if not end.endswith((b"}", b"]")):
                return Verdict(Outcome.NETWORK, "the answer is cut short")
        elif "/xrpc/app.bsky." in response.url:
            return Verdict(Outcome.LAYOUT_CHANGED, "the answer is not JSON")
        return OK
    error = parse_error(response.body)
    if response.status == 404 and error is None and "/xrpc/" in response.url:
        return Verdict(Outcome.INVALID, "HTTP 404: there is no such call")
    return classify_answer(response.status, response.body, error)


def count(stats: StatsCollector, verdict: Verdict, url: str) -> None:
    """Counts an outcome that is not ok."""
    host = urlsplit(url).netloc
    stats.inc_value(f"harvester/outcomes/{verdict.outcome}")
    if POLICIES[verdict.outcome].error:
        stats.inc_value(f"harvester/errors/{verdict.outcome}/{host}")
        stats.set_value(f"harvester/said/{verdict.outcome}/{host}", verdict.reason[:200])
    if not verdict.known:
        stats.inc_value("harvester/unclassified")
        logger.warning("No rule knows this failure of %s: %s", host, verdict.reason)

"""Downloader middleware: fetches pages with stored records only if they changed (RFC 9110, section 13).

For requests with meta["conditional"], and for sites whose entry enables it. An ETag or Last-Modified is saved only
when the frontier has acknowledged that the page is done: its records are then confirmed, and the requests that it
yielded are queued. So a crash never makes a lost page look unchanged. Requests without a lease are sent without
conditions, since nothing reports when their work is safe.
"""

import logging
from functools import partial
from hashlib import sha256
from typing import Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.misc import load_object

from harvester.config import Config, load_config
from harvester.fetch.steps import JudgingStep, get_steps
from harvester.frontier.attempts import attempts_of
from harvester.frontier.scheduler import Scheduler
from harvester.internal_meta import CHANGED_FOR, LEASE, VALIDATED
from harvester.meta import CHANGED_LATER, CONDITIONAL
from harvester.outcomes import Outcome, Verdict
from harvester.outcomes.answer import CONDITIONS
from harvester.sites import load_sites
from harvester.stores.validators import Validators, validators_of

logger = logging.getLogger(__name__)


class ConditionalMiddleware:
    """Turns status 304 into the outcome `unchanged`: the errback receives it, and the request is done."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._attempts = attempts_of(crawler)
        self._validators = Validators(config, crawler.stats)
        get_steps(crawler).add(JudgingStep.CONDITIONAL, self._hear)
        crawler.signals.connect(self._validators.close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not issubclass(load_object(crawler.settings["SCHEDULER"]), Scheduler):
            raise NotConfigured  # nothing reports when a page is done; with a message Scrapy would log a warning
        return cls(crawler, load_config())

    async def process_request(self, request: Request) -> None:
        if request.meta.pop(VALIDATED, None):  # a retry, a redirect, or a copy by the spider
            _take_off(request)
        if not self._is_wanted(request):
            return
        key = self._key(request)
        request.meta[VALIDATED] = key
        if request.meta.get(CONDITIONAL) == CHANGED_LATER:
            return
        known = await self._validators.of(key)
        if known:
            if_none_match, if_modified_since = CONDITIONS
            if etag := known.get("etag"):
                request.headers[if_none_match] = etag
            else:
                request.headers[if_modified_since] = known["modified"]
            self._stats.inc_value("harvester/conditional/asked")

    def _is_wanted(self, request: Request) -> bool:
        meta = request.meta
        if LEASE not in meta or request.method != "GET":
            return False
        wanted = meta.get(CONDITIONAL)
        if wanted is None:
            wanted = load_sites().of(request.url).politeness.conditional
        return bool(wanted) and not any(name in request.headers for name in CONDITIONS)

    def _key(self, request: Request) -> bytes:
        """Returns the key of requests that fetch the same page for the same purpose."""
        spider = self._crawler.spider
        callback = getattr(request.callback, "__name__", "")
        whose = [request.meta[CHANGED_FOR]] if CHANGED_FOR in request.meta else []
        parts = (getattr(spider, "name", ""), getattr(spider, "scope", ""), callback, request.url, *whose)
        return sha256("\n".join(parts).encode()).digest()[:16]

    def process_response(self, request: Request, response: Response) -> Response:
        """Prepares to save the validators of a page. Responses that are refused pass; their outcome is judged."""
        key = request.meta.get(VALIDATED)
        if key is None or self._attempts.is_refused(request, response):
            return response
        _take_off(request)
        scheduler = self._crawler.engine.scheduler if self._crawler.engine else None
        assert isinstance(scheduler, Scheduler)
        lease = scheduler.lease_of(request)
        if lease:
            spider = getattr(self._crawler.spider, "name", "")
            lease.afterwards = partial(self._validators.keep, key, spider, validators_of(response.headers))
        return response

    def _hear(self, request: Request, verdict: Verdict, response: Response | None) -> None:
        if verdict.outcome is Outcome.UNCHANGED and (key := request.meta.get(VALIDATED)):
            _take_off(request)
            self._stats.inc_value("harvester/conditional/unchanged")
            self._validators.touch(key)


def _take_off(request: Request) -> None:
    for name in CONDITIONS:
        request.headers.pop(name, None)

"""Downloader middleware: does not send requests whose quota is used up; their errback learns how long to wait.

Nearest the network, so that requests which other middlewares hold back are not counted. A used-up quota is neither a
fault of the site nor an attempt.
"""

from datetime import UTC, datetime
from typing import Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from harvester.config import Config, load_config
from harvester.fetch.decide import Advice
from harvester.fetch.steps import JudgingStep, get_steps
from harvester.internal_meta import ASKED_AS, QUOTA, QUOTA_UNTIL
from harvester.outcomes import Outcome, RequestFailed, Verdict
from harvester.politeness.quotas import COLLECTION, Quota, Quotas
from harvester.stores.mongodb import MongoOutage, connect, disconnect

USED_UP = frozenset({"quota-of-a-day", "quota-of-hashtags"})
"""Rules that apply when a site itself reports a used-up quota."""
_OWN = "quota"
"""The rule for requests that are not sent."""


class QuotaMiddleware:
    """Counts requests with meta["harvester_quota"] each time they are sent. Off for spiders without quotas."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler, self._config = crawler, config
        self._quotas: Quotas | None = None
        get_steps(crawler).add(JudgingStep.QUOTA, self._judge)
        crawler.signals.connect(self._close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not getattr(crawler.spider, "HAS_QUOTAS", False):
            raise NotConfigured
        return cls(crawler, load_config())

    async def process_request(self, request: Request) -> None:
        if (given := request.meta.get(QUOTA)) is None:
            return
        quota = Quota(*given)
        if until := await self._of_database().take(quota):
            request.meta[QUOTA_UNTIL] = until.timestamp()
            request.meta.pop(ASKED_AS, None)  # the outcome does not affect the session
            self._crawler.stats.inc_value(f"harvester/quotas/used_up/{quota.name.partition(' ')[0]}")
            raise RequestFailed(Verdict(Outcome.RATE_LIMITED, used_up(quota, until), rule=_OWN), 1)

    async def exhaust(self, quota: Quota) -> datetime:
        """Notes that the site reported the quota as used up; returns when it may be used again."""
        return await self._of_database().exhaust(quota)

    def _of_database(self) -> Quotas:
        if self._quotas is None:
            self._database = connect(self._config)
            self._quotas = Quotas(self._database[COLLECTION], MongoOutage(self._crawler, self._config))
        return self._quotas

    def _judge(self, request: Request, verdict: Verdict, response: Response | None) -> Advice | None:
        """Makes a request that was not sent free. A quota used up at the site prevents a retry."""
        if verdict.rule == _OWN:
            return Advice.FREE
        return Advice.NONE if verdict.rule in USED_UP and QUOTA in request.meta else None

    async def _close(self) -> None:
        if self._quotas is not None:
            await disconnect(self._database)


async def waits_until(crawler: Crawler, request: Request, verdict: Verdict) -> datetime | None:
    """Returns until when a failed request has to wait for its quota; None if it failed for another reason."""
    if (until := request.meta.get(QUOTA_UNTIL)) is not None and verdict.rule == _OWN:
        return datetime.fromtimestamp(until, UTC)
    middleware = crawler.get_downloader_middleware(QuotaMiddleware)
    if middleware and verdict.rule in USED_UP and QUOTA in request.meta:
        return await middleware.exhaust(Quota(*request.meta[QUOTA]))
    return None


def used_up(quota: Quota, until: datetime) -> str:
    """Returns a message for people."""
    what = f"{quota.most} in {quota.window_s / 86_400:g} days" if quota.window_s else f"{quota.most} a day"
    return f"the quota of {quota.name.partition(' ')[0]} is used up: {what}; until {until:%Y-%m-%d %H:%M} UTC"

"""The tier that a site answers, and the budget for its proxies: shared by all workers at a Redis, changed in one step.

A worker chooses the tier of a request from its own knowledge, and chooses again when Redis knows more. The expected
cost is reserved before a request leaves, and corrected at its end. So requests that are under way cannot spend more
than the budget. The reservations of a worker that dies stay spent.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from redis.asyncio import Redis
from redis.exceptions import RedisError
from scrapy import signals
from scrapy.crawler import Crawler

from harvester.config import Config
from harvester.exceptions import HarvesterError
from harvester.outcomes import Outcome, RequestFailed, Verdict
from harvester.proxies.policy import is_news, tier_for
from harvester.shutdown import RunEnding, end, is_ending
from harvester.sites import Site
from harvester.sites.proxy_spec import Tier
from harvester.stores import lua
from harvester.stores.redis import RedisOutage, connect, unavailable

logger = logging.getLogger(__name__)

UNKNOWN_BYTES = 100_000
"""Bytes reserved for a request while no request of the day has ended."""
CLOSE_S = 5.0
"""Seconds that the end of a run waits until the last costs are reported."""


@dataclass(slots=True, eq=False)
class Reservation:
    """A request's permission to leave by a tier."""

    site: Site
    tier: Tier
    escalated: bool
    """True if the tier before was of no use to the request."""
    probe: bool
    """True if it tries a tier cheaper than the one that is known to work."""
    day: int
    taken: int
    """Bytes."""
    settled: bool = False

    @property
    def next_tier(self) -> Tier | None:
        """The next more expensive tier of the site."""
        tiers = self.site.proxy.tiers
        after = tiers.index(self.tier) + 1
        return tiers[after] if after < len(tiers) else None


@dataclass(slots=True)
class Spent:
    """The budget of the day is spent."""

    tier: Tier
    """The tier that exceeds the budget."""
    what: str
    """`requests`, `megabytes` or `usd`."""
    seconds: float
    """Seconds until the next day."""
    is_final: bool
    """True if no request under way holds a part of the budget. Such a request may return some."""


class BudgetSpent(RequestFailed):
    """Raised by the proxy middleware for a request that needs a proxy, on a day whose budget is spent.

    It proves nothing about the site. It may also be raised for a request that must go first, such as robots.txt. In
    both cases the request of the frontier waits for the next day.
    """

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(Verdict(Outcome.PROXY, reason), 1)
        self.seconds = seconds
        """Seconds until the next day."""

    def at(self, seconds: float) -> Self:
        """Returns an equal exception for another request, this many seconds before the next day."""
        return type(self)(self.verdict.reason, seconds)


class PassedOver:
    """The result when all tiers are skipped."""


class Budgets:
    """The budgets of all sites."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._retrying = RedisOutage(crawler, config)
        self._redis: asyncio.Task[Redis] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._known: defaultdict[str, tuple[str, bool]] = defaultdict(lambda: ("", False))
        """By site: the tier that works, as far as this worker knows, and True if it is time to try a cheaper one."""
        crawler.signals.connect(self.close, signals.spider_closed)

    async def take(
        self, site: Site, least: Tier | None, passed: Collection[Tier] = ()
    ) -> Reservation | Spent | PassedOver:
        """Reserves a tier for a request of the site: at least `least`, and none in `passed`.

        Raises RunEnding when the run ends before.
        """
        proxying = site.proxy
        first = proxying.tiers.index(least) if least in proxying.tiers else 0
        budget = proxying.budget
        limits = (
            -1 if budget.requests is None else budget.requests,
            -1 if budget.megabytes is None else int(budget.megabytes * 1e6),
            -1 if budget.usd is None else budget.usd,
        )
        passes = [tier in passed for tier in proxying.tiers]
        while True:
            works, is_time = self._known[site.name]
            choice = tier_for(_place(site, works), first, passes, is_time=is_time)
            if choice is None:
                return PassedOver()
            tier = proxying.tiers[choice.tier]
            told = (works, int(is_time), *limits, UNKNOWN_BYTES, *_prices(site, tier), choice.probe * _again_s(site))
            try:
                state, *answer = await self._run("take", site, *told)
            except (HarvesterError, RedisError) as error:
                self.give_up(error)
                raise RunEnding("the crawl is being stopped") from None
            if state == b"taken":
                return Reservation(site, tier, tier == least, choice.probe, day=answer[1], taken=answer[0])
            if state == b"spent":
                return Spent(tier, answer[0].decode(), float(answer[2]), is_final=not answer[1])
            self._known[site.name] = answer[0].decode(), bool(answer[1])

    def settle(self, reservation: Reservation, received: int | None) -> None:
        """Corrects the cost at the end of a request: `received` bytes, or None if it never left."""
        if reservation.settled:
            return
        reservation.settled = True
        prices = _prices(reservation.site, reservation.tier)
        if prices[0] >= 0:
            cost = (reservation.day, reservation.taken, -1 if received is None else received, *prices)
            self._tell(self._run("settle", reservation.site, *cost))

    def works(self, reservation: Reservation) -> None:
        """Records that the site answered by this tier."""
        if reservation.escalated or reservation.probe:
            self._tell(self._remember(reservation.site, reservation.tier, probe=reservation.probe))

    async def _remember(self, site: Site, tier: Tier, *, probe: bool) -> None:
        works, _ = self._known[site.name]
        while is_news(_place(site, works), site.proxy.tiers.index(tier), probe=probe):
            works = (await self._run("works", site, works, tier.value, _again_s(site))).decode()
        self._known[site.name] = works, False

    async def close(self) -> None:
        """Waits until the last costs are reported."""
        if self._telling:
            await asyncio.wait(self._telling, timeout=CLOSE_S)
        if self._redis:
            with contextlib.suppress(RedisError, OSError, HarvesterError):
                await (await self._redis).aclose()

    def _tell(self, telling: Coroutine[Any, Any, Any]) -> None:
        async def tell() -> None:
            try:
                await telling
            except (HarvesterError, RedisError) as error:
                self.give_up(error)

        task = asyncio.ensure_future(tell())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def give_up(self, error: HarvesterError | RedisError) -> None:
        """Ends the run, because Redis does not answer."""
        if not is_ending(self._crawler):
            error = error if isinstance(error, HarvesterError) else unavailable(error)
            logger.error("%s", error)
            end(self._crawler, error.finish_reason, error.exit_code, str(error))

    async def _run(self, name: str, site: Site, *arguments: str | float) -> Any:
        script = lua.load("harvester.proxies", name)
        return await self._retrying(partial(self._ask, script, f"harvester:{{{site.name}}}:proxies", arguments))

    async def _ask(self, script: lua.Script, key: str, arguments: tuple[str | float, ...]) -> Any:
        if self._redis is None or (self._redis.done() and self._redis.exception()):
            # in a thread, because it may have to start the private server
            self._redis = asyncio.ensure_future(asyncio.to_thread(connect, self._config))
        return await lua.run(await self._redis, script, [key], *arguments)


def _place(site: Site, tier: str) -> int:
    """Returns the index of a tier in the site's entry, 0 if the entry has it no longer."""
    return site.proxy.tiers.index(Tier(tier)) if tier in site.proxy.tiers else 0


def _again_s(site: Site) -> int:
    """Returns the seconds before a cheaper tier is tried again."""
    return max(1, int(site.proxy.cheaper_again_s))


def _prices(site: Site, tier: Tier) -> tuple[float, float]:
    """Returns USD per request and per byte; -1 for a tier that costs nothing and counts against no budget."""
    if tier is Tier.NONE:
        return -1, 0
    price = site.proxy.prices.of(tier)
    return (price.usd_per_request, price.usd_per_gb / 1e9) if price else (0, 0)

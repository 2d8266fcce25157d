"""Which tier a request goes by, and what may be spent: known to all workers of one Redis, changed in one step.

What a request will cost is taken before it leaves, and put right when it has come to its end; so the requests that are
under way cannot spend what is not there. A worker that dies has spent what it took.
"""

import asyncio
import contextlib
import logging
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
from harvester.proxies.spec import Tier
from harvester.shutdown import RunEnding, end, is_ending
from harvester.sites import Site
from harvester.stores import lua
from harvester.stores.redis import RedisOutage, connect, unavailable

logger = logging.getLogger(__name__)

UNKNOWN_BYTES = 100_000
"""Taken for a request as long as none of the day has come to its end."""
CLOSE_S = 5.0
"""How long the end of a run waits for the last costs to be told."""


@dataclass(slots=True, eq=False)
class Reservation:
    """A request may leave by this tier."""

    site: Site
    tier: Tier
    escalated: bool
    """Whether it goes by this tier because the one before was of no use to it."""
    probe: bool
    """Whether it tries a tier cheaper than the one that is known to work."""
    day: int
    taken: int
    """Bytes."""
    settled: bool = False


@dataclass(slots=True)
class Spent:
    """Nothing may be spent any more today."""

    tier: Tier
    """That cannot be paid."""
    what: str
    """`requests`, `megabytes` or `usd`."""
    seconds: float
    """Until the next day."""
    is_final: bool
    """Whether none of it is for requests under way: they may need less, or give it back."""


class BudgetSpent(RequestFailed):
    """A request that needs a proxy, on a day whose budget is spent. Raised by the proxy middleware.

    It says nothing of the site. A request of the frontier that it is raised for, or for what must be asked before it,
    waits for the next day.
    """

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(Verdict(Outcome.PROXY, reason), 1)
        self.seconds = seconds
        """Until the next day."""

    def at(self, seconds: float) -> Self:
        """The same for another request, so many seconds before the next day."""
        return type(self)(self.verdict.reason, seconds)


class PassedOver:
    """No tier is left."""


class Budgets:
    """Those of all sites."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        self._crawler = crawler
        self._config = config
        self._retrying = RedisOutage(crawler, config)
        self._redis: asyncio.Task[Redis] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        crawler.signals.connect(self.close, signals.spider_closed)

    async def take(
        self, site: Site, least: Tier | None, passed: Collection[Tier] = ()
    ) -> Reservation | Spent | PassedOver:
        """The tier for a request of the site, at least `least`, and none of those that are passed over.

        Raises RunEnding when the run ends meanwhile.
        """
        proxying = site.proxy
        first = proxying.tiers.index(least) if least in proxying.tiers else 0
        budget = proxying.budget
        limits = (
            -1 if budget.requests is None else budget.requests,
            -1 if budget.megabytes is None else int(budget.megabytes * 1e6),
            -1 if budget.usd is None else budget.usd,
        )
        again_s = max(1, int(proxying.cheaper_again_s))
        tiers = [word for tier in proxying.tiers for word in (tier.value, *_prices(site, tier), int(tier in passed))]
        try:
            answer = await self._run("take", site, first, *limits, UNKNOWN_BYTES, again_s, *tiers)
        except (HarvesterError, RedisError) as error:
            self.give_up(error)
            raise RunEnding("the crawl is being stopped") from None
        index, probe, taken, day, left, spent, under_way = answer
        if index == -2:
            return PassedOver()
        if index < 0:
            what = spent.decode() if isinstance(spent, bytes) else spent
            return Spent(proxying.tiers[taken], what, float(left), is_final=not under_way)
        tier = proxying.tiers[index]
        return Reservation(site, tier, tier == least, bool(probe), day, taken)

    def settle(self, ticket: Reservation, received: int | None) -> None:
        """The request has come to its end; `received` bytes, None: it never left."""
        if ticket.settled:
            return
        ticket.settled = True
        prices = _prices(ticket.site, ticket.tier)
        if prices[0] >= 0:
            cost = (ticket.day, ticket.taken, -1 if received is None else received, *prices)
            self._tell(self._run("settle", ticket.site, *cost))

    def works(self, ticket: Reservation) -> None:
        """The site answered by this tier."""
        if ticket.escalated or ticket.probe:
            proxying = ticket.site.proxy
            told = (ticket.tier.value, int(ticket.probe), int(max(1, proxying.cheaper_again_s)))
            self._tell(self._run("works", ticket.site, *told, *(tier.value for tier in proxying.tiers)))

    async def close(self) -> None:
        """Tells what is left to be told."""
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
        """Ends the run: Redis does not say what must be known."""
        if not is_ending(self._crawler):
            error = error if isinstance(error, HarvesterError) else unavailable(error)
            logger.error("%s", error)
            end(self._crawler, "service_error", error.exit_code)

    async def _run(self, name: str, site: Site, *arguments: str | float) -> Any:
        script = lua.load("harvester.proxies", name)
        return await self._retrying(partial(self._ask, script, f"harvester:{{{site.name}}}:proxies", arguments))

    async def _ask(self, script: lua.Script, key: str, arguments: tuple[str | float, ...]) -> Any:
        if self._redis is None or (self._redis.done() and self._redis.exception()):
            # In a thread: it may have to start the private server.
            self._redis = asyncio.ensure_future(asyncio.to_thread(connect, self._config))
        return await lua.run(await self._redis, script, [key], *arguments)


def _prices(site: Site, tier: Tier) -> tuple[float, float]:
    """Usd a request and a byte; -1: it costs nothing and counts for nothing."""
    if tier is Tier.NONE:
        return -1, 0
    price = site.proxy.prices.of(tier)
    return (price.usd_per_request, price.usd_per_gb / 1e9) if price else (0, 0)

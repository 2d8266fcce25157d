"""The route of each attempt through proxies: its tier, its proxy, what it costs, and the route after it."""

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from weakref import WeakKeyDictionary, finalize

from redis.exceptions import RedisError
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from harvester.breaker.breakers import Breakers
from harvester.config import Config
from harvester.exceptions import HarvesterError, LocalFault, ProxyError
from harvester.fetch.decide import Advice
from harvester.fetch.steps import JudgingStep, Wait, get_steps
from harvester.formatting import duration
from harvester.internal_meta import (
    ATTEMPTS,
    IDENTITY,
    KNOWN_VERDICT,
    LEASE,
    LEAST_TIER,
    PROXIES_ROTATED,
    TIER,
    TIER_PROBE,
)
from harvester.meta import SESSION_CHAIN
from harvester.outcomes import Outcome, Verdict
from harvester.proxies.accounts import Proxy, proxies_of
from harvester.proxies.budget import Budgets, BudgetSpent, PassedOver, Reservation, Spent
from harvester.proxies.endpoints import ProxyEndpoint, endpoint_of
from harvester.proxies.faults import ProxyFault, fault_of_response, proxy_fault
from harvester.proxies.policy import Attempt, NextRoute, ProxyHealth, health_of, is_held_against, route_after
from harvester.proxies.pool import ProxyPool
from harvester.shutdown import RunEnding, end, pause
from harvester.sites import Site, policy_of
from harvester.sites.proxy_spec import Tier, Vendor, session_id

logger = logging.getLogger(__name__)

_ADVICE = {NextRoute.OTHER: Advice.FREE, NextRoute.STOP: Advice.NONE}
_STUCK_BY = {"chain": SESSION_CHAIN, "account": IDENTITY}
LEAST_WAIT_S = 1.0
"""Minimum number of seconds until a request that found no proxy looks for one again."""
TAKEN_S = 10.0
"""Seconds before a budget reserved by other workers is checked again. A request waits up to half as much longer."""
_HEADERS = 200
"""Bytes of the status line and request head beside the response's headers, which are billed too."""


@dataclass(slots=True, eq=False)
class ProxyAttempt:
    """One attempt of a request, with its tier and proxy."""

    reservation: Reservation
    pool: ProxyPool | None = None
    """None: it leaves without a proxy."""
    proxy: Proxy | None = None
    endpoint: ProxyEndpoint | None = None
    stuck_to: str = ""
    """The chain or account that keeps the same proxy session; empty: none does."""
    received: int | None = None
    """Bytes received; None: the request has not left."""
    fault: ProxyFault | None = None


class ProxyRoutes:
    """Chooses the route of each attempt at a proxied site, and judges proxy and tier by the outcome."""

    def __init__(self, crawler: Crawler, config: Config, breakers: Callable[[], Breakers | None]) -> None:
        self._crawler = crawler
        self._config = config
        self._breakers = breakers
        """Returns the breakers; None if the requests are not from the frontier."""
        self.budgets = Budgets(crawler, config)
        self._pools: dict[tuple[str, Tier], ProxyPool] = {}
        self.refused: set[str] = set()
        """Names of proxies that refuse our credentials."""
        self._shards: defaultdict[str, int] = defaultdict(int)
        self.attempts: WeakKeyDictionary[Request, ProxyAttempt] = WeakKeyDictionary()
        self.taken_until: dict[tuple[str, ...], float] = {}
        """Monotonic time until others' reservations of a budget expire; by site, minimum tier and skipped tiers."""
        self._said: set[tuple[str, ...]] = set()
        get_steps(crawler).add(JudgingStep.PROXY, self.judge)

    async def before(self, request: Request, site: Site) -> Wait | None:
        """Chooses the route of the request. Returns how long it has to wait, or None if it may be sent.

        A request that is not from the frontier waits here. Raises BudgetSpent and RunEnding.
        """
        while not isinstance(attempt := await self._route(request, site), ProxyAttempt):
            wait_s, reason = attempt
            if LEASE in request.meta:
                return Wait(time.time() + wait_s, Outcome.PROXY, reason)
            await pause(self._crawler, wait_s)
        tier = attempt.reservation.tier
        request.meta[TIER] = tier.value
        self.attempts[request] = attempt
        finalize(request, self.settle, attempt).atexit = False  # settles the reservation whatever happens
        self._crawler.stats.inc_value(f"harvester/proxies/requests/{site.name}/{tier}")
        return None

    def after(self, request: Request, response: Response) -> None:
        """Counts the bytes of a response, and notes a failure that the proxy itself reports."""
        attempt = self.attempts.get(request)
        if attempt and attempt.proxy:
            head = sum(len(name) + len(b"".join(values)) + 4 for name, values in response.headers.items())
            attempt.received = max(attempt.received or 0, len(response.body)) + head + _HEADERS
            vendor = attempt.reservation.site.proxy.vendor
            if not response.url.startswith("https:") or (vendor and vendor.opens_tls):
                self._note(request, attempt, fault_of_response(response))

    def failed(self, request: Request, exception: Exception) -> Wait | None:
        """Notes a failure of the proxy. Returns how long the request has to wait for a new budget, if it has to."""
        if isinstance(exception, BudgetSpent):  # maybe for robots.txt or a login that the request needs
            if LEASE not in request.meta:
                return None
            return Wait(time.time() + exception.seconds, Outcome.PROXY, exception.verdict.reason)
        attempt = self.attempts.get(request)
        if attempt and attempt.proxy and not LocalFault.behind(exception):
            self._note(request, attempt, proxy_fault(0, {}, exception))
        return None

    # When a request leaves --------------------------------------------------------------------------------

    def put_on(self, request: Request) -> None:
        attempt = self.attempts.get(request)
        if attempt and attempt.endpoint:
            attempt.received = 0
            request.meta["proxy"] = attempt.endpoint.address
            if attempt.endpoint.authorization:
                request.headers["Proxy-Authorization"] = attempt.endpoint.authorization
            for name, value in attempt.endpoint.headers.items():
                request.headers[name] = value

    def take_off(self, request: Request) -> None:
        attempt = self.attempts.get(request)
        if attempt and attempt.endpoint:
            for name in ("Proxy-Authorization", *attempt.endpoint.headers):
                request.headers.pop(name, None)
            request.meta.pop("proxy", None)

    def add_bytes(self, data: bytes, request: Request) -> None:
        attempt = self.attempts.get(request)
        if attempt and attempt.received is not None:
            attempt.received += len(data)

    # Choice of the route -----------------------------------------------------------------------------------

    async def _route(self, request: Request, site: Site) -> ProxyAttempt | tuple[float, str]:
        """Returns the attempt of a request, or the seconds that it has to wait, and why. Raises BudgetSpent."""
        least = request.meta.get(LEAST_TIER)
        passed = self._passed(request, site)
        question = (site.name, least or "", *passed)
        taken_s = self.taken_until.get(question, 0.0) - monotonic()
        reservation = await self._take(request, site, least, passed) if taken_s <= 0 else None
        if isinstance(reservation, PassedOver):
            return self._without_tier(site, _allowed(site, least))
        if isinstance(reservation, Spent):
            cheaper = [tier for tier in _allowed(site, least, before=reservation.tier) if tier in passed]
            if cheaper and LEASE in request.meta:
                return self._without_tier(site, cheaper, reservation.seconds)
            if reservation.is_final:
                raise self._without_budget(site, reservation)
            reservation, taken_s = None, TAKEN_S
            self.taken_until[question] = monotonic() + taken_s
        if reservation is None:
            reason = f"what is left of the budget of {site.name} for proxies is taken by others"
            return taken_s + random.uniform(0, TAKEN_S / 2), reason
        attempt, may_pass = None, False
        try:
            may_pass = await self._may_pass(request, reservation)
            attempt = self._attempt(request, reservation) if may_pass else None
        finally:
            if attempt is None:
                self.budgets.settle(reservation, None)
        if attempt:
            return attempt
        if not may_pass:
            return await self._route(request, site)  # without that tier
        return self._without_proxy(site, reservation.tier), f"no {reservation.tier} proxy of {site.name} is of use now"

    def _passed(self, request: Request, site: Site) -> list[Tier]:
        """Returns the tiers to skip. Requests from outside the frontier are never probes, and skip half-open tiers."""
        tiers = site.proxy.tiers
        breakers = self._breakers()
        if breakers is None or len(tiers) == 1:
            return []
        if LEASE not in request.meta:
            return [tier for tier in tiers if breakers.is_shut(site.name, tier)]
        return [tier for tier in tiers if breakers.passes_over(site.name, tier, _trial(request, tier))]

    async def _take(
        self, request: Request, site: Site, least: Tier | None, passed: list[Tier]
    ) -> Reservation | Spent | PassedOver:
        """Reserves a tier. Requests that are not from the frontier use a tier with an open breaker rather than fail."""
        reservation = await self.budgets.take(site, least, passed)
        if passed and not isinstance(reservation, Reservation) and LEASE not in request.meta:
            reservation = await self.budgets.take(site, least)
        return reservation

    async def _may_pass(self, request: Request, reservation: Reservation) -> bool:
        """Returns True if the request may use the tier: a half-open tier accepts only a few probes."""
        breakers = self._breakers()
        if breakers is None or LEASE not in request.meta or len(reservation.site.proxy.tiers) == 1:
            return True
        try:
            known = _trial(request, reservation.tier)
            trial = await breakers.may_pass(reservation.site.name, reservation.tier, known)
        except (HarvesterError, RedisError) as error:
            self.budgets.give_up(error)
            raise RunEnding("the frontier cannot be asked") from None
        request.meta.pop(TIER_PROBE, None)
        if trial:
            request.meta[TIER_PROBE] = trial
        return trial is not None

    def _attempt(self, request: Request, reservation: Reservation) -> ProxyAttempt | None:
        """Returns the attempt; None if no proxy of the tier is usable now."""
        if reservation.tier is Tier.NONE:
            return ProxyAttempt(reservation)
        proxying = reservation.site.proxy
        try:
            pool = self._pool(reservation.site, reservation.tier)
        except HarvesterError as error:
            raise self._ended(error) from None
        who = request.meta.get(_STUCK_BY.get(proxying.sticky, ""), "")
        stuck_to = f"{reservation.site.name} {reservation.tier} {who}" if who else ""
        assert self._crawler.spider
        session = session_id(self._crawler.spider.name, stuck_to, self._shards.get(stuck_to, 0)) if stuck_to else ""
        proxy = pool.pick(session, strict=proxying.strict)
        if proxy is None:
            return None
        endpoint = endpoint_of(proxying.spec(reservation.tier, session), proxy.account)
        return ProxyAttempt(reservation, pool, proxy, endpoint, stuck_to)

    def _pool(self, site: Site, tier: Tier) -> ProxyPool:
        pool = self._pools.get((site.name, tier))
        if pool is None:
            assert site.proxy.vendor
            proxies = proxies_of(self._config, site.proxy.vendor, tier)
            country = site.proxy.place(tier).country
            if site.proxy.vendor is Vendor.LIST and country:
                proxies = tuple(proxy for proxy in proxies if proxy.country == country)
                if not proxies:
                    raise ProxyError(f"{self._config.proxies_file} has no {tier} proxy in {country}, for {site.name}.")
            pool = self._pools[site.name, tier] = ProxyPool(proxies, self.refused)
        return pool

    def _without_proxy(self, site: Site, tier: Tier) -> float:
        """Logs that no proxy is usable; returns the seconds to wait. Ends the run when only a person can help."""
        pool = self._pool(site, tier)
        if pool.is_refused:
            error = ProxyError(
                f"All {tier} proxies of {site.name} refuse the user or the password. The run ends; nothing is lost. "
                "Mend the credentials and start it again."
            )
            raise self._ended(error)
        wait_s = max(LEAST_WAIT_S, pool.rest_s())
        self._crawler.stats.set_value(f"harvester/waiting/{site.name}", time.time() + wait_s)
        self._crawler.stats.inc_value(f"harvester/proxies/none_left/{site.name}/{tier}")
        if self._is_new("none left", site.name, tier):
            logger.warning(
                "No %s proxy of %s is of use now; its requests wait, the first is tried again in %s. If it stays so: "
                "look at the proxies, or name a dearer tier in [%s.proxy].",
                tier, site.name, duration(wait_s), site.name,
            )  # fmt: skip
        return wait_s

    def _ended(self, error: HarvesterError) -> RunEnding:
        """Ends the run when only a person can help. The requests stay queued."""
        if self._is_new("ended"):
            logger.error("%s", error)
        end(self._crawler, error.finish_reason, error.exit_code, str(error))
        return RunEnding("the crawl is being stopped")

    def _without_tier(self, site: Site, tiers: Sequence[Tier], unpaid_s: float | None = None) -> tuple[float, str]:
        """Returns how many seconds a request waits for tiers with open breakers, and why.

        `unpaid_s`: seconds until a more expensive tier can be paid again.
        """
        breakers = self._breakers()
        assert breakers
        wait_s = breakers.wait_s(site.name, tiers)
        self._crawler.stats.inc_value(f"harvester/proxies/passed_over/{site.name}")
        if unpaid_s is None:
            return wait_s, f"the breakers of all tiers of {site.name} are open: {', '.join(tiers)}"
        reason = f"breakers of {site.name} are open, and the budget for a dearer tier is spent: {', '.join(tiers)}"
        return min(wait_s, unpaid_s), reason

    def _without_budget(self, site: Site, spent: Spent) -> BudgetSpent:
        """Logs once that the budget is spent, and returns the exception."""
        reason = f"the day's budget of {site.name} for proxies is spent: {getattr(site.proxy.budget, spent.what):g} "
        reason += spent.what
        self._crawler.stats.set_value(f"harvester/proxies/spent/{site.name}", spent.what)
        if self._is_new("spent", site.name, f"{time.time() // 86400}"):
            logger.error(
                "%s. Its requests wait %s, until the next day (UTC). To go on now: raise [%s.proxy.budget].",
                reason[0].upper() + reason[1:], duration(spent.seconds, rough=True), site.name,
            )  # fmt: skip
        self._crawler.stats.set_value(f"harvester/waiting/{site.name}", time.time() + spent.seconds)
        return BudgetSpent(reason, spent.seconds)

    # After an attempt -------------------------------------------------------------------------------------

    def _note(self, request: Request, attempt: ProxyAttempt, fault: ProxyFault | None) -> None:
        attempt.fault = fault
        if fault:
            self._crawler.stats.inc_value(f"harvester/proxies/faults/{fault.kind}")
            request.meta[KNOWN_VERDICT] = (fault.outcome, fault.reason)

    def judge(self, request: Request, verdict: Verdict, response: Response | None) -> Advice | None:
        attempt = self.attempts.get(request)
        if attempt is None:
            return None
        self.settle(attempt)
        site = attempt.reservation.site
        policy = policy_of(site, verdict.outcome)
        if not policy.error:
            self.budgets.works(attempt.reservation)
        if attempt.pool and attempt.proxy:
            tried = Attempt(
                policy,
                attempt.fault.kind if attempt.fault else None,
                answered=response is not None,
                listed=site.proxy.vendor is Vendor.LIST,
                other_lives=attempt.pool.has_other(attempt.proxy.name),
                rotated=request.meta.get(PROXIES_ROTATED, 0),
                last_try=request.meta.get(ATTEMPTS, 0) >= policy.retries,
            )
            self._rate(attempt, attempt.pool, attempt.proxy.name, tried)
            return self._choose_route(request, attempt.reservation, route_after(tried))
        if policy.escalate and request.meta.get(ATTEMPTS, 0) >= policy.retries:
            return self._choose_route(request, attempt.reservation, NextRoute.ESCALATE)
        return None

    def _rate(self, attempt: ProxyAttempt, pool: ProxyPool, name: str, tried: Attempt) -> None:
        """Rates the proxy by the outcome."""
        health = health_of(tried)
        if health is ProxyHealth.REFUSED:
            self._refuse(name, attempt.fault)
        elif health is ProxyHealth.BAD:
            pool.bad(name)
        elif health is ProxyHealth.GOOD:
            pool.good(name)
        site, stats = attempt.reservation.site, self._crawler.stats
        if attempt.stuck_to and is_held_against(tried) and not site.proxy.strict:
            self._shards[attempt.stuck_to] += 1  # another session has another address
        alive, known = pool.counts()
        stats.set_value(f"harvester/proxies/alive/{site.name}/{attempt.reservation.tier}", alive)
        stats.set_value(f"harvester/proxies/known/{site.name}/{attempt.reservation.tier}", known)

    def _refuse(self, name: str, fault: ProxyFault | None) -> None:
        """Stops the use of a proxy that refuses us. Logged once, though several requests may fail at the same time."""
        if fault and name not in self.refused:
            self.refused.add(name)
            logger.error("The proxy %s lets us in no more: %s. It is not used any more in this run.", name, fault.said)
            self._crawler.stats.inc_value("harvester/proxies/refused")

    def _choose_route(self, request: Request, reservation: Reservation, route: NextRoute) -> Advice | None:
        """Sets the route of the next attempt, and returns the advice for it."""
        if route is NextRoute.ESCALATE and (tier := reservation.next_tier):
            request.meta[LEAST_TIER] = tier.value
            request.meta.pop(PROXIES_ROTATED, None)
            self._crawler.stats.inc_value(f"harvester/proxies/climbed/{reservation.site.name}/{tier}")
            return Advice.COUNTED
        if route is NextRoute.ROTATE:
            request.meta[PROXIES_ROTATED] = request.meta.get(PROXIES_ROTATED, 0) + 1
            return Advice.COUNTED
        return _ADVICE.get(route)

    def settle(self, attempt: ProxyAttempt) -> None:
        self.budgets.settle(attempt.reservation, attempt.received)

    def _is_new(self, *words: str) -> bool:
        if words in self._said:
            return False
        self._said.add(words)
        return True


def _allowed(site: Site, least: Tier | None, before: Tier | None = None) -> Sequence[Tier]:
    """Returns the tiers that a request may use; with `before`, only those cheaper than it."""
    tiers = site.proxy.tiers
    return tiers[tiers.index(least) if least in tiers else 0 : tiers.index(before) if before else None]


def _trial(request: Request, tier: Tier) -> int:
    """Returns the half-open trial of the tier if the request is its probe without a result yet; else 0."""
    return int(request.meta.get(TIER_PROBE, 0)) if request.meta.get(TIER) == tier else 0

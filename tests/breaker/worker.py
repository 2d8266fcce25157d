"""A worker without Scrapy: it sees what a test wants it to see, and tells the frontier."""

from collections.abc import Sequence

from harvester.breaker.breakers import Breakers
from harvester.breaker.states import BreakerChange
from harvester.frontier.messages import Exchange, Leased, Operation
from harvester.frontier.store import Frontier
from harvester.outcomes import Outcome, Verdict
from harvester.sites import Site, policy_of
from harvester.sites.breaker import SiteBreaker

QUICK = SiteBreaker(
    least_tries=20,
    refusals_in_a_row=5,
    failures_in_a_row=10,
    open_seconds=0.1,
    most_open_seconds=0.4,
    probes=2,
    sample=10,
)


class Worker:
    """Sees tries of one site; what it saw goes out with its next exchange."""

    def __init__(self, frontier: Frontier, name: str, breaking: SiteBreaker = QUICK, site: str = "s") -> None:
        self.frontier = frontier
        self.name = name
        self.site = Site(name=site, hosts=(site,), breaker=breaking)
        self.breakers = Breakers()
        self.breakers.ask_redis = frontier.take_probe
        self.trial = 1
        """That of the last probe it held."""
        self.changes: list[BreakerChange] = []

    def see(
        self,
        outcome: Outcome,
        times: int = 1,
        probe: bool = False,
        tier: str = "",
        tier_probe: int = 0,
        **kind: bool,
    ) -> None:
        for _ in range(times):
            verdict, policy = Verdict(outcome, f"it was {outcome}"), policy_of(self.site, outcome)
            self.breakers.add_try(self.site, verdict, policy, self.trial if probe else 0, tier, tier_probe, **kind)

    async def exchange(self, operations: Sequence[Operation] = (), wanted: int = 0) -> Exchange:
        reports = self.breakers.take()
        told = await self.frontier.exchange(self.name, operations, wanted, 1000, reports)
        self.breakers.hear(told.shut, anew=told.anew)
        self.changes += told.changes
        self.trial = max([lease.probe for lease in told.leased if lease.probe], default=self.trial)
        return told

    async def lease(self, wanted: int) -> list[Leased]:
        return (await self.exchange(wanted=wanted)).leased

    async def state(self, tier: str = "") -> str:
        """Of the breaker of the site, or of a tier there."""
        status = await self.frontier.status()
        assert status.balanced
        name = f"{self.site.name}\0{tier}" if tier else self.site.name
        return status.breakers[name].state if name in status.breakers else "closed"

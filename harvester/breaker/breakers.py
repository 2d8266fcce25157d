"""One worker's part of all breakers of its spider: what it saw and has to tell, and which sites are left alone.

Reports travel with the exchanges of frontier/traffic.py, and the answers say which breakers are not closed. Redis alone
decides (frontier/lua/breaker.lua). A request that follows several failures in a row waits until Redis knows of them, so
that few more go out to a site that begins to refuse.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count, islice
from time import monotonic

from harvester.breaker.observed import MOST_RECORDS, Observed
from harvester.frontier.entries import Exchange, Reports
from harvester.items import Record
from harvester.outcomes import Policy, Verdict
from harvester.sites import Site

SUSPICIOUS = 5
"""Failures of a site in a row after which no request goes out before Redis knows of them."""


class Breakers:
    """Hears of every try; tells, when asked for a report."""

    def __init__(self) -> None:
        self._observed: dict[str, tuple[Site, Observed]] = {}
        self._numbers = count(1)
        self._shut: dict[str, str] = {}
        self._rows: Counter[str] = Counter()
        """Failures in a row, by site."""
        self._untold: set[str] = set()
        """Sites whose last failures are not told, or not answered."""
        self._answer = asyncio.Event()
        self._ended = False
        self.urgent_since: float | None = None
        """On the monotonic clock, since when there is a failure to be told."""
        self.on_urgent: Callable[[], None] = lambda: None

    # What is seen -----------------------------------------------------------------------------------------

    def add_try(self, site: Site, verdict: Verdict, policy: Policy, probe: bool, tier: str) -> None:
        """One try of a request, sent through a proxy of that tier if any was.

        A refusal that a dearer tier may mend says nothing yet of the site.
        """
        if tier:
            self._of(site, tier).add_try(verdict, policy, probe=True)
            if policy.breaker and policy.dearer and tier != site.proxying.tiers[-1]:
                self._hurry(site.name)
                return
        self._of(site).add_try(verdict, policy, probe)
        if policy.breaker:
            self._rows[site.name] += 1
            self._untold.add(site.name)
            self._hurry(site.name)
        elif not policy.error:
            self._rows.pop(site.name, None)

    def add_page(self, site: Site, outcome: str, probe: bool) -> None:
        """A request that came to its end with a page."""
        self._of(site).add_page(outcome, probe)

    def add_records(self, site: Site, records: Iterable[Record], probe: bool) -> None:
        """What a page yielded; some of it is looked at."""
        self._of(site).add_records(islice(records, MOST_RECORDS), probe)

    def _of(self, site: Site, tier: str = "") -> Observed:
        name = f"{site.name}\0{tier}" if tier else site.name
        found = self._observed.get(name)
        if found is None:
            found = self._observed[name] = (site, Observed())
        return found[1]

    def _hurry(self, name: str) -> None:
        if self.urgent_since is None:
            self.urgent_since = monotonic()
            self.on_urgent()

    # The frontier's side ----------------------------------------------------------------------------------

    def take(self) -> Reports | None:
        """What is to be told with the next exchange."""
        if not self._observed:
            return None
        rows = [observed.row(name, site.breaking.rules()) for name, (site, observed) in self._observed.items()]
        self._observed = {}
        self.urgent_since = None
        return Reports(next(self._numbers), rows)

    def hear(self, told: Exchange) -> bool:
        """Takes in the answer to it. Returns whether more sites are left alone than before."""
        known = self._shut
        if told.shut is not None:
            self._shut = told.shut
        if self.urgent_since is None:
            self._untold.clear()
        self._answer.set()
        self._answer = asyncio.Event()
        return not self._shut.keys() <= known.keys()

    def end(self) -> None:
        """There will be no more answers."""
        self._ended = True
        self._answer.set()

    # The middleware's side --------------------------------------------------------------------------------

    def is_parked(self, site: str) -> bool:
        """Whether the site's requests are parked; its probes are not."""
        return site in self._shut

    def is_open(self, site: str, tier: str = "") -> bool:
        """Whether the site is left alone, or that tier of proxies is of no use there."""
        state = self._shut.get(f"{site}\0{tier}" if tier else site)
        return state in ("open", "held") or (state == "half_open" and not tier)

    async def settled(self, site: str) -> None:
        """Returns when Redis knows of the site's last failures, if they were several in a row."""
        while not self._ended and site in self._untold and self._rows[site] >= SUSPICIOUS:
            await self._answer.wait()

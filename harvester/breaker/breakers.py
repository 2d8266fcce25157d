"""One worker's part of all breakers of its spider: the counts to report, and the breakers that are not closed.

Reports travel with the exchanges of frontier/client.py, and the answers list the breakers that are not closed. An
exchange ends when its report is judged (judgement.py) and the decision applied. After several failures in a row, the
next request waits for that end, so that a site that begins to refuse gets few more requests.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count, islice
from math import inf
from time import monotonic, time

from harvester.breaker.site_counts import MOST_RECORDS, SiteCounts
from harvester.breaker.states import BreakerState, Reports
from harvester.items import Record
from harvester.outcomes import Outcome, Policy, Verdict
from harvester.sites import Site

SUSPICIOUS = 5
"""Failures minus successes of a site. From this number on, no request leaves before Redis knows of the failures."""
MOST_REPORTED = 100
"""Maximum number of sites in one report, so that Redis does not block long when all sites fail together."""
ASK_AGAIN_S = 1.0
"""Seconds without another question for a probe of a tier, after Redis had none."""
HALF_OPEN_S = 5.0
"""Seconds that a request waits for a half-open tier that has no probe left."""
LONGEST_WAIT_S = 3600.0
"""Seconds that a request waits for a tier at most, also when a person holds it."""


class Breakers:
    """Counts every try of this worker, and hands out the counts as reports."""

    def __init__(self) -> None:
        self._observed: dict[str, tuple[Site, SiteCounts]] = {}
        self._numbers = count(1)
        self._shut: dict[str, BreakerState] = {}
        self._failing: Counter[str] = Counter()
        """Failures minus successes by site, at most SUSPICIOUS."""
        self._untold: set[str] = set()
        """Sites with failures that are not reported, or whose report is not answered."""
        self._answer = asyncio.Event()
        self._ended = False
        self.urgent_since: float | None = None
        """Monotonic time of the first failure that is not reported; None without one."""
        self.on_urgent: Callable[[], None] = lambda: None
        self.ask_redis: Callable[[str], Awaitable[int]]
        """Asks Redis whether the next request through a tier may be a probe. Returns the number of the half-open trial,
        or 0 if that trial has enough probes."""
        self._denied_until: defaultdict[str, float] = defaultdict(float)
        """Monotonic time by tier: until then no probe is requested."""

    # For the spider's results -----------------------------------------------------------------------------

    def add_try(
        self,
        site: Site,
        verdict: Verdict,
        policy: Policy,
        probe: int = 0,
        tier: str = "",
        tier_probe: int = 0,
        *,
        is_new: bool = True,
        is_step: bool = False,
    ) -> None:
        """Counts one try of a request. `tier` is the tier that sent it, if the site has tiers.

        `probe` and `tier_probe` are the numbers of the trials, at the site and at the tier, that the try belongs to.
        `is_new`: True for the first try of a request, in the first attempt at its item. `is_step`: True if the page
        only leads to others.

        A refusal that a more expensive tier may solve does not count against the site yet. A refusal that no tier can
        solve does not count against the tier, because no request changes its tier for it.
        """
        if tier and len(site.proxy.tiers) > 1 and (policy.escalate or not policy.breaker):
            self._of(site, tier).add_try(verdict, policy, tier_probe, is_new=is_new)
            if policy.breaker and tier != site.proxy.tiers[-1]:
                self._hurry()
                return
        counts, is_misread = self._of(site), verdict.outcome is Outcome.LAYOUT_CHANGED
        counts.add_try(verdict, policy, probe, is_new=is_new)
        if is_misread:
            counts.add_misread(verdict, probe, is_new=is_new)
        elif verdict.outcome is Outcome.OK and not is_step:
            counts.add_read()
        if policy.breaker or is_misread:
            self._failing[site.name] = min(self._failing[site.name] + 1, SUSPICIOUS)
            self._untold.add(site.name)
            self._hurry()
        elif not policy.error and not is_step:
            self._succeeded(site)

    def add_page(self, site: Site, outcome: str, probe: int) -> None:
        """Counts a request that ended with a page."""
        self._of(site).add_page(outcome, probe)

    def add_read(self, site: Site) -> None:
        """Counts a page that was read, although its response alone did not show that."""
        self._of(site).add_read()
        self._succeeded(site)

    def add_records(self, site: Site, records: Iterable[Record], probe: int) -> None:
        """Counts the fields of the first records of a page."""
        self._of(site).add_records(islice(records, MOST_RECORDS), probe)

    def _succeeded(self, site: Site) -> None:
        if self._failing[site.name] > 1:
            self._failing[site.name] -= 1
        else:
            del self._failing[site.name]

    def _of(self, site: Site, tier: str = "") -> SiteCounts:
        name = _name(site.name, tier)
        found = self._observed.get(name)
        if found is None:
            found = self._observed[name] = (site, SiteCounts())
        return found[1]

    def _hurry(self) -> None:
        if self.urgent_since is None:
            self.urgent_since = monotonic()
            self.on_urgent()

    # For the frontier -------------------------------------------------------------------------------------

    def take(self) -> Reports | None:
        """Returns the report for the next exchange, None if there is nothing to report."""
        if not self._observed:
            return None
        names = list(islice(self._observed, MOST_REPORTED))
        rows = []
        for name in names:
            site, observed = self._observed.pop(name)
            rows.append(observed.row(name, site.breaker.rules()))
        if not self._observed:
            self.urgent_since = None
        return Reports(next(self._numbers), rows)

    def hear(self, states: Mapping[str, BreakerState], *, anew: bool) -> bool:
        """Applies the answer: the breakers that changed, or all that are not closed if the answer is complete (`anew`).

        Returns True if a breaker has left the closed state.
        """
        if anew:
            self._shut = {}
        more = False
        for name, shut in states.items():
            if shut.state == "closed":
                self._shut.pop(name, None)
            else:
                more = more or name not in self._shut
                self._shut[name] = shut
        if self.urgent_since is None:
            self._untold.clear()
        self._answer.set()
        self._answer = asyncio.Event()
        return more

    def end(self) -> None:
        """Ends all waiting: no more answers will come."""
        self._ended = True
        self._answer.set()

    def shut_sites(self) -> dict[str, BreakerState]:
        """Returns the sites whose breaker is not closed."""
        return {name: shut for name, shut in self._shut.items() if "\0" not in name}

    # For the middleware -----------------------------------------------------------------------------------

    def holds_back(self, site: str, probe: int = 0) -> bool:
        """Returns True if a request of the site must be parked: the breaker is not closed, and the request does not
        probe it."""
        shut = self._shut.get(site)
        return shut is not None and not _is_probe(shut, probe)

    def is_shut(self, site: str, tier: str) -> bool:
        """Returns True if the breaker of the tier at the site is not closed."""
        return _name(site, tier) in self._shut

    def passes_over(self, site: str, tier: str, trial: int = 0) -> bool:
        """Returns True if a request must skip the tier: its breaker is open, or half open without a probe left.

        `trial` is the trial that the request is already a probe of, 0 without one.
        """
        name = _name(site, tier)
        shut = self._shut.get(name)
        if shut is None or _is_probe(shut, trial):
            return False
        return shut.state != "half_open" or monotonic() < self._denied_until[name]

    async def may_pass(self, site: str, tier: str, trial: int = 0) -> int | None:
        """Returns None if a request may not use the tier, else the trial that it now probes for, 0 without one.

        `trial` is the trial that the request already probes for, 0 without one.
        """
        name = _name(site, tier)
        shut = self._shut.get(name)
        if shut is None:
            return 0
        if not _is_probe(shut, trial):
            trial = 0 if self.passes_over(site, tier) else await self.ask_redis(name)
        if not trial:
            self._denied_until[name] = monotonic() + ASK_AGAIN_S
        return trial or None

    def wait_s(self, site: str, tiers: Iterable[str]) -> float:
        """Returns the seconds that a request waits for the first of several tiers. Its caller has found that all must
        be skipped."""
        shut = [self._shut.get(_name(site, tier)) for tier in tiers]
        ends = [(each.until or inf) - time() if each and each.state != "half_open" else HALF_OPEN_S for each in shut]
        return max(ASK_AGAIN_S, min([*ends, LONGEST_WAIT_S]))

    async def settled(self, site: str) -> None:
        """Returns when Redis knows of the site's last failures. Waits only after several more failures than
        successes."""
        while not self._ended and site in self._untold and self._failing[site] >= SUSPICIOUS:
            await self._answer.wait()


def _is_probe(shut: BreakerState, trial: int) -> bool:
    """Returns True if `trial` is the current half-open trial."""
    return shut.state == "half_open" and trial == shut.trial and trial > 0


def _name(site: str, tier: str) -> str:
    """Returns the name of a breaker."""
    return f"{site}\0{tier}" if tier else site

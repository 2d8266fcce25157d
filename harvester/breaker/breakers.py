"""One worker's part of all breakers of its spider: what it saw and has to tell, and which sites are left alone.

Reports travel with the exchanges of frontier/client.py, and the answers say which breakers are not closed. An exchange
is over when what it reported is judged (judgement.py) and what was decided is applied. A request that follows several
failures in a row waits until then, so that few more go out to a site that begins to refuse.
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
"""Failures of a site, beyond successes, with which no request goes out before Redis knows of them."""
MOST_REPORTED = 100
"""Sites of one report, so that Redis is not kept from others for long when all fail at once."""
ASK_AGAIN_S = 1.0
"""How long a worker asks for no probe of a tier when none was left."""
HALF_OPEN_S = 5.0
"""How long a request waits for a tier whose probes are out."""
LONGEST_WAIT_S = 3600.0
"""How long it waits at most for a tier that somebody holds."""


class Breakers:
    """Hears of every try; tells, when asked for a report."""

    def __init__(self) -> None:
        self._observed: dict[str, tuple[Site, SiteCounts]] = {}
        self._numbers = count(1)
        self._shut: dict[str, BreakerState] = {}
        self._failing: Counter[str] = Counter()
        """By site: failures beyond successes, at most SUSPICIOUS."""
        self._untold: set[str] = set()
        """Sites whose last failures are not told, or not answered."""
        self._answer = asyncio.Event()
        self._ended = False
        self.urgent_since: float | None = None
        """On the monotonic clock, since when there is a failure to be told."""
        self.on_urgent: Callable[[], None] = lambda: None
        self.ask_redis: Callable[[str], Awaitable[int]]
        """Makes a request a probe of a tier: the number of the trial, 0 when no further one is wanted."""
        self._denied_until: defaultdict[str, float] = defaultdict(float)
        """By tier, on the monotonic clock, until when no probe is asked for."""

    # What is seen -----------------------------------------------------------------------------------------

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
        """One try of a request, sent by that tier if the site has any; whose probe it was: the trials' numbers.

        `is_new`: whether it is the first of its request, in the first attempt of its item. `is_step`: whether its page
        only leads on to others.

        A refusal that a dearer tier may mend says nothing yet of the site, and one that none may mend nothing of the
        tier: no request goes by another tier because of it.
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
        """A request that came to its end with a page."""
        self._of(site).add_page(outcome, probe)

    def add_read(self, site: Site) -> None:
        """A page was read, though its answer alone did not say so."""
        self._of(site).add_read()
        self._succeeded(site)

    def add_records(self, site: Site, records: Iterable[Record], probe: int) -> None:
        """What a page yielded; some of it is looked at."""
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

    # The frontier's side ----------------------------------------------------------------------------------

    def take(self) -> Reports | None:
        """What is to be told with the next exchange."""
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
        """Takes in the answer to it: the breakers that have changed, or all that are not closed (`anew`).

        Returns whether more sites are left alone than before.
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
        """There will be no more answers."""
        self._ended = True
        self._answer.set()

    def shut_sites(self) -> dict[str, BreakerState]:
        """Sites whose breaker is not closed."""
        return {name: shut for name, shut in self._shut.items() if "\0" not in name}

    # The middleware's side --------------------------------------------------------------------------------

    def holds_back(self, site: str, probe: int = 0) -> bool:
        """Whether a request of the site is parked: all are while it is left alone, but for the probes of this trial."""
        shut = self._shut.get(site)
        return shut is not None and not _is_probe(shut, probe)

    def is_shut(self, site: str, tier: str) -> bool:
        """Whether the breaker of that tier at the site is not closed."""
        return _name(site, tier) in self._shut

    def passes_over(self, site: str, tier: str, trial: int = 0) -> bool:
        """Whether a request goes past that tier at the site: its breaker is open, or half open and its probes are out.

        `trial`: that whose probe the request is already.
        """
        name = _name(site, tier)
        shut = self._shut.get(name)
        if shut is None or _is_probe(shut, trial):
            return False
        return shut.state != "half_open" or monotonic() < self._denied_until[name]

    async def may_pass(self, site: str, tier: str, trial: int = 0) -> int | None:
        """Whether a request may go by that tier, of which the trial it is a probe of is told, 0 when it is none.

        None: it may not. `trial`: that whose probe it is already.
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
        """How long a request waits for the first of these tiers, all of which are passed over."""
        shut = [self._shut.get(_name(site, tier)) for tier in tiers]
        ends = [(each.until or inf) - time() if each and each.state != "half_open" else HALF_OPEN_S for each in shut]
        return max(ASK_AGAIN_S, min([*ends, LONGEST_WAIT_S]))

    async def settled(self, site: str) -> None:
        """Returns when Redis knows of the site's last failures, if there were several more than successes."""
        while not self._ended and site in self._untold and self._failing[site] >= SUSPICIOUS:
            await self._answer.wait()


def _is_probe(shut: BreakerState, trial: int) -> bool:
    """Whether a request is a probe of the breaker, of whose trials it is that one's; 0: of none."""
    return shut.state == "half_open" and trial == shut.trial and trial > 0


def _name(site: str, tier: str) -> str:
    """Of a breaker."""
    return f"{site}\0{tier}" if tier else site

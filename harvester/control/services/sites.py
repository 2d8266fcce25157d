"""Sites and their breakers: their state with its time and reason, and opening, closing or holding a breaker."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from harvester.breaker.messages import place
from harvester.control.services.spiders import spiders
from harvester.exceptions import UsageError
from harvester.frontier import operations
from harvester.frontier.messages import BreakerStatus
from harvester.frontier.operations import SitesOf
from harvester.jobs.service import JobService
from harvester.masking import mask

MOST = 1000
"""Maximum number of sites in a response."""
MOST_REASON = 500
"""Maximum number of characters of a person's reason."""
LONGEST_S = 365 * 86_400.0
"""Maximum number of seconds to keep a site's breaker open or held."""
_ORDER = ("held", "open", "half_open", "closed")

Wanted = Literal["open", "closed", "held"]
"""States that a person may set."""


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A site as one spider's workers see it, or one of its tiers of proxies."""

    spider: str
    site: str
    tier: str
    """The tier of proxies; empty for the whole site."""
    state: str
    """closed: requests are sent; open and held: no requests are sent; half_open: probes test the site."""
    ready: int
    parked: int
    """Number of requests that wait until the breaker closes; 0 for a tier."""
    cause: str
    """The cause of a breaker that is not closed: refusals, failures, ratio, layout, drift, fields or person."""
    said: str
    """The message of the last failure, or a person's reason."""
    since: datetime | None
    until: datetime | None
    """Time of the next automatic change. None: no automatic change."""
    times: int
    """Number of times that the breaker opened in a row."""
    tried: int
    """Number of recent requests."""
    failed: int
    outcomes: dict[str, int]
    """Outcome -> number of recent requests."""
    probes: int
    """Number of probes that are sent or answered."""
    probes_well: int


@dataclass(frozen=True, slots=True)
class SitesPage:
    """Those that need somebody first, then those with the most requests."""

    sites: list[SiteStatus]
    more: bool
    """True if there are more sites."""


@dataclass(frozen=True, slots=True)
class SiteChange:
    """What somebody wants of a breaker."""

    state: Wanted
    seconds: float | None = None
    """Seconds to stay open or held before probes start. None: open as the site's entry says, held without an end."""
    reason: str = ""
    tier: str = ""


@dataclass(frozen=True, slots=True)
class SiteChanged:
    """What was done."""

    spider: str
    site: str
    state: str
    before: str
    changed: bool
    """False if the breaker was already in this state."""
    parked: int
    """Number of the site's requests that now wait."""
    said: str
    """A message for people."""
    undo: SiteChange | None
    """The change that restores the earlier state.

    None: nothing was changed, or the breaker was half open, which ends by itself.
    """


class Sites:
    """The sites of all spiders of the project."""

    def __init__(self, service: JobService) -> None:
        self._config = service.config

    async def list(self, spider: str = "", *, left_alone: bool = False, most: int = MOST) -> SitesPage:
        """Returns the sites. Raises ServiceError.

        `left_alone`: only sites that have parked requests or a breaker that is not closed.
        """
        of_spiders = await operations.sites(self._config, await spiders(spider))
        found = [each for name, sites in of_spiders.items() for each in _statuses(name, sites)]
        if left_alone:
            found = [each for each in found if each.state != "closed" or each.parked]
        found.sort(key=lambda each: (_ORDER.index(each.state), -each.parked - each.ready, each.site, each.tier))
        most = min(most, MOST)
        return SitesPage(found[:most], len(found) > most)

    async def change(self, spider: str, site: str, wanted: SiteChange, who: str) -> SiteChanged:
        """Opens, closes or holds a breaker.

        Repeating a close or hold changes nothing, except that a given time starts again. Raises UsageError for a tier
        without a breaker, or an invalid reason or time; UnknownJob for an unknown spider; ServiceError.
        """
        await spiders(spider)
        _check(site, wanted)
        name = f"{site}\0{wanted.tier}" if wanted.tier else site
        before = (await operations.breakers(self._config, spider)).get(name)
        why = mask(wanted.reason)
        parked, change = await operations.set_breaker(
            self._config, spider, site, wanted.state, who, wanted.tier, why, wanted.seconds
        )
        was = change.before if change else wanted.state
        where = place(site, wanted.tier)
        said = f"The breaker of {where} {'is' if change else 'was'} {wanted.state}; {parked:,} requests are parked."
        undo = _undo(wanted, was, before) if change else None
        return SiteChanged(spider, site, wanted.state, was, change is not None, parked, said, undo)


def _check(site: str, wanted: SiteChange) -> None:
    if not site or not site.isprintable():
        raise UsageError(f"{site!r} is no name of a site.")
    if len(wanted.reason) > MOST_REASON or not wanted.reason.isprintable():
        raise UsageError(f"reason: give one line of at most {MOST_REASON} characters.")
    if wanted.seconds is not None and (wanted.state == "closed" or not 1 <= wanted.seconds <= LONGEST_S):
        raise UsageError(f"seconds: give 1 to {LONGEST_S:,.0f}, for a breaker that is to be open or held.")


def _undo(wanted: SiteChange, was: str, before: BreakerStatus | None) -> SiteChange | None:
    reason = before.said if before and before.cause == "person" else ""
    left = max(1.0, before.until - time.time()) if before and before.until else None
    if was == "closed":
        return SiteChange("closed", tier=wanted.tier)
    if was == "held":
        return SiteChange("held", left, reason, wanted.tier)
    return SiteChange("open", left, reason, wanted.tier) if was == "open" else None


def _statuses(spider: str, sites: SitesOf) -> list[SiteStatus]:
    names = {*sites.counts, *sites.breakers}
    return [_status(spider, name, sites.counts.get(name, {}), sites.breakers.get(name)) for name in names]


def _status(spider: str, name: str, counts: dict[str, int], breaker: BreakerStatus | None) -> SiteStatus:
    site, _, tier = name.partition("\0")
    return SiteStatus(
        spider=spider,
        site=site,
        tier=tier,
        state=breaker.state if breaker else "closed",
        ready=counts.get("ready", 0),
        parked=counts.get("parked", 0),
        cause=breaker.cause if breaker else "",
        said=mask(breaker.said) if breaker else "",
        since=_time(breaker.since) if breaker else None,
        until=_time(breaker.until) if breaker and breaker.until else None,
        times=breaker.times if breaker else 0,
        tried=breaker.tried if breaker else 0,
        failed=breaker.failed if breaker else 0,
        outcomes=breaker.outcomes if breaker else {},
        probes=breaker.probes[0] if breaker else 0,
        probes_well=breaker.probes[1] if breaker else 0,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

"""Chooses the tier for a request, and after a try the health of the proxy and the next route.

Pure; it reads outcomes and never a status.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from harvester.outcomes import Policy
from harvester.proxies.faults import FaultKind

MOST_ROTATED = 4
"""Maximum number of other proxies of a tier for a request that the site refuses."""


class Attempt(NamedTuple):
    """A try through a proxy that has ended."""

    policy: Policy
    """The policy for the outcome."""
    fault: FaultKind | None
    """The failure that the proxy itself reported."""
    answered: bool
    listed: bool
    """True for a listed proxy with one address; False for a vendor's gateway with many."""
    other_lives: bool = False
    """True if another proxy of the tier is alive."""
    rotated: int = 0
    """Number of proxies so far that the site refused for this request."""
    last_try: bool = False
    """True if the table of outcomes allows no further try."""


class ProxyHealth(StrEnum):
    """The state of a proxy after a try."""

    GOOD = "good"
    BAD = "bad"
    REFUSED = "refused"
    """The proxy refuses our credentials."""
    UNKNOWN = "unknown"


class NextRoute(StrEnum):
    """The route of the next try."""

    TABLE = "table"
    """The route that the table of outcomes names."""
    OTHER = "other"
    """Another proxy; the site was not reached by this one."""
    ROTATE = "rotate"
    """Another proxy; the site refused this one."""
    ESCALATE = "escalate"
    """A more expensive tier, if there is one."""
    STOP = "stop"
    """No route: another try would end equally."""


class TierChoice(NamedTuple):
    """The tier of a request."""

    tier: int
    """Index of the tier; 0 is the cheapest."""
    probe: bool = False
    """True if the tier is cheaper than the one that is known to work."""


def tier_for(works: int, least: int, passed: Sequence[bool], *, is_time: bool) -> TierChoice | None:
    """Returns the tier that works, or the least that the request needs. None if all allowed tiers are passed over.

    A tier that is passed over is replaced by the next more expensive one, else by the next cheaper one. With `is_time`
    one request tries the tier below the one that works.
    """
    if is_time and least < works and not passed[works - 1]:
        return TierChoice(works - 1, probe=True)
    first = max(works, least)
    order = (*range(first, len(passed)), *range(first - 1, least - 1, -1))
    return next((TierChoice(tier) for tier in order if not passed[tier]), None)


def is_news(works: int, answered: int, *, probe: bool) -> bool:
    """Returns True if the tier that answered becomes the one that works. A cheaper one does so only after a probe."""
    return answered > works or (probe and answered < works)


def health_of(tried: Attempt) -> ProxyHealth:
    """Returns the health of the proxy. A 404 is good, like any response without a fault of the proxy: it carried the
    response."""
    if tried.fault is FaultKind.AUTH:
        return ProxyHealth.REFUSED
    if tried.fault is FaultKind.UNREACHABLE or (tried.listed and is_held_against(tried)):
        return ProxyHealth.BAD
    return ProxyHealth.GOOD if tried.answered else ProxyHealth.UNKNOWN


def is_held_against(tried: Attempt) -> bool:
    """Returns True if the address of the proxy is of no use now."""
    return tried.policy.proxy and tried.fault is not FaultKind.TARGET


def route_after(tried: Attempt) -> NextRoute:
    """Returns the next route. Only outcomes with `escalate` in their policy change the address for the site's
    response."""
    fault, elsewhere = tried.fault, tried.listed and tried.other_lives
    if fault is FaultKind.AUTH:
        return NextRoute.OTHER
    if fault is FaultKind.POLICY:
        return NextRoute.OTHER if elsewhere else NextRoute.STOP
    if fault in (FaultKind.UNREACHABLE, FaultKind.CAPACITY) and elsewhere:
        return NextRoute.OTHER
    if not tried.policy.escalate:
        return NextRoute.TABLE
    if fault is None and elsewhere and tried.rotated < MOST_ROTATED:
        return NextRoute.ROTATE
    return NextRoute.ESCALATE if tried.last_try else NextRoute.TABLE

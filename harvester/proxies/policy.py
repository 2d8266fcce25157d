"""By which tier a request goes, what its outcome says of the proxy, and which way the next try takes.

Pure; it reads outcomes and never a status.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from harvester.outcomes import Policy
from harvester.proxies.faults import FaultKind

MOST_ROTATED = 4
"""Through how many other proxies of a tier a request is sent that the site refuses."""


class Attempt(NamedTuple):
    """A try that went through a proxy and has come to its end."""

    policy: Policy
    """Of its outcome."""
    fault: FaultKind | None
    """What the proxy itself told of."""
    answered: bool
    listed: bool
    """Whether its proxy has one address of its own; a vendor's gateway has many."""
    other_lives: bool = False
    """Whether another proxy of the tier lives."""
    rotated: int = 0
    """Through how many it was sent so far because the site refused it."""
    last_try: bool = False
    """Whether the table of outcomes knows no further try."""


class ProxyHealth(StrEnum):
    """How a proxy stands after it."""

    GOOD = "good"
    BAD = "bad"
    REFUSED = "refused"
    """It lets us in no more."""
    UNKNOWN = "unknown"


class NextRoute(StrEnum):
    """Which way the next try takes."""

    TABLE = "table"
    """As the table of outcomes says."""
    OTHER = "other"
    """Through another proxy; the site knows nothing of this one."""
    ROTATE = "rotate"
    """Through another proxy; the site refused this one."""
    ESCALATE = "escalate"
    """By a dearer tier, if there is one."""
    STOP = "stop"
    """There is none: it would come to the same."""


class TierChoice(NamedTuple):
    """By which tier a request goes."""

    tier: int
    """Counted from the cheapest, which is 0."""
    probe: bool = False
    """Whether it is cheaper than the one that is known to work."""


def tier_for(works: int, least: int, passed: Sequence[bool], *, is_time: bool) -> TierChoice | None:
    """The tier that works, or the least that the request needs; None: all that it may use are passed over.

    In the place of one that is passed over comes the next dearer one, else the next cheaper one. `is_time`: one request
    tries the tier below the one that works.
    """
    if is_time and least < works and not passed[works - 1]:
        return TierChoice(works - 1, probe=True)
    first = max(works, least)
    order = (*range(first, len(passed)), *range(first - 1, least - 1, -1))
    return next((TierChoice(tier) for tier in order if not passed[tier]), None)


def is_news(works: int, answered: int, *, probe: bool) -> bool:
    """Whether the tier by which a site answered is from now on the one that works: a cheaper one only as a probe."""
    return answered > works or (probe and answered < works)


def health_of(tried: Attempt) -> ProxyHealth:
    """A 404, like all that is no fault of the proxy, speaks for it: it carried the answer."""
    if tried.fault is FaultKind.AUTH:
        return ProxyHealth.REFUSED
    if tried.fault is FaultKind.UNREACHABLE or (tried.listed and is_held_against(tried)):
        return ProxyHealth.BAD
    return ProxyHealth.GOOD if tried.answered else ProxyHealth.UNKNOWN


def is_held_against(tried: Attempt) -> bool:
    """Whether the address by which it left is of no use now."""
    return tried.policy.proxy and tried.fault is not FaultKind.TARGET


def route_after(tried: Attempt) -> NextRoute:
    """The next try. Only outcomes whose policy says `escalate` lead to other addresses because of the site's answer."""
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

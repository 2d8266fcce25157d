"""What an outcome says of the proxy, and which way the next try takes. Pure; it reads outcomes and never a status."""

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

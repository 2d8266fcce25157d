"""How often something new comes, estimated from what looks found.

An item is measured from one look that did not fail to the next. What the first of all found was there before, and tells
of no time.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import expm1

from harvester.recheck.policy import DAY_S, HISTORY, Look

HALF_LIFE_DAYS = 14.0
PRIOR_THINGS = PRIOR_DAYS = 0.5
"""As if half a thing had come in half a day: without looks the estimate is one a day, and it never is 0."""
LEAST_RATE, MOST_RATE = 1e-4, 1e4
"""A day, between which the rate of things that tell only whether they changed is looked for."""


def measured(looks: Sequence[Look]) -> list[tuple[float, Look]]:
    """The last looks that did not fail, each with the days that it tells of."""
    well = [look for look in looks if not look.failed][-HISTORY:]
    return [(max(0.0, look.at - before.at) / DAY_S, look) for before, look in pairwise(well)]


def only_changes(looks: Sequence[Look]) -> bool:
    """Whether the item tells only that it changed, not how often."""
    return any(look.changed is not None for look in looks)


def rate_of(looks: Sequence[Look]) -> float:
    """New things a day, above 0."""
    return _rate_of_changes(looks) if only_changes(looks) else _rate_of_things(looks)


def cost_of(looks: Sequence[Look]) -> float:
    """What the next look will cost, in requests: the mean of the last ones, with one whole request among them."""
    costs = [look.cost for look in looks if not look.failed]
    return (1 + sum(costs)) / (1 + len(costs))


def _rate_of_things(looks: Sequence[Look]) -> float:
    """Gamma-Poisson: things over days, older ones counting less, and a prior."""
    things, days, age = PRIOR_THINGS, PRIOR_DAYS, 0.0
    for took, look in reversed(measured(looks)):
        weight = 0.5 ** (age / HALF_LIFE_DAYS)
        age += took
        things += weight * (look.found or 0)
        days += weight * took
    return things / days


def _rate_of_changes(looks: Sequence[Look]) -> float:
    """The rate that makes it most likely to have seen changes after just these intervals.

    It solves: sum over changed of t / (e^(rate t) - 1) = sum over unchanged of t. Half a change in half a day, and half
    a day without one, are the prior that keeps it finite. Unlike in Cho and Garcia-Molina 2003 intervals may differ.
    """
    changed, unchanged = [], 0.0
    for took, look in measured(looks):
        if took and look.new:
            changed.append(took)
        elif took:
            unchanged += took

    def too_low(rate: float) -> bool:
        told = sum(took / expm1(min(rate * took, 700)) for took in changed)
        return told + PRIOR_THINGS / expm1(min(rate * PRIOR_DAYS, 700)) > unchanged + PRIOR_DAYS

    low, high = LEAST_RATE, MOST_RATE
    for _ in range(50):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if too_low(middle) else (low, middle)
    return high

"""Estimates the rate of new things from the results of visits.

An item is measured from one successful visit to the next. The finds of the first visit existed before, so they prove no
rate.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import expm1

from harvester.recheck.policy import DAY_S, HISTORY, Look

HALF_LIFE_DAYS = 14.0
PRIOR_THINGS = PRIOR_DAYS = 0.5
"""Prior: half a thing in half a day. So the rate without visits is one a day, and never 0."""
LEAST_RATE, MOST_RATE = 1e-4, 1e4
"""Bounds of the search for the rate of changes a day."""


def measured(looks: Sequence[Look]) -> list[tuple[float, Look]]:
    """Returns the last visits that did not fail, each with the days since the one before."""
    well = [look for look in looks if not look.failed][-HISTORY:]
    return [(max(0.0, look.at - before.at) / DAY_S, look) for before, look in pairwise(well)]


def only_changes(looks: Sequence[Look]) -> bool:
    """Returns True if the item shows only that it changed, not how often."""
    return any(look.changed is not None for look in looks)


def rate_of(looks: Sequence[Look]) -> float:
    """Returns the new things a day, above 0."""
    return _rate_of_changes(looks) if only_changes(looks) else _rate_of_things(looks)


def cost_of(looks: Sequence[Look]) -> float:
    """Returns the expected requests for the next visit: the mean over the last ones and one whole request."""
    costs = [look.cost for look in looks if not look.failed]
    return (1 + sum(costs)) / (1 + len(costs))


def _rate_of_things(looks: Sequence[Look]) -> float:
    """Gamma-Poisson estimate: things divided by days, with less weight on older visits, and a prior."""
    things, days, age = PRIOR_THINGS, PRIOR_DAYS, 0.0
    for took, look in reversed(measured(looks)):
        weight = 0.5 ** (age / HALF_LIFE_DAYS)
        age += took
        things += weight * (look.found or 0)
        days += weight * took
    return things / days


def _rate_of_changes(looks: Sequence[Look]) -> float:
    """Returns the rate that makes these changes at these intervals most likely.

    It solves: sum over changed of t / (e^(rate t) - 1) = sum over unchanged of t. The prior keeps it finite: half a
    change in half a day, and half a day without a change. Unlike in Cho and Garcia-Molina 2003, intervals may differ.
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

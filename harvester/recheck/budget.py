"""The policy `budget`: spends a job's requests on the visits that find most, without starving any item.

An item with r new things a day has collected r x age^2 / 2 thing-days of waiting after `age` days. This number, times
the worth of a thing, divided by the cost of a visit, is the item's index. New things wait the least, within the budget,
if each free request goes to the item with the largest index: visits then grow with the square root of the rate. No
comparison of all items is needed. An item is due when its index reaches the threshold that all items of the job share,
and `threshold` finds the value that uses up the budget.
"""

from collections.abc import Iterable, Sequence
from math import ceil, sqrt
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import replace

from harvester.exceptions import UsageError
from harvester.recheck.durations import duration_text, number_text, roughly
from harvester.recheck.policy import DAY_S, Due, Look
from harvester.recheck.rates import cost_of, only_changes, rate_of

MOST_A_DAY = 10_000_000
LOWEST, HIGHEST = 1e-12, 1e12
"""Bounds of the search for a threshold."""


class Demand(NamedTuple):
    """The facts that decide how often an item is visited. Equal `items` can be one demand."""

    rate: float
    """New things a day."""
    cost: float = 1.0
    """Requests for a visit."""
    worth: float = 1.0
    """Worth of a thing, relative to things of other items."""
    only_changes: bool = False
    """True if a visit shows only that the item changed, not how often. Several late changes then count as one."""
    items: int = 1


class Threshold(NamedTuple):
    """The threshold of a job's items, and their longest interval. That interval is longer than wanted if the
    budget is too small."""

    theta: float
    longest_s: float


class Budget(msgspec.Struct, frozen=True):
    """Uses at most `a_day` requests for all items, each for the most valuable visit, and waits at most `longest_s`.

    The threshold is not in the text: the ledger computes it when it counts the items of a job, and sets it with
    `under`.
    """

    a_day: int
    worth: float = 1.0
    shortest_s: int = 900
    longest_s: int = 259_200
    theta: float = 0.5
    """Thing-days a request. This default visits an item with one new thing a day once a day, until the job has a
    threshold."""

    def __post_init__(self) -> None:
        if not 1 <= self.a_day <= MOST_A_DAY:
            raise UsageError(f"{self.a_day} requests a day are no budget: from 1 to {MOST_A_DAY:,}")
        if not 0 < self.worth <= 1e6:
            raise UsageError(f"a thing cannot be worth {self.worth:g}: write a number above 0, such as 2")
        if self.shortest_s > self.longest_s:
            raise UsageError(f"{self}: write the shorter of the two durations first")

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        if not looks:
            return Due(now, "never looked at")
        demand = self.demand(looks)
        interval_s = interval(demand, self.theta, self.shortest_s, self.longest_s)
        bound = {self.shortest_s: ", the shortest interval", self.longest_s: ", the longest interval"}
        return Due(
            looks[-1].at + interval_s,
            f"{_comes(demand)}: every {roughly(interval_s)}{bound.get(round(interval_s), '')}",
        )

    def demand(self, looks: Sequence[Look]) -> Demand:
        """Returns an item's demand for the search of the threshold."""
        return Demand(rate_of(looks), cost_of(looks), self.worth, only_changes(looks))

    def under(self, found: Threshold) -> Self:
        """Returns the policy with the given threshold."""
        return replace(self, theta=found.theta, longest_s=ceil(found.longest_s))

    def __str__(self) -> str:
        worth = f" worth {number_text(self.worth)}" if self.worth != 1 else ""
        bounds = (self.shortest_s, self.longest_s)
        apart = f" {duration_text(bounds[0])} to {duration_text(bounds[1])} apart" if bounds != (900, 259_200) else ""
        return f"budget {self.a_day} a day{worth}{apart}"


def interval(demand: Demand, theta: float, shortest_s: float, longest_s: float) -> float:
    """Returns the seconds until an item's index reaches the threshold (Sia, Cho and Cho 2007; changes: Kolobov et al.
    2019)."""
    if demand.rate <= 0:
        return longest_s
    days = sqrt(2 * demand.cost * theta / (demand.worth * demand.rate))
    if demand.only_changes and days:
        days *= (sqrt(demand.rate**2 * days**2 + 4) + demand.rate * days) / 2
    return min(max(days * DAY_S, shortest_s), longest_s)


def threshold(demands: Iterable[Demand], a_day: float, shortest_s: float, longest_s: float) -> Threshold:
    """Returns the threshold that makes the items use `a_day` requests a day, found by bisection.

    If the budget is too small to visit each item within `longest_s`, all items share it evenly, and that interval
    grows.
    """
    demands = list(demands)

    def taken(theta: float) -> float:
        return sum(each.items * each.cost * DAY_S / interval(each, theta, shortest_s, longest_s) for each in demands)

    at_least = sum(each.items * each.cost for each in demands) * DAY_S
    if at_least >= a_day * longest_s:
        return Threshold(HIGHEST, at_least / a_day)
    if at_least <= a_day * shortest_s:
        return Threshold(0.0, longest_s)
    low, high = LOWEST, HIGHEST
    for _ in range(60):
        middle = sqrt(low * high)
        low, high = (middle, high) if taken(middle) > a_day else (low, middle)
    return Threshold(high, longest_s)


def _comes(demand: Demand) -> str:
    """Returns the rate in words: "about 4.2 new a day" or "about 1 new in 10 days", or "changes about once in 10
    days"."""
    if demand.rate < 0.95:
        what = "changes about once" if demand.only_changes else "about 1 new"
        return f"{what} in {roughly(DAY_S / demand.rate)}"
    number = f"{demand.rate:,.0f}" if demand.rate >= 99.5 else f"{demand.rate:.2g}"
    return f"changes about {number} times a day" if demand.only_changes else f"about {number} new a day"

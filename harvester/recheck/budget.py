"""The policy `budget`: the requests of a job go where a look finds most, and nobody is forgotten.

Where r new things come a day, those that are there after `age` days have waited r x age^2 / 2 thing-days. That, times
what a thing is worth, over what a look costs, is the item's index. If each free request goes to the item with the
largest index, new things wait as little as so many requests allow: looks go with the square root of the rate. Nobody
need compare all items for that. Each is due when its index reaches the threshold that they share, and `threshold`
finds the one by which looks and budget agree.
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
"""Between which a threshold is looked for."""


class Demand(NamedTuple):
    """What decides how often an item is looked at; `items` that are alike can be one demand."""

    rate: float
    """New things a day."""
    cost: float = 1.0
    """Of a look, in requests."""
    worth: float = 1.0
    """Of a thing, beside those of other items."""
    only_changes: bool = False
    """It tells whether it changed, not how often: what is late is then one change, however many there were."""
    items: int = 1


class Threshold(NamedTuple):
    """What the items of a job are due by. The longest interval is more than asked for where the budget is too small."""

    theta: float
    longest_s: float


class Budget(msgspec.Struct, frozen=True):
    """At most `a_day` requests for all items, each look where it is worth most, and none later than `longest_s`.

    The threshold is no part of the text: the ledger finds it when it counts the items of a job, and asks `under` it.
    """

    a_day: int
    worth: float = 1.0
    shortest_s: int = 900
    longest_s: int = 259_200
    theta: float = 0.5
    """In thing-days a request. Before there is one of the job: an item with one new thing a day is looked at daily."""

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
        """What an item takes part with when the threshold is found."""
        return Demand(rate_of(looks), cost_of(looks), self.worth, only_changes(looks))

    def under(self, found: Threshold) -> Self:
        """The policy by which the items are due that share this threshold."""
        return replace(self, theta=found.theta, longest_s=ceil(found.longest_s))

    def __str__(self) -> str:
        worth = f" worth {number_text(self.worth)}" if self.worth != 1 else ""
        bounds = (self.shortest_s, self.longest_s)
        apart = f" {duration_text(bounds[0])} to {duration_text(bounds[1])} apart" if bounds != (900, 259_200) else ""
        return f"budget {self.a_day} a day{worth}{apart}"


def interval(demand: Demand, theta: float, shortest_s: float, longest_s: float) -> float:
    """Seconds until an item's index reaches the threshold (Sia, Cho and Cho 2007; of changes Kolobov et al. 2019)."""
    if demand.rate <= 0:
        return longest_s
    days = sqrt(2 * demand.cost * theta / (demand.worth * demand.rate))
    if demand.only_changes and days:
        days *= (sqrt(demand.rate**2 * days**2 + 4) + demand.rate * days) / 2
    return min(max(days * DAY_S, shortest_s), longest_s)


def threshold(demands: Iterable[Demand], a_day: float, shortest_s: float, longest_s: float) -> Threshold:
    """By which these items take `a_day` requests a day, found by bisection.

    Where the budget does not reach for a look at each in `longest_s`, it is shared evenly, and that becomes longer.
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
    """As "about 4.2 new a day" or "about 1 new in 10 days", of changes as "changes about once in 10 days"."""
    if demand.rate < 0.95:
        what = "changes about once" if demand.only_changes else "about 1 new"
        return f"{what} in {roughly(DAY_S / demand.rate)}"
    number = f"{demand.rate:,.0f}" if demand.rate >= 99.5 else f"{demand.rate:.2g}"
    return f"changes about {number} times a day" if demand.only_changes else f"about {number} new a day"

"""Rules by which accounts are looked at, for many accounts at once. Times in days, rates a day.

What harvester computes for an item is computed here for an array of them; tests/recheck/test_simulation.py compares
both.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from harvester.recheck import HISTORY, Demand, Threshold, threshold
from harvester.recheck.adaptive import NEWEST, UNKNOWN
from harvester.recheck.every import share_of
from harvester.recheck.policy import DAY_S
from harvester.recheck.rates import HALF_LIFE_DAYS, PRIOR_DAYS, PRIOR_THINGS
from tests.bench.accounts import KINDS, Accounts, Array

STEP_DAYS = 1 / 48
THRESHOLD_DAYS = 0.25
"""How often `budget` has its site's threshold found again."""


class Looks(NamedTuple):
    """What a rule came to."""

    delay_h: float
    """Of a new thing, on average."""
    by_kind_h: dict[str, float]
    by_account_h: Array
    """NaN of one without things."""
    empty: float
    """The share of looks that found nothing."""
    a_day: float

    @property
    def p90_h(self) -> float:
        """The mean delay that nine of ten accounts do not exceed."""
        return float(np.nanquantile(self.by_account_h, 0.9))


class Rule:
    """Accounts are looked at when they are due, in that order where slots are few."""

    limited = False
    """Whether looks wait for a slot of the site."""

    def __init__(self, number: int) -> None:
        self.due = np.array([share_of(f"account {each}") for each in range(number)])

    def chosen(self, end: float, slots: int) -> tuple[Array, Array]:
        """Those that are looked at in the step that ends then, and when each is."""
        which = np.flatnonzero(self.due <= end)
        if self.limited and len(which) > slots:
            which = which[np.argsort(self.due[which], kind="stable")[:slots]]
        return which, np.maximum(self.due[which], end - STEP_DAYS)

    def looked(self, which: Array, at: Array, found: Array) -> None:
        """They found so many new things."""
        self.due[which] = at + self.interval(which, at, found)

    def interval(self, which: Array, at: Array, found: Array) -> Array:
        raise NotImplementedError


class EveryRule(Rule):
    """The policy `every`."""

    def __init__(self, number: int, interval_days: float) -> None:
        super().__init__(number)
        self.interval_days = interval_days
        self.due *= interval_days

    def looked(self, which: Array, at: Array, found: Array) -> None:
        self.due[which] += self.interval_days


class StormCrawlerRule(Rule):
    """StormCrawler's AdaptiveScheduler: the interval goes half-way to the shortest one, or grows by a half."""

    def __init__(
        self, number: int, shortest: float, longest: float = 14, grow: float = 0.5, shrink: float = 0.5
    ) -> None:
        super().__init__(number)
        self.last = np.ones(number)
        self.shortest, self.longest, self.grow, self.shrink = shortest, longest, grow, shrink

    def interval(self, which: Array, at: Array, found: Array) -> Array:
        last = self.last[which]
        shorter = (1 - self.shrink) * last + self.shrink * self.shortest
        self.last[which] = np.where(found > 0, shorter, np.minimum((1 + self.grow) * last, self.longest))
        return self.last[which]


class AdaptiveRule(Rule):
    """The policy `adaptive`, without its jitter."""

    def __init__(self, number: int, multiplier: float, least: float = 0.07, most: float = 1.75) -> None:
        super().__init__(number)
        self.least, self.most, self.multiplier = least, most, multiplier
        self.grade, self._known = np.full(number, UNKNOWN), np.zeros(number, bool)

    def interval(self, which: Array, at: Array, found: Array) -> Array:
        grade = self.grade[which]
        self.grade[which] = np.where(self._known[which], grade + NEWEST * ((found > 0) - grade), grade)
        self._known[which] = True
        return 1 / (self.multiplier * (self.least + (self.most - self.least) * self.grade[which]))


class BudgetRule(Rule):
    """The policy `budget`. Its threshold is found by harvester's own function, of accounts in groups of like rates."""

    limited = True

    def __init__(self, number: int, a_day: float, shortest: float = 1 / 96, longest: float = 3) -> None:
        super().__init__(number)
        self.a_day, self.shortest, self.longest = a_day, shortest, longest
        self.rate = np.full(number, PRIOR_THINGS / PRIOR_DAYS)
        self.site = Threshold(0.5, longest * DAY_S)
        self._last = np.full(number, np.nan)
        self._took, self._found = np.zeros((number, HISTORY - 1)), np.zeros((number, HISTORY - 1))
        self._found_again = 0.0

    def chosen(self, end: float, slots: int) -> tuple[Array, Array]:
        if end >= self._found_again:
            self._found_again = end + THRESHOLD_DAYS
            groups, items = np.unique(np.round(np.log(self.rate) * 10), return_counts=True)
            demands = [Demand(np.exp(group / 10), items=int(of)) for group, of in zip(groups, items, strict=True)]
            self.site = threshold(demands, self.a_day, self.shortest * DAY_S, self.longest * DAY_S)
        return super().chosen(end, slots)

    def interval(self, which: Array, at: Array, found: Array) -> Array:
        took = at - self._last[which]
        known = ~np.isnan(took)
        self._last[which] = at
        for row, new in ((self._took, took), (self._found, found)):
            row[which[known]] = np.concatenate([row[which[known], 1:], new[known, None]], axis=1)
        self.rate[which] = self.estimated(which)
        return np.clip(np.sqrt(2 * self.site.theta / self.rate[which]), self.shortest, self.site.longest_s / DAY_S)

    def estimated(self, which: Array) -> Array:
        took = self._took[which]
        age = np.cumsum(took[:, ::-1], axis=1)[:, ::-1] - took
        weight = 0.5 ** (age / HALF_LIFE_DAYS)
        things, days = (weight * self._found[which]).sum(1), (weight * took).sum(1)
        rates: Array = (PRIOR_THINGS + things) / (PRIOR_DAYS + days)
        return rates


class OptimumRule(Rule):
    """Each slot goes to the account where, by its true rate, most thing-days are waited: the largest index."""

    limited = True

    def __init__(self, accounts: Accounts, *, by_the_hour: bool = False) -> None:
        super().__init__(accounts.number)
        self._accounts, self._by_the_hour = accounts, by_the_hour
        self._things, self._waited = np.zeros(accounts.number), np.zeros(accounts.number)
        self._lives = accounts.lives((np.arange(round(accounts.days / STEP_DAYS)) + 0.5) * STEP_DAYS)

    def chosen(self, end: float, slots: int) -> tuple[Array, Array]:
        lives = self._lives[round(end / STEP_DAYS) - 1]
        rates = self._accounts.rates(end - STEP_DAYS / 2, lives, by_the_hour=self._by_the_hour)
        self._waited += self._things * STEP_DAYS + rates * STEP_DAYS**2 / 2
        self._things += rates * STEP_DAYS
        which = np.argpartition(-self._waited, slots)[:slots]
        return which, np.full(len(which), end - STEP_DAYS / 2)

    def looked(self, which: Array, at: Array, found: Array) -> None:
        self._things[which] = self._waited[which] = 0


def simulate(accounts: Accounts, rule: Rule, a_day: float) -> Looks:
    """Looks at the accounts by the rule, in steps of half an hour. What is unseen at the end is seen then.

    Slots of a site that were not needed are lost, but for those of one step.
    """
    number, everyone = accounts.number, np.arange(accounts.number)
    seen, sums, delay = np.zeros(number), np.zeros(number), np.zeros(number)
    looks = empty = 0
    free = 0.0
    for step in range(1, round(accounts.days / STEP_DAYS) + 1):
        free = min(free + a_day * STEP_DAYS, 2 * a_day * STEP_DAYS)
        which, at = rule.chosen(step * STEP_DAYS, int(free))
        free -= len(which)
        if not len(which):
            continue
        posts, times = accounts.until(which, at)
        found = posts - seen[which]
        delay[which] += found * at - (times - sums[which])
        seen[which], sums[which] = posts, times
        looks += len(which)
        empty += int((found == 0).sum())
        rule.looked(which, at, found)
    posts, times = accounts.until(everyone, np.full(number, float(accounts.days)))
    delay += (posts - seen) * accounts.days - (times - sums)
    by_kind = {name: accounts.kind == kind for kind, name in enumerate(KINDS)}
    return Looks(
        24 * delay.sum() / posts.sum(),
        {name: 24 * delay[of].sum() / posts[of].sum() for name, of in by_kind.items()},
        24 * delay / np.where(posts, posts, np.nan),
        empty / looks,
        looks / accounts.days,
    )


def with_as_many_looks(
    rule: Callable[[float], Rule], guess: float, accounts: Accounts, a_day: float, *, more: bool
) -> tuple[float, Looks]:
    """The number for which the rule takes `a_day` looks, within half a percent; `more`: a larger one takes more."""
    power = 1.0 if more else -1.0
    for _ in range(20):
        looks = simulate(accounts, rule(guess), a_day)
        if abs(looks.a_day / a_day - 1) < 0.005:
            break
        guess *= (a_day / looks.a_day) ** power
    return guess, looks

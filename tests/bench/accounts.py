"""Made-up accounts that post, for the simulation of re-checks.

How many new posts a day an account has is drawn evenly on a logarithmic scale from 0.01 to 100. A quarter of the
accounts each

steady   post at any time (Poisson)
bursts   post eight times on average within an hour or two, and then not for long
daily    post twice as much around one hour of the day as on average, and not at all twelve hours later
phases   live and are silent in turn, for two months each on average, and post twice as much while they live
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

KINDS = ("steady", "bursts", "daily", "phases")
LEAST_RATE, MOST_RATE = 0.01, 100.0
"""Posts a day."""
BURST, BETWEEN_DAYS = 8, 1 / 144
"""Posts of a burst on average, and the days between two of them."""
PHASE_DAYS = 60.0
_APART_DAYS = 1024.0
"""Added to the times of each account to have those of all in one sorted row."""


class Accounts:
    """`number` accounts over so many days. Times in days from 0; index and rates are arrays over the accounts."""

    def __init__(self, number: int, days: int, seed: int, phase_days: float = PHASE_DAYS) -> None:
        random = np.random.default_rng(seed)
        self.number, self.days = number, days
        self.kind = np.arange(number) % len(KINDS)
        self.rate = np.exp(random.uniform(np.log(LEAST_RATE), np.log(MOST_RATE), number))
        self._peak = random.random(number)
        self._turns = [_turns(random, days, phase_days) if kind == 3 else np.array([0.0]) for kind in self.kind]
        posts = [np.sort(self._posts(random, each)) for each in range(number)]
        counts = np.array([len(each) for each in posts])
        self._end = np.cumsum(counts)
        self._first = self._end - counts
        times = np.concatenate(posts)
        self._row = times + np.repeat(np.arange(number) * _APART_DAYS, counts)
        self._sums = np.concatenate([[0.0], np.cumsum(times)])

    def _posts(self, random: np.random.Generator, each: int) -> Array:
        rate, days = self.rate[each], self.days
        times: Array
        if self.kind[each] == 1:
            sizes = random.geometric(1 / BURST, random.poisson(rate / BURST * days))
            passed = np.cumsum(random.exponential(BETWEEN_DAYS, sizes.sum()))
            since = passed - np.repeat(passed[np.cumsum(sizes) - sizes], sizes)
            times = np.repeat(random.uniform(0, days, len(sizes)), sizes) + since
            times = times[times < days]
        elif self.kind[each] == 2:
            times = random.uniform(0, days, random.poisson(2 * rate * days))
            times = times[random.random(len(times)) < self._by_the_hour(times, self._peak[each]) / 2]
        elif self.kind[each] == 3:
            times = random.uniform(0, days, random.poisson(2 * rate * days))
            times = times[np.searchsorted(self._turns[each], times) % 2 == 1]
        else:
            times = random.uniform(0, days, random.poisson(rate * days))
        return times

    @staticmethod
    def _by_the_hour(times: Array | float, peak: Array | float) -> Any:
        """What the rate is multiplied by: 0 to 2."""
        return 1 + np.cos(2 * np.pi * (times - peak))

    def lives(self, at: Array) -> Array:
        """Of each time (a row) and account whether it lives then."""
        return np.stack([np.searchsorted(turns, at, side="right") % 2 == 1 for turns in self._turns], axis=1)

    def rates(self, at: float, lives: Array, *, by_the_hour: bool) -> Array:
        """Posts a day at a time."""
        rates = np.where(self.kind == 3, 2 * self.rate * lives, self.rate)
        if by_the_hour:
            rates = np.where(self.kind == 2, rates * self._by_the_hour(at, self._peak), rates)
        return rates

    def until(self, which: Array, at: Array) -> tuple[Array, Array]:
        """How many posts these accounts have had until then, and the sum of their times."""
        place = np.searchsorted(self._row, which * _APART_DAYS + at, side="right")
        first = self._first[which]
        return place - first, self._sums[place] - self._sums[first]


def _turns(random: np.random.Generator, days: int, phase_days: float) -> Array:
    """When a phase begins: odd ones live. It may be in the first or the second one at time 0."""
    lengths = random.exponential(phase_days, 4 + int(6 * days / phase_days))
    turns: Array = np.cumsum(lengths) - lengths[0] * (random.random() < 0.5) + 1e-9
    return turns

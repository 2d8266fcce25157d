"""The policy `adaptive`: an item whose looks find something is looked at more often, without regard to others."""

from collections.abc import Sequence

import msgspec

from harvester.exceptions import UsageError
from harvester.recheck.durations import LONGEST_S, SHORTEST_S, number_text, roughly
from harvester.recheck.every import share_of
from harvester.recheck.policy import DAY_S, Due, Look
from harvester.recheck.rates import measured

NEWEST = 0.3
"""What the newest look weighs in an item's grade; each older one weighs 0.7 of the one after it."""
UNKNOWN = 0.5
"""The grade without looks, of which older looks than are kept leave the rest."""
JITTER = 0.1


class Adaptive(msgspec.Struct, frozen=True):
    """From `least` to `most` looks a day, by how many of the last ones found something; times `multiplier`.

    A look counts as one however much it found. So an item that wakes climbs in as many looks as one sinks that falls
    silent.
    """

    least: float = 0.07
    """A day: once in two weeks."""
    most: float = 1.75
    multiplier: float = 1.0

    def __post_init__(self) -> None:
        slowest, fastest = (
            self.least * self.multiplier * LONGEST_S / DAY_S,
            self.most * self.multiplier * SHORTEST_S / DAY_S,
        )
        if not self.least <= self.most or slowest < 1 or fastest > 1:
            raise UsageError(
                f"{self} has no bounds that can be kept: from once in 52 weeks to twice a minute, the lower one first"
            )

    def due(self, key: str, looks: Sequence[Look], now: float) -> Due:
        if not looks:
            return Due(now, "never looked at")
        grade = grade_of(looks)
        a_day = self.multiplier * (self.least + (self.most - self.least) * grade)
        interval_s = DAY_S / a_day * (1 + JITTER * (share_of(key) - 0.5))
        why = f"{grade:.0%} of the last looks, recent ones weighing most, found something: every {roughly(interval_s)}"
        return Due(looks[-1].at + interval_s, why)

    def __str__(self) -> str:
        times = f" times {number_text(self.multiplier)}" if self.multiplier != 1 else ""
        return f"adaptive {number_text(self.least)} to {number_text(self.most)} a day{times}"


def grade_of(looks: Sequence[Look]) -> float:
    """From 0 (none of the last looks found anything) to 1 (each did), recent ones weighing most."""
    grade = UNKNOWN
    for _, look in measured(looks):
        grade += NEWEST * (look.new - grade)
    return grade

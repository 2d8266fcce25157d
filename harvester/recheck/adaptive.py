"""The policy `adaptive`: the more visits of an item find something, the more often it is visited. Other items do not
matter."""

from collections.abc import Sequence

import msgspec

from harvester.exceptions import UsageError
from harvester.recheck.durations import LONGEST_S, SHORTEST_S, number_text, roughly
from harvester.recheck.every import share_of
from harvester.recheck.policy import DAY_S, Due, Look
from harvester.recheck.rates import measured

NEWEST = 0.3
"""Weight of the newest visit in an item's grade; each older visit weighs 0.7 of the next newer one."""
UNKNOWN = 0.5
"""Grade of an item without visits. It keeps the weight that the saved visits leave."""
JITTER = 0.1


class Adaptive(msgspec.Struct, frozen=True):
    """Visits an item from `least` to `most` times a day: the more visits found something lately, the more often.

    `multiplier` multiplies the result. A visit counts once, however much it found. So an active item rises in as many
    visits as a silent one sinks.
    """

    least: float = 0.07
    """Visits a day; 0.07 is once in two weeks."""
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
    """Returns the grade from 0 (no visit found anything) to 1 (each did). Recent visits weigh most."""
    grade = UNKNOWN
    for _, look in measured(looks):
        grade += NEWEST * (look.new - grade)
    return grade

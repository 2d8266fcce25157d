"""Decides which spider gets a process, and which process makes room for another spider. Pure functions."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

TURN_S = 60.0
"""Seconds that a process may work before it makes room.

It makes room earlier if its spider has others and the waiting one has none.
"""


class Running(NamedTuple):
    """A running process."""

    spider: str
    age_s: float
    """Seconds since it was assigned to the spider; a restart does not reset this."""


def to_start(waiting: Sequence[str], running: Sequence[Running]) -> str | None:
    """Returns the spider to start a process for: the one with the fewest processes, or None.

    `waiting`: spiders with something to do, in the order of their last start, the oldest first; it decides ties.
    """
    return min(waiting, key=_processes(running).__getitem__, default=None)


def to_drain(waiting: Sequence[str], running: Sequence[Running]) -> int | None:
    """Returns the index of the process that makes room when all are busy.

    It is the oldest process of the spider with the most processes.
    """
    processes = _processes(running)
    fewest = min((processes[spider] for spider in waiting), default=None)
    if fewest is None:
        return None
    index = max(range(len(running)), key=lambda each: (processes[running[each].spider], running[each].age_s))
    oldest = running[index]
    more = processes[oldest.spider] - fewest
    if (fewest == 0 and more > 1) or (oldest.age_s >= TURN_S and more > (fewest > 0)):
        return index
    return None


def _processes(running: Sequence[Running]) -> Counter[str]:
    return Counter(each.spider for each in running)

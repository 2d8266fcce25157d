"""Which spider gets a process, and which process makes room for another spider. Plain values in, a decision out."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

TURN_S = 60.0
"""How long a process may work before it makes room, unless its spider has others and the one that waits has none."""


class Running(NamedTuple):
    """A process."""

    spider: str
    age_s: float
    """Since it was given to the spider: one that is started again goes on with its turn."""


def to_start(waiting: Sequence[str], running: Sequence[Running]) -> str | None:
    """The spider to start a process for: the one that has the fewest, and of these the first. None: none waits.

    `waiting`: spiders with something to do, the one first for which a process was started longest ago.
    """
    return min(waiting, key=_processes(running).__getitem__, default=None)


def to_drain(waiting: Sequence[str], running: Sequence[Running]) -> int | None:
    """When no process is free: the index of the one that makes room, the oldest of the spider that has the most."""
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

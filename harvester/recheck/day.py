"""What is looked at in the time that comes: when, what, and why then."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heapreplace
from itertools import count
from math import inf
from typing import NamedTuple

from harvester.recheck.policy import DAY_S, Look, VisitPolicy


class DayItem(NamedTuple):
    """An item that is looked at again and again."""

    key: str
    policy: VisitPolicy
    looks: Sequence[Look]
    due_at: float | None = None
    """As the ledger has it; None to ask the policy."""


class Planned(NamedTuple):
    """A look that will be."""

    at: float
    key: str
    why: str


def coming_looks(items: Iterable[DayItem], now: float, a_day: float = inf) -> Iterator[Planned]:
    """The looks at the items of one site from now on, the next first, without an end; `a_day` is the site's pace.

    It supposes that each look takes place when it is due, and tells nothing new of how often something comes.
    """
    order = count()
    queue = []
    for item in items:
        due = item.policy.due(item.key, item.looks, now)
        queue.append((due.at if item.due_at is None else item.due_at, next(order), due.why, item))
    heapify(queue)
    free = now
    while queue:
        wanted, _, why, item = queue[0]
        at = max(wanted, free)
        yield Planned(at, item.key, why)
        free = next_slot(at, a_day)
        due = item.policy.due(item.key, [*item.looks, Look(at, None)], at)
        heapreplace(queue, (due.at, next(order), due.why, item))


def next_slot(last: float, a_day: float) -> float:
    """When a site may be looked at again after a look at `last`, for `a_day` requests a day that are spread evenly.

    Looks that wait for it go in the order in which they were due. No minute then holds more than a_day / 1440 of them,
    and one: a backlog is no burst.
    """
    return last + DAY_S / a_day

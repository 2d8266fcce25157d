"""The plan of coming visits: time, item and reason."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heapreplace
from itertools import count
from math import inf
from typing import NamedTuple

from harvester.recheck.policy import DAY_S, Look, VisitPolicy


class DayItem(NamedTuple):
    """An item of a recurring job."""

    key: str
    policy: VisitPolicy
    looks: Sequence[Look]
    due_at: float | None = None
    """Time in the ledger; None to ask the policy."""


class Planned(NamedTuple):
    """A planned visit."""

    at: float
    key: str
    why: str


def coming_looks(items: Iterable[DayItem], now: float, a_day: float = inf) -> Iterator[Planned]:
    """Yields the coming visits to a site's items in their order, without an end; `a_day` is the site's pace.

    It assumes that each visit happens when it is due, and that rates do not change.
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
    """Returns the time of the next visit to a site after one at `last`, if `a_day` requests are spread evenly over the
    day.

    Waiting visits go in the order of their due times. A minute holds at most a_day / 1440 visits, or one, so a backlog
    makes no burst.
    """
    return last + DAY_S / a_day

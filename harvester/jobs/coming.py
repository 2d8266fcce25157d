"""What comes in the next hours: times of schedules, and looks at items of standing jobs; what, when, and why then."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple

from pymongo import ASCENDING

from harvester.jobs.documents import JobState, State, read_item, read_job
from harvester.jobs.ledger import Ledger
from harvester.jobs.schedules import Schedule, times_after

MOST_COUNTED = 10_000
"""Times of one schedule, which may have one each minute."""


class Time(NamedTuple):
    """Something that is to come."""

    at: datetime
    what: str
    why: str
    is_due: bool = False
    """Whether it might begin now: it waits for a worker, or for the budget of a job or a site."""


class Coming(NamedTuple):
    """The next ones."""

    until: datetime
    times: list[Time]
    """In order."""
    more: int
    """So many others come until then."""


async def until(ledger: Ledger, schedules: Sequence[Schedule], end: datetime, most: int, *, with_looks: bool) -> Coming:
    """At most so many times. Of each item only its next look is known."""
    times, number = _of_schedules(schedules, ledger.now(), end)
    if with_looks:
        looks, others = await _of_items(ledger, end, most)
        times, number = times + looks, number + others
    times.sort(key=lambda each: each.at)
    return Coming(end, times[:most], number - len(times[:most]))


def _of_schedules(schedules: Sequence[Schedule], now: datetime, end: datetime) -> tuple[list[Time], int]:
    times = []
    for each in schedules:
        if each.paused:
            continue
        times += [Time(at, f"schedule {each.id}: {each.spider}", "it waits", is_due=True) for at in each.queue]
        if each.next_at <= now:
            times.append(Time(each.next_at, f"schedule {each.id}: {each.spider}", "it is late", is_due=True))
        coming = islice(takewhile(lambda at: at <= end, times_after(each, now)), MOST_COUNTED)
        times += [Time(at, f"schedule {each.id}: {each.spider}", each.when) for at in coming]
    return times, len(times)


async def _of_items(ledger: Ledger, end: datetime, most: int) -> tuple[list[Time], int]:
    now = ledger.now()
    standing = {"state": JobState.OPEN, "recheck": {"$gt": ""}}
    jobs = [read_job(row) for row in await ledger.patiently(lambda: ledger.jobs.find(standing).to_list())]
    waiting = {
        "job": {"$in": [job.id for job in jobs]},
        "state": State.WAITING,
        "due_at": {"$not": {"$gt": end}},
    }
    order = [("due_at", ASCENDING), ("_id", ASCENDING)]
    rows = await ledger.patiently(lambda: ledger.items.find(waiting, sort=order, limit=most).to_list())
    times = []
    for item in map(read_item, rows):
        at = item.due_at or item.created_at
        times.append(Time(at, f"{item.key} of {item.job}", item.why or "not looked at yet", is_due=at <= now))
    number = len(rows)
    if number == most:
        number = await ledger.patiently(lambda: ledger.items.count_documents(waiting))
    return times, number

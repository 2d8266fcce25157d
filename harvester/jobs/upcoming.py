"""Lists the events of the next hours: times of schedules and visits of recurring jobs, each with its reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from math import inf

from harvester.jobs.documents import Job, JobState, read_job
from harvester.jobs.ledger import Ledger
from harvester.jobs.schedules import Schedule, times_after
from harvester.jobs.transitions import recheck_of
from harvester.recheck import DayItem, coming_looks


@dataclass(frozen=True, slots=True)
class Time:
    """An event that is to come."""

    at: datetime
    what: str
    why: str
    is_due: bool = False
    """True if it may start now: it waits for a worker, or for the budget of a job or a site."""


@dataclass(frozen=True, slots=True)
class Coming:
    """The next events."""

    until: datetime
    times: list[Time]
    """The events, in order."""
    more: bool
    """True if there are more events in this period."""


async def until(ledger: Ledger, schedules: Sequence[Schedule], end: datetime, most: int, *, with_looks: bool) -> Coming:
    """Returns at most `most` events. It assumes that each visit is on time and finds the usual number of records."""
    times = _of_schedules(schedules, ledger.now(), end, most + 1)
    if with_looks:
        standing = {"state": JobState.OPEN, "recheck": {"$gt": ""}}
        for row in await ledger.patiently(lambda: ledger.jobs.find(standing).to_list()):
            times += await _of_job(ledger, read_job(row), end, most + 1)
    times.sort(key=lambda each: each.at)
    return Coming(end, times[:most], len(times) > most)


def _of_schedules(schedules: Sequence[Schedule], now: datetime, end: datetime, most: int) -> list[Time]:
    times = []
    for each in schedules:
        if each.paused:
            continue
        what = f"schedule {each.id}: {each.spider}"
        times += [Time(at, what, "it waits", is_due=True) for at in each.queue]
        if each.next_at <= now:
            times.append(Time(each.next_at, what, "it is late", is_due=True))
        coming = islice(takewhile(lambda at: at <= end, times_after(each, now)), most)
        times += [Time(at, what, each.when) for at in coming]
    return times


async def _of_job(ledger: Ledger, job: Job, end: datetime, most: int) -> list[Time]:
    """Returns visits to the items that are due first: no other item can be among the first `most` visits."""
    policy, now = job.policy, ledger.now()
    items = {item.id: item for item in await ledger.looks.coming(job, most)}
    never = {item.id: item.why or "not looked at yet" for item in items.values() if not item.looks}
    watched = [
        DayItem(item.id, recheck, item.looks, (item.due_at or now).timestamp())
        for item in items.values()
        if (recheck := recheck_of(item, policy))
    ]
    times = []
    for planned in islice(coming_looks(watched, now.timestamp(), job.looks_a_day or inf), most):
        at = datetime.fromtimestamp(planned.at, UTC)
        if at > end:
            break
        item = items[planned.key]
        why = never.pop(item.id, planned.why)
        times.append(Time(at, f"{item.key} of {job.id}", why, is_due=at <= now))
    return times

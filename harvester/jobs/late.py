"""What should have begun by now and has not: times of schedules, and visits of recurring jobs, that no worker looks at.

A worker notes each look at schedules. A schedule that nobody looks at is late before its first time has come.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from harvester.jobs.documents import Document, JobState, read_job
from harvester.jobs.ledger import Ledger
from harvester.jobs.schedules import Schedule

LOOKS = "schedule_looks"
"""Name of the collection: a document for each spider whose workers look at schedules; that of `` is of all spiders."""
LATE = timedelta(minutes=2)
"""A worker looks each second: what has waited longer waits for one."""
SLOT_S = 15
"""Seconds of a look that are noted as one: MongoDB writes nothing when nothing changes."""
START = "start one with `harvester worker` or `harvester up`"

Patiently = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Late:
    """What waits for a worker, a sentence each."""

    schedules: Mapping[str, str]
    """By the name of the schedule."""
    jobs: Mapping[str, str]
    """By the id of the recurring job."""


async def note_look(database: AsyncDatabase[Document], patiently: Patiently, spider: str, now: datetime) -> None:
    """Notes that a worker looks at the schedules of a spider; of all spiders when that is empty."""
    slot = datetime.fromtimestamp(now.timestamp() // SLOT_S * SLOT_S, UTC)
    looks = database[LOOKS]
    await patiently(lambda: looks.update_one({"_id": spider}, {"$max": {"at": slot}}, upsert=True))


async def find_late(ledger: Ledger, schedules: Sequence[Schedule]) -> Late:
    """Returns what waits of these schedules, and of the recurring jobs that go on."""
    looks = ledger.jobs.database[LOOKS]
    rows = await ledger.patiently(lambda: looks.find().to_list())
    seen = {row["_id"]: row["at"] for row in rows}
    now = ledger.now()
    late = {each.id: said for each in schedules if (said := late_schedule(each, _seen(seen, each.spider), now))}
    standing = {"state": JobState.OPEN, "recheck": {"$gt": ""}}
    jobs: dict[str, str] = {}
    for row in await ledger.patiently(lambda: ledger.jobs.find(standing).to_list()):
        job = read_job(row)
        seen_at = _seen(seen, job.spider)
        if seen_at and now - seen_at <= LATE:
            continue  # what waits then waits for the budget of its job or site
        for item in await ledger.looks.coming(job, 1):
            due_at = item.due_at or job.created_at
            if now - due_at > LATE:
                jobs[job.id] = f"{item.key} was due at {_shown(due_at)}, and {_nobody(seen_at, job.spider)}: {START}."
    return Late(late, jobs)


def late_schedule(schedule: Schedule, seen_at: datetime | None, now: datetime) -> str:
    """Returns why nothing of it is begun, and what to do; empty when a worker sees to it, or it is paused.

    `seen_at`: when a worker looked at it last.
    """
    if schedule.paused:
        return ""
    is_seen = seen_at is not None and now - seen_at <= LATE
    was_due = f"it was due at {_shown(schedule.next_at)}"
    if not is_seen:
        nobody = _nobody(seen_at, schedule.spider)
        if schedule.next_at <= now:
            return f"{was_due}, and {nobody}: {START}."
        return f"{nobody}: nothing is begun at {_shown(schedule.next_at)} until you {START}."
    if now - schedule.next_at > LATE:
        return f"{was_due}, and was not begun although a worker looks: its log says why."
    return ""


def _seen(seen: Mapping[str, datetime], spider: str) -> datetime | None:
    return max((seen[each] for each in ("", spider) if each in seen), default=None)


def _nobody(seen_at: datetime | None, spider: str) -> str:
    return f"no worker of {spider} has run {f'since {_shown(seen_at)}' if seen_at else 'yet'}"


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"

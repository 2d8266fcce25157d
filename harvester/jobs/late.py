"""Finds late times of schedules and late visits to items of recurring jobs: no worker serves them.

A worker notes when it checks schedules. A schedule without a worker is reported before its first time has come.
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
"""Name of the collection: one document for each spider with workers that check schedules. The document `` is for all
spiders."""
LATE = timedelta(minutes=2)
"""Longest delay that counts as punctual. A worker checks every second."""
SLOT_S = 15
"""Seconds of checks that are noted as one time: MongoDB writes nothing when nothing changes."""
START = "start one with `harvester worker` or `harvester up`"

Patiently = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Late:
    """The schedules and recurring jobs that are late, with a sentence for each."""

    schedules: Mapping[str, str]
    """Name of the schedule -> sentence."""
    jobs: Mapping[str, str]
    """Id of the recurring job -> sentence."""


async def note_look(database: AsyncDatabase[Document], patiently: Patiently, spider: str, now: datetime) -> None:
    """Notes that a worker checks the schedules of a spider. Empty: of all spiders."""
    slot = datetime.fromtimestamp(now.timestamp() // SLOT_S * SLOT_S, UTC)
    looks = database[LOOKS]
    await patiently(lambda: looks.update_one({"_id": spider}, {"$max": {"at": slot}}, upsert=True))


async def find_late(ledger: Ledger, schedules: Sequence[Schedule]) -> Late:
    """Returns the late ones among these schedules, and the late recurring jobs that are open."""
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
            continue  # a late visit waits for a budget, of the job or the site
        for item in await ledger.looks.coming(job, 1):
            due_at = item.due_at or job.created_at
            if now - due_at > LATE:
                jobs[job.id] = f"{item.key} was due at {_shown(due_at)}, and {_nobody(seen_at, job.spider)}: {START}."
    return Late(late, jobs)


def late_schedule(schedule: Schedule, seen_at: datetime | None, now: datetime) -> str:
    """Returns why the schedule starts nothing, with the remedy. Empty if a worker serves it, or it is paused.

    `seen_at`: time of the last check by a worker.
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

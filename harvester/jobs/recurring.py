"""The items of recurring jobs for users: the status of feeds and endpoints in a word, and a restart."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from harvester.exceptions import JobConflict, UnknownJob
from harvester.jobs.documents import Document, Item, ItemState, Job, JobState, read_item
from harvester.jobs.service import JobService

MOST_JOBS = 1000
"""Maximum number of unfinished jobs that are searched for recurring ones, the latest first."""
MOST_RESTARTED = 100_000
"""Maximum number of items that are restarted together."""


class Standing(StrEnum):
    """The status of an item of a recurring job."""

    WAITING = "WAITING"
    """The item was not visited yet."""
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    """The last visit failed. The next one may succeed."""
    PERMANENTLY_FAILED = "PERMANENTLY_FAILED"
    """The item is not visited until it is restarted."""
    REMOVED = "REMOVED"
    """The job's arguments no longer name the item, a user removed it, or its site forbids it."""


_NEVER: Document = {"state": ItemState.WAITING, "failures": {"$in": [0, None]}, "looks.0": {"$exists": False}}
_QUERIES: dict[Standing, Document] = {
    Standing.WAITING: _NEVER,
    Standing.RUNNING: {"state": ItemState.ACTIVE},
    Standing.SUCCESS: {**_NEVER, "looks.0": {"$exists": True}},
    Standing.FAILED: {"state": {"$in": [ItemState.WAITING, ItemState.DONE]}, "failures": {"$gt": 0}},
    Standing.PERMANENTLY_FAILED: {"state": ItemState.FAILED},
    Standing.REMOVED: {"state": ItemState.SKIPPED},
}
_ANY_FAILED: Document = {"$or": [_QUERIES[Standing.FAILED], _QUERIES[Standing.PERMANENTLY_FAILED]]}


@dataclass(frozen=True, slots=True)
class RecurringItem:
    """An item of a recurring job, with its status."""

    id: str
    name: str
    """The key of the item: an endpoint's name, a feed's address."""
    kind: str
    spider: str
    standing: Standing
    failures: int
    """Number of failures in a row."""
    last_at: datetime | None
    next_at: datetime | None
    reason: str
    """The reason of the failure."""
    often: float | None
    """Factor on the visit frequency of the policy."""
    recheck: str
    """The visit policy of the item."""
    job: str


def standing_of(item: Item) -> Standing:
    """Returns the status of an item."""
    if item.state is ItemState.ACTIVE:
        return Standing.RUNNING
    if item.state is ItemState.FAILED:
        return Standing.PERMANENTLY_FAILED
    if item.state is ItemState.SKIPPED:
        return Standing.REMOVED
    if item.failures:
        return Standing.FAILED
    return Standing.SUCCESS if item.looks else Standing.WAITING


async def standing_jobs(service: JobService, spider: str = "", job: str = "") -> list[Job]:
    """Returns the unfinished recurring jobs of a spider or of all, or the job with this id. Raises UnknownJob and
    JobConflict."""
    if not job:
        open_jobs = await service.jobs(spider, [JobState.OPEN, JobState.PAUSED], MOST_JOBS)
        return [each for each in open_jobs if each.standing]
    known = await service.job(job)
    if not known.standing:
        raise JobConflict(f"{job} is no standing job, whose items are looked at again.")
    return [known]


async def find_watched(
    service: JobService,
    jobs: Sequence[Job],
    most: int,
    standings: Collection[Standing] = (),
    text: str = "",
    after: str = "",
) -> list[RecurringItem]:
    """Returns items of the jobs by status and by text in their names or reasons, after the id `after`, in the order of
    their ids."""
    if "\0" in text:  # MongoDB refuses NUL in a regular expression
        return []
    by_id = {job.id: job for job in jobs}
    query: Document = {"job": {"$in": list(by_id)}, "_id": {"$gt": after}}
    if standings:
        query["$or"] = [_QUERIES[each] for each in standings]
    if text:
        pattern = {"$regex": re.escape(text), "$options": "i"}
        query["$and"] = [{"$or": [{"key": pattern}, {"reason": pattern}]}]
    rows = await service.ledger.items.find(query, sort=[("_id", 1)], limit=most).to_list()
    return [_watched(item, by_id[item.job]) for item in map(read_item, rows)]


async def count_failed(service: JobService, jobs: Sequence[Job]) -> int:
    """Returns the number of items that `restart` restarts without names."""
    return await service.ledger.items.count_documents({"job": {"$in": [job.id for job in jobs]}, **_ANY_FAILED})


async def restart(service: JobService, jobs: Sequence[Job], names: Iterable[str], expect: int | None = None) -> int:
    """Visits items of the jobs again, now, by id or key; without names, all failed ones. Returns their number.

    Raises UnknownJob that lists the missing names, and JobConflict for more items than expected.
    """
    wanted = list(dict.fromkeys(names))
    query: Document = {"job": {"$in": [job.id for job in jobs]}}
    if wanted:
        query["$or"] = [{"_id": {"$in": wanted}}, {"key": {"$in": wanted}}]
    else:
        query |= _ANY_FAILED
    most = MOST_RESTARTED if expect is None else min(expect, MOST_RESTARTED)
    rows = await service.ledger.items.find(query, {"job": 1, "key": 1}, limit=most + 1).to_list()
    known = {row["_id"] for row in rows} | {row["key"] for row in rows}
    if len(rows) > most:
        raise JobConflict(f"More than {most:,} items are meant by now: look again, and say how many.")
    if missing := [name for name in wanted if name not in known]:
        raise UnknownJob(f"Nothing that is watched is called {', '.join(map(repr, missing[:10]))}.")
    number = 0
    for job in jobs:
        if ids := [row["_id"] for row in rows if row["job"] == job.id]:
            number += await service.retry(job.id, ids)
    return number


def _watched(item: Item, job: Job) -> RecurringItem:
    return RecurringItem(
        id=item.id,
        name=item.key,
        kind=item.kind,
        spider=job.spider,
        standing=standing_of(item),
        failures=item.failures,
        last_at=item.history[-1].at if item.history else None,
        next_at=item.due_at,
        reason=item.reason if item.failures else "",
        often=item.often,
        recheck=item.recheck or job.recheck,
        job=item.job,
    )

"""Starts the jobs of schedules, once for each time, with any number of workers that may be killed at any moment.

A schedule's document lists the times that still have to start. A time starts a job with an idempotency key made of
the schedule and the time, so two workers that start it open the same job. After that the time is removed from the
document.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

import msgspec
from msgspec.structs import replace
from pymongo import ASCENDING
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError

from harvester.exceptions import JobConflict, ServiceError, StorageError, UnknownJob, UsageError
from harvester.items import Found
from harvester.jobs.documents import SCHEDULES, Document, Job, JobState, read_item
from harvester.jobs.job_opener import OpensJobs, open_job_of
from harvester.jobs.late import note_look
from harvester.jobs.ledger import Ledger
from harvester.jobs.schedules import (
    CatchUp,
    Overlap,
    Schedule,
    looked_at,
    read_cron,
    read_every,
    read_name,
    read_zone,
    times_after,
)
from harvester.jobs.transitions import REMOVED
from harvester.masking import mask
from harvester.project import load_spider
from harvester.recheck.durations import duration_text

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 100
"""Maximum number of schedules that are handled together."""
CHUNK = 1000
"""Number of items that are read together."""
MOST_SAID = 500
"""Maximum number of characters of an exception's text that a schedule keeps."""


class BeginsJobs(OpensJobs, Protocol):
    """The part of a spider's class that schedules need: see JobSpider."""

    def parse_arguments(self, given: dict[str, Any]) -> Any: ...

    def arguments_from(self, job: Job) -> Any: ...

    def first_items(self, arguments: Any) -> Iterable[Found]: ...


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """The definition of a new schedule: of a spider, or of a job with the items for each new job."""

    name: str
    spider: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    """The arguments as typed."""
    job: str = ""
    cron: str = ""
    every: str = ""
    """A duration. Replaces `cron`."""
    zone: str = "UTC"
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.ONCE
    priority: int = 0
    paused: bool = False
    """True if the schedule starts nothing until it is resumed."""


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """The changes to a schedule. None leaves a value unchanged."""

    arguments: dict[str, str] | None = None
    """All arguments. Not allowed for a schedule that names a job."""
    cron: str | None = None
    every: str | None = None
    zone: str | None = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    priority: int | None = None


class Begun(NamedTuple):
    """A time of a schedule that was handled."""

    schedule: str
    at: datetime
    job: str
    """Id of the job. Empty if no job was started."""


class Schedules:
    """Reads, writes and starts all schedules of a ledger's database."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._documents: AsyncCollection[Document] = ledger.jobs.database[SCHEDULES]

    # Of people --------------------------------------------------------------------------------------------

    async def make(self, wanted: NewSchedule) -> Schedule:
        """Adds a schedule. Raises UsageError for an invalid one, UnknownJob, and JobConflict for a name in use."""
        if bool(wanted.spider) + bool(wanted.job) != 1:
            raise UsageError("add: give one of the name of a spider and --job JOB.")
        if bool(wanted.cron) + bool(wanted.every) != 1:
            raise UsageError("add: give one of --cron and --every.")
        if wanted.job and wanted.arguments:
            raise UsageError("-a: the arguments of the job are used: leave -a out.")
        now = self._ledger.now()
        source = await self._source(wanted.job)
        new = Schedule(
            id=read_name(wanted.name),
            spider=source.spider if source else wanted.spider,
            arguments=wanted.arguments,
            job=wanted.job,
            **_times(wanted.cron, wanted.every, wanted.zone),
            overlap=wanted.overlap,
            catch_up=wanted.catch_up,
            priority=wanted.priority,
            paused=wanted.paused,
            created_at=now,
            next_at=now,
        )
        check(new, source)
        new = replace(new, next_at=next(times_after(new, now)))
        await self.add(new)
        return new

    async def change(self, name: str, wanted: ScheduleChange) -> Schedule:
        """Changes a schedule, and returns it. When its times change, times that have passed are not made up for.

        Raises UnknownJob; UsageError for an invalid change; JobConflict when somebody else has changed it
        meanwhile.
        """
        before = await self.named(name)
        if before.job and wanted.arguments:
            raise UsageError("-a: the arguments of the job are used: leave -a out.")
        kept = ("arguments", "overlap", "catch_up", "priority")
        said = {each: value for each in kept if (value := getattr(wanted, each)) is not None}
        if (wanted.cron, wanted.every, wanted.zone) != (None, None, None):
            zone = ("UTC" if wanted.every else before.zone) if wanted.zone is None else wanted.zone
            has_times = wanted.cron is not None or wanted.every is not None
            cron = wanted.cron or "" if has_times else before.cron
            every = wanted.every or "" if has_times or not before.every_s else duration_text(before.every_s)
            said |= _times(cron, every, zone)
        after = replace(before, **said)
        if after == before:
            return before
        check(after, await self._source(before.job))
        if (after.cron, after.every_s, after.zone) != (before.cron, before.every_s, before.zone):
            said["next_at"] = next(times_after(after, self._ledger.now()))
        same = {"_id": name, **{each: getattr(before, each) for each in said if each != "next_at"}}
        update = {"$set": said}
        result = await self._ledger.patiently(lambda: self._documents.update_one(same, update))
        if not result.matched_count:
            await self.named(name)
            raise JobConflict(f"Somebody has changed the schedule {name!r} meanwhile: look at it again.")
        return await self.named(name)

    async def _source(self, job: str) -> Job | None:
        """Returns the job with this id, or None for an empty id. Raises UnknownJob."""
        found = await self._ledger.job(job) if job else None
        if job and not found:
            raise UnknownJob(f"There is no job {job!r}; `harvester jobs list` shows those there are.")
        return found

    async def add(self, schedule: Schedule) -> None:
        """Adds a schedule. Raises JobConflict for a name in use."""
        document: Document = msgspec.to_builtins(schedule, builtin_types=(datetime,))
        document["_id"] = document.pop("id")
        try:
            await self._ledger.patiently(partial(self._documents.insert_one, document))
        except DuplicateKeyError:
            raise JobConflict(f"There is a schedule {schedule.id!r}: give another name, or remove that one.") from None

    async def all(self) -> list[Schedule]:
        """Returns all schedules by name."""
        rows = await self._ledger.patiently(lambda: self._documents.find(sort=[("_id", ASCENDING)]).to_list())
        return [_read(row) for row in rows]

    async def named(self, name: str) -> Schedule:
        """Returns a schedule by its name. Raises UnknownJob."""
        row = await self._ledger.patiently(lambda: self._documents.find_one({"_id": name}))
        if row is None:
            raise UnknownJob(f"There is no schedule {name!r}; `harvester schedule list` shows those there are.")
        return _read(row)

    async def pause(self, name: str) -> None:
        """Pauses a schedule: it starts nothing. Raises UnknownJob."""
        await self._change(name, {"$set": {"paused": True}})

    async def resume(self, name: str, *, as_before: bool = False) -> datetime:
        """Ends a pause, and returns the next time. Times that have passed are not made up for. Raises UnknownJob.

        `as_before` undoes the pause: times that have passed are handled as if the schedule had not been paused.
        """
        while (schedule := await self.named(name)).paused:
            next_at = schedule.next_at if as_before else next(times_after(schedule, self._ledger.now()))
            same = {"paused": True, **_as_read(schedule)}
            update = {"$set": {"paused": False, "next_at": next_at}}
            result = await self._ledger.patiently(partial(self._documents.update_one, same, update))
            if result.matched_count:
                return next_at
        return schedule.next_at

    async def remove(self, name: str) -> None:
        """Removes a schedule. Its jobs stay. Raises UnknownJob."""
        result = await self._ledger.patiently(lambda: self._documents.delete_one({"_id": name}))
        if not result.deleted_count:
            await self.named(name)

    async def _change(self, name: str, update: Document) -> None:
        result = await self._ledger.patiently(lambda: self._documents.update_one({"_id": name}, update))
        if not result.matched_count:
            await self.named(name)

    # Of workers -------------------------------------------------------------------------------------------

    async def begin_due(self, spider: str | None = None) -> list[Begun]:
        """Starts all due times, for one spider or all. Returns the times that this call started or gave up."""
        due: Document = {
            "paused": False,
            "$or": [{"next_at": {"$lte": self._ledger.now()}}, {"queue.0": {"$exists": True}}],
        }
        if spider is not None:
            due["spider"] = spider
        await note_look(self._documents.database, self._ledger.patiently, spider or "", self._ledger.now())
        rows = await self._ledger.patiently(lambda: self._documents.find(due, {"_id": 1}, limit=MOST_AT_ONCE).to_list())
        random.shuffle(rows)  # lets several workers begin with different schedules
        begun: list[Begun] = []
        for row in rows:
            schedule = await self._as_it_is(row["_id"])  # others may have handled it meanwhile
            schedule = schedule and await self._look_at(schedule)
            while schedule and schedule.queue and await self._begin(schedule, begun):
                schedule = await self._as_it_is(schedule.id)
        return begun

    async def next_at(self) -> datetime | None:
        """Returns the next time of all schedules that are not paused."""
        order = [("next_at", ASCENDING)]
        row = await self._ledger.patiently(lambda: self._documents.find_one({"paused": False}, sort=order))
        return _read(row).next_at if row else None

    async def _look_at(self, schedule: Schedule) -> Schedule | None:
        """Queues the times that are due, and returns the schedule as stored then, whichever worker changed it."""
        after = looked_at(schedule, self._ledger.now())
        if after is schedule:
            return schedule
        same = {"paused": False, **_as_read(schedule)}
        changes = {"next_at": after.next_at, "queue": list(after.queue), "said": after.said}
        await self._ledger.patiently(lambda: self._documents.update_one(same, {"$set": changes}))
        return await self._as_it_is(schedule.id)

    async def _as_it_is(self, name: str) -> Schedule | None:
        row = await self._ledger.patiently(lambda: self._documents.find_one({"_id": name, "paused": False}))
        return _read(row) if row else None

    async def _begin(self, schedule: Schedule, begun: list[Begun]) -> bool:
        """Starts or gives up the first time of the queue, and notes the result. Returns False if it has to wait."""
        at = schedule.queue[0]
        last = await self._ledger.job(schedule.last_job) if schedule.last_job else None
        running = last if last and last.state in (JobState.OPEN, JobState.PAUSED) else None
        if running and schedule.overlap is Overlap.QUEUE:
            return False
        said, job = "", ""
        if running and schedule.overlap is Overlap.SKIP:
            said = f"{_shown(at)} was skipped: {running.id} is not finished"
        else:
            try:
                job = (await self._job(schedule, at, running)).id
            except UsageError as error:
                said = f"{_shown(at)} could not be begun: {error}"
        if await self._take_out(schedule, at, said, job):
            begun.append(Begun(schedule.id, at, job))
        return True

    async def _job(self, schedule: Schedule, at: datetime, running: Job | None) -> Job:
        """Returns the job of a time, or the running job that it joins, with all items. Raises UsageError."""
        spider = cast(BeginsJobs, load_spider(schedule.spider))
        source = await self._ledger.job(schedule.job) if schedule.job else None
        if schedule.job and not source:
            raise UsageError(f"the job {schedule.job} is gone")
        with _said_by_spider():
            arguments = check(schedule, source)
        chunks = self._items_of(schedule.job) if schedule.job else _chunks(spider.first_items, arguments)
        first: list[Found] = await anext(chunks, [])  # first: a job without items never ends
        if not first:
            raise UsageError("its arguments name nothing to begin with: change them (harvester schedule change -a)")
        key = f"schedule {schedule.id} {at.isoformat()}"
        job = running
        if job is None:
            scope = hashlib.sha256(key.encode()).hexdigest()[:16]
            named = {"name": schedule.id, "priority": schedule.priority, "idempotency_key": key}
            job, _ = await open_job_of(self._ledger, spider, arguments, scope, **named)
        if job.state is JobState.CANCELLED:
            return job
        await self._ledger.add(job.id, first, spider.site_of)
        async for found in chunks:
            await self._ledger.add(job.id, found, spider.site_of)
        await self._ledger.counting.count(job.id)
        return job

    async def _items_of(self, job: str) -> AsyncIterator[list[Found]]:
        """Yields the first items of a job, in chunks. Raises UsageError for a job without items."""
        last = ""
        while True:
            first = {"job": job, "depth": 0, "_id": {"$gt": last}, "outcome": {"$ne": REMOVED}}
            items = [read_item(row) for row in await self._ledger.patiently(partial(self._first_rows, first))]
            if not items:
                break
            last = items[-1].id
            yield [Found(item.kind, item.key, item.input, 0, item.priority, item.line) for item in items]
        if not last:
            raise UsageError(f"the job {job} has no items")

    async def _first_rows(self, query: Document) -> list[Document]:
        return await self._ledger.items.find(query, sort=[("_id", ASCENDING)], limit=CHUNK).to_list()

    async def _take_out(self, schedule: Schedule, at: datetime, said: str, job: str) -> bool:
        """Removes a handled time from the queue. Returns False if another worker has done that."""
        changes: Document = {"said": said} if said else {"begun_at": at, "last_job": job}
        first = {"_id": schedule.id, "queue.0": at}
        update = {"$set": changes, "$pop": {"queue": -1}}
        result = await self._ledger.patiently(lambda: self._documents.update_one(first, update))
        if not result.modified_count:
            return False
        if said:
            logger.warning("The schedule %s: %s", schedule.id, said)
        else:
            logger.info("The schedule %s has begun %s with the job %s", schedule.id, _shown(at), job)
        return True


def check(schedule: Schedule, source: Job | None) -> Any:
    """Returns the arguments of the schedule's jobs. Raises UsageError if it cannot start a job. `source`: the job that
    the schedule names."""
    spider = load_spider(schedule.spider)
    if not hasattr(spider, "first_items"):
        raise UsageError(f"{schedule.spider} begins no job: schedules are of spiders that deal with items.")
    begins = cast(BeginsJobs, spider)
    arguments = begins.arguments_from(source) if source else begins.parse_arguments(dict(schedule.arguments))
    if recheck := begins.recheck_of(arguments):
        raise UsageError(f"Jobs of {schedule.spider} with these arguments stand, and look again {recheck}: begin one.")
    return arguments


async def _chunks(first_items: Callable[[Any], Iterable[Found]], arguments: Any) -> AsyncIterator[list[Found]]:
    """Yields the items that a spider names, perhaps from a file, in chunks. Raises UsageError."""
    with _said_by_spider():
        rest = iter(first_items(arguments))
        while chunk := await asyncio.to_thread(list, islice(rest, CHUNK)):
            yield chunk


@contextmanager
def _said_by_spider() -> Iterator[None]:
    """Turns any exception of a spider into UsageError: a faulty spider must not stop the other schedules."""
    try:
        yield
    except (UsageError, ServiceError, StorageError):
        raise
    except Exception as error:
        raise UsageError(mask(f"{type(error).__name__}: {error}", MOST_SAID)) from error


def _times(cron: str, every: str, zone: str) -> dict[str, Any]:
    """Returns the fields of a schedule's times. Raises UsageError."""
    if bool(cron) + bool(every) != 1:
        raise UsageError("change: give one of --cron and --every.")
    if every and zone != "UTC":
        raise UsageError("--zone: it is of a cron expression; --every goes by time that passes.")
    return {
        "cron": read_cron(cron) if cron else "",
        "every_s": read_every(every) if every else None,
        "zone": read_zone(zone),
    }


def _as_read(schedule: Schedule) -> Document:
    """Returns a query for the schedule that matches only while its times are unchanged. Else a handled time would come
    back."""
    read: Document = {name: getattr(schedule, name) for name in ("cron", "every_s", "zone", "catch_up", "next_at")}
    return {"_id": schedule.id, "queue": list(schedule.queue), **read}


def _read(row: Document) -> Schedule:
    return msgspec.convert({**row, "id": row["_id"]}, Schedule)


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"

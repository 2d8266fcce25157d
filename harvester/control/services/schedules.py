"""Schedules: listing, upcoming times, and adding, changing, pausing and removing them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from harvester.control.services.action_result import ActionResult
from harvester.exceptions import JobConflict, UsageError
from harvester.jobs import upcoming
from harvester.jobs.late import find_late
from harvester.jobs.schedules import Schedule, read_cron, read_every
from harvester.jobs.scheduling import NewSchedule, ScheduleChange, Schedules
from harvester.jobs.service import JobService
from harvester.jobs.submission import refuse_files
from harvester.jobs.upcoming import Coming
from harvester.recheck.durations import duration_text

MOST_TIMES = 1000
"""Maximum number of upcoming times in a response."""
MOST_HOURS = 24 * 366.0
MOST_SCHEDULES = 1000
"""Maximum number of schedules; more could not be listed in a response."""


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule, and when it begins a job in words."""

    schedule: Schedule
    when: str
    late: str = ""
    """The reason why the schedule starts no jobs: no worker checks it. Empty: a worker does, or the schedule is paused.
    """


Statuses = list[ScheduleStatus]
"""An alias, because ScheduleService has a method called `list`."""


@dataclass(frozen=True, slots=True)
class RemovedSchedule:
    """A schedule that was removed."""

    said: str
    undo: NewSchedule | None
    """The schedule that adds it again; times that pass meanwhile are not caught up.

    None: the arguments name a file, so it can only be added on the machine itself.
    """


class ScheduleService:
    """The schedules of the database. Workers start their jobs."""

    def __init__(self, service: JobService) -> None:
        self._ledger = service.ledger
        self._schedules = Schedules(service.ledger)

    async def list(self) -> list[ScheduleStatus]:
        """Returns all schedules by name."""
        return await self._with_late(await self._schedules.all())

    async def show(self, name: str) -> ScheduleStatus:
        """Returns a schedule. Raises UnknownJob."""
        return (await self._with_late([await self._schedules.named(name)]))[0]

    async def _with_late(self, schedules: Sequence[Schedule]) -> Statuses:
        late = (await find_late(self._ledger, schedules)).schedules
        return [ScheduleStatus(each, each.when, late.get(each.id, "")) for each in schedules]

    async def coming(self, hours: float = 24, most: int = 100, name: str = "") -> Coming:
        """Returns the starts and visits of the next hours with their reasons, for all schedules or for the named one.

        Raises UnknownJob.
        """
        if not 0 <= hours <= MOST_HOURS:
            raise UsageError(f"hours: give 0 to {MOST_HOURS:,.0f}.")
        chosen = [await self._schedules.named(name)] if name else await self._schedules.all()
        until = self._ledger.now() + timedelta(hours=hours)
        return await upcoming.until(self._ledger, chosen, until, min(most, MOST_TIMES), with_looks=not name)

    async def add(self, wanted: NewSchedule) -> ScheduleStatus:
        """Adds a schedule. Adding an identical one again changes nothing.

        Raises UsageError, UnknownJob, JobConflict for a taken name.
        """
        if wanted.arguments and wanted.spider:
            refuse_files(wanted.spider, wanted.arguments)
        known = {each.id: each for each in await self._schedules.all()}
        if len(known) >= MOST_SCHEDULES:
            raise JobConflict(f"There are {MOST_SCHEDULES:,} schedules already: remove one that is not needed.")
        try:
            return _status(await self._schedules.make(wanted))
        except JobConflict:
            there = known.get(wanted.name) or await self._schedules.named(wanted.name)
            if _wish_of(there) != replace(_as_read(wanted), paused=there.paused):
                raise
            return _status(there)

    async def change(self, name: str, wanted: ScheduleChange) -> ScheduleStatus:
        """Changes a schedule.

        Raises UnknownJob, UsageError, and JobConflict when it is changed by another client at the same time.
        """
        if wanted.arguments:
            refuse_files((await self._schedules.named(name)).spider, wanted.arguments)
        return _status(await self._schedules.change(name, wanted))

    async def pause(self, name: str) -> ActionResult:
        """Pauses a schedule, so it starts no jobs. Raises UnknownJob."""
        was_paused = (await self._schedules.named(name)).paused
        await self._schedules.pause(name)
        return ActionResult(
            int(not was_paused), f"{name} {'was' if was_paused else 'is'} paused; resume it to undo that."
        )

    async def resume(self, name: str) -> ActionResult:
        """Resumes a paused schedule. Raises UnknownJob."""
        was_paused = (await self._schedules.named(name)).paused
        next_at = await self._schedules.resume(name)
        return ActionResult(int(was_paused), f"{name} goes on, next at {_shown(next_at)}.")

    async def remove(self, name: str) -> RemovedSchedule:
        """Removes a schedule and leaves its jobs. Raises UnknownJob, also for a schedule that was removed before."""
        schedule = await self._schedules.named(name)
        await self._schedules.remove(name)
        return RemovedSchedule(f"{name} is removed; its jobs stay.", undo_of(schedule))


def _status(schedule: Schedule) -> ScheduleStatus:
    return ScheduleStatus(schedule, schedule.when)


def _wish_of(schedule: Schedule) -> NewSchedule:
    """Returns the request that creates such a schedule, with its cron expression in the normalized form."""
    return NewSchedule(
        name=schedule.id,
        spider="" if schedule.job else schedule.spider,
        arguments=schedule.arguments,
        job=schedule.job,
        cron=schedule.cron,
        every=duration_text(schedule.every_s) if schedule.every_s else "",
        zone=schedule.zone,
        overlap=schedule.overlap,
        catch_up=schedule.catch_up,
        priority=schedule.priority,
        paused=schedule.paused,
    )


def undo_of(schedule: Schedule) -> NewSchedule | None:
    """Returns the request that adds a removed schedule again. None: its arguments name a file."""
    try:
        refuse_files(schedule.spider, schedule.arguments)
    except UsageError:
        return None
    return _wish_of(schedule)


def _as_read(wanted: NewSchedule) -> NewSchedule:
    """Returns the request with its cron expression and interval in the normalized form of a stored schedule."""
    cron = read_cron(wanted.cron) if wanted.cron else ""
    return replace(wanted, cron=cron, every=duration_text(read_every(wanted.every)) if wanted.every else "")


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"

"""Schedules, and what comes in the next day: their times, and looks at the items of standing jobs."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from harvester.control.pages.frame import frame
from harvester.control.pages.parts import Action, Cell, Row, Rows, Tag, address, at, confirmed, done, state_cell
from harvester.control.pages.room import Room
from harvester.jobs.coming import Time, until
from harvester.jobs.ledger import now
from harvester.jobs.schedules import Schedule
from harvester.jobs.scheduling import Schedules

MOST = 50
"""Times that are shown."""
DAY = timedelta(days=1)
COLUMNS = ("schedule", "spider", "when", "next time", "last job", "said last")
EMPTY = """There is no schedule. To have something harvested each night, type:

harvester schedule add nightly bluesky --cron "30 2 * * *" -a seeds=@accounts.txt"""


@dataclass(frozen=True, slots=True)
class _Seen:
    schedules: list[Schedule]
    coming: list[Time]
    more: bool


async def view(room: Room) -> None:
    with frame(room, "Schedules", "Schedules"):

        async def act(name: str, action: str) -> None:
            await _pause(room, name) if action == "pause" else await _resume(room, name)

        with Tag("section", classes="card", aria_label="Schedules"):
            schedules = Rows("Schedules", COLUMNS, EMPTY, act)
        with Tag("section", classes="card", aria_label="The coming day"):
            coming = Rows("The coming day", ("time", "what", "why"), "Nothing comes within 24 hours.")

        def show(seen: _Seen) -> None:
            schedules.show([_row(each) for each in seen.schedules])
            more = f"The coming day: the first {MOST}" if seen.more else "The coming day"
            rows = [Row(f"{each.at} {each.what}", [_when(each), each.what, each.why]) for each in seen.coming]
            coming.show(rows, more)

        await room.broadcaster.watch("schedules", lambda: _read(room), show)


async def _read(room: Room) -> _Seen:
    ledger = room.here.jobs.ledger
    schedules = await Schedules(ledger).all()
    coming = await until(ledger, schedules, now() + DAY, MOST, with_looks=True)
    return _Seen(schedules, coming.times, coming.more)


async def _pause(room: Room, name: str) -> None:
    said = "Nothing of it is begun until it is resumed. Times that pass meanwhile are not made up for."
    if await confirmed(f"Pause {name}?", said, "Pause"):
        await _set(room, name, paused=True)


async def _resume(room: Room, name: str) -> None:
    await _set(room, name, paused=False)


async def _set(room: Room, name: str, *, paused: bool, next_at: datetime | None = None) -> None:
    """`next_at`: its next time when it is resumed; None: as it comes."""

    async def change() -> Schedule:
        schedules = Schedules(room.here.jobs.ledger)
        before = await schedules.named(name)
        await (schedules.pause(name) if paused else schedules.resume(name, next_at))
        return before

    async def undo() -> None:
        assert before
        await _set(room, name, paused=not paused, next_at=before.next_at if paused else None)

    action = "pause_schedule" if paused else "resume_schedule"
    before = await room.act(action, f"/schedules/{name}", change)
    if before:
        done(f"The schedule {name} is paused." if paused else f"The schedule {name} goes on.", undo)


def _row(schedule: Schedule) -> Row:
    waits = f", {len(schedule.queue):,} waiting" if schedule.queue else ""
    next_at = state_cell("paused") if schedule.paused else Cell(f"{at(schedule.next_at)}{waits}")
    job = Cell(schedule.last_job, address("jobs", schedule.last_job) if schedule.last_job else "")
    action = Action("resume", "Resume") if schedule.paused else Action("pause", "Pause")
    return Row(schedule.id, [schedule.id, schedule.spider, schedule.when, next_at, job, schedule.said], [action])


def _when(time: Time) -> str:
    return "now" if time.is_due else at(time.at)

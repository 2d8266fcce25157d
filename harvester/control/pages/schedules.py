"""Schedules and the work of the next day: the times of schedules, and visits of items of recurring jobs.

Schedules can be added, paused, resumed, changed and removed.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from nicegui import ui

from harvester.control.pages.arguments import Arguments, Known, first, spiders
from harvester.control.pages.components import (
    Cell,
    Field,
    InputForm,
    RowAction,
    RowsTable,
    TableRow,
    Tag,
    address,
    at,
    button,
    confirmed,
    done,
    filled,
    state_cell,
)
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext, Say, complain
from harvester.control.services.schedules import ScheduleService, ScheduleStatus, undo_of
from harvester.exceptions import UsageError
from harvester.jobs.late import Late, find_late
from harvester.jobs.ledger import now
from harvester.jobs.schedules import Schedule
from harvester.jobs.scheduling import NewSchedule, ScheduleChange, Schedules
from harvester.jobs.upcoming import Time, until
from harvester.recheck.durations import duration_text

MOST = 50
"""Maximum number of times to show."""
DAY = timedelta(days=1)
COLUMNS = ("schedule", "spider", "when", "next time", "last job", "said last")
EMPTY = """There is no schedule. To have something harvested each night, add one below, or type:

harvester schedule add nightly bluesky --cron "30 2 * * *" -a seeds=@accounts.txt"""
PAUSE, RESUME = RowAction("pause", "Pause"), RowAction("resume", "Resume")
CHANGE, REMOVE = RowAction("change", "Change"), RowAction("remove", "Remove")
CRON_HINT = "minute, hour, day, month, weekday, as 30 2 * * *; or @daily"
EVERY_HINT = "in place of it: 30m, 6h, 1d"


@dataclass(frozen=True, slots=True)
class _Seen:
    schedules: list[Schedule]
    coming: list[Time]
    more: bool
    late: Late


async def view(room: PageContext) -> None:
    with frame(room, "Schedules", "Schedules"):
        by_name: dict[str, Schedule] = {}

        async def act(name: str, action: str) -> None:
            await ACTS[action](room, by_name[name])

        with Tag("section", classes="card", aria_label="Schedules"):
            schedules = RowsTable("Schedules", COLUMNS, EMPTY, act)
        if known := await asyncio.to_thread(spiders):
            with Tag("details", classes="card"):
                Tag("summary", "Add a schedule")
                _New(room, known)
        with Tag("section", classes="card", aria_label="The coming day"):
            late = Tag("p", "", "said", role="status")
            coming = RowsTable("The coming day", ("time", "what", "why"), "Nothing comes within 24 hours.")

        def show(seen: _Seen) -> None:
            by_name.clear()
            by_name.update({each.id: each for each in seen.schedules})
            schedules.show([_row(each, seen.late.schedules.get(each.id, "")) for each in seen.schedules])
            late.text = " ".join(f"{job}: {said}" for job, said in seen.late.jobs.items())
            late.visible = bool(late.text)
            more = f"The coming day: the first {MOST}" if seen.more else "The coming day"
            rows = [TableRow(f"{each.at} {each.what}", [_when(each), each.what, each.why]) for each in seen.coming]
            coming.show(rows, more)

        await room.broadcaster.watch("schedules", lambda: _read(room), show)


async def _read(room: PageContext) -> _Seen:
    ledger = room.here.jobs.ledger
    schedules = await Schedules(ledger).all()
    coming = await until(ledger, schedules, now() + DAY, MOST, with_looks=True)
    return _Seen(schedules, coming.times, coming.more, await find_late(ledger, schedules))


class _New:
    """The form for a new schedule: a spider, the arguments, and the times of the jobs."""

    def __init__(self, room: PageContext, known: Known) -> None:
        self._room = room
        self._known = known
        with Tag("div", classes="line end"):
            self._spider = ui.select(sorted(known), label="Spider", value=first(known), on_change=self._show_spider)
            self._spider.props("outlined dense options-dense")
        self._about = Tag("p", "", "said")
        self._arguments = Arguments()
        Tag("h2", "When its jobs begin").style("margin-top: 14px")
        form = InputForm([Field("name", "Name of the schedule", hint="as nightly"), *_times("", "", "UTC")], self._add)
        with Tag("div", classes="line"):
            button("Add", form.submit, "main")
        self._show_spider()

    def _show_spider(self) -> None:
        about, _, schema = self._known[str(self._spider.value)]
        self._about.text = about
        self._arguments.show(schema)

    async def _add(self, form: InputForm) -> None:
        wanted = NewSchedule(form["name"], str(self._spider.value), self._arguments.given, **_read_times(form))
        asked_at = now()
        added = await _add(self._room, wanted, form.complain)
        if added:
            schedule = added.schedule
            is_new = schedule.created_at >= asked_at  # an existing schedule must not be removed by the undo
            said = f"{schedule.id}: {added.when}, next at {at(schedule.next_at)}."
            done(said, partial(_take_away, self._room, schedule) if is_new else None)


async def _add(room: PageContext, wanted: NewSchedule, say: Say = complain) -> ScheduleStatus | None:
    target = address("schedules", wanted.name)
    return await room.act("add_schedule", target, lambda: ScheduleService(room.here.jobs).add(wanted), say=say)


async def _add_again(room: PageContext, wanted: NewSchedule) -> None:
    if await _add(room, wanted):
        done(f"{wanted.name} is there again.")


async def _change(room: PageContext, schedule: Schedule) -> None:
    async def do(form: InputForm) -> ScheduleStatus | None:
        return await _change_to(room, schedule, ScheduleChange(**_read_times(form)), form.complain)

    before = ScheduleChange(cron=schedule.cron, every=_every(schedule), zone=schedule.zone)
    said = f"Now: {schedule.when}. Times that have passed are not made up for."
    fields = _times(schedule.cron, _every(schedule), schedule.zone)
    changed = await filled(f"When is {schedule.id} to begin jobs?", said, fields, "Change", do)
    if changed:

        async def undo() -> None:
            back = await _change_to(room, schedule, before)
            if back:
                done(f"{schedule.id}: {back.when} again.")

        done(f"{schedule.id}: {changed.when}, next at {at(changed.schedule.next_at)}.", undo)


async def _change_to(
    room: PageContext, schedule: Schedule, wanted: ScheduleChange, say: Say = complain
) -> ScheduleStatus | None:
    service, target = ScheduleService(room.here.jobs), address("schedules", schedule.id)
    return await room.act("change_schedule", target, lambda: service.change(schedule.id, wanted), say=say)


async def _remove(room: PageContext, schedule: Schedule) -> None:
    undone = "" if undo_of(schedule) else " This cannot be undone from here: its arguments name a file."
    said = f"Nothing of it is begun any more. Its jobs stay.{undone}"
    if await confirmed(f"Remove {schedule.id}?", said, "Remove"):
        await _take_away(room, schedule)


async def _take_away(room: PageContext, schedule: Schedule) -> None:
    service, target = ScheduleService(room.here.jobs), address("schedules", schedule.id)
    removed = await room.act("remove_schedule", target, lambda: service.remove(schedule.id))
    if removed:
        done(removed.said, partial(_add_again, room, removed.undo) if removed.undo else None)


async def _pause(room: PageContext, schedule: Schedule) -> None:
    said = "Nothing of it is begun until it is resumed. Times that pass meanwhile are not made up for."
    if await confirmed(f"Pause {schedule.id}?", said, "Pause"):
        await _set(room, schedule.id, paused=True)


async def _resume(room: PageContext, schedule: Schedule) -> None:
    await _set(room, schedule.id, paused=False)


ACTS = {"pause": _pause, "resume": _resume, "change": _change, "remove": _remove}
"""Name of a row's action -> its function."""


async def _set(room: PageContext, name: str, *, paused: bool, as_before: bool = False) -> None:
    """`as_before`: resumes as if it had never been paused."""

    async def change() -> bool:
        schedules = Schedules(room.here.jobs.ledger)
        await (schedules.pause(name) if paused else schedules.resume(name, as_before=as_before))
        return True

    async def undo() -> None:
        await _set(room, name, paused=not paused, as_before=paused)

    action = "pause_schedule" if paused else "resume_schedule"
    if await room.act(action, f"/schedules/{name}", change):
        done(f"The schedule {name} is paused." if paused else f"The schedule {name} goes on.", undo)


def _row(schedule: Schedule, late: str) -> TableRow:
    waits = f", {len(schedule.queue):,} waiting" if schedule.queue else ""
    next_at = state_cell("paused") if schedule.paused else Cell(f"{at(schedule.next_at)}{waits}")
    job = Cell(schedule.last_job, address("jobs", schedule.last_job) if schedule.last_job else "")
    actions = [RESUME if schedule.paused else PAUSE, CHANGE, REMOVE]
    said = Cell(late, tone="bad") if late else schedule.said
    return TableRow(schedule.id, [schedule.id, schedule.spider, schedule.when, next_at, job, said], actions)


def _times(cron: str, every: str, zone: str) -> list[Field]:
    return [
        Field("cron", "Cron", cron, CRON_HINT),
        Field("every", "Every", every, EVERY_HINT),
        Field("zone", "Time zone of the cron expression", zone, "as Europe/Berlin"),
    ]


def _read_times(form: InputForm) -> dict[str, Any]:
    """Returns the times of the form as arguments of a schedule. Raises UsageError."""
    cron, every = form["cron"], form["every"]
    if bool(cron) == bool(every):
        raise UsageError("Give one of the two: a cron expression, or every how long.")
    return {"cron": cron, "every": every, "zone": form["zone"] or "UTC" if cron else "UTC"}


def _every(schedule: Schedule) -> str:
    return duration_text(schedule.every_s) if schedule.every_s else ""


def _when(time: Time) -> str:
    return "now" if time.is_due else at(time.at)

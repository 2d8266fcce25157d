"""The view of a job: progress, rate, waiting reasons, items and actions."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nicegui import ui

from harvester.control.batches import ActionBatch
from harvester.control.batches import BatchAction as Batched
from harvester.control.pages import items
from harvester.control.pages.components import (
    BLUE,
    GREY,
    LINES,
    Bar,
    Cell,
    Facts,
    RowAction,
    RowsTable,
    TableRow,
    Tag,
    Tiles,
    address,
    asked,
    at,
    button,
    confirmed,
    done,
)
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext, complain
from harvester.formatting import counted, duration, number, typed_arguments
from harvester.jobs.documents import NOT_GIVEN, ItemState, Job, JobState
from harvester.jobs.ledger import now
from harvester.jobs.listing import ItemFilter
from harvester.jobs.service import JobReport
from harvester.validation import MOST_NUMBER

MOST_BATCHES = 5
"""Maximum number of batches to show: the latest."""


async def view(room: PageContext, job: str, which: ItemFilter, after: str) -> None:
    """Shows a job. `which`, `after`: filter and start of the listed items. Raises UnknownJob."""
    known = await room.here.jobs.job(job)
    with frame(room, known.name or job, "Jobs", _said(known)):
        head = _Head(room, known)
        with Tag("div", classes="two"):
            with Tag("section", classes="card", aria_label="Rate"):
                Tag("h2", "Items that ended a minute")
                chart = _Chart()
            with Tag("section", classes="card", aria_label="What it waits for"):
                waits = RowsTable("What it waits for", ("why", "+items", "until"), "Nothing holds it up.")
        with Tag("section", classes="card", aria_label="Outcomes"):
            outcomes = RowsTable(
                "Outcomes of the latest attempts",
                ("outcome", "+items"),
                "No item has an outcome yet: they come as workers end their first attempts.",
                lambda outcome, _: retry(room, job, outcome),
            )
            columns = ("what", "of items", "+meant", "+done", "state", "asked for", "by")
            batches = RowsTable("Retries, and other things done to many items", columns, "")
        await items.section(room, job, which, after)

        def show(seen: tuple[JobReport, list[ActionBatch]]) -> None:
            report, begun = seen
            head.show(report)
            chart.show(report.job)
            waits.show(_waits(report))
            outcomes.show([_outcome(job, name, number) for name, number in report.outcomes.items()])
            batches.show([_batch_row(batch) for batch in begun])
            batches.visible = bool(begun)

        async def read() -> tuple[JobReport, list[ActionBatch]]:
            return await room.here.jobs.report(job, wait=False), await room.here.batches.of(job, MOST_BATCHES)

        await room.broadcaster.watch(("job", job), read, show)


class _Head:
    """The numbers, the bar of states, and the buttons."""

    def __init__(self, room: PageContext, job: Job) -> None:
        self._room = room
        self._job = job
        self.report: JobReport | None = None
        with Tag("div", classes="line"):
            self._pause = button("Pause", self.pause)
            self._resume = button("Resume", self.resume)
            self._retry = button("Retry what failed", self.retry, data_key="r")
            self._priority = button("Priority", self.set_priority)
            self._cancel = button("Cancel", self.cancel, "danger")
            Tag("a", "Add more like it", "act", href=address("submit", spider=job.spider))
        self._tiles = Tiles(("items", "ended a minute", "left", "priority"))
        with Tag("section", classes="card", aria_label="States"):
            self._bar = Bar()
            self._facts = Facts().style("margin-top: 14px")

    def show(self, report: JobReport) -> None:
        self.report, job = report, report.job
        self._job = job
        self._pause.visible = job.state is JobState.OPEN
        self._resume.visible = job.state is JobState.PAUSED
        self._cancel.visible = job.state in (JobState.OPEN, JobState.PAUSED)
        failed = report.states.get(ItemState.FAILED, 0)
        self._retry.visible = bool(failed) and job.state is not JobState.CANCELLED
        self._retry.text = f"Retry {counted(failed, 'failed item')}"
        self._tiles.show(
            {
                "items": report.items,
                "ended a minute": number(report.rate * 60) if report.rate is not None else "-",
                "left": duration(report.left_s, rough=True) if report.left_s is not None else "-",
                "priority": job.priority,
            }
        )
        self._bar.show(
            [(state, report.states.get(state, 0), address("jobs", job.id, state=state)) for state in ItemState]
        )
        stages = ", ".join(f"{name.replace('_', ' ')} {items:,}" for name, items in report.stages.items())
        self._facts.show(
            [
                ("state", Cell(str(job.state), tone="warn" if job.state is JobState.PAUSED else "")),
                ("paused because of", job.pause_reason),
                ("incomplete", NOT_GIVEN if job.incomplete and job.ended_at is None else ""),
                ("stages", stages),
                ("arguments", typed_arguments(job.arguments)),
                ("looked at again", job.recheck),
                ("next look", at(report.next_look)),
                ("counted", at(job.counted_at)),
                ("ended", at(job.ended_at)),
            ]
        )

    # Actions ----------------------------------------------------------------------------------------------

    async def pause(self) -> None:
        active = self.report.states.get(ItemState.ACTIVE, 0) if self.report else 0
        said = f"No more items are begun. {_ends(active)}"
        reason = await asked(f"Pause {self._job.id}?", said, "Why, for others (may stay empty)", "Pause")
        if reason is None:
            return
        if await self._do("pause_job", lambda: self._room.here.jobs.pause(self._job.id, reason)):
            done(f"{self._job.id} is paused.", self.resume)

    async def resume(self) -> None:
        reason = self._job.pause_reason
        if await self._do("resume_job", lambda: self._room.here.jobs.resume(self._job.id)):
            done(f"{self._job.id} goes on.", partial(self._pause_again, reason))

    async def _pause_again(self, reason: str) -> None:
        if await self._do("pause_job", lambda: self._room.here.jobs.pause(self._job.id, reason)):
            done(f"{self._job.id} is paused.")

    async def cancel(self) -> None:
        states = self.report.states if self.report else {}
        waiting, active = states.get(ItemState.WAITING, 0), states.get(ItemState.ACTIVE, 0)
        said = (
            f"{counted(waiting, 'item')} not begun yet will be skipped, for good. {_ends(active)}"
            " What was stored stays."
        )
        if await confirmed(f"Cancel {self._job.id}?", said, "Cancel the job"):
            who = await self._room.who()

            async def begin() -> ActionBatch:
                asked_at = now()
                left = await self._room.here.jobs.begin_cancelling(self._job.id)
                return await self._room.here.batches.begin(Batched.CANCEL, self._job.id, left, who, asked_at)

            if await self._room.act("cancel_job", self._path, begin):
                done(f"{self._job.id} is cancelled; what waits is being skipped.")

    async def set_priority(self) -> None:
        before = self._job.priority
        said = f"Jobs with a larger one go first. It is {before:,} now."
        given = await asked(f"Priority of {self._job.id}", said, "Priority", "Set", str(before))
        if given is None:
            return
        try:
            wanted = int(given)
        except ValueError:
            complain(f"{given!r} is no whole number.")
            return
        if abs(wanted) > MOST_NUMBER:
            complain(f"A priority is from -{MOST_NUMBER:,} to {MOST_NUMBER:,}.")
            return
        if await self._prioritise(wanted):
            done(f"{self._job.id} has the priority {wanted:,}.", partial(self._undo_priority, before))

    async def _undo_priority(self, before: int) -> None:
        if await self._prioritise(before):
            done(f"{self._job.id} has the priority {before:,} again.")

    async def _prioritise(self, priority: int) -> bool:
        return await self._do("set_priority", lambda: self._room.here.jobs.set_priority(self._job.id, priority))

    async def retry(self) -> None:
        await retry(self._room, self._job.id, "")

    async def _do(self, action: str, do: Callable[[], Awaitable[Any]]) -> bool:
        async def act() -> bool:
            await do()
            return True

        return bool(await self._room.act(action, self._path, act))

    @property
    def _path(self) -> str:
        return address("jobs", self._job.id)


async def retry(room: PageContext, job: str, outcome: str) -> None:
    """Asks for confirmation, and begins a batch for the items that failed or have the outcome.

    Only items that match at the time of the question are included, so never more are retried than the question stated.
    """
    asked_at, which = now(), ItemFilter(outcome=outcome)
    number = await room.look_up(lambda: room.here.jobs.retriable(job, which, until=asked_at))
    if number is None:
        return
    what = f"with the outcome {outcome}" if outcome else "that failed"
    if not number:
        complain(f"There is no item {what} that could be tried again now.")
        return
    said = f"{counted(number, 'item')} {what}: waiting again, now, with all attempts. It is done in the background."
    if not await confirmed(f"Retry {counted(number, 'item')}?", said, f"Retry {number:,}"):
        return
    who = await room.who()

    async def begin() -> ActionBatch:
        return await room.here.batches.begin(Batched.RETRY, job, number, who, asked_at, which=which)

    if await room.act("retry_items", address("jobs", job, outcome=outcome, expect=str(number)), begin):
        done(f"{counted(number, 'item')} {what} are being retried.")


def _outcome(job: str, outcome: str, items: int) -> TableRow:
    cell = Cell(outcome.replace("_", " "), href=address("jobs", job, outcome=outcome))
    return TableRow(
        outcome, [cell, items], [RowAction("retry", "Retry", "r")], f"{counted(items, 'item')} with {outcome}"
    )


def _batch_row(batch: ActionBatch) -> TableRow:
    state = Cell(f"{batch.state}: {batch.said}" if batch.said else str(batch.state), tone="bad" if batch.said else "")
    of_items = batch.filter.outcome.replace("_", " ") or batch.filter.state
    of_items = of_items or ("waiting" if batch.action is Batched.CANCEL else "failed")
    cells: list[Cell | str | int] = [str(batch.action), of_items, batch.matched, batch.done, state]
    return TableRow(batch.id, [*cells, at(batch.asked_at), batch.by])


def _waits(report: JobReport) -> list[TableRow]:
    rows = []
    if report.deferred:
        for outcome, items in report.deferred.outcomes.items():
            words = f"tried again later: {outcome.replace('_', ' ') or 'no outcome yet'}"
            rows.append(TableRow(f"deferred {outcome}", [words, items, f"the first at {at(report.deferred.until)}"]))
    for alone in report.left_alone:
        place = f"{alone.site} ({alone.tier})" if alone.tier else alone.site
        why = Cell(f"{place} is left alone ({alone.breaker.state}): {alone.breaker.said}", address("sites"), "warn")
        until = at(datetime.fromtimestamp(alone.breaker.until, UTC)) if alone.breaker.until else "somebody closes it"
        rows.append(TableRow(f"site {place}", [why, alone.items, until]))
    if report.left_alone_unknown:
        rows.append(
            TableRow("unknown", [f"Which sites are left alone is not known: {report.left_alone_unknown}", "", ""])
        )
    return rows


class _Chart:
    """A chart of the items that ended per minute, over the remembered counts."""

    def __init__(self) -> None:
        options = {
            "grid": {"left": 48, "right": 12, "top": 12, "bottom": 26},
            "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True, "color": GREY}},
            "yAxis": {"type": "value", "min": 0, "axisLabel": {"color": GREY}, "splitLine": LINES},
            "useUTC": True,
            "tooltip": {"trigger": "axis"},
            "animation": False,
            "color": [BLUE],
            "series": [{"type": "line", "showSymbol": False, "areaStyle": {"opacity": 0.2}, "data": [], "step": "end"}],
        }
        self._chart = ui.echart(options).classes("chart").props('role="img" aria-label="Rate over time"')
        self._said = Tag("p", "", "empty")

    def show(self, job: Job) -> None:
        points = rates(job)
        self._chart.visible = bool(points)
        self._said.text = "" if points else "Nothing has been counted twice yet."
        series = self._chart.options["series"][0]
        if series["data"] != points:
            series["data"] = points
            self._chart.update()


def rates(job: Job) -> list[list[float]]:
    """Returns a point for each pair of counts: milliseconds since 1970, items that ended per minute."""
    points = []
    for before, then in zip(job.pace, job.pace[1:], strict=False):
        seconds = (then.at - before.at).total_seconds()
        if seconds > 0:
            rate = max(0.0, (then.ended - before.ended) / seconds * 60)
            points.append([int(then.at.timestamp() * 1000), round(rate, 1)])
    return points


def _said(job: Job) -> str:
    standing = ", looked at again and again" if job.standing else ""
    return f"{job.id}, of the spider {job.spider}{standing}, created {at(job.created_at)}"


def _ends(active: int) -> str:
    if active < 2:
        return "1 item is being worked at, and comes to its end." if active else "No item is being worked at."
    return f"{active:,} items are being worked at, and come to their end."

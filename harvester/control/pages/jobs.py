"""The view of all jobs, the latest first."""

from nicegui import ui

from harvester.control.pages.components import Cell, RowsTable, TableRow, Tag, address, at, state_cell
from harvester.control.pages.frame import frame
from harvester.control.pages.page_context import PageContext
from harvester.formatting import duration, number
from harvester.jobs.documents import ItemState, Job, JobState
from harvester.jobs.service import by_state, pace_of

MOST = 100
"""Maximum number of jobs on a page."""
COLUMNS = ("job", "state", *(f"+{state}" for state in ItemState), "+ended a minute", "left", "created", "name")
EMPTY = """There is no job yet. Submit one here, or type:

harvester jobs submit bluesky --input accounts.txt"""


async def view(room: PageContext, spider: str = "", state: str = "") -> None:
    """Shows the jobs that match `spider` and `state`; an unknown state shows all."""
    states = [JobState(state)] if state in list(JobState) else []
    with frame(room, "Jobs", "Jobs"):
        with Tag("div", classes="line end"):
            Tag("a", "Submit a job", "act main", href="/submit")
            chosen = ui.select(
                {"": "all states", **{each: each for each in JobState}}, label="State", value=state if states else ""
            ).props("outlined dense options-dense")
            chosen.on_value_change(lambda event: ui.navigate.to(address("jobs", spider=spider, state=event.value)))
            search = ui.input("Spider", value=spider, placeholder="name").props("outlined dense data-search")
            search.on(
                "keydown.enter",
                lambda: ui.navigate.to(address("jobs", spider=str(search.value or "").strip(), state=state)),
            )
        with Tag("section", classes="card", aria_label="Jobs"):
            empty = "No job is like this. Take the filters away to see all." if spider or states else EMPTY
            rows = RowsTable("The latest first", COLUMNS, empty)

        async def read() -> list[TableRow]:
            return [job_row(job) for job in await room.here.jobs.jobs(spider, states, MOST)]

        await room.broadcaster.watch(("jobs", spider, state), read, rows.show)


def job_row(job: Job) -> TableRow:
    """Returns the row of a job, with its latest counts and its current rate."""
    counts = by_state(job)
    pace = pace_of(job) if job.state is JobState.OPEN else None
    waits = counts.get(ItemState.WAITING, 0) + counts.get(ItemState.ACTIVE, 0)
    left = duration(waits / pace, rough=True) if pace and waits and not job.standing else ""
    cells: list[Cell | str | int] = [
        Cell(job.id, href=address("jobs", job.id)),
        state_cell(job.state, f"{job.state}, standing" if job.standing and job.state is JobState.OPEN else ""),
    ]
    for state in ItemState:
        items = counts.get(state, 0)
        href = address("jobs", job.id, state=state) if items else ""
        cells.append(Cell(f"{items:,}", href=href, tone="bad" if state is ItemState.FAILED and items else ""))
    cells += [number(pace * 60) if pace is not None else "", left, at(job.created_at), job.name]
    return TableRow(job.id, cells)

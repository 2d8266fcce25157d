"""The first view: running jobs, their rates, failures, open breakers, and upcoming work."""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from harvester.control.pages.components import Cell, RowsTable, TableRow, Tag, Tiles, address, at
from harvester.control.pages.frame import frame
from harvester.control.pages.jobs import COLUMNS, EMPTY, job_row
from harvester.control.pages.page_context import PageContext
from harvester.control.services.sites import Sites
from harvester.exceptions import ServiceError
from harvester.formatting import number
from harvester.jobs.documents import ItemState, Job, JobState
from harvester.jobs.ledger import now
from harvester.jobs.scheduling import Schedules
from harvester.jobs.service import by_state, pace_of
from harvester.jobs.upcoming import Time, until

MOST_JOBS = 10
MOST_COUNTED = 1000
"""Maximum number of unfinished jobs to add up."""
MOST = 8
"""Maximum number of lines of the other tables."""
SITES_S = 3.0
"""Seconds between two reads of the sites."""
SOON = timedelta(days=1)
NOTHING_COMES = """Nothing is scheduled. To have something harvested each night, type:

harvester schedule add nightly bluesky --cron "30 2 * * *" -a seeds=@accounts.txt"""
_FINE = {"ok", "unchanged", ""}
"""Outcomes that are not failures."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The data of the view at one moment."""

    numbers: dict[str, int | str]
    jobs: list[TableRow]
    failures: list[TableRow]
    coming: list[TableRow]


async def view(room: PageContext) -> None:
    with frame(room, "Overview", "Overview"):
        tiles = Tiles(("open jobs", "items wait", "are worked at", "ended a minute", "failed"))
        with Tag("section", classes="card", aria_label="Jobs"):
            jobs = RowsTable("The latest jobs that are not ended, and behind them others", COLUMNS, EMPTY)
            with Tag("div", classes="line").style("margin: 12px 0 0"):
                Tag("a", "Submit a job", "act main", href="/submit")
                Tag("a", "All jobs", "act", href="/jobs")
        with Tag("div", classes="two"):
            with Tag("section", classes="card", aria_label="Failures"):
                failures = RowsTable("What fails in open jobs", ("outcome", "+items", "job"), "Nothing fails.")
            with Tag("section", classes="card", aria_label="Coming"):
                next_ = RowsTable("What is due in the next 24 hours", ("time", "what", "why"), NOTHING_COMES)
        with Tag("section", classes="card", aria_label="Sites that are left alone"):
            alone = RowsTable(
                "Sites that are left alone", ("site", "spider", "+requests wait", "until", "why"), "None."
            )

        def show(seen: _Seen) -> None:
            tiles.show(seen.numbers)
            jobs.show(seen.jobs)
            failures.show(seen.failures)
            next_.show(seen.coming)

        await room.broadcaster.watch("overview", lambda: _read(room), show)
        await room.broadcaster.watch("left alone", lambda: _left_alone(room), alone.show, SITES_S)


async def _left_alone(room: PageContext) -> list[TableRow]:
    """Returns the sites with an open breaker, or a row with the error: the rest of the view works without Redis."""
    try:
        page = await Sites(room.here.jobs).list(left_alone=True, most=MOST)
    except ServiceError as error:
        return [TableRow("unknown", [f"It is not known: {error}", "", "", "", ""])]
    rows = []
    for site in page.sites:
        place = f"{site.site} ({site.tier})" if site.tier else site.site
        until_when = at(site.until) or ("somebody closes it" if site.state == "held" else "")
        cells: list[Cell | str | int] = [Cell(place, address("sites")), site.spider, site.parked, until_when]
        rows.append(TableRow(f"{site.spider} {place}", [*cells, ": ".join(filter(None, (site.cause, site.said)))]))
    return rows


async def _read(room: PageContext) -> _Seen:
    service = room.here.jobs
    unfinished = await service.jobs(states=[JobState.OPEN, JobState.PAUSED], most=MOST_COUNTED)
    others = await service.jobs(states=[JobState.FINISHED, JobState.CANCELLED], most=MOST_JOBS)
    schedules = await Schedules(service.ledger).all()
    coming = await until(service.ledger, schedules, now() + SOON, MOST, with_looks=True)
    jobs = [*unfinished, *others]
    return _Seen(
        _numbers(jobs), [job_row(job) for job in jobs[:MOST_JOBS]], _failures(jobs), [*map(_when, coming.times)]
    )


def _when(time: Time) -> TableRow:
    return TableRow(f"{time.what} {time.at}", ["now" if time.is_due else at(time.at), time.what, time.why])


def _numbers(jobs: list[Job]) -> dict[str, int | str]:
    opened = [job for job in jobs if job.state is JobState.OPEN]
    states: Counter[str] = Counter()
    for job in jobs:
        if job.state in (JobState.OPEN, JobState.PAUSED):
            states.update(by_state(job))
    paces = [pace for job in opened if (pace := pace_of(job)) is not None]
    return {
        "open jobs": len(opened),
        "items wait": states[ItemState.WAITING],
        "are worked at": states[ItemState.ACTIVE],
        "ended a minute": number(sum(paces) * 60) if paces else "-",
        "failed": states[ItemState.FAILED],
    }


def _failures(jobs: list[Job]) -> list[TableRow]:
    found: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.state in (JobState.OPEN, JobState.PAUSED):
            for row in job.counts:
                if row.outcome not in _FINE and row.state is not ItemState.DONE:
                    found[row.outcome, job.id] += row.items
    return [
        TableRow(
            f"{outcome} {job}",
            [
                Cell(outcome.replace("_", " "), address("jobs", job, outcome=outcome)),
                items,
                Cell(job, address("jobs", job)),
            ],
        )
        for (outcome, job), items in found.most_common(MOST)
    ]

"""Schedules and their upcoming times."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from harvester.control.auth import OPERATES, READS
from harvester.control.context import Here
from harvester.control.problems import documented
from harvester.control.routes.submitting import Strict, Text, Word
from harvester.control.services.action_result import ActionResult
from harvester.control.services.schedules import (
    MOST_HOURS,
    MOST_TIMES,
    RemovedSchedule,
    ScheduleService,
    ScheduleStatus,
)
from harvester.jobs.schedules import CatchUp, Overlap
from harvester.jobs.scheduling import NewSchedule, ScheduleChange
from harvester.jobs.upcoming import Coming
from harvester.validation import MOST_NUMBER

router = APIRouter(tags=["schedules"])

Name = Annotated[str, Path(max_length=200, description="Name of the schedule.")]


class ScheduleBody(Strict):
    """What is begun, and when."""

    name: Word
    spider: Word = ""
    arguments: dict[Word, Text] = Field({}, max_length=100)
    """Of the spider, as they would be typed."""
    job: Word = ""
    """In place of both: a job whose spider, arguments and items are used."""
    cron: Word = ""
    """Minute, hour, day, month, weekday; or @daily."""
    every: Word = ""
    """In place of it: 30m, 6h, 1d."""
    zone: Word = "UTC"
    """Time zone of the expression."""
    overlap: Overlap = Overlap.SKIP
    """What is done while the last job is not finished."""
    catch_up: CatchUp = CatchUp.ONCE
    """What is made up for when no worker ran."""
    priority: int = Field(0, ge=-MOST_NUMBER, le=MOST_NUMBER)
    paused: bool = False
    """Whether nothing of it is begun until it is resumed."""


class ScheduleChangeBody(Strict):
    """What is to be another; what is not there stays as it is."""

    arguments: dict[Word, Text] | None = Field(None, max_length=100)
    cron: Word | None = None
    every: Word | None = None
    zone: Word | None = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    priority: int | None = Field(None, ge=-MOST_NUMBER, le=MOST_NUMBER)


@router.get("/schedules", operation_id="list_schedules", dependencies=[READS])
async def list_schedules(here: Here) -> list[ScheduleStatus]:
    """All, by name."""
    return await ScheduleService(here.jobs).list()


@router.post(
    "/schedules",
    operation_id="add_schedule",
    status_code=201,
    dependencies=[OPERATES],
    responses=documented(404, 409),
)
async def add_schedule(here: Here, body: ScheduleBody) -> ScheduleStatus:
    """Begin a job at certain times. The same schedule added again is the same."""
    return await ScheduleService(here.jobs).add(NewSchedule(**body.model_dump()))


@router.get("/schedules/{name}", operation_id="show_schedule", dependencies=[READS], responses=documented(404))
async def show_schedule(here: Here, name: Name) -> ScheduleStatus:
    """One."""
    return await ScheduleService(here.jobs).show(name)


@router.patch(
    "/schedules/{name}", operation_id="change_schedule", dependencies=[OPERATES], responses=documented(404, 409)
)
async def change_schedule(here: Here, name: Name, body: ScheduleChangeBody) -> ScheduleStatus:
    """Change when it begins a job, or with what."""
    return await ScheduleService(here.jobs).change(name, ScheduleChange(**body.model_dump()))


@router.delete("/schedules/{name}", operation_id="remove_schedule", dependencies=[OPERATES], responses=documented(404))
async def remove_schedule(here: Here, name: Name) -> RemovedSchedule:
    """Begin nothing of it any more. Its jobs stay. The answer says what adds it again."""
    return await ScheduleService(here.jobs).remove(name)


@router.post(
    "/schedules/{name}/pause", operation_id="pause_schedule", dependencies=[OPERATES], responses=documented(404)
)
async def pause_schedule(here: Here, name: Name) -> ActionResult:
    """Begin nothing of it until it is resumed."""
    return await ScheduleService(here.jobs).pause(name)


@router.post(
    "/schedules/{name}/resume", operation_id="resume_schedule", dependencies=[OPERATES], responses=documented(404)
)
async def resume_schedule(here: Here, name: Name) -> ActionResult:
    """End a pause. Times that passed meanwhile are not made up for."""
    return await ScheduleService(here.jobs).resume(name)


@router.get("/coming", operation_id="list_coming", dependencies=[READS], responses=documented(404))
async def list_coming(
    here: Here,
    hours: Annotated[float, Query(ge=0, le=MOST_HOURS, description="How far ahead.")] = 24,
    limit: Annotated[int, Query(ge=1, le=MOST_TIMES, description="The most that are listed.")] = 100,
    schedule: Annotated[str, Query(max_length=200, description="Of this schedule alone.")] = "",
) -> Coming:
    """What is begun or looked at in the next hours, and why then."""
    return await ScheduleService(here.jobs).coming(hours, limit, schedule)

"""Runs: the latest ones, the report of a run, and the end of its log."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from harvester.control.auth import READS
from harvester.control.context import Here
from harvester.control.problems import documented
from harvester.control.services.runs import MOST, MOST_LINES, LogTail, RunReport, Runs, RunsPage

router = APIRouter(prefix="/runs", tags=["runs"])

Run = Annotated[str, Path(max_length=200, description="Id of the run, or the beginning of it.")]
Word = Annotated[str, Query(max_length=200)]


@router.get("", operation_id="list_runs", dependencies=[READS])
async def list_runs(
    here: Here,
    spider: Word = "",
    state: Word = "",
    job: Word = "",
    limit: Annotated[int, Query(ge=1, le=MOST, description="The most that are listed.")] = 100,
) -> RunsPage:
    """The last first, with the verdicts of their monitors."""
    return await Runs(here.jobs).list(spider, state, job, limit)


@router.get("/{run}", operation_id="show_run", dependencies=[READS], responses=documented(404))
async def show_run(here: Here, run: Run) -> RunReport:
    """What a run was asked for, what it did, and why it ended as it did."""
    return await Runs(here.jobs).report(run)


@router.get("/{run}/log", operation_id="read_log", dependencies=[READS], responses=documented(404))
async def read_log(
    here: Here,
    run: Run,
    lines: Annotated[int, Query(ge=0, le=MOST_LINES, description="The most, from the end.")] = MOST_LINES,
    after: Annotated[int, Query(ge=0, le=1 << 53, description="`end` of an answer: only what came since.")] = 0,
) -> LogTail:
    """The end of the log of a run that wrote one into a file of the controller's machine."""
    return await Runs(here.jobs).log(run, lines, after)

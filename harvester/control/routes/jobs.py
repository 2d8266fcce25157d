"""Jobs: their settings and progress."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query

from harvester.control.auth import READS
from harvester.control.context import Here
from harvester.control.cursors import After, Limit, cursor_of, place_of
from harvester.control.problems import documented
from harvester.jobs.documents import Job, JobState
from harvester.jobs.service import JobPlace, JobReport

router = APIRouter(prefix="/jobs", tags=["jobs"])

MOST_WAIT_S = 60
"""Maximum number of seconds for a request: a proxy may abort longer ones."""

JobId = Annotated[str, Path(max_length=200, description="Id of the job.")]
SpiderName = Annotated[str, Query(max_length=200, description="Only those of this spider.")]


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, the latest first."""

    jobs: list[Job]
    """The jobs with their latest counts."""
    next: str | None
    """Cursor of the next page. None: the last page."""


@router.get("", operation_id="list_jobs", dependencies=[READS])
async def list_jobs(
    here: Here,
    spider: SpiderName = "",
    state: Annotated[list[JobState], Query(description="Only those in one of these states.")] = [],  # noqa: B006
    limit: Limit = 100,
    after: After = "",
) -> JobPage:
    """The latest first."""
    filters = spider, sorted(state)
    place = place_of(after, tuple[datetime, str], *filters) if after else None
    found = await here.jobs.jobs(spider, state, limit + 1, JobPlace(*place) if isinstance(place, tuple) else None)
    shown = found[:limit]
    last = shown[-1] if len(found) > limit else None
    return JobPage(shown, cursor_of([last.created_at, last.id], *filters) if last else None)


@router.get("/{job}", operation_id="show_job", dependencies=[READS], responses=documented(404))
async def show_job(here: Here, job: JobId) -> JobReport:
    """How far a job is, how fast it goes, and why it is no farther."""
    return await here.jobs.report(job)


@router.get("/{job}/wait", operation_id="wait_for_job", dependencies=[READS], responses=documented(404))
async def wait(
    here: Here, job: JobId, timeout_s: Annotated[float, Query(ge=0, le=MOST_WAIT_S, description="Seconds.")] = 30
) -> Job:
    """The job when it is finished or cancelled, or else when the time is over. Ask again then."""
    return await here.jobs.wait(job, timeout_s)

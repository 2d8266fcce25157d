"""Actions on jobs: pause, resume, cancel, retry, priority; and their batches."""

import hashlib
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from pydantic import Field, StringConstraints

from harvester.control.auth import OPERATES, READS, Caller, may
from harvester.control.batches import ActionBatch, BatchAction
from harvester.control.context import Here
from harvester.control.cursors import MOST_ROWS
from harvester.control.idempotency import Key, checked, fingerprint_of
from harvester.control.problems import ApiProblem, documented
from harvester.control.responses import answered
from harvester.control.routes.jobs import JobId
from harvester.control.routes.submitting import MOST_NAMES, Name, Strict, digest_of
from harvester.control.tokens import Scope
from harvester.jobs.documents import ItemState, Job
from harvester.jobs.ledger import now
from harvester.jobs.listing import ItemFilter
from harvester.validation import MOST_NUMBER

router = APIRouter(tags=["jobs"])

Operator = Annotated[Caller, Depends(may(Scope.OPERATE))]
Filtered = Annotated[str, StringConstraints(max_length=500)]


class PauseBody(Strict):
    """Why."""

    reason: Filtered = ""


class PriorityBody(Strict):
    """Jobs with a larger one go first."""

    priority: int = Field(ge=-MOST_NUMBER, le=MOST_NUMBER)


class FilterBody(Strict):
    """Which items are meant. All that is given must be so."""

    state: list[ItemState] = Field([])
    outcome: list[Filtered] = Field([])
    site: Filtered = ""
    kind: Filtered = ""
    text: Filtered = ""
    """In the key or the reason."""


class RetryBody(Strict):
    """Which items are tried again: those named, those a filter finds, or all that failed."""

    items: list[Name] = Field([], max_length=MOST_NAMES)
    """Ids or keys."""
    filter: FilterBody | None = None
    """Without state and outcome: those that failed."""
    expect: int | None = Field(None, ge=0)
    """How many whoever asks believes there are: refused when there are more."""
    dry_run: bool = False
    """Only say how many there are."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What a retry would do."""

    matched: int


@router.post("/jobs/{job}/pause", operation_id="pause_job", dependencies=[OPERATES], responses=documented(404, 409))
async def pause(here: Here, job: JobId, body: Annotated[PauseBody | None, Body()] = None) -> Job:
    """Begin no more items of a job. Those that are being worked at come to their end. A paused one stays so."""
    await here.jobs.pause(job, body.reason if body else "")
    return await here.jobs.job(job)


@router.post("/jobs/{job}/resume", operation_id="resume_job", dependencies=[OPERATES], responses=documented(404, 409))
async def resume(here: Here, job: JobId) -> Job:
    """End a pause. A job that is open stays so."""
    await here.jobs.resume(job)
    return await here.jobs.job(job)


@router.put("/jobs/{job}/priority", operation_id="set_priority", dependencies=[OPERATES], responses=documented(404))
async def set_priority(here: Here, job: JobId, body: PriorityBody) -> Job:
    """Put a job before or behind others of its spider."""
    await here.jobs.set_priority(job, body.priority)
    return await here.jobs.job(job)


@router.post("/jobs/{job}/cancel", operation_id="cancel_job", status_code=202, responses=documented(404, 409))
async def cancel(here: Here, job: JobId, caller: Operator) -> ActionBatch:
    """Cancel a job for good, at once. What waits in it is skipped by a batch; what is being worked at ends."""
    asked_at = now()
    matched = await here.jobs.begin_cancelling(job)
    word = hashlib.sha256(job.encode()).hexdigest()[:16]  # a job is cancelled only once
    return _accepted(await here.batches.begin(BatchAction.CANCEL, job, matched, caller.token.name, asked_at, word=word))


@router.post(
    "/jobs/{job}/retry",
    operation_id="retry_items",
    status_code=202,
    responses=documented(404, 409) | {200: {"description": "A dry run.", "model": Matched}},
)
async def retry(
    here: Here, request: Request, job: JobId, caller: Operator, body: RetryBody, idempotency_key: Key = None
) -> ActionBatch:
    """Have items tried again, now, with all their attempts, by a batch that never tries more than were there.

    With `dry_run` it needs no Idempotency-Key, and answers 200 with the number.
    """
    if body.items and body.filter:
        raise ApiProblem(422, "invalid", "Give items or a filter.")
    which, asked_at = _filter(body.filter), now()
    if body.dry_run:
        return answered(Matched(await here.jobs.retriable(job, which, body.items, asked_at)))  # type: ignore[return-value]
    key = checked(idempotency_key)

    async def act(word: str) -> Response:
        matched = await here.jobs.retriable(job, which, body.items, asked_at)
        if body.expect is not None and matched > body.expect:
            said = f"There are {matched:,} such items now, and not {body.expect:,}. Look again, then ask again."
            raise ApiProblem(409, "more_than_expected", said)
        name = caller.token.name
        return _accepted(  # type: ignore[return-value]
            await here.batches.begin(
                BatchAction.RETRY, job, matched, name, asked_at, which=which, items=body.items, word=word
            )
        )

    return await here.keys.once(key, fingerprint_of(request, digest_of(body)), act)  # type: ignore[return-value]


@router.get("/batches/{batch}", operation_id="show_batch", dependencies=[READS], responses=documented(404))
async def show_batch(here: Here, batch: Annotated[str, Path(max_length=200)]) -> ActionBatch:
    """How far a batch is."""
    return await here.batches.batch(batch)


@router.get("/jobs/{job}/batches", operation_id="list_batches", dependencies=[READS], responses=documented(404))
async def list_batches(
    here: Here, job: JobId, limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 20
) -> list[ActionBatch]:
    """Those of a job, the latest first."""
    await here.jobs.job(job)
    return await here.batches.of(job, limit)


def _accepted(batch: ActionBatch) -> ActionBatch:
    location = f"/api/v1/batches/{quote(batch.id, safe='')}"
    return answered(batch, 202, location)  # type: ignore[return-value]


def _filter(body: FilterBody | None) -> ItemFilter:
    if body is None:
        return ItemFilter()
    return ItemFilter(",".join(body.state), ",".join(body.outcome), body.site, body.text, body.kind)

"""Changes of jobs as server-sent events."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from pydantic import TypeAdapter
from sse_starlette import EventSourceResponse, ServerSentEvent

from harvester.control.auth import READS
from harvester.control.context import Here
from harvester.control.events import JobChange
from harvester.control.problems import ApiProblem, documented

router = APIRouter(tags=["jobs"])

HEARTBEAT_S = 15
"""Maximum number of seconds without a line; otherwise proxies would close the stream."""
MOST_LISTENERS = 200
AGAIN_S = 30

_write = TypeAdapter(JobChange).dump_json
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `job`, each with how a job is in JSON.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get(
    "/events",
    operation_id="listen",
    dependencies=[READS],
    response_class=EventSourceResponse,
    responses=documented(404) | _STREAM,
)
async def listen(
    here: Here,
    job: Annotated[str, Query(max_length=200, description="Only this one.")] = "",
    last_event_id: Annotated[str, Header(max_length=100, description="Of the last event that was seen.")] = "",
) -> EventSourceResponse:
    """How the jobs are that have not ended, then each change. A stream that breaks goes on by Last-Event-ID.

    Whoever names a job is told how that is, also when it has ended.
    """
    if job:
        await here.jobs.job(job)
    if here.events.listeners >= MOST_LISTENERS:
        said = f"{MOST_LISTENERS} listen already."
        raise ApiProblem(429, "too_many", said, headers={"Retry-After": str(AGAIN_S)})

    async def stream() -> AsyncIterator[ServerSentEvent]:
        async for event in here.events.listen(job, last_event_id):
            yield ServerSentEvent(_write(event.change).decode(), event="job", id=event.id)

    return EventSourceResponse(stream(), ping=HEARTBEAT_S)

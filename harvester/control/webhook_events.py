"""What webhooks are told of a job: a CloudEvents 1.0 envelope, the same bytes however often it is sent."""

from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from harvester.jobs.documents import STOPPED_AT, Document, Job, JobState, read_job
from harvester.jobs.service import JobService
from harvester.publish.events import Event, body_of, written

TOLD_STATES = (JobState.PAUSED, JobState.FINISHED, JobState.CANCELLED)
"""Of jobs that others are told of."""


class JobEvent(NamedTuple):
    """An event as it is sent."""

    id: str
    """A digest of the job, its state, and when it came into that: the same when it is sent again."""
    type: str
    """`harvester.job.finished`."""
    job: str
    body: bytes
    """JSON."""

    @property
    def event(self) -> Event:
        """As what signs and sends takes it."""
        return Event(self.id, self.type, self.type, self.body)


class JobEventData(msgspec.Struct, frozen=True):
    """What the event says of the job."""

    job: str
    spider: str
    name: str
    state: JobState
    reason: str
    """Why it is paused."""
    items: int
    states: dict[str, int]
    """Items by state; likewise below."""
    outcomes: dict[str, int]
    created_at: str
    ended_at: str | None
    """RFC 3339, in UTC."""


def is_told(job: Job) -> bool:
    """Whether it is in a state that others are told of."""
    return job.state in TOLD_STATES


async def event_of(jobs: JobService, document: Document, source: str) -> JobEvent | None:
    """Of a job as MongoDB holds it, counted anew; None when it goes on, or is not there any more."""
    if not document or not is_told(read_job(document)):
        return None
    report = await jobs.report(document["_id"])
    job, known = report.job, read_job(document)
    if job.state is not known.state:
        return None  # it is told when it stops the next time
    at = document.get(STOPPED_AT) or job.ended_at or job.created_at
    data: dict[str, Any] = msgspec.to_builtins(
        JobEventData(
            job=job.id,
            spider=job.spider,
            name=job.name,
            state=job.state,
            reason=job.pause_reason,
            items=report.items,
            states=report.states,
            outcomes=report.outcomes,
            created_at=written(job.created_at),
            ended_at=written(job.ended_at) if job.ended_at else None,
        )
    )
    name = sha256("\0".join((job.id, job.state, written(at))).encode()).hexdigest()[:32]
    type_ = f"harvester.job.{job.state}"
    body = body_of(name, source, type_, {"subject": job.id, "time": written(at)}, data)
    return JobEvent(name, type_, job.id, body)

"""The events of a job that webhooks receive: a CloudEvents 1.0 envelope, with identical bytes at each attempt."""

from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from harvester.jobs.documents import STOPPED_AT, Document, Job, JobState, read_job
from harvester.jobs.service import JobService
from harvester.publish.events import Event, body_of, written

TOLD_STATES = (JobState.PAUSED, JobState.FINISHED, JobState.CANCELLED)
"""States of jobs that webhooks receive."""


class JobEvent(NamedTuple):
    """A serialized event."""

    id: str
    """A digest of the job, its state and the time of the change, so it is identical when it is sent again."""
    type: str
    """For example `harvester.job.finished`."""
    job: str
    body: bytes
    """The JSON of the event."""

    @property
    def event(self) -> Event:
        """Returns the event in the form that the sender signs."""
        return Event(self.id, self.type, self.type, self.body)


class JobEventData(msgspec.Struct, frozen=True):
    """The job's data in an event."""

    job: str
    spider: str
    name: str
    state: JobState
    reason: str
    """The reason of a pause."""
    items: int
    states: dict[str, int]
    """Number of items by state; `outcomes` counts them by outcome."""
    outcomes: dict[str, int]
    created_at: str
    ended_at: str | None
    """RFC 3339, in UTC. `created_at` has the same form."""


def is_told(job: Job) -> bool:
    """Returns True if webhooks receive the job's state."""
    return job.state in TOLD_STATES


async def event_of(jobs: JobService, document: Document, source: str) -> JobEvent | None:
    """Returns the event of a job document, with fresh counts, or None if the job was resumed or does not exist."""
    if not document or not is_told(read_job(document)):
        return None
    report = await jobs.report(document["_id"])
    job, known = report.job, read_job(document)
    if job.state is not known.state:
        return None  # the next stop sends an event
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

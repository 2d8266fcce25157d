"""Changes of jobs as a stream of events.

One query a second serves all listeners; without a listener the queries stop. An event holds the state of a job, not the
action that changed it. A listener that missed events (because the controller restarted, or because they are no longer
remembered) receives the current state of all jobs and so has lost nothing.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pymongo.errors import PyMongoError

from harvester.jobs.documents import Job, JobState
from harvester.jobs.service import JobService, by_state, pace_of
from harvester.shutdown import stop

logger = logging.getLogger(__name__)

LOOK_S = 1.0
"""Seconds between two queries."""
MOST_JOBS = 500
"""Maximum number of jobs to watch: the latest that have not ended."""
REMEMBERED = 1000
"""Number of events to remember for listeners that come back."""
UNENDED = (JobState.OPEN, JobState.PAUSED)


@dataclass(frozen=True, slots=True)
class JobChange:
    """The current state of a job. Times in UTC."""

    id: str
    spider: str
    name: str
    state: JobState
    priority: int
    items: int
    states: dict[str, int]
    """Items by state, from the last count."""
    rate: float | None
    """Items that ended per second, over the last minutes."""
    counted_at: datetime | None
    ended_at: datetime | None


class StreamEvent(NamedTuple):
    """An event of the stream."""

    id: str
    """The id that a listener passes to continue after this event."""
    change: JobChange


class JobEvents:
    """Queries the jobs while there are listeners."""

    def __init__(self, jobs: JobService) -> None:
        self._jobs = jobs
        self._boot = secrets.token_hex(4)
        """Different after each start, because the numbers of events start at 1 again."""
        self._number = 0
        self._last: deque[tuple[int, JobChange]] = deque(maxlen=REMEMBERED)
        self._known: dict[str, JobChange] = {}
        self._changed = asyncio.Condition()
        self._looked = asyncio.Event()
        self._listeners = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        """Returns the number of current listeners."""
        return self._listeners

    async def listen(self, job: str = "", after: str = "") -> AsyncIterator[StreamEvent]:
        """Yields the current state of all unfinished jobs, and then each change, forever.

        `job`: only this job, in any state. `after`: id of the last event that the listener saw.
        """
        self._listeners += 1
        if self._task is None or self._task.done():
            self._looked.clear()
            self._task = asyncio.create_task(self._look_on())
        try:
            await self._looked.wait()
            seen = self._place(after)
            while True:
                if seen is None or (self._last and self._last[0][0] > seen + 1):
                    seen = self._number  # before the read: a change meanwhile is sent twice rather than lost
                    events = [(seen, each) for each in await self._now(job)]
                else:
                    events = [(number, each) for number, each in self._last if number > seen]
                    seen = self._number
                for number, change in events:
                    if not job or change.id == job:
                        yield StreamEvent(f"{self._boot}-{number}", change)
                async with self._changed:
                    await self._changed.wait_for(lambda: self._number > seen)  # noqa: B023
        finally:
            self._listeners -= 1
            if not self._listeners:
                await self.close()

    async def close(self) -> None:
        """Stops the queries."""
        task, self._task = self._task, None  # the next listener starts another task
        await stop(task)

    async def _now(self, job: str) -> list[JobChange]:
        """Returns the current state of all watched jobs, or of a single job, even if it has ended."""
        if not job or job in self._known:
            return [*self._known.values()]
        known = await self._jobs.ledger.job(job)
        return [_change_of(known)] if known else []

    def _place(self, after: str) -> int | None:
        boot, _, number = after.partition("-")
        if boot != self._boot or not number.isascii() or not number.isdecimal() or int(number) > self._number:
            return None
        return int(number)

    async def _look_on(self) -> None:
        while True:
            try:
                await self._look()
                self._looked.set()
            except PyMongoError as error:
                logger.warning("Changes of jobs are looked for later: %s", error)
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        found = await self._jobs.jobs(states=UNENDED, most=MOST_JOBS)
        for each in found:
            if each.state is JobState.OPEN:
                await self._jobs.ledger.counting.count_when_due(each)
        ended = [each.id for each in self._known.values() if each.state in UNENDED] if self._known else []
        gone = [job for job in ended if job not in {each.id for each in found}]
        for job in gone:
            if known := await self._jobs.ledger.job(job):
                found.append(known)
        changes = [_change_of(each) for each in found]
        new = [each for each in changes if self._known.get(each.id) != each]
        kept = {each.id for each in changes}
        async with self._changed:
            for change in new:
                self._number += 1
                self._last.append((self._number, change))
                self._known[change.id] = change
            for job in self._known.keys() - kept:
                del self._known[job]
            self._changed.notify_all()


def _change_of(job: Job) -> JobChange:
    states = by_state(job)
    return JobChange(
        id=job.id,
        spider=job.spider,
        name=job.name,
        state=job.state,
        priority=job.priority,
        items=sum(states.values()),
        states=states,
        rate=pace_of(job) if job.state is JobState.OPEN else None,
        counted_at=job.counted_at,
        ended_at=job.ended_at,
    )

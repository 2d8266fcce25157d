"""What the jobs of a spider have to do just now: asked by whoever starts its processes."""

from datetime import datetime
from typing import NamedTuple

from harvester.jobs.documents import JobState
from harvester.jobs.ledger import Ledger


class Work(NamedTuple):
    """Of the open jobs of one spider, and what is left of others."""

    added: int
    """How often items were added to them. Another number: there may be something new."""
    standing: bool
    """Whether one of them never ends."""
    is_due: bool = False
    """Whether an item may be begun. The rest is not looked at then."""
    is_active: bool = False
    """Whether an attempt is under way, or was when its process ended. Also of a job that is paused or cancelled."""
    next_due: datetime | None = None
    """When the first item is due that waits for a time."""
    incomplete: tuple[str, ...] = ()
    """Those that were not given all their items, so that they stay open when nothing is left."""

    @property
    def is_left(self) -> bool:
        """Whether anything is."""
        return self.is_due or self.is_active or self.next_due is not None


async def work_of(ledger: Ledger, spider: str) -> Work:
    """Makes items due whose time has come, finishes jobs of which nothing is left, and looks what there is to do."""
    unfinished = await ledger.unfinished(spider)
    jobs = [job for job in unfinished if job.state is JobState.OPEN]
    incomplete = tuple(job.id for job in jobs if job.incomplete)
    work = Work(sum(job.fed for job in jobs), any(job.standing for job in jobs), incomplete=incomplete)
    for job in jobs:
        await ledger.promote(job)
        if await ledger.is_due(job):
            return work._replace(is_due=True)
    stopped = [job.id for job in unfinished if job.state is not JobState.OPEN]
    if stopped and await ledger.is_active(*stopped):
        work = work._replace(is_active=True)
    for job in jobs:
        if await ledger.is_active(job.id):
            work = work._replace(is_active=True)
        elif not await ledger.finish(job.id) and (due_at := await ledger.next_due(job)):
            work = work._replace(next_due=min(due_at, work.next_due or due_at))
    return work

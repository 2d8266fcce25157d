"""Finds out how much work the jobs of a spider have now. The process that starts workers calls it."""

from datetime import datetime
from typing import NamedTuple

from harvester.jobs.documents import JobState
from harvester.jobs.ledger import Ledger


class Work(NamedTuple):
    """The work of a spider's open jobs, and active attempts of its paused or cancelled ones."""

    added: int
    """Number of times items were added. A changed number means that there may be new items."""
    standing: bool
    """True if one of the jobs is recurring, so it never ends."""
    is_due: bool = False
    """True if an item may be started. The other fields are not looked up then."""
    is_active: bool = False
    """True if an attempt is under way, or was when its process ended. Paused and cancelled jobs count, too."""
    next_due: datetime | None = None
    """Time when the first waiting item is due."""
    incomplete: tuple[str, ...] = ()
    """Ids of the jobs that did not get all their items. They stay open even without unfinished items."""

    @property
    def is_left(self) -> bool:
        """True if any work is left."""
        return self.is_due or self.is_active or self.next_due is not None


async def work_of(ledger: Ledger, spider: str) -> Work:
    """Makes items due that have waited long enough, finishes jobs without unfinished items, and returns the remaining
    work."""
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

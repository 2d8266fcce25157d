"""Feeds, endpoints and other items of recurring jobs: listing, adding, changing, removing and restarting them.

Workers apply a change within a second. An attempt in progress is completed first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harvester.control.services.action_result import ActionResult
from harvester.exceptions import InvalidRecordError, JobConflict, UnknownJob, UsageError
from harvester.formatting import counted
from harvester.items import Found
from harvester.jobs.changes import check_can_change
from harvester.jobs.documents import Job
from harvester.jobs.recurring import RecurringItem, Standing, count_failed, find_watched, restart, standing_jobs
from harvester.jobs.service import JobService
from harvester.jobs.submission import Submission, Submitted, Submitter
from harvester.project import load_spider

MOST = 500
"""Maximum number of items in a response."""
MOST_CHANGED = 1000
"""Maximum number of items in a request. Longer lists are submitted to a job."""


@dataclass(frozen=True, slots=True)
class WatchedPage:
    """In the order of their ids."""

    items: list[RecurringItem]
    next: str | None
    """Id to continue after. None: the last page."""


@dataclass(frozen=True, slots=True)
class NewItem:
    """What is to be watched."""

    key: str
    """The URL of a feed, or the name of an endpoint."""
    input: dict[str, Any] = field(default_factory=dict)
    """The other inputs of the spider; for an endpoint, the fields of the table."""


def usual_key(spider: str, item: NewItem, kind: str = "") -> str:
    """Returns the key that the spider stores such an item under.

    Raises UsageError for an item that the spider refuses.
    """
    takes: Any = load_spider(spider)
    return str(takes.check_item(Found(kind or takes.ITEM_KINDS[0], item.key, item.input)).key)


class Watching:
    """The items of all recurring jobs that have not ended."""

    def __init__(self, service: JobService) -> None:
        self._service = service

    async def list(
        self,
        spider: str = "",
        job: str = "",
        standings: Collection[Standing] = (),
        text: str = "",
        after: str = "",
        most: int = 100,
    ) -> WatchedPage:
        """Returns items in these states, with this text in their names or reasons.

        Raises UnknownJob, or JobConflict if the job is not recurring.
        """
        most = min(most, MOST)
        jobs = await standing_jobs(self._service, spider, job)
        found = await find_watched(self._service, jobs, most + 1, standings, text, after)
        return WatchedPage(found[:most], found[most - 1].id if len(found) > most else None)

    async def add(
        self, spider: str, items: Sequence[NewItem], job: str = "", kind: str = "", often: float | None = None
    ) -> Submitted:
        """Adds items to a recurring job: the job with this id, or the only one of the spider.

        Known items stay unchanged. Removed items are added again. Invalid items are reported and left out. Raises
        UnknownJob; JobConflict when the spider has several recurring jobs, or the job is cancelled; UsageError.
        """
        if not 0 < len(items) <= MOST_CHANGED:
            raise UsageError(f"items: give 1 to {MOST_CHANGED:,}; longer lists are submitted to a job.")
        known = await self._one_job(spider, job)
        check_can_change(known, often)
        service = self._service
        submitter = Submitter(
            service.config, service.ledger, Submission(known.spider, {}, kind, foreign=True), known, often
        )
        found = [_found(submitter.kind, number, each) for number, each in enumerate(items, 1)]
        return await submitter.submit(found)

    async def change(
        self, job: str, names: Sequence[str], inputs: Mapping[str, Any], often: float | None = None
    ) -> ActionResult:
        """Sets fields of the inputs of items (an empty text removes a field), or the frequency of their visits.

        For items with headers that name variables of the workers, only the frequency can be changed. Raises UnknownJob,
        JobConflict and UsageError.
        """
        _check_names(names)
        if not inputs and often is None:
            raise UsageError("change: give `input`, `often`, or both.")
        await standing_jobs(self._service, job=job)
        number = await self._service.change(job, names, inputs, often, foreign=True)
        return ActionResult(number, f"{counted(number, 'item')} of {job} changed.")

    async def remove(self, job: str, names: Sequence[str]) -> ActionResult:
        """Removes items from a recurring job, by id or key. Their records stay. Raises UnknownJob, JobConflict."""
        _check_names(names)
        await standing_jobs(self._service, job=job)
        number = await self._service.remove(job, names)
        return ActionResult(
            number, f"{counted(number, 'item')} of {job} removed; their records stay. Add them to undo that."
        )

    async def failed(self, spider: str = "", job: str = "") -> int:
        """Returns the number of failed items of a spider, a job, or all jobs. Raises UnknownJob, JobConflict."""
        return await count_failed(self._service, await standing_jobs(self._service, spider, job))

    async def restart(
        self, spider: str = "", job: str = "", names: Sequence[str] = (), expect: int | None = None
    ) -> ActionResult:
        """Restarts items at once: the named ones, or all failed items if there are at most `expect`.

        Covers a spider, a job, or all. Raises UnknownJob; JobConflict when there are more; UsageError.
        """
        if names:
            _check_names(names)
        elif expect is None:
            raise UsageError("restart: give names, or `expect`: how many have failed.")
        jobs = await standing_jobs(self._service, spider, job)
        number = await restart(self._service, jobs, names, expect)
        return ActionResult(number, f"{counted(number, 'item is', 'items are')} looked at again.")

    async def _one_job(self, spider: str, job: str) -> Job:
        jobs = await standing_jobs(self._service, spider, job)
        if not jobs:
            raise UnknownJob(f"{spider} has no standing job that goes on: submit one first.")
        if len(jobs) > 1:
            raise JobConflict(
                f"{spider} has several standing jobs; say which: {', '.join(each.id for each in jobs[:10])}."
            )
        if jobs[0].spider != spider:
            raise UsageError(f"{job} is of the spider {jobs[0].spider}, and not of {spider}.")
        return jobs[0]


def _found(kind: str, line: int, item: NewItem) -> Any:
    from harvester.jobs.inputs import BadLine

    try:
        return Found(kind, item.key, item.input, line=line)
    except InvalidRecordError as error:
        return BadLine(line, item.key, str(error))


def _check_names(names: Sequence[str]) -> None:
    if not 0 < len(names) <= MOST_CHANGED:
        raise UsageError(f"names: give 1 to {MOST_CHANGED:,} ids or keys of items.")

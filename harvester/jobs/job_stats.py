"""Publishes how the items of a run's jobs stand, as Scrapy's stats."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial

from pymongo.errors import OperationFailure
from scrapy.statscollectors import StatsCollector

from harvester.jobs.counting import NO_INDEX
from harvester.jobs.documents import BY_OUTCOME, UNFINISHED, Counted, Document, ItemState, Job
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import is_good_look
from harvester.shutdown import stop

MOST_REASONS = 100
"""Maximum number of reasons for each kind and state. The rest are summed up by outcome."""


class JobStats:
    """Sets `harvester/job`, `items`, `stages`, `next_due` and `next_look` while the run goes on.

    `reasons`, `job_records` and `job_finished` are set at the end. The figures are sums over all jobs of this run,
    including the work of other processes.
    """

    def __init__(self, ledger: Ledger, stats: StatsCollector) -> None:
        self._ledger = ledger
        self._stats = stats
        self._counts: dict[str, Sequence[Counted]] = {}
        """Job -> its last counts."""
        self._jobs: dict[str, Job] = {}
        self._counted_at: dict[str, datetime | None] = {}
        self._counting: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        """Names of the stats that were set."""

    async def look(self, job: Job) -> None:
        """Publishes the last counts of the job's items, and starts a new count when it is due.

        The count runs in a task, since counting a million items takes seconds.
        """
        self._jobs[job.id] = job
        if job.id not in self._counts or job.counted_at != self._counted_at[job.id]:
            self._counted_at[job.id] = job.counted_at
            self._tell(job.id, job.counts)
            await self._tell_next_due()
        if self._counting and self._counting.done():
            await self._counting
            self._counting = None
        if self._counting is None:
            self._counting = asyncio.create_task(self._ledger.counting.count_when_due(job))

    async def close(self) -> None:
        """Publishes the final counts of the jobs."""
        await stop(self._counting)
        for job in self._counts:
            known = await self._ledger.job(job)
            self._tell(job, known.counts if known and known.is_counted else await self._ledger.counting.count(job))
        if self._counts:
            await self._tell_next_due()
            await self._tell_reasons()
            rows = [(job, row) for job, counts in self._counts.items() for row in counts]
            if rows:  # a run whose job is empty is judged by the records that it stored itself
                self._stats.set_value("harvester/job_records", sum(row.records for _, row in rows))
            ended = all(self._shown_state(job, row) not in UNFINISHED for job, row in rows)
            self._stats.set_value("harvester/job_finished", ended)

    def _tell(self, job: str, counts: Sequence[Counted]) -> None:
        if not self._counts:
            self._stats.set_value("harvester/job", job)
        self._counts[job] = counts
        figures: Counter[str] = Counter(dict.fromkeys(self._told, 0))
        for name, row in ((name, row) for name, counted in self._counts.items() for row in counted):
            figures[f"harvester/items/{row.kind}/{self._shown_state(name, row)}"] += row.items
            if row.stage:
                figures[f"harvester/stages/{row.kind}/{row.stage}"] += row.items
        for name, number in figures.items():
            self._stats.set_value(name, number)
        self._told.update(figures)

    def _shown_state(self, job: str, row: Counted) -> ItemState:
        """Returns the state to show. In a recurring job, items count as done between two visits if the last one
        succeeded."""
        standing = job in self._jobs and self._jobs[job].standing
        return ItemState.DONE if standing and _waits_for_a_look(row.state, row.outcome) else row.state

    async def _tell_next_due(self) -> None:
        times: dict[str, list[float]] = {"harvester/next_due": []}
        for job in self._jobs.values():
            of_kind = times.setdefault("harvester/next_look" if job.standing else "harvester/next_due", [])
            if isinstance(at := await self._ledger.next_due(job), datetime):
                of_kind.append(at.timestamp())
        for name, found in times.items():
            self._stats.set_value(name, min(found, default=0))

    async def _tell_reasons(self) -> None:
        seen: Counter[str] = Counter()
        async for row in self._reasons():
            kind, state, outcome = row["_id"]["kind"], row["_id"]["state"], row["_id"]["outcome"]
            if _waits_for_a_look(state, outcome):
                continue
            path = f"harvester/reasons/{kind}/{state}"
            seen[path] += 1
            text = reason_of(state, outcome, row["_id"]["reason"])
            if seen[path] > MOST_REASONS:
                text = f"{outcome}: other reasons"
            self._stats.inc_value(f"{path}/{text}", row["items"])

    async def _reasons(self) -> AsyncIterator[Document]:
        """Yields groups of items that failed, were skipped or will be retried, the most frequent first."""
        states = [ItemState.FAILED, ItemState.SKIPPED, ItemState.WAITING]
        match = {"job": {"$in": list(self._counts)}, "state": {"$in": states}, "outcome": {"$gt": ""}}
        alike = {name: {"$ifNull": [f"${name}", ""]} for name in ("kind", "state", "outcome", "reason")}
        group: Document = {"_id": alike, "items": {"$sum": 1}}
        stages: list[Document] = [{"$match": match}, {"$group": group}, {"$sort": {"items": -1, "_id": 1}}]
        ask = partial(self._ledger.items.aggregate, stages, allowDiskUse=True)
        try:
            cursor = await self._ledger.patiently(partial(ask, hint=BY_OUTCOME))
        except OperationFailure as error:
            if error.code != NO_INDEX:
                raise
            cursor = await self._ledger.patiently(ask)
        async for row in cursor:
            yield row


def _waits_for_a_look(state: str, outcome: str) -> bool:
    """Returns True for a waiting item without a failure."""
    return state == ItemState.WAITING and is_good_look(outcome)


def reason_of(state: str, outcome: str, reason: str) -> str:
    """Returns the text of a reason. For a failure it begins with the outcome, or with the request and the outcome."""
    if not reason:
        return outcome
    says_outcome = outcome in [part.strip() for part in reason.split(":")[:2]]
    return reason if says_outcome or state == ItemState.SKIPPED else f"{outcome}: {reason}"

"""What those who watch a run are told of its jobs: how their items stand, as Scrapy's stats."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from scrapy.statscollectors import StatsCollector

from harvester.jobs.documents import UNFINISHED, Counted, Document, Job, State
from harvester.jobs.ledger import Ledger
from harvester.shutdown import stop

MOST_REASONS = 100
"""Of the items of one kind and state that are told apart; the rest are told by their outcomes."""


class JobStats:
    """Sets `harvester/job`, `items`, `stages` and `next_due` while the run goes on.

    `reasons`, `job_records` and `job_finished` come last.

    Figures are those of all jobs that were looked at, whoever works at them.
    """

    def __init__(self, ledger: Ledger, stats: StatsCollector) -> None:
        self._ledger = ledger
        self._stats = stats
        self._counts: dict[str, Sequence[Counted]] = {}
        """Of each job that was looked at, as counted last."""
        self._jobs: dict[str, Job] = {}
        self._counted_at: dict[str, datetime | None] = {}
        self._counting: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        """Names of the stats that were set."""

    async def look(self, job: Job) -> None:
        """Tells how its items stood when they were counted last, and has them counted when it is time.

        It does not wait for that: a million items take seconds.
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
            self._counting = asyncio.create_task(self._ledger.count_when_due(job))

    async def close(self) -> None:
        """The last word on each job that was looked at."""
        await stop(self._counting)
        for job in self._counts:
            known = await self._ledger.job(job)
            self._tell(job, known.counts if known and known.is_counted else await self._ledger.count(job))
        if self._counts:
            await self._tell_next_due()
            await self._tell_reasons()
            rows = [row for counts in self._counts.values() for row in counts]
            self._stats.set_value("harvester/job_records", sum(row.records for row in rows))
            self._stats.set_value("harvester/job_finished", all(row.state not in UNFINISHED for row in rows))

    def _tell(self, job: str, counts: Sequence[Counted]) -> None:
        if not self._counts:
            self._stats.set_value("harvester/job", job)
        self._counts[job] = counts
        figures: Counter[str] = Counter(dict.fromkeys(self._told, 0))
        for row in (row for counted in self._counts.values() for row in counted):
            figures[f"harvester/items/{row.kind}/{row.state}"] += row.items
            if row.stage:
                figures[f"harvester/stages/{row.kind}/{row.stage}"] += row.items
        for name, number in figures.items():
            self._stats.set_value(name, number)
        self._told.update(figures)

    async def _tell_next_due(self) -> None:
        found = [await self._ledger.next_due(job) for job in self._jobs.values()]
        times = [at.timestamp() for at in found if isinstance(at, datetime)]
        self._stats.set_value("harvester/next_due", min(times, default=0))

    async def _tell_reasons(self) -> None:
        seen: Counter[str] = Counter()
        async for row in self._reasons():
            kind, state, outcome = row["_id"]["kind"], row["_id"]["state"], row["_id"]["outcome"]
            path = f"harvester/reasons/{kind}/{state}"
            seen[path] += 1
            text = reason_of(state, outcome, row["_id"]["reason"])
            if seen[path] > MOST_REASONS:
                text = f"{outcome}: other reasons"
            self._stats.inc_value(f"{path}/{text}", row["items"])

    async def _reasons(self) -> AsyncIterator[Document]:
        """Of items that failed, were skipped, or are to be tried again: the most frequent first."""
        states = [State.FAILED, State.SKIPPED, State.WAITING]
        match = {"job": {"$in": list(self._counts)}, "state": {"$in": states}, "outcome": {"$gt": ""}}
        alike = {name: {"$ifNull": [f"${name}", ""]} for name in ("kind", "state", "outcome", "reason")}
        group: Document = {"_id": alike, "items": {"$sum": 1}}
        stages: list[Document] = [{"$match": match}, {"$group": group}, {"$sort": {"items": -1, "_id": 1}}]
        cursor = await self._ledger.patiently(lambda: self._ledger.items.aggregate(stages, allowDiskUse=True))
        async for row in cursor:
            yield row


def reason_of(state: str, outcome: str, reason: str) -> str:
    """In words, which begin with the outcome (or with what was asked, and the outcome) when it is a failure."""
    if not reason:
        return outcome
    says_outcome = outcome in [part.strip() for part in reason.split(":")[:2]]
    return reason if says_outcome or state == State.SKIPPED else f"{outcome}: {reason}"

"""How many items of a job are in which state: counted now and then, and kept in the job's document."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from pymongo.asynchronous.collection import AsyncCollection

from harvester.jobs.documents import BY_KEY, MOST_PACES, UNFINISHED, Counted, Document, Job
from harvester.jobs.looks import Looks, Patiently

COUNT_S = 3.0
"""How often a job's items are counted, unless counting takes long."""
COUNT_SHARE = 10
"""Counting takes at most one in so many seconds."""
LEAST_COUNTING_S = 10.0
"""How long others wait at least for a process that counts, which may have died."""
COUNTING_TIMES = 3
"""They wait so many times as long as counting took last, if that is longer."""
NATURAL_SHARE = 4
"""A job with at least one in so many of all items is counted in the order in which all are stored."""


class Counting:
    """Of the items of a ledger."""

    def __init__(
        self,
        jobs: AsyncCollection[Document],
        items: AsyncCollection[Document],
        looks: Looks,
        patiently: Patiently,
        now: Callable[[], datetime],
    ) -> None:
        self._jobs = jobs
        self._items = items
        self._looks = looks
        self._patiently = patiently
        self._now = now

    async def count(self, job: str) -> tuple[Counted, ...]:
        """Counts its items, and leaves the counts in the job's document.

        They are read in an order in which none moves meanwhile: each counts once, whatever its state.
        """
        began = time.monotonic()
        at = self._now()
        alike = {name: {"$ifNull": [f"${name}", ""]} for name in ("kind", "state", "stage", "outcome")}
        own, order = await self._in_order(job)
        later = {"$cond": [{"$eq": [{"$type": "$due_at"}, "date"]}, 1, 0]}
        sums = {"items": {"$sum": 1}, "records": {"$sum": "$counts.records"}, "later": {"$sum": later}}
        stages: list[Document] = [{"$match": own}, {"$group": {"_id": alike, **sums}}]

        async def read() -> list[Document]:
            return await (await self._items.aggregate(stages, hint=order)).to_list()

        rows = await self._patiently(read)
        counts = [{**row["_id"], **{name: row[name] for name in sums}} for row in rows]
        pace = {"at": at, "ended": sum(row["items"] for row in counts if row["state"] not in UNFINISHED)}
        again_s = max(COUNT_S, COUNT_SHARE * (time.monotonic() - began))
        update = {
            "$set": {"counts": counts, "counted_at": at, "count_due_at": self._now() + timedelta(seconds=again_s)},
        }
        await self._patiently(lambda: self._jobs.update_one({"_id": job}, update))
        # Who looks often keeps no more of them.
        recent = {"pace.at": {"$not": {"$gt": at - timedelta(seconds=COUNT_S)}}}
        push = {"$push": {"pace": {"$each": [pace], "$slice": -MOST_PACES}}}
        await self._patiently(lambda: self._jobs.update_one({"_id": job, **recent}, push))
        return msgspec.convert(counts, tuple[Counted, ...])

    async def count_when_due(self, job: Job) -> None:
        """The same, unless another does, or did a short time ago."""
        if job.count_due_at and self._now() < job.count_due_at:
            return
        seen = {"_id": job.id, "count_due_at": job.count_due_at}
        took = (job.count_due_at - job.counted_at) / COUNT_SHARE if job.count_due_at and job.counted_at else timedelta()
        waited = max(timedelta(seconds=LEAST_COUNTING_S), COUNTING_TIMES * took)
        later = {"$set": {"count_due_at": self._now() + waited}}
        result = await self._patiently(lambda: self._jobs.update_one(seen, later))
        if result.modified_count:
            await self.count(job.id)
            if threshold := await self._looks.threshold(job):
                found = {"$set": {"threshold": list(threshold)}}
                await self._patiently(lambda: self._jobs.update_one({"_id": job.id}, found))

    async def count_again(self, job: Job) -> None:
        """Counts its items; those of a large job only when that is due."""
        await (self.count_when_due(job) if job.is_large else self.count(job.id))

    async def _in_order(self, job: str) -> tuple[Document, Document]:
        """What selects all its items, and the order in which MongoDB reads them soonest.

        Reading by their ids jumps from page to page of the disk, so those of a job that has many of all items are
        picked out of all, as they are stored: of a million, in an eighth of the time when the cache cannot hold them.
        """
        most = max(1, await self._patiently(self._items.estimated_document_count) // NATURAL_SHARE)
        own: Document = {"job": job}
        if await self._patiently(lambda: self._items.count_documents(own, limit=most, hint=BY_KEY)) == most:
            return own, {"$natural": 1}
        return {"_id": {"$gte": f"{job}:", "$lt": f"{job};"}}, {"_id": 1}

"""Counts the items of a job by state, now and then. The counts are stored in the job's document."""

import secrets
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from pymongo import ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from harvester.jobs.documents import BY_KEY, MOST_PACES, UNFINISHED, Counted, Document, Job, JobState
from harvester.jobs.due_visits import Looks, Patiently

COUNT_S = 3.0
"""Seconds between two counts of a job's items, unless counting takes long."""
COUNT_SHARE = 10
"""Factor: the next count comes after this many times the duration of the last one."""
LEAST_COUNTING_S = 10.0
"""Minimum number of seconds that others wait for a process that counts, which may have died."""
FIRST_COUNTING_S = 60.0
"""Seconds that others wait for the first count, which has an unknown duration."""
COUNTING_TIMES = 3
"""Factor: others wait this many times the duration of the last count, if that is longer."""
MOST_S = 600.0
"""Maximum number of seconds until the next count, even if a clock was wrong or a counting process was stopped."""
COUNTS_BEGUN = "counts_begun"
"""Field of a job: number of times a count was started."""
COUNTS_FROM = "counts_from"
"""Field of a job: number of the count that produced the current counts."""
COUNTER = "counter"
"""Field of a job: the token of the process that counts its items, or counted them last."""
NO_INDEX = 2
"""MongoDB's error code for a hint at a missing index."""
NATURAL_SHARE = 4
"""Divisor: a job with at least this fraction of all items is counted in storage order."""
MOST_COUNTED = 1000
"""Maximum number of groups (kind, state, stage, outcome) in a job's document. The rarer ones are merged."""
OTHER = "other"
"""The stage and outcome of the merged groups."""
_BEGIN: Document = {"$inc": {COUNTS_BEGUN: 1}}


def _unless_rare(name: str) -> Document:
    return {"$cond": [{"$lte": ["$rank", MOST_COUNTED]}, f"$_id.{name}", OTHER]}


_MOST_COMMON: list[Document] = [
    {"$setWindowFields": {"sortBy": {"items": -1}, "output": {"rank": {"$documentNumber": {}}}}},
    {
        "$group": {
            "_id": {"kind": "$_id.kind", "state": "$_id.state"}
            | {name: _unless_rare(name) for name in ("stage", "outcome")},
            **{name: {"$sum": f"${name}"} for name in ("items", "records", "later")},
        }
    },
]
"""Pipeline stages that keep the most common groups of items and merge the rest."""


class Counting:
    """Counts the items of a ledger's jobs."""

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
        """Counts the job's items, and stores the counts in the job's document.

        The items are read in an order that never changes, so each is counted once, even if its state changes
        meanwhile.
        """
        began = await self._patiently(
            lambda: self._jobs.find_one_and_update({"_id": job}, _BEGIN, return_document=ReturnDocument.AFTER)
        )
        if began is None:
            return ()
        at = self._now()
        alike = {name: {"$ifNull": [f"${name}", ""]} for name in ("kind", "state", "stage", "outcome")}
        own, order = await self._in_order(job)
        later = {"$cond": [{"$eq": [{"$type": "$due_at"}, "date"]}, 1, 0]}
        sums = {"items": {"$sum": 1}, "records": {"$sum": "$counts.records"}, "later": {"$sum": later}}
        stages: list[Document] = [{"$match": own}, {"$group": {"_id": alike, **sums}}, *_MOST_COMMON]

        async def read() -> tuple[list[Document], float]:
            started = time.monotonic()
            rows = await (await self._items.aggregate(stages, hint=order)).to_list()
            return rows, time.monotonic() - started

        rows, took = await self._patiently(read)
        counts = [{**row["_id"], **{name: row[name] for name in sums}} for row in rows]
        pace = {"at": at, "ended": sum(row["items"] for row in counts if row["state"] not in UNFINISHED)}
        again_s = min(max(COUNT_S, COUNT_SHARE * took), MOST_S)
        counted = {
            "counts": counts,
            "counted_at": at,
            "counted_end": began.get("ended_at"),
            "counting_s": took,
            "count_due_at": self._now() + timedelta(seconds=again_s),
            COUNTS_FROM: began[COUNTS_BEGUN],
        }
        none_since = {"_id": job, COUNTS_FROM: {"$not": {"$gt": began[COUNTS_BEGUN]}}}
        await self._patiently(lambda: self._jobs.update_one(none_since, {"$set": counted}))
        # Frequent counts would push older paces out of the list.
        lately = {"at": {"$gt": at - timedelta(seconds=COUNT_S), "$lte": at + timedelta(seconds=MOST_S)}}
        not_lately = {"_id": job, "pace": {"$not": {"$elemMatch": lately}}}
        push = {"$push": {"pace": {"$each": [pace], "$slice": -MOST_PACES}}}
        await self._patiently(lambda: self._jobs.update_one(not_lately, push))
        return msgspec.convert(counts, tuple[Counted, ...])

    async def count_when_due(self, job: Job) -> None:
        """Counts the job's items, unless another process is counting or has just counted them."""
        at = self._now()
        if not is_due(job, at):
            return
        waited_s = FIRST_COUNTING_S
        if job.counting_s is not None:
            waited_s = min(max(LEAST_COUNTING_S, COUNTING_TIMES * job.counting_s), MOST_S)
        word = secrets.token_hex(8)
        claim = {"$set": {"count_due_at": at + timedelta(seconds=waited_s), COUNTER: word}}
        seen = {"_id": job.id, "count_due_at": job.count_due_at}
        await self._patiently(lambda: self._jobs.update_one(seen, claim))
        ours = {"_id": job.id, COUNTER: word}  # read back, since the reply to the update may have been lost
        if await self._patiently(lambda: self._jobs.find_one(ours, {"_id": 1})):
            await self.count(job.id)
            if threshold := await self._looks.threshold(job):
                found = {"$set": {"threshold": list(threshold)}}
                await self._patiently(lambda: self._jobs.update_one({"_id": job.id}, found))

    async def count_again(self, job: Job) -> None:
        """Counts the job's items. A large unfinished job is counted only when that is due."""
        goes_on = job.state is not JobState.FINISHED
        await (self.count_when_due(job) if job.is_large and goes_on else self.count(job.id))

    async def _in_order(self, job: str) -> tuple[Document, Document]:
        """Returns a query for all items of the job, and the order in which MongoDB reads them fastest.

        Reading by id jumps between pages of the disk. So a job with a large part of all items is read by a scan of
        the whole collection: for a million items, in an eighth of the time when the cache cannot hold them.
        """
        enough = max(1, await self._patiently(self._items.estimated_document_count) // NATURAL_SHARE)
        own: Document = {"job": job}
        by_id: Document = {"_id": {"$gte": f"{job}:", "$lt": f"{job};"}}
        try:
            found = await self._patiently(lambda: self._items.count_documents(own, limit=enough, hint=BY_KEY))
        except OperationFailure as error:
            if error.code != NO_INDEX:
                raise
            found = 0  # the index was dropped; the index of ids is always there
        return (own, {"$natural": 1}) if found == enough else (by_id, {"_id": 1})


def is_due(job: Job, at: datetime) -> bool:
    """Returns True if the job's items may be counted again."""
    return not job.count_due_at or not at < job.count_due_at <= at + timedelta(seconds=MOST_S)

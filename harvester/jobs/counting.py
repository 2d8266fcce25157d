"""How many items of a job are in which state: counted now and then, and kept in the job's document."""

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
"""How often a job's items are counted, unless counting takes long."""
COUNT_SHARE = 10
"""The next count comes after so many times as long as this one took."""
LEAST_COUNTING_S = 10.0
"""How long others wait at least for a process that counts, which may have died."""
FIRST_COUNTING_S = 60.0
"""How long they wait for the first one, of which nobody knows how long it takes."""
COUNTING_TIMES = 3
"""They wait so many times as long as counting took last, if that is longer."""
MOST_S = 600.0
"""The next count comes by then at the latest, also when a clock was wrong, or a process that counted was stopped."""
COUNTS_BEGUN = "counts_begun"
"""Field of a job: how often its items began to be counted."""
COUNTS_FROM = "counts_from"
"""Field of a job: which of these gave the counts that it has."""
COUNTER = "counter"
"""Field of a job: the word of whoever counts its items, or has counted them last."""
NO_INDEX = 2
"""MongoDB's code for a hint at an index that is not there."""
NATURAL_SHARE = 4
"""A job with at least one in so many of all items is counted in the order in which all are stored."""
MOST_COUNTED = 1000
"""So many kinds, states, stages and outcomes of a job are told apart, for all of them are in its document."""
OTHER = "other"
"""Stage and outcome of the items whose own are rarer."""
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
"""Of groups of items: the most common as they are, the rest together."""


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
        # Who looks often keeps no more of them.
        lately = {"at": {"$gt": at - timedelta(seconds=COUNT_S), "$lte": at + timedelta(seconds=MOST_S)}}
        not_lately = {"_id": job, "pace": {"$not": {"$elemMatch": lately}}}
        push = {"$push": {"pace": {"$each": [pace], "$slice": -MOST_PACES}}}
        await self._patiently(lambda: self._jobs.update_one(not_lately, push))
        return msgspec.convert(counts, tuple[Counted, ...])

    async def count_when_due(self, job: Job) -> None:
        """The same, unless another does, or did a short time ago."""
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
        ours = {"_id": job.id, COUNTER: word}  # asked for: the answer to the update may have been lost
        if await self._patiently(lambda: self._jobs.find_one(ours, {"_id": 1})):
            await self.count(job.id)
            if threshold := await self._looks.threshold(job):
                found = {"$set": {"threshold": list(threshold)}}
                await self._patiently(lambda: self._jobs.update_one({"_id": job.id}, found))

    async def count_again(self, job: Job) -> None:
        """Counts its items; those of a large job that goes on only when that is due."""
        goes_on = job.state is not JobState.FINISHED
        await (self.count_when_due(job) if job.is_large and goes_on else self.count(job.id))

    async def _in_order(self, job: str) -> tuple[Document, Document]:
        """What selects all its items, and the order in which MongoDB reads them soonest.

        Reading by their ids jumps from page to page of the disk, so those of a job that has many of all items are
        picked out of all, as they are stored: of a million, in an eighth of the time when the cache cannot hold them.
        """
        enough = max(1, await self._patiently(self._items.estimated_document_count) // NATURAL_SHARE)
        own: Document = {"job": job}
        by_id: Document = {"_id": {"$gte": f"{job}:", "$lt": f"{job};"}}
        try:
            found = await self._patiently(lambda: self._items.count_documents(own, limit=enough, hint=BY_KEY))
        except OperationFailure as error:
            if error.code != NO_INDEX:
                raise
            found = 0  # somebody has dropped it; the index of ids is always there
        return (own, {"$natural": 1}) if found == enough else (by_id, {"_id": 1})


def is_due(job: Job, at: datetime) -> bool:
    """Whether its items may be counted again."""
    return not job.count_due_at or not at < job.count_due_at <= at + timedelta(seconds=MOST_S)

"""What people want of jobs: pause, resume, cancel, retry, a priority. Many items are changed a chunk at a time.

A chunk that was changed is not looked at again, so whoever was interrupted does the same again. What items become is
what `transitions` says of Cancelled and Retried.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from harvester.jobs.documents import STOPPED_AT, UNTOLD, Document, ItemState, JobState
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import CANCELLED

CHUNK = 10_000
"""Items that are changed together."""
Moved = Callable[[int], Awaitable[None]]
_ENDED = (ItemState.DONE, ItemState.FAILED, ItemState.SKIPPED)


class Control:
    """What may be done to the jobs of a ledger. False, or None: the job is none, or not in a state for it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def pause(self, job: str, reason: str = "") -> bool:
        """No more items of it are fed. Those that are active come to their end."""
        stopped = {STOPPED_AT: self._ledger.now(), UNTOLD: True}
        update = {"$set": {"state": JobState.PAUSED, "pause_reason": reason, **stopped}}
        return await self._change(job, [JobState.OPEN], update)

    async def resume(self, job: str) -> bool:
        """Ends a pause."""
        update = {"$set": {"state": JobState.OPEN}, "$unset": {"pause_reason": ""}}
        return await self._change(job, [JobState.PAUSED], update)

    async def cancel(self, job: str) -> int | None:
        """Skips what waits, for good: how many items. Active ones come to their end, and are not tried again."""
        return await self.skip_cancelled(job) if await self.begin_cancelling(job) else None

    async def begin_cancelling(self, job: str) -> bool:
        """Cancels the job but for its items, of which nothing is begun any more."""
        at = self._ledger.now()
        ended = {"state": JobState.CANCELLED, "ended_at": at, STOPPED_AT: at, UNTOLD: True}
        update = {"$set": ended, "$unset": {"pause_reason": ""}}
        if not await self._change(job, [JobState.OPEN, JobState.PAUSED], update):
            known = await self._ledger.job(job)
            return known is not None and known.state is JobState.CANCELLED
        return True

    async def skip_cancelled(self, job: str, moved: Moved | None = None) -> int:
        """Skips what waits in a job that is cancelled; how many items. `moved` is told how many more, each time."""
        skipped = {
            "state": ItemState.SKIPPED,
            "outcome": CANCELLED,
            "reason": CANCELLED,
            "updated_at": self._ledger.now(),
        }
        return await self._move(
            {"job": job, "state": ItemState.WAITING}, {"$set": skipped, "$unset": {"due_at": "", "why": ""}}, moved
        )

    async def retry(self, job: str, items: Sequence[str] | None = None, outcome: str | None = None) -> int | None:
        """Has items tried again, now, with all their attempts: how many. A finished job is open again.

        Those with these ids; or with that outcome, also such as are done or wait for a time; else all that failed.
        """
        if items is None:
            which: Document = {"outcome": outcome} if outcome else {"state": ItemState.FAILED}
            return await self.retry_those(job, [which])
        chunks = [items[first : first + CHUNK] for first in range(0, len(items), CHUNK)]
        return await self.retry_those(job, [{"_id": {"$in": list(chunk)}} for chunk in chunks])

    async def retry_those(self, job: str, which: Sequence[Document], moved: Moved | None = None) -> int | None:
        """The same for items that one of the queries finds, as far as they have ended or wait for a time.

        `moved` is told how many more after each chunk.
        """
        known = await self._ledger.job(job)
        if known is None or known.state is JobState.CANCELLED:
            return None
        at = self._ledger.now()
        waits = {"state": ItemState.WAITING, "failures": 0, "updated_at": at}
        forgets = {"$cond": [{"$gt": ["$failures", 0]}, "$$REMOVE", "$left"]}
        update: list[Document] = [
            {"$set": {"left": forgets}},
            {"$set": waits},
            {"$unset": ["due_at", "why", "outcome", "reason"]},
        ]
        # Those that have changed since are left out: a worker may bring them back as soon as they are moved.
        queries = [{"$and": [query, {"updated_at": {"$lte": at}}]} for each in which for query in retriable(job, each)]
        number = 0
        for query in queries:
            if await self._ledger.patiently(partial(self._ledger.items.find_one, query, {"_id": 1})):
                await self._ledger.reopen(job)  # before: nobody looks for items that wait in a job that is finished
                number += await self._move(query, update, moved)
        await self._ledger.note_added([job])  # after: it may have been finished, since there was nothing yet
        now = await self._ledger.job(job)
        if now and now.state is JobState.CANCELLED:
            await self.skip_cancelled(job)
        return number

    async def set_priority(self, job: str, priority: int) -> bool:
        """Its items are fed before those of jobs with a smaller one."""
        return await self._change(job, list(JobState), {"$set": {"priority": priority}})

    async def _change(self, job: str, states: Sequence[JobState], update: Document) -> bool:
        query = {"_id": job, "state": {"$in": list(states)}}
        result = await self._ledger.patiently(lambda: self._ledger.jobs.update_one(query, update))
        return bool(result.matched_count)

    async def _move(self, query: Document, update: Document | list[Document], moved_on: Moved | None = None) -> int:
        """`update` brings an item out of the query, and nothing brings it back. How many were moved."""
        items = self._ledger.items
        moved = 0
        while True:
            rows = await self._ledger.patiently(lambda: items.find(query, {"_id": 1}, limit=CHUNK).to_list())
            if not rows:
                return moved
            chunk = {"$and": [query, {"_id": {"$in": [row["_id"] for row in rows]}}]}
            result = await self._ledger.patiently(partial(items.update_many, chunk, update))
            moved += result.modified_count
            if moved_on:
                await moved_on(result.modified_count)


def retriable(job: str, which: Document) -> list[Document]:
    """Queries for those of the items that may be tried again: they have ended, or wait for a time."""
    ended: Document = {"job": job, "state": {"$in": list(_ENDED)}}
    later: Document = {"job": job, "state": ItemState.WAITING, "due_at": {"$type": "date"}}
    return [{"$and": [ended, which]}, {"$and": [later, which]}]

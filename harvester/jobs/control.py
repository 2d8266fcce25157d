"""The actions of users on jobs: pause, resume, cancel, retry, set a priority. Many items are changed a chunk at a
time.

A changed chunk no longer matches the query, so an interrupted action can be repeated. Items change as `transitions`
describes for Cancelled and Retried.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from harvester.jobs.documents import STOPPED_AT, UNTOLD, Document, ItemState, JobState
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import CANCELLED

CHUNK = 10_000
"""Number of items that are changed together."""
Moved = Callable[[int], Awaitable[None]]
_ENDED = (ItemState.DONE, ItemState.FAILED, ItemState.SKIPPED)


class Control:
    """Changes the jobs of a ledger. False or None: the job does not exist, or its state does not allow the change."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def pause(self, job: str, reason: str = "") -> bool:
        """Stops feeding the job's items. Active items end first."""
        stopped = {STOPPED_AT: self._ledger.now(), UNTOLD: True}
        update = {"$set": {"state": JobState.PAUSED, "pause_reason": reason, **stopped}}
        return await self._change(job, [JobState.OPEN], update)

    async def resume(self, job: str) -> bool:
        """Ends a pause."""
        update = {"$set": {"state": JobState.OPEN}, "$unset": {"pause_reason": ""}}
        return await self._change(job, [JobState.PAUSED], update)

    async def cancel(self, job: str) -> int | None:
        """Skips the waiting items for good, and returns their number. Active items end, and are not retried."""
        return await self.skip_cancelled(job) if await self.begin_cancelling(job) else None

    async def begin_cancelling(self, job: str) -> bool:
        """Marks the job as cancelled, so that no further item starts. Its items are not changed here."""
        at = self._ledger.now()
        ended = {"state": JobState.CANCELLED, "ended_at": at, STOPPED_AT: at, UNTOLD: True}
        update = {"$set": ended, "$unset": {"pause_reason": ""}}
        if not await self._change(job, [JobState.OPEN, JobState.PAUSED], update):
            known = await self._ledger.job(job)
            return known is not None and known.state is JobState.CANCELLED
        return True

    async def skip_cancelled(self, job: str, moved: Moved | None = None) -> int:
        """Skips the waiting items of a cancelled job, and returns their number. `moved` gets the number after every
        chunk."""
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
        """Retries items now, with all their attempts, and returns their number. A finished job opens again.

        The items are those with these ids; or those with that outcome, including items that are done or wait for a
        time; or all failed ones.
        """
        if items is None:
            which: Document = {"outcome": outcome} if outcome else {"state": ItemState.FAILED}
            return await self.retry_those(job, [which])
        chunks = [items[first : first + CHUNK] for first in range(0, len(items), CHUNK)]
        return await self.retry_those(job, [{"_id": {"$in": list(chunk)}} for chunk in chunks])

    async def retry_those(self, job: str, which: Sequence[Document], moved: Moved | None = None) -> int | None:
        """Retries the items that one of the queries finds, if they have ended or wait for a time.

        Returns their number. `moved` gets the number after every chunk.
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
        # Items that changed since are excluded: a worker may bring them back as soon as they are moved.
        queries = [{"$and": [query, {"updated_at": {"$lte": at}}]} for each in which for query in retriable(job, each)]
        number = 0
        for query in queries:
            if await self._ledger.patiently(partial(self._ledger.items.find_one, query, {"_id": 1})):
                await self._ledger.reopen(job)  # first, since no worker looks for waiting items in a finished job
                number += await self._move(query, update, moved)
        await self._ledger.note_added([job])  # last: the job may have finished meanwhile, when nothing waited yet
        now = await self._ledger.job(job)
        if now and now.state is JobState.CANCELLED:
            await self.skip_cancelled(job)
        return number

    async def set_priority(self, job: str, priority: int) -> bool:
        """Sets the priority. Jobs with a larger one get a larger share of the window."""
        return await self._change(job, list(JobState), {"$set": {"priority": priority}})

    async def _change(self, job: str, states: Sequence[JobState], update: Document) -> bool:
        query = {"_id": job, "state": {"$in": list(states)}}
        result = await self._ledger.patiently(lambda: self._ledger.jobs.update_one(query, update))
        return bool(result.matched_count)

    async def _move(self, query: Document, update: Document | list[Document], moved_on: Moved | None = None) -> int:
        """Applies `update`, which takes items out of the query for good, and returns their number."""
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
    """Returns queries for the items that may be retried: they have ended, or wait for a time."""
    ended: Document = {"job": job, "state": {"$in": list(_ENDED)}}
    later: Document = {"job": job, "state": ItemState.WAITING, "due_at": {"$type": "date"}}
    return [{"$and": [ended, which]}, {"$and": [later, which]}]

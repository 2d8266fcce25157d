"""Batches: retrying or cancelling many items of a job in the background. A batch survives the controller.

A batch is stored as a document before its work begins. The controller that works at it renews a heartbeat each second.
When the heartbeat stops, another controller, or the same one after a restart, does the rest. The work may be repeated
safely: it skips items that have changed since the batch was requested, so no item is retried by mistake.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, PyMongoError

from harvester.exceptions import HarvesterError, UnknownJob
from harvester.jobs.documents import ItemState, JobState
from harvester.jobs.ledger import now
from harvester.jobs.listing import ItemFilter
from harvester.jobs.service import JobService

logger = logging.getLogger(__name__)

Document = dict[str, Any]

BATCHES = "batches"
"""Name of the collection."""
KEPT_S = 90 * 86_400
"""Seconds to keep an ended batch."""
BEAT_S = 1.0
SILENT_S = 10.0
"""Seconds as in `idempotency`: between two heartbeats, and without one until a controller counts as dead."""


class BatchAction(StrEnum):
    """What a batch does."""

    RETRY = "retry"
    CANCEL = "cancel"


class BatchState(StrEnum):
    """How far it is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ActionBatch:
    """A batch. Times in UTC."""

    id: str
    job: str
    action: BatchAction
    state: BatchState
    matched: int
    """Number of items that matched when the batch was requested."""
    done: int
    """Number of items done so far. When the batch has ended, the rest had changed by themselves meanwhile."""
    by: str
    """Name of the token that requested the batch. Empty: a controller did, in place of a dead one."""
    asked_at: datetime
    filter: ItemFilter
    """The filter that selects the items."""
    items: list[str]
    """Ids or keys that select the items, in place of a filter."""
    ended_at: datetime | None = None
    said: str = ""
    """The reason of the failure."""


class Batches:
    """The batches of a database, and the tasks that do their work."""

    def __init__(self, database: AsyncDatabase[Document], jobs: JobService) -> None:
        self._batches = database[BATCHES]
        self._jobs = jobs
        self._holder = secrets.token_hex(8)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def make_indexes(self) -> None:
        await self._batches.create_indexes(
            [
                IndexModel([("ended_at", ASCENDING)], expireAfterSeconds=KEPT_S),
                IndexModel([("job", ASCENDING), ("asked_at", DESCENDING)]),
                IndexModel([("state", ASCENDING)]),
            ]
        )

    async def begin(
        self,
        action: BatchAction,
        job: str,
        matched: int,
        by: str,
        asked_at: datetime,
        *,
        which: ItemFilter | None = None,
        items: Sequence[str] = (),
        word: str = "",
    ) -> ActionBatch:
        """Begins a batch. If one was begun with the same `word` before, returns that batch."""
        batch = ActionBatch(
            id=f"{action}-{word or secrets.token_hex(8)}",
            job=job,
            action=action,
            state=BatchState.RUNNING,
            matched=matched,
            done=0,
            by=by,
            asked_at=asked_at,
            filter=which or ItemFilter(),
            items=list(items),
        )
        fields = asdict(batch) | {"holder": self._holder, "beat_at": now()}
        document = {"_id": fields.pop("id"), **fields, "action": str(action), "state": str(batch.state)}
        try:
            await self._batches.insert_one(document)
        except DuplicateKeyError:
            return await self.batch(batch.id)
        self._work(batch)
        return batch

    async def batch(self, batch: str) -> ActionBatch:
        """Returns the batch in its current state. Raises UnknownJob."""
        if row := await self._batches.find_one({"_id": batch}):
            return _read(row)
        raise UnknownJob(f"There is no batch {batch!r}.")

    async def of(self, job: str, most: int) -> list[ActionBatch]:
        """Returns the batches of a job, the latest first."""
        rows = await self._batches.find({"job": job}, sort=[("asked_at", DESCENDING)], limit=most).to_list()
        return [_read(row) for row in rows]

    async def run(self) -> None:
        """Continues the batches of controllers that died, until it is cancelled."""
        looked = False
        try:
            while True:
                try:
                    if not looked:
                        await self._begin_missing()
                        looked = True
                    await self._take_over()
                except PyMongoError as error:
                    logger.warning("Batches of controllers that died are looked for later: %s", error)
                except Exception:  # a fault in one batch must not stop the others
                    logger.exception("A batch cannot be taken over")
                await asyncio.sleep(BEAT_S)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _begin_missing(self) -> None:
        """Begins batches for jobs that a controller cancelled when it died before it could begin their batch."""
        jobs = self._jobs.ledger.jobs.find({"state": JobState.CANCELLED}, {"_id": 1})
        async for job in jobs:
            waits = {"job": job["_id"], "state": ItemState.WAITING}
            running = {"job": job["_id"], "action": BatchAction.CANCEL.value, "state": BatchState.RUNNING.value}
            if await self._jobs.ledger.items.find_one(waits) and not await self._batches.find_one(running):
                matched = await self._jobs.ledger.items.count_documents(waits)
                await self.begin(BatchAction.CANCEL, job["_id"], matched, "", now())

    async def _take_over(self) -> None:
        silent = {"state": BatchState.RUNNING.value, "beat_at": {"$lt": now() - timedelta(seconds=SILENT_S)}}
        while row := await self._batches.find_one_and_update(
            silent, {"$set": {"holder": self._holder, "beat_at": now()}}
        ):
            self._work(_read(row), again=True)

    def _work(self, batch: ActionBatch, *, again: bool = False) -> None:
        if batch.id in self._tasks:
            return
        task = asyncio.create_task(self._whole(batch, again))
        self._tasks[batch.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(batch.id, None))

    async def _whole(self, batch: ActionBatch, again: bool) -> None:
        """Does the work and stores how it ended. When MongoDB is unreachable, `run` continues the batch later."""
        beating = asyncio.create_task(self._beat(batch))
        end: Document
        try:
            await self._do(batch, again)
            end = {"state": BatchState.DONE.value}
        except HarvesterError as error:
            end = {"state": BatchState.FAILED.value, "said": str(error)}
        except PyMongoError as error:
            logger.warning("The batch %s goes on later: %s", batch.id, error)
            return
        finally:
            beating.cancel()
        with suppress(PyMongoError):
            await self._batches.update_one(self._mine(batch), {"$set": end | {"ended_at": now()}})

    async def _do(self, batch: ActionBatch, again: bool) -> None:
        async def moved(number: int) -> None:
            await self._batches.update_one({"_id": batch.id}, {"$inc": {"done": number}})

        if batch.action is BatchAction.CANCEL:
            left = await self._jobs.begin_cancelling(batch.job)
        elif again:
            left = await self._jobs.retriable(batch.job, batch.filter, batch.items, batch.asked_at)
        if again:  # the last step may be done, but not counted yet
            done = max(0, batch.matched - left)
            await self._batches.update_one(self._mine(batch), {"$set": {"done": done}})
        if batch.action is BatchAction.CANCEL:
            await self._jobs.skip_cancelled(batch.job, moved)
        else:
            await self._jobs.retry_those(batch.job, batch.filter, batch.items, batch.asked_at, moved)

    async def _beat(self, batch: ActionBatch) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(PyMongoError):
                await self._batches.update_one(self._mine(batch), {"$set": {"beat_at": now()}})

    def _mine(self, batch: ActionBatch) -> Document:
        return {"_id": batch.id, "holder": self._holder}


def _read(row: Document) -> ActionBatch:
    return msgspec.convert({**row, "id": row["_id"], "done": min(row["done"], row["matched"])}, ActionBatch)

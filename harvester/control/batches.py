"""What is done to many items of a job, in the background: trying again, cancelling. It outlives the controller.

A batch is a document before anything is done. Who works at it says so each second; when that stops, another controller,
or this one when it begins anew, does the rest. What is done may be done again, and touches no item that has changed
since the batch was asked for: so no item is tried again that was not meant.
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
"""How long it is told what became of one."""
BEAT_S = 1.0
SILENT_S = 10.0
"""As in `idempotency`."""


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
    """Items that it is about: how many there were when it was asked for."""
    done: int
    """Of these, so far. The others have changed by themselves meanwhile, when it is done."""
    by: str
    """Name of the token of whoever asked for it. Empty: a controller, for one that died."""
    asked_at: datetime
    filter: ItemFilter
    """Of which items it is."""
    items: list[str]
    """Ids or keys, where it is of these."""
    ended_at: datetime | None = None
    said: str = ""
    """Why it failed."""


class Batches:
    """Those of a database, and the work at them."""

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
        """Begins one. With a `word` that one was begun with before it is that one."""
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
        """As it is now. Raises UnknownJob."""
        if row := await self._batches.find_one({"_id": batch}):
            return _read(row)
        raise UnknownJob(f"There is no batch {batch!r}.")

    async def of(self, job: str, most: int) -> list[ActionBatch]:
        """Those of a job, the latest first."""
        rows = await self._batches.find({"job": job}, sort=[("asked_at", DESCENDING)], limit=most).to_list()
        return [_read(row) for row in rows]

    async def run(self) -> None:
        """Goes on with those whose controller died, until it is cancelled."""
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
                except Exception:  # of one batch; the others go on
                    logger.exception("A batch cannot be taken over")
                await asyncio.sleep(BEAT_S)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _begin_missing(self) -> None:
        """For jobs whose controller died when it had cancelled them, before there was a batch."""
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
        """Does it and says how it ended; where MongoDB is away, that is left to `run`."""
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
        if again:  # what was done last may not have been written down
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

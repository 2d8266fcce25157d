"""The ledger: reads and writes jobs and their items in MongoDB, for the processes that work at them.

The effect of an event on an item is defined in `transitions`. A write applies only if the item is unchanged since
it was read. So any number of processes may write at once, each may die between two writes, and every write may be
repeated. All writes are bulk writes. The actions of users on jobs are in `control`.
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace
from pymongo import ASCENDING, DESCENDING, InsertOne, ReturnDocument, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from harvester.items import Batch, Found
from harvester.items import ItemResult as SaidOf
from harvester.jobs.budgets import kept_slots
from harvester.jobs.counting import Counting
from harvester.jobs.documents import (
    BY_OUTCOME,
    ITEM_INDEXES,
    ITEMS,
    JOB_INDEXES,
    JOBS,
    LISTINGS,
    STOPPED_AT,
    UNFINISHED,
    UNTOLD,
    Document,
    Item,
    ItemState,
    Job,
    JobState,
    LookedAt,
    RetryPolicy,
    SavedResult,
    item_id,
    new_job_id,
    read_item,
    read_job,
    to_document,
)
from harvester.jobs.due_visits import Looks, Patiently
from harvester.jobs.transitions import (
    Cancelled,
    Changed,
    Event,
    Fed,
    LimitReached,
    Nearer,
    Removed,
    StageReached,
    transition,
)

CHUNK = 1000
"""Number of items that are read or written together."""
_DUPLICATE_KEY = 11000
_OTHER_INDEX = 86
"""MongoDB's error code for an index of the same name with another definition."""
_DUE: Document = {"state": ItemState.WAITING, "due_at": None}

BeforeWriting = Callable[[Sequence[Item]], Awaitable[None]]


class Opened(NamedTuple):
    """The job of a scope."""

    job: Job
    begun: bool
    """True if the job already existed."""


class Added(NamedTuple):
    """The numbers of items that were new to a job, and that it already had."""

    new: int
    known: int


class ListedItems(NamedTuple):
    """The changes to a job's items after its arguments were read again."""

    new: int
    changed: int
    removed: int


@dataclass(frozen=True, slots=True)
class Deferred:
    """The items of a job that wait for a time."""

    items: int
    until: datetime
    """Time when the first of the items is due."""
    outcomes: dict[str, int]
    """The reasons of the wait: outcome of the latest attempt -> number of items."""
    reason: str = ""
    """The reason of an item with the most frequent outcome."""


class Ledger:
    """Reads and writes all jobs of a database."""

    def __init__(
        self, database: AsyncDatabase[Document], patiently: Patiently, clock: Callable[[], datetime] | None = None
    ) -> None:
        """`clock` returns the time in UTC, to the millisecond. The default is the clock of this machine."""
        self.now = clock or now
        self.jobs: AsyncCollection[Document] = database[JOBS]
        self.items: AsyncCollection[Document] = database[ITEMS]
        self.patiently = patiently
        self.looks = Looks(self.items, patiently, self.now)
        self.counting = Counting(self.jobs, self.items, self.looks, patiently, self.now)

    async def make_indexes(self) -> None:
        """Creates the indexes. Called before anything is written."""
        await self.patiently(lambda: self.jobs.create_indexes(list(JOB_INDEXES)))
        try:
            await self.patiently(lambda: self.items.create_indexes(list(ITEM_INDEXES)))
        except OperationFailure as error:
            if error.code != _OTHER_INDEX:
                raise
            with suppress(OperationFailure):  # another process has dropped it at the same time
                await self.patiently(lambda: self.items.drop_index(BY_OUTCOME))  # an earlier version's, of all items
            await self.patiently(lambda: self.items.create_indexes(list(ITEM_INDEXES)))

    # Jobs -------------------------------------------------------------------------------------------------

    async def open_job(self, spider: str, scope: str, **fields: Any) -> Opened:
        """Returns the unfinished job of this scope or idempotency key, or a new one with these fields of Job."""
        ours: Document = {"spider": spider, "scope": scope}
        same = {"idempotency_key": fields.get("idempotency_key")}
        while True:
            if same["idempotency_key"] and (known := await self.patiently(lambda: self.jobs.find_one(same))):
                return Opened(read_job(known), begun=True)
            last = await self.patiently(lambda: self.jobs.find_one(ours, sort=[("number", DESCENDING)]))
            if last and last["state"] in (JobState.OPEN, JobState.PAUSED):
                return Opened(read_job(last), begun=True)
            number = last["number"] + 1 if last else 1
            job = Job(id=new_job_id(spider), number=number, created_at=self.now(), **ours, **fields)
            try:
                await self.patiently(partial(self.jobs.insert_one, to_document(job)))
            except DuplicateKeyError:
                continue  # another process has just opened it
            return Opened(job, begun=False)

    async def job(self, job: str) -> Job | None:
        """Returns the job, or None."""
        found = await self.patiently(lambda: self.jobs.find_one({"_id": job}))
        return read_job(found) if found else None

    async def jobs_of(self, spider: str, states: Iterable[JobState]) -> list[Job]:
        """Returns the spider's jobs in these states, by priority and then by age."""
        query = {"spider": spider, "state": {"$in": list(states)}}
        order = [("priority", DESCENDING), ("created_at", ASCENDING), ("_id", ASCENDING)]
        return [read_job(row) for row in await self.patiently(lambda: self.jobs.find(query, sort=order).to_list())]

    async def unfinished(self, spider: str) -> list[Job]:
        """Returns the spider's jobs that may still change: open, paused, and cancelled ones with unfinished items."""
        jobs = await self.jobs_of(spider, [JobState.OPEN, JobState.PAUSED])
        cancelled = {"spider": spider, "state": JobState.CANCELLED}
        rows = await self.patiently(lambda: self.jobs.find(cancelled, {"_id": 1}).to_list())
        if not rows:
            return jobs
        left = {"job": {"$in": [row["_id"] for row in rows]}, "state": {"$in": list(UNFINISHED)}}
        of_jobs = await self.patiently(lambda: self.items.distinct("job", left))
        found = await self.patiently(lambda: self.jobs.find({"_id": {"$in": of_jobs}}).to_list()) if of_jobs else []
        return jobs + [read_job(row) for row in found]

    async def spiders_with_open_jobs(self) -> set[str]:
        """Returns the names of spiders with open jobs, including spiders that this project does not have."""
        return set(await self.patiently(lambda: self.jobs.distinct("spider", {"state": JobState.OPEN})))

    async def is_left(self, job: str) -> bool:
        """Returns True if an item of the job is waiting or active."""
        left = {"job": job, "state": {"$in": list(UNFINISHED)}}
        return bool(await self.patiently(lambda: self.items.find_one(left, {})))

    async def _has_items(self, job: str) -> bool:
        """Returns True if the job has items, even if the process that added them died before it updated `fed`."""
        return bool(await self.patiently(lambda: self.items.find_one({"job": job}, {"_id": 1})))

    async def finish(self, job: str) -> bool:
        """Finishes an open and complete job without unfinished items. Items that are added meanwhile are not missed."""
        known = await self.job(job)
        if known is None or known.standing or known.state is not JobState.OPEN or known.incomplete:
            return False
        if await self.is_left(job) or not (known.fed or await self._has_items(job)):
            return False
        same = {"_id": job, "state": JobState.OPEN, "fed": known.fed}
        at = self.now()
        end = {"$set": {"state": JobState.FINISHED, "ended_at": at, STOPPED_AT: at, UNTOLD: True}}
        result = await self.patiently(lambda: self.jobs.update_one(same, end))
        if not result.modified_count:
            ended = await self.job(job)  # by another process, or by this call when the answer to it was lost
            return ended is not None and ended.state is JobState.FINISHED
        if await self.is_left(job):  # an item may move from waiting to active while the index is read
            await self.note_added([job])
            return False
        await self.counting.count(job)
        return True

    # Items ------------------------------------------------------------------------------------------------

    async def add(self, job: str, found: Iterable[Found], site_of: Callable[[Found], str], *, depth: int = 0) -> Added:
        """Adds items from a stream of any length. Known items keep their state. `depth`: for items without one."""
        new = total = 0
        rest = iter(found)
        while chunk := await asyncio.to_thread(list, islice(rest, CHUNK)):  # reading may block, as on a terminal
            total += len(chunk)
            new += await self._add([_new_item(job, each, depth, site_of(each), self.now()) for each in chunk])
            await self.note_added([job])
        if not total:
            await self.note_added([job])
        return Added(new, total - new)

    async def list_items(self, job: Job, found: Iterable[Found], site_of: Callable[[Found], str]) -> ListedItems:
        """Makes `found` the items that the job's arguments list. Earlier listed items that are missing from it are
        removed.

        Known items get the new input, and removed ones come back. Items that came in another way stay.
        """
        word = await self._next_listing(job.id)
        earlier = {"$exists": True, "$lt": word}
        added = changed = 0
        rest = iter(found)
        while chunk := await asyncio.to_thread(list, islice(rest, CHUNK)):
            items = {each.id: each for each in (_new_item(job.id, one, 0, site_of(one), self.now()) for one in chunk)}
            added += await self._add([*items.values()])
            named = {"_id": {"$in": [*items]}}
            # Before the change: so the change brings back an item that an earlier reading removes meanwhile.
            await self.patiently(partial(self.items.update_many, named, {"$max": {"listed": word}}))
            changed += await self.apply(
                [(each.id, Changed(each.input, recheck=each.recheck)) for each in items.values()]
            )
        removed = 0
        before = {"job": job.id, "listed": earlier}
        while rows := await self.patiently(lambda: self.items.find(before, {"_id": 1}, limit=CHUNK).to_list()):
            ids = [row["_id"] for row in rows]
            removed += await self.apply([(each, Removed(word)) for each in ids])
            gone = {"_id": {"$in": ids}, "listed": earlier}
            await self.patiently(partial(self.items.update_many, gone, {"$unset": {"listed": ""}}))
        await self.note_added([job.id])
        return ListedItems(added, changed, removed)

    async def _next_listing(self, job: str) -> str:
        """Returns the token of a new reading of the arguments. It sorts after the tokens of all earlier readings."""
        update = {"$inc": {LISTINGS: 1}}
        row = await self.patiently(
            lambda: self.jobs.find_one_and_update({"_id": job}, update, return_document=ReturnDocument.AFTER)
        )
        return f"r{row[LISTINGS]:015}"  # sorts after the hexadecimal tokens of earlier versions, too

    async def set_job(self, job: str, **fields: Any) -> None:
        """Sets fields of the job's document. None removes a field."""
        known = {name: value for name, value in fields.items() if value is not None}
        gone = dict.fromkeys(fields.keys() - known.keys(), "")
        update = {operator: changes for operator, changes in (("$set", known), ("$unset", gone)) if changes}
        await self.patiently(lambda: self.jobs.update_one({"_id": job}, update))

    async def add_found(
        self, found: Sequence[tuple[str, Collection[str], Found]], site_of: Callable[[Found], str]
    ) -> int:
        """Adds items found on pages, and returns the number of new ones.

        `found` has tuples of the job, the items that requested the page, and the found item.
        """
        depths = await self._depths({parent for _, parents, each in found if each.depth is None for parent in parents})
        items = []
        for job, parents, each in found:
            nearest = min((depths[parent] for parent in parents if parent in depths), default=-1)
            items.append(_new_item(job, each, nearest + 1, site_of(each), self.now()))
        new = 0
        for first in range(0, len(items), CHUNK):
            chunk = items[first : first + CHUNK]
            if added := await self._add(chunk):
                new += added
                await self.note_added({item.job for item in chunk})
        return new

    async def note(self, batches: Iterable[Batch], site_of: Callable[[Found], str]) -> None:
        """Stores what pages reported about items. Called after their records are stored, and before the requests count
        as done."""
        found: list[tuple[str, Collection[str], Found]] = []
        events: list[tuple[str, Event]] = []
        for batch in batches:
            attempts = dict(batch.items)
            found += [(batch.job, attempts, each) for each in batch.found]
            for stage in batch.stages:
                events.append((stage.item_id, StageReached(attempts[stage.item_id], stage.stage, stage.rank)))
            for look in batch.looked:
                looked = LookedAt(
                    attempts[look.item_id], *(getattr(look, name) for name in LookedAt.__struct_fields__[1:])
                )
                events.append((look.item_id, looked))
            events += _events_of(batch.said, attempts)
        if found:
            await self.add_found(found, site_of)
        if events:
            await self.apply(events)

    async def say(self, attempts: Mapping[str, int], said: Iterable[SaidOf]) -> None:
        """Stores the ends of attempts that need no request. `attempts`: id of the item -> number of the attempt."""
        await self.apply(_events_of(said, attempts))

    async def _depths(self, ids: Collection[str]) -> dict[str, int]:
        if not ids:
            return {}
        query = {"_id": {"$in": list(ids)}}
        rows = await self.patiently(lambda: self.items.find(query, {"depth": 1}).to_list())
        return {row["_id"]: row["depth"] for row in rows}

    async def _add(self, items: Sequence[Item]) -> int:
        """Adds items, and returns the number of new ones."""
        nearest: dict[str, Item] = {}
        for item in items:
            if item.id not in nearest or item.depth < nearest[item.id].depth:
                nearest[item.id] = item
        known = await self._depths(nearest)
        new = [item for item in nearest.values() if item.id not in known]
        nearer = [item for item in nearest.values() if item.id in known and item.depth < known[item.id]]
        if new:
            nearer += await self._insert(new)
        changed = await self.apply([(item.id, Nearer(item.depth)) for item in nearer])
        if changed:
            await self.note_added({item.job for item in nearer})
        await self._skip_cancelled(new)
        return len(new)

    async def _skip_cancelled(self, waiting: Sequence[Item]) -> None:
        """Skips items that were added while their job was being cancelled: the cancelling process did not see them."""
        query = {"_id": {"$in": list({item.job for item in waiting})}, "state": JobState.CANCELLED}
        rows = await self.patiently(lambda: self.jobs.find(query, {"_id": 1}).to_list()) if waiting else []
        cancelled = {row["_id"] for row in rows}
        await self.apply([(item.id, Cancelled()) for item in waiting if item.job in cancelled])

    async def _insert(self, items: Sequence[Item]) -> list[Item]:
        """Inserts items, and returns those that another process has just inserted."""
        _, taken = await self._write([InsertOne(to_document(item)) for item in items])
        return [items[index] for index in taken]

    async def note_added(self, jobs: Iterable[str]) -> None:
        """Notes that items were added to jobs. Called after each addition. A finished job with unfinished items opens
        again."""
        among: Document = {"_id": {"$in": list(jobs)}}
        await self.patiently(lambda: self.jobs.update_many(among, {"$inc": {"fed": 1}}))
        finished = among | {"state": JobState.FINISHED}
        for row in await self.patiently(lambda: self.jobs.find(finished, {"_id": 1}).to_list()):
            if await self.is_left(row["_id"]):
                await self.reopen(row["_id"])

    async def reopen(self, job: str) -> None:
        """Opens the job if it is finished."""
        finished = {"_id": job, "state": JobState.FINISHED}
        update = {"$set": {"state": JobState.OPEN}, "$unset": {"ended_at": ""}}
        await self.patiently(lambda: self.jobs.update_one(finished, update))

    async def claim(
        self, job: Job, most: int, feeder: str, *, left_alone: Collection[str] = (), of_site: str | None = None
    ) -> list[Item]:
        """Starts the next attempt of at most `most` due items, and returns the items that this call started.

        The nearest come first, then those with the largest priority. Items more than one step farther than the
        nearest unfinished one are left out. Items of a recurring job come in the order of their due times, within
        the budgets. Items of sites in `left_alone` are skipped; with `of_site` only the items of that site are
        claimed.
        """
        if most <= 0 or job.state is not JobState.OPEN:
            return []
        where: Document = {"job": job.id}
        if left_alone or of_site is not None:
            where["site"] = {"$nin": list(left_alone)} if of_site is None else of_site
        slots: dict[str, tuple[str, ...]] = {}
        at = self.now()
        if job.standing:
            looks = await self.looks.due(job, most, where, at)
            slots = {each.item.id: each.slots for each in looks}
            due = [each.item for each in looks]
        else:
            due = await self._nearest_due(most, where)
        numbered = await self._numbered(job, due)
        claimed = await self._begin(job, numbered, slots, f"{feeder}:{secrets.token_hex(6)}", at)
        if claimed and job.started_at is None:
            began = {"_id": job.id, "started_at": None}
            await self.patiently(lambda: self.jobs.update_one(began, {"$set": {"started_at": self.now()}}))
        return claimed

    async def _nearest_due(self, most: int, where: Document) -> list[Item]:
        order = [("depth", ASCENDING), ("priority", DESCENDING), ("_id", ASCENDING)]
        due = await self._read(where | _DUE, sort=order, limit=most)
        if not due:
            return []
        active = where | {"state": ItemState.ACTIVE, "due_at": None}
        nearest = await self.patiently(lambda: self.items.find_one(active, {"depth": 1}, sort=order[:1]))
        farthest = 1 + min(due[0].depth, nearest["depth"] if nearest else due[0].depth)
        return [item for item in due if item.depth <= farthest]

    async def _begin(
        self,
        job: Job,
        due: Iterable[tuple[Item, int | None]],
        slots: Mapping[str, tuple[str, ...]],
        feeder: str,
        at: datetime,
    ) -> list[Item]:
        """Starts attempts at items, given with their numbers. `slots`: id of an item -> slots of budgets that it
        takes.

        `feeder` is a token that was never used before: items with this token were started by this call.
        """
        policy = job.policy
        begun: list[Item] = []
        writes: list[UpdateOne] = []
        for item, number in due:
            if after := transition(item, Fed(item.attempts + 1, feeder), policy, at):
                taken = kept_slots(item.slots, slots.get(item.id, ()))
                begun.append(replace(after, number=number, slots=taken))
                writes.append(UpdateOne(_as_read(item), _difference(item, begun[-1])))
        if not writes or await self._write(writes) == (len(writes), []):
            return begun
        ours = {"_id": {"$in": [item.id for item in begun]}, "feeder": feeder, "state": ItemState.ACTIVE}
        rows = await self.patiently(lambda: self.items.find(ours, {"_id": 1}).to_list())
        written = {row["_id"] for row in rows}
        return [item for item in begun if item.id in written]

    async def _numbered(self, job: Job, due: Sequence[Item]) -> list[tuple[Item, int | None]]:
        """Returns the items that may be fed, with numbers where their kind has a limit. Items beyond the limit are
        skipped."""
        numbered = [(item, item.number) for item in due if item.number or item.kind not in job.limits]
        for kind, limit in job.limits.items():
            without = [item for item in due if item.kind == kind and not item.number]
            if not without:
                continue
            numbers = await self._free_numbers(job.id, kind, len(without), limit)
            numbered += zip(without, numbers, strict=False)
            if not numbers:
                await self._skip_beyond_limit(job, kind)
        return numbered

    async def _free_numbers(self, job: str, kind: str, most: int, limit: int) -> list[int]:
        """Returns at most `most` free numbers of the kind, from 1 to the limit."""
        numbered = {"job": job, "kind": kind, "number": {"$gt": 0}}
        only = {"_id": 0, "number": 1}
        last = await self.patiently(lambda: self.items.find_one(numbered, only, sort=[("number", DESCENDING)]))
        highest = last["number"] if last else 0
        if highest + most <= limit:
            return list(range(highest + 1, highest + most + 1))
        rows = await self.patiently(lambda: self.items.find(numbered, only).to_list())
        given = {row["number"] for row in rows}
        return list(islice((number for number in range(1, limit + 1) if number not in given), most))

    async def _skip_beyond_limit(self, job: Job, kind: str) -> None:
        beyond = {"job": job.id, "state": ItemState.WAITING, "kind": kind, "number": None}
        while True:
            rows = await self.patiently(lambda: self.items.find(beyond, {"_id": 1}, limit=CHUNK).to_list())
            if not rows:
                return
            await self.apply([(row["_id"], LimitReached()) for row in rows])

    async def promote(self, job: Job, *, all_of_them: bool = False) -> int:
        """Makes the items due that have waited long enough, or all waiting ones. Returns their number.

        Items of a recurring job keep their due times, since they are visited in that order.
        """
        if job.standing:
            return 0
        due_at = {"$type": "date"} if all_of_them else {"$lte": self.now()}
        waiting = {"job": job.id, "state": ItemState.WAITING, "due_at": due_at}
        result = await self.patiently(lambda: self.items.update_many(waiting, {"$unset": {"due_at": ""}}))
        return int(result.modified_count)

    async def deferred(self, job: str) -> Deferred | None:
        """Returns the job's items that wait for a time, or None."""
        waiting = {"job": job, "state": ItemState.WAITING, "due_at": {"$type": "date"}}
        group = {"_id": "$outcome", "items": {"$sum": 1}, "until": {"$min": "$due_at"}, "reason": {"$max": "$reason"}}
        stages: list[Document] = [{"$match": waiting}, {"$group": group}]

        async def read() -> list[Document]:
            return await (await self.items.aggregate(stages)).to_list()

        rows = await self.patiently(read)
        if not rows:
            return None
        outcomes = {row["_id"] or "": row["items"] for row in rows}
        reason = max(rows, key=lambda row: row["items"])["reason"] or ""
        return Deferred(sum(outcomes.values()), min(row["until"] for row in rows), outcomes, reason)

    async def next_due(self, job: Job) -> datetime | None:
        """Returns the time when the first waiting item of the job is due."""
        return await self.looks.next_at(job) if job.standing else await self.first_due(job)

    async def first_due(self, job: Job) -> datetime | None:
        """Returns the time when the first waiting item is due, even if a budget does not allow the visit then."""
        waiting = {"job": job.id, "state": ItemState.WAITING, "due_at": {"$type": "date"}}
        order = [("due_at", ASCENDING)]
        row = await self.patiently(lambda: self.items.find_one(waiting, {"due_at": 1}, sort=order))
        return row["due_at"] if row else None

    async def is_active(self, *jobs: str) -> bool:
        """Returns True if any of the jobs has an active item."""
        active = {"job": {"$in": jobs}, "state": ItemState.ACTIVE}
        return bool(await self.patiently(lambda: self.items.find_one(active, {"_id": 1})))

    async def is_due(self, job: Job, left_alone: Collection[str] = ()) -> bool:
        """Returns True if an item of the job may be started, except items of the sites in `left_alone`."""
        if job.standing:
            return bool(await self.looks.first(job, left_alone))
        due = {"job": job.id, **_DUE, "site": {"$nin": list(left_alone)}}
        return bool(await self.patiently(lambda: self.items.find_one(due, {"_id": 1})))

    async def active(self, job: str) -> list[Item]:
        """Returns the active items of the job."""
        return await self._read({"job": job, "state": ItemState.ACTIVE})

    async def apply(self, events: Iterable[tuple[str, Event]], before: BeforeWriting | None = None) -> int:
        """Applies events to items by id, in the given order for each item. Returns the number of changed items.

        `before` is called with the changed items before they are written. It may be called again with the same
        items.
        """
        of_items: dict[str, list[Event]] = {}
        for item, event in events:
            of_items.setdefault(item, []).append(event)
        changed = 0
        rest = iter(of_items)
        while ids := list(islice(rest, CHUNK)):
            changed += await self._apply({each: of_items[each] for each in ids}, before)
        return changed

    async def _apply(self, events: Mapping[str, Sequence[Event]], before_writing: BeforeWriting | None) -> int:
        changed = 0
        left = list(events)
        while left:
            items = await self._read({"_id": {"$in": left}})
            policies = await self._policies({item.job for item in items})
            writes, changing = {}, []
            for before in items:
                after = before
                for event in events[before.id]:
                    after = transition(after, event, policies[before.job], self.now()) or after
                if after is not before:
                    writes[before.id] = UpdateOne(_as_read(before), _difference(before, after))
                    changing.append(after)
            if not writes:
                break
            if before_writing:
                await before_writing(changing)
            written, _ = await self._write([*writes.values()])
            changed += written
            await self._skip_cancelled([item for item in changing if item.state is ItemState.WAITING])
            if written == len(writes):
                break
            left = [*writes]  # others have changed the rest meanwhile; written items need no second write
        return changed

    async def _policies(self, jobs: Collection[str]) -> Mapping[str, RetryPolicy]:
        policies: defaultdict[str, RetryPolicy] = defaultdict(RetryPolicy)  # the default is for deleted jobs
        if jobs:
            query = {"_id": {"$in": list(jobs)}}
            for row in await self.patiently(lambda: self.jobs.find(query, {"counts": 0}).to_list()):
                policies[row["_id"]] = read_job(row).policy
        return policies

    async def _read(self, query: Document, **options: Any) -> list[Item]:
        rows = await self.patiently(lambda: self.items.find(query, **options).to_list())
        return [read_item(row) for row in rows]

    async def _write(self, writes: Sequence[InsertOne[Document] | UpdateOne]) -> tuple[int, list[int]]:
        """Writes items in no order. Returns the number of matched updates, and the indexes of writes that met a taken
        key."""
        found, taken = 0, list[int]()

        async def write() -> None:
            nonlocal found, taken
            try:
                found, taken = (await self.items.bulk_write(writes, ordered=False)).matched_count, []
            except BulkWriteError as error:
                failures = error.details["writeErrors"]
                if error.details["writeConcernErrors"] or any(each["code"] != _DUPLICATE_KEY for each in failures):
                    raise
                found, taken = error.details["nMatched"], [each["index"] for each in failures]

        await self.patiently(write)
        return found, taken


def _new_item(job: str, found: Found, depth: int, site: str, at: datetime) -> Item:
    return Item(
        id=item_id(job, found.kind, found.key),
        job=job,
        kind=found.kind,
        key=found.key,
        input=found.input,
        line=found.line,
        depth=depth if found.depth is None else found.depth,
        priority=found.priority,
        recheck=found.recheck,
        site=site,
        created_at=at,
        updated_at=at,
    )


def _events_of(said: Iterable[SaidOf], attempts: Mapping[str, int]) -> list[tuple[str, Event]]:
    return [
        (
            each.item_id,
            SavedResult(attempts[each.item_id], ItemState(each.state), each.outcome, each.reason, each.until),
        )
        for each in said
    ]


def _as_read(item: Item) -> Document:
    """Returns a query for the item that matches only if nobody has changed it since."""
    read = {"state": item.state, "attempts": item.attempts, "depth": item.depth, "updated_at": item.updated_at}
    return {"_id": item.id, **read, "listed": item.listed or None}


def _difference(before: Item, after: Item) -> Document:
    """Returns the update from `before` to `after`."""
    old, new = to_document(before), to_document(after)
    update = {
        "$set": {name: value for name, value in new.items() if old.get(name) != value},
        "$unset": dict.fromkeys(old.keys() - new.keys(), ""),
    }
    return {operator: fields for operator, fields in update.items() if fields}


def now() -> datetime:
    """Returns the time as MongoDB stores it: to the millisecond."""
    at = datetime.now(UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)

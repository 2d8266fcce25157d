"""Item pipeline: writes records to MongoDB in bulk by their natural key, then the results of job items to the ledger.

Batches that arrive during a write are combined into the next one. Documents are inserted, and only existing ones are
updated: three times faster than upserts, since most are new.
"""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pymongo import ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure
from scrapy.crawler import Crawler

from harvester.config import load_config
from harvester.exceptions import StorageError
from harvester.items import Batch, Record, Reject
from harvester.items.base import GONE_AT, OF_ITEM, OUTBOX
from harvester.items.bson_limits import UNSTORABLE, unstorable
from harvester.items.receipts import SettlesRecords, part_of, settle
from harvester.jobs.ledger import Ledger
from harvester.pipelines.base import BatchPipeline
from harvester.pipelines.exclusive import take_from_others
from harvester.publish.outbox import Marks, marking, marking_whole
from harvester.stores.mongodb import MongoOutage, connect, disconnect
from harvester.stores.rejects import rejects_of

MOST_RECORDS = 2000
"""Maximum number of records in one write."""
DUPLICATE_KEY = 11000
OF_THE_DOCUMENT = frozenset({2, 9, 14, 15, 22, 28, 40, 52, 53, 54, 55, 56, 57, 10334, 16755, 17280, 17419, 17420})
"""Error codes that concern one document of many: its values, names, size, nesting or keys."""
KEPT = {"media_paths", "media_sources", "media_contents"}
"""Fields that a newer observation does not erase, except for files that the record no longer has (MEDIA_SLOTS)."""

Document = dict[str, Any]
_Row = tuple[Record, Document]
Refused = dict[int, tuple[Record, str]]
"""Records that MongoDB cannot hold, by their identity in memory, with the reason."""


class Written(NamedTuple):
    """The records of a write that were refused or already known; by their identity in memory."""

    refused: Refused
    known: set[int]
    """Records that existed before."""


class KnownCounts(NamedTuple):
    """Numbers of known records in a write; each field is also the name of a stat."""

    known: int = 0
    """Number of records that existed before."""
    seen_again: int = 0
    """Number of known records that an earlier run stored."""


class MongoPipeline(BatchPipeline, SettlesRecords):
    """Passes a batch on when MongoDB has confirmed its records and the ledger has made its changes.

    A record that MongoDB cannot hold is rejected.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._config = load_config()
        self._patiently = MongoOutage(crawler, self._config)
        self._opened = AsyncExitStack()
        """Resources to close: Scrapy also closes pipelines that it has not opened, when another cannot be opened."""
        self._waiting: list[tuple[Batch, asyncio.Future[Written]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._indexed: set[type[Record]] = set()
        self._marks = Marks.configured(self._config)
        """None if no receiver of records is configured."""

    async def open_spider(self) -> None:
        self._began = datetime.now(UTC)
        self._database = connect(self._config)
        self._opened.push_async_callback(disconnect, self._database)
        self._ledger = Ledger(self._database, self._patiently)

    async def close_spider(self) -> None:
        await self._opened.aclose()

    async def process_batch(self, batch: Batch) -> Batch:
        written: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, written))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        refused, known = await written
        ours = sum(id(record) in refused for record in batch.records) if refused else 0
        new = sum(id(record) not in refused and id(record) not in known for record in batch.records)
        settle(map(part_of, batch.records), rejected=ours, new=new)
        return batch._replace(records=[each for each in batch.records if id(each) not in refused]) if ours else batch

    async def _write_all(self) -> None:
        while self._waiting:
            taken, size = [], 0
            while self._waiting and size < MOST_RECORDS:
                taken.append(self._waiting.pop(0))
                size += len(taken[-1][0].records)
            try:
                result = await self._write([batch for batch, _ in taken])
            except Exception as error:  # noqa: BLE001  handed to each batch in the write
                for _, written in taken:
                    if not written.done():  # else its page was given up meanwhile
                        written.set_exception(error)
            else:
                for _, written in taken:
                    if not written.done():
                        written.set_result(result)

    async def _write(self, batches: list[Batch]) -> Written:
        by_kind: dict[type[Record], list[Record]] = defaultdict(list)
        for batch in batches:
            for record in batch.records:
                by_kind[type(record)].append(record)
        result = Written({}, set())
        await asyncio.gather(*(self._store(kind, records, result) for kind, records in by_kind.items()))
        if refused := result.refused:
            rejects_of(self.crawler).keep([_reject(record, reason) for record, reason in refused.values()])
        if noted := [batch for batch in batches if batch.found or batch.stages or batch.said or batch.looked]:
            try:
                await self._ledger.note(noted, self.crawler.spider.site_of)  # type: ignore[union-attr]
            except OperationFailure as error:  # not caused by a page
                raise StorageError(f"MongoDB cannot store what pages say of items: {error}") from error
        return result

    async def _store(self, kind: type[Record], records: list[Record], result: Written) -> None:
        """Stores the records that MongoDB can hold, and adds the others to `result`."""
        refused = result.refused
        rows: list[_Row] = []
        for record in records:
            try:
                document = record.to_document()
                if self._marks:
                    self._marks.add(record, document)
                rows.append((record, document))
            except (*UNSTORABLE, TypeError, ValueError) as error:
                refused[id(record)] = record, str(error)
        known = await self._insert(kind, rows, result) if rows else KnownCounts()
        if kind.EXCLUSIVE:
            values = [str(document.get(kind.EXCLUSIVE, "")) for _, document in rows]
            await self._patiently(lambda: take_from_others(self._database[kind.COLLECTION], kind, values))
        stored = sum(id(record) not in refused for record, _ in rows)
        self.stats.inc_value(f"harvester/records/stored/{kind.KIND}", stored)
        for name, number in known._asdict().items():
            if number:
                self.stats.inc_value(f"harvester/records/{name}/{kind.KIND}", number)

    async def _insert(self, kind: type[Record], rows: list[_Row], result: Written) -> KnownCounts:
        collection, refused = self._database[kind.COLLECTION], result.refused
        known = KnownCounts()

        def refuse(failures: list[dict[str, Any]], among: list[_Row]) -> None:
            for failure in failures:
                record = among[failure["index"]][0]
                refused[id(record)] = record, str(failure["errmsg"])

        async def write() -> None:
            nonlocal known
            try:
                await collection.insert_many([document for _, document in rows], ordered=False)
            except BulkWriteError as error:
                failures = _of_documents(error, DUPLICATE_KEY)
                refuse([each for each in failures if each["code"] != DUPLICATE_KEY], rows)
                again = [rows[each["index"]] for each in failures if each["code"] == DUPLICATE_KEY]
                result.known.update(id(record) for record, _ in again)
                if again:
                    ids = [document["_id"] for _, document in again]
                    of_earlier_runs = {"_id": {"$in": ids}, "provenance.fetched_at": {"$lt": self._began}}
                    earlier = await collection.count_documents(of_earlier_runs)
                    known = KnownCounts(
                        len(again), max(known.seen_again, earlier)
                    )  # a second attempt may find fewer: some are updated
                    if self._marks:
                        await self._marks.note_earlier(collection, (document for _, document in again))
                    try:
                        await collection.bulk_write([newer(*row) for row in again], ordered=False)
                    except BulkWriteError as error:
                        refuse(_of_documents(error), again)

        try:
            if kind not in self._indexed:
                await self._patiently(lambda: self._make_indexes(kind))
            await self._patiently(write)
        except (*UNSTORABLE, OperationFailure) as error:
            reasons = {id(record): reason for record, document in rows if (reason := unstorable(document))}
            if not reasons and isinstance(error, OperationFailure):
                raise StorageError(f"MongoDB cannot store {kind.COLLECTION}: {error}") from error
            if not reasons and len(rows) == 1:
                reasons = {id(rows[0][0]): str(error)}
            refused.update({id(record): (record, reasons[id(record)]) for record, _ in rows if id(record) in reasons})
            left = [row for row in rows if id(row[0]) not in reasons]
            if reasons:
                return await self._insert(kind, left, result) if left else KnownCounts()
            each = [await self._insert(kind, [row], result) for row in rows]  # the driver does not say which
            return KnownCounts(sum(one.known for one in each), sum(one.seen_again for one in each))
        return known

    async def _make_indexes(self, kind: type[Record]) -> None:
        """Creates the indexes with the first record: a database gets no collections of unused sites."""
        collection = self._database[kind.COLLECTION]
        for fields in kind.INDEXES:
            await collection.create_index([(name, 1) for name in fields])
        await collection.create_index(OF_ITEM, sparse=True)
        if self._marks:
            await self._marks.open(collection, kind)
        self._indexed.add(kind)


def _of_documents(error: BulkWriteError, *more: int) -> list[dict[str, Any]]:
    """Returns the failures of a bulk write if each concerns its document; raises the error again otherwise."""
    failures: list[dict[str, Any]] = error.details["writeErrors"]
    if not failures or error.details["writeConcernErrors"]:
        raise error
    if any(failure["code"] not in (*OF_THE_DOCUMENT, *more) for failure in failures):
        raise error
    return failures


def _reject(record: Record, reason: str) -> Reject:
    return Reject(record.KIND, f"MongoDB cannot hold it: {reason}", record.key, record.raw, record.provenance.url)


def newer(record: Record, document: Document) -> UpdateOne | ReplaceOne[Document]:
    """Returns the update that replaces the stored record by `document`, unless the stored one was observed later.

    The later version stays if both come from the same job. A later job replaces both. A record that was marked as
    missing since does not come back when the same observation is written again.
    """
    kind = type(record)
    absent = [name for name in kind.__struct_fields__ if name not in document and name not in KEPT]
    if kind.MEDIA_SLOTS:
        shown = {media.slot for media in record.media()}
        absent += [f"{name}.{slot}" for name in KEPT for slot in kind.MEDIA_SLOTS if slot not in shown]
    at, crawl = document["provenance"]["fetched_at"], document["provenance"].get("crawl")
    not_later: Document = {"provenance.fetched_at": {"$lte": at}}
    if name := kind.VERSION:
        version = document.get(name)
        not_later = {
            "$or": [
                not_later | {"provenance.crawl": {"$ne": crawl}},
                not_later | {name: version},
                *([{name: {"$lt": version}}, {name: None}] if version is not None else []),
            ]
        }
    not_gone_since = {"$nor": [{GONE_AT: {"$gt": at}, "provenance.crawl": crawl}]}
    here: Document = {"_id": document["_id"], **not_later, **not_gone_since}
    if OUTBOX in document:
        return marking_whole(here, document) if kind.FIELDS_VARY else marking(here, document, KEPT, absent)
    if kind.FIELDS_VARY:
        return ReplaceOne(here, document)
    sets: Document = {}
    for name, value in document.items():
        if name in KEPT:
            sets |= {f"{name}.{slot}": path for slot, path in value.items()}
        elif name != "_id":
            sets[name] = value
    return UpdateOne(here, {"$set": sets} | ({"$unset": dict.fromkeys(absent, "")} if absent else {}))

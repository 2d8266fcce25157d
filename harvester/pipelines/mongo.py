"""Item pipeline: records into MongoDB, in bulk on their natural key; then the ledger learns of it.

What arrives while a write is under way is written together with the next. Documents are inserted, and only
those that are there already are updated: three times faster than upserts, since most are new.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import bson
from bson.errors import BSONError
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure
from scrapy.crawler import Crawler

from harvester.config import load_config
from harvester.exceptions import StorageError
from harvester.items import RECORDS, Batch, Record
from harvester.mongodb import MongoPatience, connect
from harvester.pipelines.base import BatchPipeline

logger = logging.getLogger(__name__)

MOST_RECORDS = 2000
"""Written together."""
DUPLICATE_KEY = 11000
MOST_BYTES = 16 * 1024 * 1024
"""Of one document."""
MOST_LEVELS = 150
"""Of one document; MongoDB allows 200, and counts those of the command around it."""
_UNSTORABLE = (BSONError, OverflowError, UnicodeEncodeError, RecursionError)
"""What encoding a document as BSON may raise."""
_KEPT = {"media_paths", "media_sources"}
"""Fields of which a newer observation erases nothing: the pictures are still stored."""

Document = dict[str, Any]


class MongoPipeline(BatchPipeline):
    """Passes a batch on when MongoDB has confirmed its records and the ledger has made its changes."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._config = load_config()
        self._patiently = MongoPatience(crawler, self._config)
        self._waiting: list[tuple[Batch, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def open_spider(self) -> None:
        self._database = connect(self._config)
        await self._patiently(self._make_indexes)

    async def close_spider(self) -> None:
        await self._database.client.close()

    async def _make_indexes(self) -> None:
        for kind in RECORDS:
            for fields in kind.INDEXES:
                await self._database[kind.COLLECTION].create_index([(name, 1) for name in fields])

    async def process_batch(self, batch: Batch) -> Batch:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, written))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        await written
        return batch

    async def _write_all(self) -> None:
        while self._waiting:
            taken, size = [], 0
            while self._waiting and size < MOST_RECORDS:
                taken.append(self._waiting.pop(0))
                size += len(taken[-1][0].records)
            try:
                await self._write([batch for batch, _ in taken])
            except Exception as error:  # noqa: BLE001  handed to each batch that was in the write
                for _, written in taken:
                    written.set_exception(error)
            else:
                for _, written in taken:
                    written.set_result(None)

    async def _write(self, batches: list[Batch]) -> None:
        by_kind: dict[type[Record], list[Record]] = defaultdict(list)
        for batch in batches:
            for record in batch.records:
                by_kind[type(record)].append(record)
        await asyncio.gather(*(self._store(kind, records) for kind, records in by_kind.items()))
        changes = [change for batch in batches for change in batch.ledger]
        if changes:
            await self.crawler.spider.ledger.confirm(changes)  # type: ignore[union-attr]

    async def _store(self, kind: type[Record], records: list[Record]) -> None:
        collection = self._database[kind.COLLECTION]
        documents = [record.to_document() for record in records]
        known = 0

        async def write() -> None:
            nonlocal known
            try:
                await collection.insert_many(documents, ordered=False)
            except BulkWriteError as error:
                failures = error.details["writeErrors"]
                if not failures or any(failure["code"] != DUPLICATE_KEY for failure in failures):
                    raise
                known = len(failures)
                await collection.bulk_write(
                    [newer(kind, documents[failure["index"]]) for failure in failures], ordered=False
                )

        try:
            await self._patiently(write)
        except (*_UNSTORABLE, OperationFailure) as error:
            storable = list(self._storable(kind, documents))
            if isinstance(error, OperationFailure) and len(storable) == len(documents):
                raise StorageError(f"MongoDB cannot store {kind.COLLECTION}: {error}") from error
            documents = storable
            if documents:
                await self._patiently(write)
        self.stats.inc_value(f"harvester/records/stored/{kind.KIND}", len(documents))
        if known:
            self.stats.inc_value(f"harvester/records/known/{kind.KIND}", known)

    def _storable(self, kind: type[Record], documents: Iterable[Document]) -> Iterable[Document]:
        """Those that MongoDB can hold; the others are counted and named in the log."""
        for document in documents:
            reason = unstorable(document)
            if reason is None:
                yield document
            else:
                self.stats.inc_value(f"harvester/records/rejected/{kind.KIND}")
                self.stats.inc_value(f"harvester/records/rejected/{kind.KIND}/not_storable")
                logger.warning("%s %s cannot be stored: %s", kind.KIND, document["_id"], reason)


def unstorable(document: Document) -> str | None:
    """Why MongoDB cannot hold a document; None when it can."""
    try:
        size = len(bson.encode(document))
    except _UNSTORABLE as error:
        return str(error)
    if size > MOST_BYTES:
        return f"it has {size} bytes"
    level: list[Any] = [document]
    depth = 0
    while level := [each for value in level for each in _children(value)]:
        depth += 1
    return f"it is nested {depth} levels deep" if depth > MOST_LEVELS else None


def _children(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def newer(kind: type[Record], document: Document) -> UpdateOne:
    """Replaces what is known by `document`, unless that was observed later."""
    absent = [name for name in kind.__struct_fields__ if name not in document and name not in _KEPT]
    update: Document = {"$set": {}}
    for name, value in document.items():
        if name in _KEPT:
            update["$set"] |= {f"{name}.{slot}": path for slot, path in value.items()}
        elif name != "_id":
            update["$set"][name] = value
    if absent:
        update["$unset"] = dict.fromkeys(absent, "")
    return UpdateOne(
        {"_id": document["_id"], "provenance.fetched_at": {"$lte": document["provenance"]["fetched_at"]}},
        update,
    )

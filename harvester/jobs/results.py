"""The results of job items: the places of their records and files. A record names its item in `provenance.item`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.asynchronous.database import AsyncDatabase

from harvester.items import RECORDS
from harvester.items.base import OF_ITEM
from harvester.items.other import know_collections
from harvester.jobs.documents import Document

CHUNK = 1000
"""Number of records that are read together."""
_FIELDS = {OF_ITEM: 1, "media_paths": 1}


@dataclass(frozen=True, slots=True)
class OneItemResults:
    """The records and files of an item."""

    records: dict[str, list[str]]
    """Collection -> `_id` of the records there."""
    files: list[str]
    """The paths of the files, relative to the images location."""


class ItemResults:
    """Looks up the records of items. Only collections with an index on the item are searched."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._database = database

    async def of(self, items: Sequence[str], most: int) -> list[OneItemResults]:
        """Returns the results of the items, with at most `most` records from any collection."""
        collections = await self._indexed()
        return [await _results_in(collections, item, most) for item in items]

    async def of_all(self, job: str, items: AsyncIterator[Document]) -> AsyncIterator[tuple[Document, OneItemResults]]:
        """Yields the items of a stream with their results. They belong to `job` and come in the order of their ids.

        Only the results of one item are in memory at a time.
        """
        of_job = {OF_ITEM: {"$gte": f"{job}:", "$lt": f"{job};"}}
        order = [(OF_ITEM, 1)]
        heads = [
            _Head(each, each.find(of_job, _FIELDS, sort=order, batch_size=CHUNK)) for each in await self._indexed()
        ]
        try:
            async for item in items:
                results = OneItemResults({}, [])
                for head in heads:
                    await head.read_until(item["_id"], results)
                yield item, results
        finally:
            await asyncio.gather(*(head.cursor.close() for head in heads))

    async def _indexed(self) -> Sequence[AsyncCollection[Document]]:
        know_collections(await self._database.list_collection_names())
        collections = [self._database[name] for name in sorted(kind.COLLECTION for kind in RECORDS.values())]
        indexes = await asyncio.gather(*(each.index_information() for each in collections))
        return [
            collection
            for collection, information in zip(collections, indexes, strict=True)
            if any(index["key"][0][0] == OF_ITEM for index in information.values())
        ]


class _Head:
    """Reads the records of a job from one collection, in the order of their items."""

    def __init__(self, collection: AsyncCollection[Document], cursor: AsyncCursor[Document]) -> None:
        self.cursor = cursor
        self._name = collection.name
        self._row: Document | None = None

    async def read_until(self, item: str, results: OneItemResults) -> None:
        """Adds the records of the item to the results. Records of earlier items are skipped."""
        while True:
            if self._row is None:
                self._row = await anext(self.cursor, None)
            if self._row is None or self._row["provenance"]["item"] > item:
                return
            if self._row["provenance"]["item"] == item:
                _note(results, self._name, self._row)
            self._row = None


async def _results_in(collections: Sequence[AsyncCollection[Document]], item: str, most: int) -> OneItemResults:
    found = await asyncio.gather(*(each.find({OF_ITEM: item}, _FIELDS, limit=most).to_list() for each in collections))
    results = OneItemResults({}, [])
    for collection, rows in zip(collections, found, strict=True):
        for row in rows:
            _note(results, collection.name, row)
    return results


def _note(results: OneItemResults, collection: str, row: dict[str, Any]) -> None:
    results.records.setdefault(collection, []).append(row["_id"])
    results.files.extend(sorted(row.get("media_paths", {}).values()))

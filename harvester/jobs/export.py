"""Writes what a job has brought into files: its records, one file for each collection, and the manifest of its items.

A file is written beside its place and moved there when it is whole and on the disk; when one cannot be written, none is
moved. So there is never half a file, and the job may go on meanwhile.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pymongo.asynchronous.database import AsyncDatabase

from harvester.exceptions import StorageError, UsageError
from harvester.items import RECORDS, Record
from harvester.items.other import know_collections
from harvester.jobs.documents import ITEMS, Document
from harvester.jobs.results import ItemResults
from harvester.stores.private_files import make_closed
from harvester.stores.tables import (
    CHUNK,
    FIELDS_SEEN,
    Column,
    Format,
    TableFile,
    check_pyarrow,
    columns_of,
    columns_seen,
)

MANIFEST = "manifest"
"""Name of the file of items."""
_REMEDY = "Make room and let it be written, or name another folder with --out."


class Exported(NamedTuple):
    """A file that was written."""

    path: Path
    rows: int


class Exporter:
    """Exports one job into a folder."""

    def __init__(self, database: AsyncDatabase[Document], job: str, folder: Path, form: Format, *, zstd: bool) -> None:
        if zstd and form is Format.PARQUET:
            raise UsageError("--zstd: Parquet files are compressed with zstd already.")
        if form is Format.PARQUET:
            check_pyarrow()
        self._database = database
        self._job = job
        self._of_job = {"provenance.crawl": job}
        self._folder = folder
        self._form = form
        self._zstd = zstd
        self._files: list[TableFile] = []

    async def export(self, only: Sequence[str] = ()) -> list[Exported]:
        """Writes the collections (and MANIFEST) named in `only`, or the manifest and every collection with records.

        Raises UsageError for a name that is none, StorageError when a file cannot be written.
        """
        know_collections(await self._database.list_collection_names())
        kinds = {kind.COLLECTION: kind for kind in RECORDS.values()}
        if unknown := set(only) - {MANIFEST, *kinds}:
            known = ", ".join([MANIFEST, *kinds])
            raise UsageError(f"--only: there is no {', '.join(sorted(map(repr, unknown)))}; there are: {known}.")
        try:
            make_closed(self._folder)
            for name, kind in kinds.items():
                if not only or name in only:
                    await self._write(name, await self._columns(kind), self._records(name), keep_empty=name in only)
            if not only or MANIFEST in only:
                await self._write(MANIFEST, MANIFEST_COLUMNS, self._items(), keep_empty=True)
            return self._move()
        except OSError as error:
            raise StorageError(f"{self._folder} cannot be written: {error.strerror or error}. {_REMEDY}") from None
        finally:
            for file in self._files:
                file.abandon()

    async def _columns(self, kind: type[Record]) -> list[Column]:
        if not kind.FIELDS_VARY:
            return columns_of(kind)
        stages = [{"$match": self._of_job}, *FIELDS_SEEN]
        seen = await self._database[kind.COLLECTION].aggregate(stages, allowDiskUse=True)
        return columns_seen(kind, await seen.to_list())

    async def _write(
        self, name: str, columns: Sequence[Column], rows: AsyncIterator[Document], *, keep_empty: bool
    ) -> None:
        """A file beside its place."""
        path = self._folder / f"{name}.{self._form}{'.zst' if self._zstd else ''}"
        file = TableFile(path, columns, self._form, self._zstd)
        self._files.append(file)
        chunk: list[Document] = []
        async for row in rows:
            chunk.append(row)
            if len(chunk) == CHUNK:
                file.table.write(chunk)
                chunk = []
        file.table.write(chunk)
        file.close()
        if not file.table.rows and not keep_empty:
            self._files.pop().abandon()

    def _move(self) -> list[Exported]:
        exported = []
        for file in self._files:
            file.move()
            exported.append(Exported(file.path, file.table.rows))
        return exported

    async def _records(self, collection: str) -> AsyncIterator[Document]:
        """Those that this job was the last to observe."""
        async for row in self._database[collection].find(self._of_job, batch_size=CHUNK):
            yield row

    async def _items(self) -> AsyncIterator[Document]:
        """The manifest: a row for each item, in the order of their ids."""
        query = {"job": self._job, "_id": {"$gte": f"{self._job}:", "$lt": f"{self._job};"}}
        items = self._database[ITEMS].find(query, sort=[("_id", 1)], batch_size=CHUNK)
        async for item, results in ItemResults(self._database).of_all(self._job, items):
            row = {name: item.get(name) for name in _OF_ITEM}
            yield row | {"records": results.records, "files": results.files}


_OF_ITEM = {
    "_id": str,
    "kind": str,
    "key": str,
    "line": int,
    "input": object,
    "depth": int,
    "priority": int,
    "site": str,
    "state": str,
    "stage": str,
    "attempts": int,
    "failures": int,
    "outcome": str,
    "reason": str,
    "created_at": datetime,
    "fed_at": datetime,
    "updated_at": datetime,
    "due_at": datetime,
    "counts": object,
    "history": object,
}
MANIFEST_COLUMNS = [Column(name, kind) for name, kind in _OF_ITEM.items()] + [
    Column("records", object),
    Column("files", object),
]
"""Of an item: `records` is collection -> `_id` of each, `files` are below the images location."""

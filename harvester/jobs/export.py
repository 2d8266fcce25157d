"""Exports a job: its records, a file or table for each collection, and the manifest of its items.

A file is written under a temporary name and moved to its place when it is complete and on the disk. If one file
cannot be written, no file is moved. So a file is never incomplete, and the job may go on meanwhile. Tables:
stores/postgres.py.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.asynchronous.database import AsyncDatabase

from harvester.exceptions import StorageError, UsageError
from harvester.items import RECORDS, Record
from harvester.items.base import OUTBOX
from harvester.items.other import know_collections
from harvester.jobs.documents import ITEMS, Document
from harvester.jobs.results import ItemResults
from harvester.stores.private_files import make_closed
from harvester.stores.tables import (
    CHUNK,
    FIELDS_SEEN,
    PLAIN_CSV,
    TABLES,
    Column,
    CsvOptions,
    Format,
    TableFile,
    check_pyarrow,
    columns_of,
    columns_seen,
)

if TYPE_CHECKING:
    from harvester.stores.postgres import Postgres

MANIFEST = "manifest"
"""Name of the file with the items. In PostgreSQL they are the table ITEMS."""
_REMEDY = "Make room and let it be written, or name another folder with --out."


class FileExport(NamedTuple):
    """The files that a user wants of a job."""

    folder: Path | None = None
    """The folder. None: the job's own folder in the data folder."""
    form: Format = Format.JSONL
    zstd: bool = False
    """True to compress CSV or JSON lines."""
    only: Sequence[str] = ()
    """Names of collections, and MANIFEST. Empty: all collections with records, and the manifest."""
    csv_options: CsvOptions = PLAIN_CSV


class Exported(NamedTuple):
    """A file that was written."""

    path: Path
    rows: int


class Stored(NamedTuple):
    """A table of PostgreSQL that was written."""

    table: str
    rows: int


class _Part(NamedTuple):
    """The content of a file or table."""

    name: str
    kind: type[Record] | None
    """The record class. None: the manifest."""
    columns: Sequence[Column]
    rows: AsyncIterator[list[Document]]
    """The rows, in chunks."""
    is_wanted: bool
    """True to write the file even without rows."""


class RowSource(Protocol):
    """A source of the rows of a job."""

    async def collections(self) -> list[str]:
        """Returns the names of the collections that may have records of the job."""
        ...

    async def fields_seen(self, collection: str) -> list[Document]:
        """Returns the job's field names in a collection, for `columns_seen`."""
        ...

    def records(self, collection: str) -> AsyncIterable[Document]: ...

    def manifest(self) -> AsyncIterable[Document]:
        """Yields a row for each item, in the order of their ids."""
        ...


class StoredRows:
    """Reads the rows of a job from MongoDB."""

    def __init__(self, database: AsyncDatabase[Document], job: str) -> None:
        self._database = database
        self._job = job
        self._of_job = {"provenance.crawl": job}

    async def collections(self) -> list[str]:
        names = await self._database.list_collection_names()
        know_collections(names)
        known = {kind.COLLECTION for kind in RECORDS.values()}
        return sorted(known.intersection(names))

    async def with_records(self) -> list[str]:
        """Returns the names of the collections with records of the job."""
        names = await self.collections()
        found = await asyncio.gather(*map(self._has_some, names))
        return [name for name, has_some in zip(names, found, strict=True) if has_some]

    async def are_in(self, collection: str) -> bool:
        """Returns True if the collection is known and has records of the job. An unknown collection is not searched."""
        return collection in await self.collections() and await self._has_some(collection)

    async def _has_some(self, collection: str) -> bool:
        return await self._database[collection].find_one(self._of_job, {"_id": 1}) is not None

    async def fields_seen(self, collection: str) -> list[Document]:
        stages = [{"$match": self._of_job}, *FIELDS_SEEN]
        return await (await self._database[collection].aggregate(stages, allowDiskUse=True)).to_list()

    def records(self, collection: str) -> AsyncCursor[Document]:
        return self._database[collection].find(self._of_job, {OUTBOX: 0}, batch_size=CHUNK)

    async def manifest(self) -> AsyncIterator[Document]:
        query = {"job": self._job, "_id": {"$gte": f"{self._job}:", "$lt": f"{self._job};"}}
        items = self._database[ITEMS].find(query, sort=[("_id", 1)], batch_size=CHUNK)
        async for item, results in ItemResults(self._database).of_all(self._job, items):
            row = {name: item.get(name) for name in _OF_ITEM}
            yield row | {"records": results.records, "files": results.files}


class Exporter:
    """Exports one job."""

    def __init__(self, rows: RowSource, only: Sequence[str] = ()) -> None:
        """`only`: names of collections, and MANIFEST. Empty: the manifest and every collection with records."""
        self._rows = rows
        self._only = only

    async def to_files(
        self, folder: Path, form: Format, *, zstd: bool, csv_options: CsvOptions = PLAIN_CSV
    ) -> list[Exported]:
        """Writes the files. Raises UsageError for an unknown name, StorageError when a file cannot be written."""
        if zstd and form is Format.PARQUET:
            raise UsageError("--zstd: Parquet files are compressed with zstd already.")
        if form is Format.PARQUET:
            check_pyarrow()
        files: list[TableFile] = []
        try:
            async for part in self._parts():
                make_closed(folder)
                path = folder / f"{part.name}.{form}{'.zst' if zstd else ''}"
                file = TableFile(path, part.columns, form, zstd, csv_options)
                files.append(file)
                async for rows in part.rows:
                    file.table.write(rows)
                file.close()
                if not file.table.rows and not part.is_wanted:
                    files.pop().abandon()
            for file in files:
                file.move()
        except OSError as error:
            raise StorageError(f"{folder} cannot be written: {error.strerror or error}. {_REMEDY}") from None
        finally:
            for file in files:
                file.abandon()
        return [Exported(file.path, file.table.rows) for file in files]

    async def stream(self, form: Format, csv_options: CsvOptions = PLAIN_CSV) -> AsyncIterator[bytes]:
        """Yields one file as bytes; `only` must have one name. Raises UsageError before the first bytes."""
        if form is Format.PARQUET:
            raise UsageError("Parquet has its index at the end, and cannot be sent before it is whole.")
        async for part in self._parts():
            buffer = BytesIO()
            table = TABLES[form](buffer, part.columns, options=csv_options)
            async for rows in part.rows:
                table.write(rows)
                yield buffer.getvalue()
                buffer.seek(0)
                buffer.truncate()
            table.close()
            yield buffer.getvalue()

    async def to_postgres(self, postgres: "Postgres") -> list[Stored]:
        """Writes the tables. The rows must be read with the module's CODEC. Raises UsageError, ServiceError and
        StorageError."""
        from harvester.stores.postgres import PostgresTable, Version, version_of

        stored = []
        async for part in self._parts():
            table: PostgresTable | None = None
            version = version_of(part.kind, part.columns) if part.kind else Version("updated_at")
            vary = bool(part.kind and part.kind.FIELDS_VARY)
            name = part.name if part.kind else ITEMS
            if part.is_wanted:
                table = PostgresTable(postgres, name, part.columns, version, vary=vary)
            async for rows in part.rows:
                table = table or PostgresTable(postgres, name, part.columns, version, vary=vary)
                table.write(rows)
            if table:
                stored.append(Stored(f"{postgres.schema}.{name}", table.rows))
        return stored

    async def _parts(self) -> AsyncIterator[_Part]:
        there = await self._rows.collections()
        kinds = {kind.COLLECTION: kind for kind in RECORDS.values()}
        if unknown := set(self._only) - {MANIFEST, *kinds}:
            known = ", ".join([MANIFEST, *kinds])
            raise UsageError(f"--only: there is no {', '.join(sorted(map(repr, unknown)))}; there are: {known}.")
        for name, kind in kinds.items():
            if name in self._only or (not self._only and name in there):
                columns = await self._columns(kind)
                yield _Part(name, kind, columns, _in_chunks(self._rows.records(name)), name in self._only)
        if not self._only or MANIFEST in self._only:
            yield _Part(MANIFEST, None, MANIFEST_COLUMNS, _in_chunks(self._rows.manifest()), True)

    async def _columns(self, kind: type[Record]) -> list[Column]:
        if not kind.FIELDS_VARY:
            return columns_of(kind)
        return columns_seen(kind, await self._rows.fields_seen(kind.COLLECTION))


async def _in_chunks(rows: AsyncIterable[Document]) -> AsyncIterator[list[Document]]:
    chunk: list[Document] = []
    async for row in rows:
        chunk.append(row)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


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
"""The columns of the manifest. `records` is collection -> list of `_id`; `files` are paths below the images location.
"""

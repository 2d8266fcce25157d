"""Writes what a job has brought into files: its records, one file for each collection, and the manifest of its items.

A file is written beside its place and moved there when it is whole and on the disk; when one cannot be written, none is
moved. So there is never half a file, and the job may go on meanwhile.
"""

import csv
import io
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from pymongo.asynchronous.database import AsyncDatabase
from zstandard import ZstdCompressor

from harvester.exceptions import StorageError, UsageError
from harvester.items import RECORDS, Provenance, Record
from harvester.jobs.documents import ITEMS, Document
from harvester.jobs.results import ItemResults
from harvester.stores.private_files import make_closed

if TYPE_CHECKING:
    import pyarrow

MANIFEST = "manifest"
"""Name of the file of items."""
CHUNK = 2000
"""Rows that are read together, and written together. MongoDB would send 16 MB of them."""
_REMEDY = "Make room and let it be written, or name another folder with --out."


class Format(StrEnum):
    """Of exported files."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: type
    """str, int, float, bool or datetime; object: anything, written as JSON."""


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
            _check_pyarrow()
        self._database = database
        self._job = job
        self._folder = folder
        self._form = form
        self._zstd = zstd
        self._files: list[tuple[_Table, Path, Path]] = []
        """Where each is written, and its place."""

    async def export(self, only: Sequence[str] = ()) -> list[Exported]:
        """Writes the collections (and MANIFEST) named in `only`, or the manifest and every collection with records.

        Raises UsageError for a name that is none, StorageError when a file cannot be written.
        """
        kinds = {kind.COLLECTION: kind for kind in RECORDS.values()}
        if unknown := set(only) - {MANIFEST, *kinds}:
            known = ", ".join([MANIFEST, *kinds])
            raise UsageError(f"--only: there is no {', '.join(sorted(map(repr, unknown)))}; there are: {known}.")
        try:
            make_closed(self._folder)
            for name, kind in kinds.items():
                if not only or name in only:
                    await self._write(name, columns_of(kind), self._records(name), keep_empty=name in only)
            if not only or MANIFEST in only:
                await self._write(MANIFEST, MANIFEST_COLUMNS, self._items(), keep_empty=True)
            return self._move()
        except OSError as error:
            raise StorageError(f"{self._folder} cannot be written: {error.strerror or error}. {_REMEDY}") from None
        finally:
            for table, temporary, _ in self._files:
                table.abandon()
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)

    async def _write(
        self, name: str, columns: Sequence[Column], rows: AsyncIterator[Document], *, keep_empty: bool
    ) -> None:
        """A file beside its place."""
        path = self._folder / f"{name}.{self._form}{'.zst' if self._zstd else ''}"
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        table = _TABLES[self._form](temporary, columns, self._zstd)
        self._files.append((table, temporary, path))
        chunk: list[Document] = []
        async for row in rows:
            chunk.append(row)
            if len(chunk) == CHUNK:
                table.write(chunk)
                chunk = []
        table.write(chunk)
        table.close()
        if not table.rows and not keep_empty:
            self._files.pop()
            temporary.unlink()

    def _move(self) -> list[Exported]:
        exported = []
        for table, temporary, path in self._files:
            temporary.replace(path)
            exported.append(Exported(path, table.rows))
        return exported

    async def _records(self, collection: str) -> AsyncIterator[Document]:
        """Those that this job was the last to observe."""
        async for row in self._database[collection].find({"provenance.crawl": self._job}, batch_size=CHUNK):
            yield row

    async def _items(self) -> AsyncIterator[Document]:
        """The manifest: a row for each item, in the order of their ids."""
        query = {"job": self._job, "_id": {"$gte": f"{self._job}:", "$lt": f"{self._job};"}}
        items = self._database[ITEMS].find(query, sort=[("_id", 1)], batch_size=CHUNK)
        async for item, results in ItemResults(self._database).of_all(self._job, items):
            row = {name: item.get(name) for name in _OF_ITEM}
            yield row | {"records": results.records, "files": results.files}


class _Table(ABC):
    """A file that is being written."""

    def __init__(self, path: Path, columns: Sequence[Column], zstd: bool) -> None:
        self.rows = 0
        self._columns = columns
        self._file = path.open("xb")
        self._out: Any = ZstdCompressor().stream_writer(self._file, closefd=False) if zstd else self._file

    def write(self, rows: Sequence[Document]) -> None:
        """Raises OSError, as `close`."""
        if rows:
            self.rows += len(rows)
            self._write(rows)

    def close(self) -> None:
        """Writes through to the disk."""
        if self._out is not self._file:
            self._out.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Closes what could not be written to the end."""
        with suppress(OSError):
            self._file.close()

    @abstractmethod
    def _write(self, rows: Sequence[Document]) -> None: ...


class _Jsonl(_Table):
    def _write(self, rows: Sequence[Document]) -> None:
        encode = msgspec.json.Encoder(enc_hook=str).encode
        self._out.write(b"".join([encode(row) + b"\n" for row in rows]))


class _Csv(_Table):
    def __init__(self, path: Path, columns: Sequence[Column], zstd: bool) -> None:
        super().__init__(path, columns, zstd)
        self._write_lines([[column.name for column in columns]])

    def _write(self, rows: Sequence[Document]) -> None:
        self._write_lines([_as_text(value) for value in _values(row, self._columns)] for row in rows)

    def _write_lines(self, lines: Iterable[Sequence[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(lines)
        self._out.write(text.getvalue().encode("utf-8", "replace"))


class _Parquet(_Table):
    def __init__(self, path: Path, columns: Sequence[Column], zstd: bool) -> None:
        super().__init__(path, columns, zstd)
        from pyarrow import parquet

        self._schema = _schema(columns)
        self._writer = parquet.ParquetWriter(self._file, self._schema, compression="zstd")

    def _write(self, rows: Sequence[Document]) -> None:
        import pyarrow

        values = zip(*(_values(row, self._columns) for row in rows), strict=True)
        arrays = [
            pyarrow.array([_typed(value, column.kind) for value in column_values], field.type)
            for column, column_values, field in zip(self._columns, values, self._schema, strict=True)
        ]
        self._writer.write_batch(pyarrow.record_batch(arrays, schema=self._schema))

    def close(self) -> None:
        self._writer.close()
        super().close()

    def abandon(self) -> None:
        with suppress(OSError):
            self._writer.close()
        super().abandon()


_TABLES: Mapping[Format, type[_Table]] = {Format.JSONL: _Jsonl, Format.CSV: _Csv, Format.PARQUET: _Parquet}


# Columns ---------------------------------------------------------------------------------------------------


def columns_of(kind: type[Record]) -> list[Column]:
    """Of a collection's records: `_id`, the fields, and the fields of the provenance as `provenance.url`."""
    columns = [Column("_id", str)]
    for name, hint in get_type_hints(kind).items():
        if name == "provenance":
            columns += [Column(f"{name}.{part}", _kind_of(of)) for part, of in get_type_hints(Provenance).items()]
        elif name in kind.__struct_fields__ and name != "raw":
            columns.append(Column(name, _kind_of(hint)))
    return columns


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


def _kind_of(hint: Any) -> type:
    if get_origin(hint) in (Union, UnionType):
        (hint,) = {each for each in get_args(hint) if each is not type(None)} or {object}
    return hint if hint in (str, int, float, bool, datetime) else object


def _values(row: Mapping[str, Any], columns: Sequence[Column]) -> Iterator[Any]:
    for column in columns:
        value: Any = row
        for part in column.name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        yield value


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, datetime):
        return value.isoformat()
    return msgspec.json.encode(value, enc_hook=str).decode()


def _typed(value: Any, kind: type) -> Any:
    """None for a value that is of another type than its column, as one that an older version wrote may be."""
    if kind is object:
        return None if value is None else _as_text(value)
    if kind is float and isinstance(value, int):
        return float(value)
    return value if isinstance(value, kind) else None


def _schema(columns: Sequence[Column]) -> "pyarrow.Schema":
    import pyarrow

    types = {
        str: pyarrow.string(),
        object: pyarrow.string(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
        datetime: pyarrow.timestamp("ms", "UTC"),
    }
    return pyarrow.schema([(column.name, types[column.kind]) for column in columns])


def _check_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UsageError("Parquet needs a package: pip install 'harvester[parquet]'") from None

"""Writes rows as a table to a file: CSV, JSON lines or Parquet, with a column for each field of a record type."""

import codecs
import csv
import io
import math
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from zstandard import ZstdCompressor

from harvester.exceptions import UsageError
from harvester.items import Provenance, Record
from harvester.items.base import OUTBOX

if TYPE_CHECKING:
    import pyarrow

Row = Mapping[str, Any]
CHUNK = 2000
"""Number of rows that are read and written together. MongoDB would send 16 MB of rows."""
PLACES = 10
"""Number of decimal places in Parquet, within the 38 digits of a decimal."""
_DIGITS = Context(prec=38)


class Format(StrEnum):
    """Formats of exported files."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: type
    """str, int, float, bool, Decimal, datetime or date (text in MongoDB); object: any value, written as JSON."""


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a text that a spreadsheet program runs as a formula (OWASP: CSV injection)."""


class CsvOptions(NamedTuple):
    """The options of a CSV file."""

    encoding: str = "utf-8"
    errors: str = "replace"
    """Handling of characters that the encoding lacks, as in `str.encode`."""
    has_header: bool = True
    escape_formulas: bool = False
    """True to put an apostrophe before texts that a spreadsheet program would run as a formula."""
    dialect: Mapping[str, Any] = {}
    """Arguments of `csv.writer`: delimiter, quotechar, ..."""


PLAIN_CSV = CsvOptions()
EXCEL = CsvOptions(encoding="utf-8-sig", escape_formulas=True)
"""A CSV file for Excel, which recognizes UTF-8 by the byte order mark."""


class Table(ABC):
    """Rows that are written to an open file. The file stays open."""

    def __init__(
        self, file: IO[bytes], columns: Sequence[Column], zstd: bool = False, options: CsvOptions = PLAIN_CSV
    ) -> None:
        self.rows = 0
        self._options = options
        self._columns = columns
        self._file = file
        self._out: Any = ZstdCompressor().stream_writer(file, closefd=False) if zstd else file

    def write(self, rows: Sequence[Row]) -> None:
        """Writes rows. Raises OSError, as `close` does."""
        if rows:
            self.rows += len(rows)
            self._write(rows)

    def close(self) -> None:
        """Writes the end of the table."""
        if self._out is not self._file:
            self._out.close()
        self._file.flush()

    def abandon(self) -> None:  # noqa: B027
        """Must be called before the file of an unfinished table is closed."""

    @abstractmethod
    def _write(self, rows: Sequence[Row]) -> None: ...


class _Jsonl(Table):
    def _write(self, rows: Sequence[Row]) -> None:
        encode = msgspec.json.Encoder(enc_hook=in_json).encode
        self._out.write(b"".join([encode(row) + b"\n" for row in rows]))


class _Csv(Table):
    def __init__(
        self, file: IO[bytes], columns: Sequence[Column], zstd: bool = False, options: CsvOptions = PLAIN_CSV
    ) -> None:
        super().__init__(file, columns, zstd, options)
        self._text = io.StringIO(newline="")
        dialect = {"lineterminator": "\n", **options.dialect}
        self._plain = csv.writer(self._text, **dialect)
        self._quoted = csv.writer(self._text, **{**dialect, "quoting": csv.QUOTE_ALL})
        self._encode = codecs.getincrementalencoder(options.encoding)(options.errors).encode
        if options.has_header:
            self._write_lines([[self._cell(column.name) for column in columns]])

    def _write(self, rows: Sequence[Row]) -> None:
        self._write_lines([self._cell(value) for value in values_of(row, self._columns)] for row in rows)

    def _cell(self, value: Any) -> str:
        mark = self._options.escape_formulas and isinstance(value, str) and value.startswith(FORMULA_STARTS)
        text = f"'{value}" if mark else _as_text(value)
        if not text.isascii():  # the substitute for a missing character may need quotes, as `&#228;` before a `;`
            text = text.encode(self._options.encoding, self._options.errors).decode(self._options.encoding)
        return text

    def _write_lines(self, lines: Iterable[Sequence[str]]) -> None:
        for line in lines:  # before Python 3.13 it did not quote carriage returns
            (self._quoted if any("\r" in each for each in line) else self._plain).writerow(line)
        self._out.write(self._encode(self._text.getvalue()))
        self._text.seek(0)
        self._text.truncate()


class _Parquet(Table):
    def __init__(
        self, file: IO[bytes], columns: Sequence[Column], zstd: bool = False, options: CsvOptions = PLAIN_CSV
    ) -> None:
        super().__init__(file, columns, zstd, options)
        from pyarrow import parquet

        self._schema = _schema(columns)
        self._writer = parquet.ParquetWriter(self._file, self._schema, compression="zstd")

    def _write(self, rows: Sequence[Row]) -> None:
        import pyarrow

        values = zip(*(values_of(row, self._columns) for row in rows), strict=True)
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


TABLES: Mapping[Format, type[Table]] = {Format.JSONL: _Jsonl, Format.CSV: _Csv, Format.PARQUET: _Parquet}


class TableFile:
    """A table that is written to a temporary file, and moved to its final path when it is complete and on disk."""

    def __init__(
        self,
        path: Path,
        columns: Sequence[Column],
        form: Format,
        zstd: bool,
        options: CsvOptions = PLAIN_CSV,
    ) -> None:
        self.path = path
        self.temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        self._file = self.temporary.open("xb")
        self.table = TABLES[form](self._file, columns, zstd, options)

    def close(self) -> None:
        """Syncs the file to the disk."""
        self.table.close()
        os.fsync(self._file.fileno())
        self._file.close()

    def move(self) -> None:
        """Moves the file to its final path."""
        self.temporary.replace(self.path)

    def abandon(self) -> None:
        """Removes the file if it was not moved."""
        self.table.abandon()
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self.temporary.unlink(missing_ok=True)


def columns_of(kind: type[Record]) -> list[Column]:
    """Returns the columns for records of a type.

    These are `_id`, the fields, and the fields of the provenance as `provenance.url`.
    """
    columns = [Column("_id", str)]
    for name, hint in get_type_hints(kind).items():
        if name == "provenance":
            columns += [Column(f"{name}.{part}", column_kind(of)) for part, of in get_type_hints(Provenance).items()]
        elif name in kind.__struct_fields__ and name != "raw":
            columns.append(Column(name, column_kind(hint)))
    return columns


FIELDS_SEEN: list[dict[str, Any]] = [
    {"$project": {"field": {"$objectToArray": "$$ROOT"}}},
    {"$unwind": "$field"},
    {"$group": {"_id": "$field.k", "kinds": {"$addToSet": {"$type": "$field.v"}}}},
    {"$sort": {"_id": 1}},
]
"""MongoDB stages that find the columns of records whose fields vary."""
_KINDS = {
    "string": str,
    "int": int,
    "long": int,
    "double": float,
    "decimal": Decimal,
    "bool": bool,
    "date": datetime,
}


def columns_seen(kind: type[Record], fields: Iterable[Row]) -> list[Column]:
    """Returns the columns of such records: the columns that all records have, and one for each field that was found."""
    columns = [column for column in columns_of(kind) if column.name == "_id" or column.name.startswith("provenance.")]
    for field in fields:
        if field["_id"] not in ("_id", "provenance", OUTBOX):
            kinds = {_KINDS.get(each, object) for each in field["kinds"] if each != "null"}
            of = float if kinds == {int, float} else kinds.pop() if len(kinds) == 1 else object
            columns.append(Column(field["_id"], of))
    return columns


def column_kind(hint: Any) -> type:
    """Returns the kind of column for values of a type."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = {each for each in get_args(hint) if each is not type(None)} or {object}
    return hint if hint in (str, int, float, bool, Decimal, datetime, date) else object


def values_of(row: Mapping[str, Any], columns: Sequence[Column]) -> Iterator[Any]:
    """Yields a row's values in the order of the columns; None for missing values and for NaN."""
    for column in columns:
        value: Any = row
        for part in path_of(column.name, row):
            value = value.get(part) if isinstance(value, Mapping) else None
        yield None if is_nan(value) else value


def is_nan(value: Any) -> bool:
    """Tells whether the value is a number that is not finite.

    JSON lacks such numbers, so all formats leave them out.
    """
    if isinstance(value, Decimal128):
        value = value.to_decimal()
    if isinstance(value, Decimal):
        return not value.is_finite()
    return isinstance(value, float) and not math.isfinite(value)


def path_of(name: str, row: Mapping[str, Any]) -> list[str]:
    """Returns the names that lead to a column's value. A field of an item may have a point in its name, like `No.`."""
    return [name] if name in row else name.split(".")


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (Decimal, Decimal128)):
        return str(value)
    return msgspec.json.encode(value, enc_hook=in_json).decode()


def in_json(value: Any) -> Any:
    """Converts a MongoDB value that msgspec does not know to JSON: large numbers, decimals, ids."""
    if isinstance(value, Int64):
        return int(value)
    return None if is_nan(value) else str(value)


def _typed(value: Any, kind: type) -> Any:
    """Returns None for a value of another type than its column. An older version may have written such a value."""
    if kind in (object, date):
        return None if value is None else _as_text(value)
    if isinstance(value, bool) and kind is not bool:  # a bool is also an int
        return None
    if kind is float and isinstance(value, int):
        return float(value)
    if kind is Decimal:
        return _decimal(value)
    return value if isinstance(value, kind) else None


def _decimal(value: Any) -> Decimal | None:
    """Returns the decimal as Parquet holds it; None if it is not a number, or too large."""
    try:
        number = Decimal(str(value)).quantize(Decimal(1).scaleb(-PLACES), context=_DIGITS)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _schema(columns: Sequence[Column]) -> "pyarrow.Schema":
    import pyarrow

    types = {
        str: pyarrow.string(),
        object: pyarrow.string(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        Decimal: pyarrow.decimal128(_DIGITS.prec, PLACES),
        bool: pyarrow.bool_(),
        datetime: pyarrow.timestamp("ms", "UTC"),
        date: pyarrow.string(),
    }
    return pyarrow.schema([(column.name, types[column.kind]) for column in columns])


def check_pyarrow() -> None:
    """Raises UsageError when Parquet cannot be written."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UsageError("Parquet needs a package: pip install 'harvester[parquet]'") from None

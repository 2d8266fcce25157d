"""The exporters behind `-o` and FEEDS, which write items to JSON, XML, CSV and Parquet files."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Any, ClassVar

import msgspec
from itemadapter import ItemAdapter
from scrapy.exporters import BaseItemExporter, JsonItemExporter, JsonLinesItemExporter, XmlItemExporter
from scrapy.utils.python import is_listlike

from harvester.formatting import xml_text
from harvester.items import Record
from harvester.items.other import plain_value
from harvester.stores.tables import (
    CHUNK,
    PLAIN_CSV,
    TABLES,
    Column,
    CsvOptions,
    Format,
    column_kind,
    columns_of,
    is_nan,
    path_of,
)

_NUMBERS = {int, float}
MOST_BITS = 63
"""Maximum number of bits of whole numbers in Parquet. Larger numbers are written as text."""
_not_in_xml_name = re.compile(r"[^\w.-]").sub


def _plain(value: Any) -> Any:
    """Returns a value that a feed can hold, for a value that msgspec does not know."""
    if ItemAdapter.is_item(value):
        return ItemAdapter(value).asdict()
    try:
        return plain_value(value)
    except TypeError:
        return str(value)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode


class _FiniteValues(BaseItemExporter):
    """Writes numbers that are not finite as missing values, as all other exports do."""

    def serialize_field(self, field: Any, name: str, value: Any) -> Any:
        value = super().serialize_field(field, name, value)
        return None if is_nan(value) else value


class _JsonValues(_FiniteValues):
    """Writes values that JSON lacks (bytes, time spans) in their staged form."""

    def get_serialized_fields(self, *given: Any, **wishes: Any) -> Iterable[tuple[str, Any]]:
        row = dict(super().get_serialized_fields(*given, **wishes))
        fields: dict[str, Any] = msgspec.json.decode(_encode(row))
        return fields.items()


class JsonLinesFeed(_JsonValues, JsonLinesItemExporter):
    """Writes an object per line."""


class JsonFeed(_JsonValues, JsonItemExporter):
    """Writes one list of objects."""


class XmlFeed(_FiniteValues, XmlItemExporter):
    """Writes XML that every reader accepts: Scrapy's exporter lets through names and characters that XML lacks."""

    def _export_xml_field(self, name: str, serialized_value: Any, depth: int) -> None:
        if serialized_value is None or is_nan(serialized_value):
            serialized_value = ""
        elif not hasattr(serialized_value, "items") and not is_listlike(serialized_value):
            serialized_value = xml_text(str(serialized_value), "\ufffd")
        super()._export_xml_field(_xml_name(str(name)), serialized_value, depth)


def _xml_name(name: str) -> str:
    """Returns a valid name of an element: `No. of units` becomes `No._of_units`."""
    found = _not_in_xml_name("_", name)
    return found if found[:1].isalpha() or found.startswith("_") else f"_{found}"


class TableFeed(_FiniteValues):
    """A feed whose columns are known only after the last item. Until then a temporary file holds the rows.

    A record has the columns of the record type, another item has a column for each field. Columns named by
    FEED_EXPORT_FIELDS or by the class of an item are written even if they have no values.
    """

    FORM: ClassVar[Format]

    def __init__(self, file: IO[bytes], **options: Any) -> None:
        """Raises TypeError, ValueError and LookupError for invalid options."""
        super().__init__(dont_fail=True, **options)
        self._options = self._csv_options()
        self._file = file
        self._rows: IO[bytes]
        self._kinds: set[type[Record]] = set()
        self._columns: dict[str, type | None] = {}
        """Columns by name, with their kind; None as long as a column has no value."""
        chosen = self.fields_to_export or ()
        self._add_columns(chosen.values() if isinstance(chosen, Mapping) else chosen)

    def _csv_options(self) -> CsvOptions:
        if (self.encoding or "utf-8").lower() not in ("utf-8", "utf8"):
            raise ValueError(f"a {self.FORM} file has no encoding but UTF-8, and {self.encoding!r} is given")
        if self._kwargs:
            raise TypeError(f"a {self.FORM} file has no {', '.join(map(repr, self._kwargs))}: leave it out")
        return PLAIN_CSV

    def start_exporting(self) -> None:
        self._rows = TemporaryFile(prefix="harvester-feed-")  # noqa: SIM115  finish_exporting closes it

    def export_item(self, item: Any) -> None:
        row = dict(self.get_serialized_fields(item))
        if isinstance(item, Record) and self.fields_to_export is None:
            self._add_columns_of(type(item))
        else:
            if self.fields_to_export is None:
                self._add_columns(ItemAdapter(item).field_names())
            for name, value in row.items():
                self._add_column(name, None if value is None else _kind_of(value))
        self._rows.write(_encode(row) + b"\n")

    def finish_exporting(self) -> None:
        with self._rows:
            columns = [Column(name, kind or str) for name, kind in self._columns.items()]
            table = TABLES[self.FORM](self._file, columns, options=self._options)
            try:
                self._rows.seek(0)
                times = [column.name for column in columns if column.kind is datetime]
                rows = self._read(times)
                while chunk := list(islice(rows, CHUNK)):
                    table.write(chunk)
            except OSError:
                table.abandon()
                raise
            table.close()

    def _add_columns_of(self, kind: type[Record]) -> None:
        if kind not in self._kinds:
            self._kinds.add(kind)
            for name, of in [Column("kind", str), *columns_of(kind)]:
                self._add_column(name, of)

    def _add_columns(self, names: Iterable[str]) -> None:
        for name in names:
            self._add_column(name, None)

    def _add_column(self, name: str, kind: type | None) -> None:
        known = self._columns.setdefault(name, kind)
        if known is None or kind is None or known is kind:
            self._columns[name] = known or kind
        else:
            self._columns[name] = float if {known, kind} == _NUMBERS else object

    def _read(self, times: list[str]) -> Iterator[dict[str, Any]]:
        """Yields the rows, with times converted to datetimes."""
        for line in self._rows:
            row: dict[str, Any] = msgspec.json.decode(line)
            for column in times:
                *outer, name = path_of(column, row)
                inner: Any = row
                for part in outer:
                    inner = inner.get(part) if isinstance(inner, dict) else None
                if isinstance(inner, dict) and isinstance(inner.get(name), str):
                    inner[name] = datetime.fromisoformat(inner[name])
            yield row


def _kind_of(value: Any) -> type:
    if isinstance(value, Decimal) or (isinstance(value, int) and value.bit_length() > MOST_BITS):
        return object  # has no fixed size
    return column_kind(type(value))


class CsvFeed(TableFeed):
    """Writes comma-separated values with a header, and takes the arguments of Scrapy's CsvItemExporter.

    It adds the argument `escape_formulas`, see CsvOptions. Values of items that are not records are written as Scrapy
    writes them. In records, lists are JSON unless `join_multivalued` is given.
    """

    FORM = Format.CSV
    _is_of_record = False
    """True if the item that is being exported is a record."""
    _has_records = False

    def _csv_options(self) -> CsvOptions:
        return _read_csv_options({**self._kwargs, "encoding": self.encoding})

    def export_item(self, item: Any) -> None:
        self._is_of_record = isinstance(item, Record)
        self._has_records |= self._is_of_record
        super().export_item(item)

    def finish_exporting(self) -> None:
        if not self._rows.tell():  # as in Scrapy, which writes the header with the first item
            self._rows.close()
            return
        if not self._has_records:
            self._options = self._options._replace(dialect={"lineterminator": "\r\n", **self._options.dialect})
        super().finish_exporting()

    def serialize_field(self, field: Any, name: str, value: Any) -> Any:
        value = super().serialize_field(field, name, value)
        separator = self._kwargs.get("join_multivalued", None if self._is_of_record else ",")
        if separator is not None and isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
            return separator.join(value)
        return value if self._is_of_record else self._as_scrapy(value)

    def _as_scrapy(self, value: Any) -> Any:
        """Returns the value that Scrapy's exporter writes.

        Bytes become text, and any other value that is not a number becomes the result of `str`.
        """
        if isinstance(value, bytes):
            return value.decode(self._options.encoding, "replace")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return value if value is None or is_number else str(value)


def _read_csv_options(given: Mapping[str, Any]) -> CsvOptions:
    """Raises LookupError for an unknown encoding, TypeError and ValueError for invalid arguments of `csv.writer`."""
    dialect = dict(given)
    dialect.pop("join_multivalued", None)
    options = CsvOptions(
        encoding=dialect.pop("encoding", None) or "utf-8",
        errors=dialect.pop("errors", None) or "replace",
        has_header=dialect.pop("include_headers_line", True),
        escape_formulas=dialect.pop("escape_formulas", False),
        dialect=dialect,
    )
    codecs.lookup(options.encoding)
    codecs.lookup_error(options.errors)
    try:
        csv.writer(io.StringIO(), **dialect).writerow([""])
    except csv.Error as error:
        raise ValueError(str(error)) from None
    return options


class ParquetFeed(TableFeed):
    """Writes Parquet. Requires pyarrow."""

    FORM = Format.PARQUET

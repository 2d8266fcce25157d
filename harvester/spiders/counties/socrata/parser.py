"""Reads datasets and rows of Socrata: https://dev.socrata.com/docs/endpoints."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct, field

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import CountyColumn, Source
from harvester.parsers.counties.encoding import read_json
from harvester.parsers.counties.table import Layout, PageRows, checked_count
from harvester.parsers.counties.values import MOST_DIGITS

_NUMBERS = frozenset({"number", "money", "double", "percent"})
_DATES = frozenset({"calendar_date", "date", "fixed_timestamp", "floating_timestamp"})


class _Column(Struct):
    name: str
    type: str = field(name="dataTypeName", default="")
    field_name: str = field(name="fieldName", default="")


class _Dataset(Struct):
    columns: list[_Column]


class _Staged(Struct):
    columns: list[str]
    rows: list[msgspec.Raw]


_dataset = msgspec.json.Decoder(_Dataset).decode
_rows = msgspec.json.Decoder(list[msgspec.Raw]).decode
_staged = msgspec.json.Decoder(_Staged).decode
_names = msgspec.json.Decoder(list[str]).decode
_row = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode
_counts = msgspec.json.Decoder(list[dict[str, int | str]]).decode
_encode = msgspec.json.encode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parse_dataset(body: bytes) -> tuple[CountyColumn, ...]:
    """Reads the columns of a dataset from /api/views/<id>.json. Raises ParseError."""
    try:
        said = read_json(_dataset, body)
    except _UNREADABLE as error:
        raise ParseError(f"it is no dataset: {error}") from None
    return tuple(
        CountyColumn(each.field_name, each.name, is_number=each.type in _NUMBERS)
        for each in said.columns
        if each.field_name
    )


def parse_count(body: bytes) -> int:
    """Reads the response to $select=count(*). Raises ParseError."""
    try:
        said = read_json(_counts, body)
    except _UNREADABLE as error:
        raise ParseError(f"it is no count of rows: {error}") from None
    values = [str(value) for row in said for value in row.values()]
    if len(values) != 1 or not (values[0].isdecimal() and len(values[0]) < MOST_DIGITS):
        raise ParseError("it is no count of rows")
    return checked_count(int(values[0]))


def parse_page(body: bytes, described: bytes, source: Source, provenance: Provenance, types: bytes = b"") -> PageRows:
    """Reads the records of a page of rows.

    A row lacks the columns without a value. `described`, the header X-SODA2-Fields, names all columns, and `types`, the
    header X-SODA2-Types, has their types. Raises ParseError when the body is not a page, or has no column with the
    parcel's number.
    """
    try:
        given = read_json(_rows, body)
        rows = [(each, _row(each)) for each in given]
        names = _names(described) if described else []
        holds = _names(types) if types else []
    except _UNREADABLE as error:
        raise ParseError(f"it is no page of rows: {error}") from None
    every = [*names, *(name for _, row in rows for name in row)]
    kinds = dict(zip(names, map(_kind_of, holds), strict=True)) if len(names) == len(holds) else {}
    return _read(rows, every, source, provenance, names_all=bool(names), kinds=kinds)


def parse_staged(raw: bytes, source: Source, provenance: Provenance) -> PageRows:
    """Reads the records of a staged line. Raises ParseError."""
    try:
        said = _staged(raw)
        rows = [(each, _row(each)) for each in said.rows]
    except _UNREADABLE as error:
        raise ParseError(f"it is no staged row: {error}") from None
    return _read(rows, said.columns, source, provenance)


def _read(
    rows: Sequence[tuple[msgspec.Raw, dict[str, Any]]],
    names: Sequence[str],
    source: Source,
    provenance: Provenance,
    *,
    names_all: bool = False,
    kinds: Mapping[str, str] = {},
) -> PageRows:
    found = PageRows()
    columns = [name for name in dict.fromkeys(names) if not name.startswith(":")]  # skips system columns
    if not columns:
        return found
    layout = Layout([CountyColumn(name, kind=kinds.get(name, "")) for name in columns], source)
    found.columns = layout.shown([row for _, row in rows], names_all=names_all)
    begin = b'{"columns":%b,"rows":[' % _encode(columns)
    for raw, row in rows:
        layout.read(row, b"%b%b]}" % (begin, bytes(raw)), provenance, found)
    found.empty = layout.parts
    return contract.explain(found)


def _kind_of(type_: str) -> str:
    return "dates" if type_ in _DATES else "numbers" if type_ in _NUMBERS else "text"

"""Reads what ArcGIS servers say of a layer and of its rows: https://developers.arcgis.com/rest/services-reference/."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct, field

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import CountyColumn, Source
from harvester.parsers.counties.encoding import read_json
from harvester.parsers.counties.table import Layout, PageRows, checked_count

USUAL_ROWS = 1000
"""That servers before 10.1 give at once, which do not say how many."""
_DATES = frozenset({"esriFieldTypeDate"})
_NUMBERS = frozenset(
    {
        "esriFieldTypeBigInteger",
        "esriFieldTypeDouble",
        "esriFieldTypeInteger",
        "esriFieldTypeOID",
        "esriFieldTypeSingle",
        "esriFieldTypeSmallInteger",
    }
)
_OBJECT_ID = "esriFieldTypeOID"


class Layer(NamedTuple):
    """What a layer says of itself."""

    columns: tuple[CountyColumn, ...]
    object_id: str
    """The column that numbers its rows."""
    most_rows: int
    """The most that it gives at once."""
    by_offset: bool
    """Whether rows can be asked for by their place."""


class _Field(Struct):
    name: str
    type: str = ""
    alias: str | None = None


class _Paging(Struct):
    supports_pagination: bool = field(name="supportsPagination", default=False)


class _Layer(Struct):
    fields: list[_Field] | None = None
    object_id: str | None = field(name="objectIdField", default=None)
    most_rows: int | None = field(name="maxRecordCount", default=None)
    capabilities: str | None = None
    advanced: _Paging | None = field(name="advancedQueryCapabilities", default=None)
    supports_pagination: bool | None = field(name="supportsPagination", default=None)


class _Feature(Struct):
    attributes: msgspec.Raw


class _Page(Struct):
    features: list[_Feature]
    fields: list[_Field] | None = None
    exceeded: bool | None = field(name="exceededTransferLimit", default=None)


class _Ids(Struct):
    ids: list[int] | None = field(name="objectIds")
    exceeded: bool | None = field(name="exceededTransferLimit", default=None)


class _Count(Struct):
    count: int | None = None
    ids: list[int] | None = field(name="objectIds", default=None)


class _Error(Struct):
    message: str | None = ""
    details: list[str] | str | None = None


class _Refusal(Struct):
    error: _Error


_layer = msgspec.json.Decoder(_Layer).decode
_page = msgspec.json.Decoder(_Page).decode
_ids = msgspec.json.Decoder(_Ids).decode
_count = msgspec.json.Decoder(_Count).decode
_refusal = msgspec.json.Decoder(_Refusal).decode
_row = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode
_encode = msgspec.json.encode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parse_layer(body: bytes) -> Layer:
    """Raises ParseError when it is no layer, or one that cannot be queried."""
    try:
        said = read_json(_layer, body)
    except _UNREADABLE as error:
        raise ParseError(f"it is no layer: {error}") from None
    if not said.fields:
        raise ParseError("it is no layer: it has no fields; the address ends in its number, like .../MapServer/0")
    if said.capabilities is not None and "Query" not in said.capabilities:
        raise ParseError(f"the layer cannot be queried: its capabilities are {said.capabilities or 'none'}")
    numbering = [each.name for each in said.fields if each.type == _OBJECT_ID]
    if not (object_id := said.object_id or (numbering[0] if numbering else "")):
        raise ParseError("the layer has no column that numbers its rows (esriFieldTypeOID)")
    by_offset = bool(said.supports_pagination or (said.advanced and said.advanced.supports_pagination))
    most = said.most_rows if said.most_rows and said.most_rows > 0 else USUAL_ROWS
    return Layer(tuple(map(_column, said.fields)), object_id, most, by_offset)


def parse_count(body: bytes) -> int | None:
    """How many rows there are; None of servers that list the rows' object ids instead. Raises ParseError."""
    try:
        said = read_json(_count, body)
    except _UNREADABLE as error:
        raise ParseError(f"it is no count of rows: {error}") from None
    if said.count is None and said.ids is None:
        raise ParseError("it is no count of rows")
    return None if said.count is None else checked_count(said.count)


def parse_ids(body: bytes) -> tuple[list[int], bool]:
    """The numbers of rows in their order, and whether there are more of them. Raises ParseError."""
    try:
        said = read_json(_ids, body)
    except _UNREADABLE as error:
        raise ParseError(f"it is no list of object ids: {error}") from None
    return sorted(said.ids or ()), bool(said.exceeded)


def parse_page(body: bytes, source: Source, provenance: Provenance) -> PageRows:
    """The records of a page of rows. Raises ParseError when it is none, or has no column of the parcel's number.

    `raw` of a record is a page of its one row.
    """
    try:
        said = read_json(_page, body)
        rows = [(each.attributes, _row(each.attributes)) for each in said.features]
    except _UNREADABLE as error:
        raise ParseError(f"it is no page of rows: {error}") from None
    found = PageRows(goes_on=bool(said.exceeded), first=crc32(rows[0][0]) if rows else 0)
    columns = _columns(said.fields or (), rows[0][1] if rows else {})
    if not columns:
        return found
    layout = Layout(columns, source)
    found.columns = layout.shown([row for _, row in rows], names_all=True)
    described = said.fields or []
    to_be_told = {each.name for each, column in zip(described, columns, strict=False) if column.says_more}
    for attributes, row in rows:
        told = [each for each in described if each.name in to_be_told or each.name not in row]
        begin = b'{"fields":%b,"features":[{"attributes":' % _encode(told)
        layout.read(row, b"%b%b}]}" % (begin, bytes(attributes)), provenance, found)
    found.empty = layout.parts
    return contract.explain(found)


def cannot_page(body: bytes) -> bool:
    """Whether the answer is a refusal because rows cannot be asked for by their place, whatever the layer says."""
    try:
        error = read_json(_refusal, body).error
    except _UNREADABLE:
        return False
    details = error.details if isinstance(error.details, list) else [error.details or ""]
    return "pagination" in " ".join([error.message or "", *details]).lower()


def _columns(fields: "list[_Field] | tuple[()]", row: Mapping[str, Any]) -> list[CountyColumn]:
    """Of a page: those that it describes, and those of its first row."""
    described = list(map(_column, fields))
    known = {column.name for column in described}
    return described + [CountyColumn(name) for name in row if name not in known]


def _column(said: _Field) -> CountyColumn:
    alias = said.alias if said.alias and said.alias != said.name else ""
    is_date, is_number = said.type in _DATES, said.type in _NUMBERS
    kind = "dates" if is_date else "numbers" if is_number else "text" if said.type else ""
    return CountyColumn(said.name, alias, is_date, is_number, kind)

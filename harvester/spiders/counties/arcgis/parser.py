"""Reads layers and rows of ArcGIS servers: https://developers.arcgis.com/rest/services-reference/."""

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
"""Maximum number of rows in a response of servers before 10.1, which do not report their limit."""
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
    """The description of a layer."""

    columns: tuple[CountyColumn, ...]
    object_id: str
    """The column that numbers the rows of the layer."""
    most_rows: int
    """Maximum number of rows in one response."""
    by_offset: bool
    """True if the server supports requests for rows by offset."""


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
    """Reads the description of a layer. Raises ParseError when the body has none, or the layer cannot be queried."""
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
    """Returns the number of rows, or None when the server lists the rows' object ids instead. Raises ParseError."""
    try:
        said = read_json(_count, body)
    except _UNREADABLE as error:
        raise ParseError(f"it is no count of rows: {error}") from None
    if said.count is None and said.ids is None:
        raise ParseError("it is no count of rows")
    return None if said.count is None else checked_count(said.count)


def parse_ids(body: bytes) -> tuple[list[int], bool]:
    """Returns the object ids in their order, and True if there are more. Raises ParseError."""
    try:
        said = read_json(_ids, body)
    except _UNREADABLE as error:
        raise ParseError(f"it is no list of object ids: {error}") from None
    return sorted(said.ids or ()), bool(said.exceeded)


def parse_page(body: bytes, source: Source, provenance: Provenance) -> PageRows:
    """Reads the records of a page of rows.

    Raises ParseError when it is not a page, or has no column with the parcel's number.

    `raw` of a record is a page with its single row.
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
    """Returns True if the server refuses requests by offset, even if its layer declares support."""
    try:
        error = read_json(_refusal, body).error
    except _UNREADABLE:
        return False
    details = error.details if isinstance(error.details, list) else [error.details or ""]
    return "pagination" in " ".join([error.message or "", *details]).lower()


def _columns(fields: "list[_Field] | tuple[()]", row: Mapping[str, Any]) -> list[CountyColumn]:
    """Returns the columns that the page describes, followed by the undescribed columns in its first row."""
    described = list(map(_column, fields))
    known = {column.name for column in described}
    return described + [CountyColumn(name) for name in row if name not in known]


def _column(said: _Field) -> CountyColumn:
    alias = said.alias if said.alias and said.alias != said.name else ""
    is_date, is_number = said.type in _DATES, said.type in _NUMBERS
    kind = "dates" if is_date else "numbers" if is_number else "text" if said.type else ""
    return CountyColumn(said.name, alias, is_date, is_number, kind)

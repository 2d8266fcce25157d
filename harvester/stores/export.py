"""Exports the stored records of a type to a file of any size, or to PostgreSQL; and the follow graph to a file."""

import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints
from xml.sax.saxutils import escape, quoteattr

from bson import Decimal128, encode, json_util
from bson.errors import BSONError
from msgspec import Struct
from pymongo.database import Database

from harvester.exceptions import StorageError, UsageError
from harvester.formatting import xml_text
from harvester.items import RECORDS, Record
from harvester.items.base import OUTBOX
from harvester.items.other import know_collections
from harvester.stores.tables import (
    CHUNK,
    FIELDS_SEEN,
    PLAIN_CSV,
    Column,
    CsvOptions,
    Format,
    TableFile,
    check_pyarrow,
    column_kind,
    columns_of,
    columns_seen,
)

if TYPE_CHECKING:
    from harvester.stores.postgres import Postgres

Document = dict[str, Any]

_FORMS = {
    ".jsonl": (Format.JSONL, False),
    ".csv": (Format.CSV, False),
    ".parquet": (Format.PARQUET, False),
    ".jsonl.zst": (Format.JSONL, True),
    ".csv.zst": (Format.CSV, True),
}
"""Suffix of a file -> format, and True if the file is compressed."""
_OPERATORS = {"=": "$eq", "!=": "$ne", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}
_condition = re.compile(r"([A-Za-z_][\w.]*)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL).fullmatch
_OF_NODE = {"handle": "string", "display_name": "string", "followers_count": "long"}
"""Fields of a profile, with their types in GraphML."""
_NODES: list[Document] = [
    {"$project": {"_id": 0, "did": ["$did", "$subject_did"]}},
    {"$unwind": "$did"},
    {"$unionWith": {"coll": "profiles", "pipeline": [{"$project": {"_id": 0, "did": "$_id"}}]}},
    {"$group": {"_id": "$did"}},
    {"$sort": {"_id": 1}},
    {"$lookup": {"from": "profiles", "localField": "_id", "foreignField": "_id", "as": "profile"}},
]
"""Selects all accounts, including accounts that are only followed, whose `profile` is empty."""
_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    + "".join(f'<key id="{name}" for="node" attr.name="{name}" attr.type="{of}"/>\n' for name, of in _OF_NODE.items())
    + '<graph edgedefault="directed">\n'
)
_EDGES = [Column("source", str), Column("target", str)]


def kind_named(name: str, database: Database[Document]) -> type[Record]:
    """Returns the record type with this kind or collection. Raises UsageError, PyMongoError."""
    know_collections(database.list_collection_names())
    for kind in RECORDS.values():
        if name in (kind.KIND, kind.COLLECTION):
            return kind
    known = ", ".join(sorted(kind.COLLECTION for kind in RECORDS.values()))
    raise UsageError(f"There are no records {name!r}; there are: {known}, and graph.")


def query_of(kind: type[Record], conditions: Iterable[str], since: datetime | None) -> Document:
    """Returns a query for the records that meet all conditions and were observed at or after `since`.

    Raises UsageError for an invalid condition.
    """
    parts = [_read(kind, condition) for condition in conditions]
    if since:
        parts.append({"provenance.fetched_at": {"$gte": since}})
    query = {"$and": parts} if parts else {}
    try:
        encode(query)
    except (BSONError, OverflowError, UnicodeEncodeError) as error:
        raise UsageError(f"--where, --since: MongoDB cannot be asked for that: {error}.") from None
    return query


def _read(kind: type[Record], condition: str) -> Document:
    """Parses `field=value`, or the same with != < <= > >=; or a MongoDB query as JSON."""
    if condition.lstrip().startswith("{"):
        try:
            return dict(json_util.loads(condition))
        except (ValueError, TypeError, BSONError) as error:
            raise UsageError(f"--where: {condition!r} is no JSON: {error}.") from None
    read = _condition(condition)
    if not read:
        raise UsageError(f"--where: {condition!r} is neither FIELD=VALUE (or != < <= > >=) nor JSON in braces.")
    name, operator, text = read.groups()
    kinds = {column.name: column.kind for column in columns_of(kind)}
    if not kind.FIELDS_VARY and name.split(".")[0] not in {known.split(".")[0] for known in kinds}:
        raise UsageError(f"--where: {kind.COLLECTION} have no field {name!r}, but {', '.join(kinds)}.")
    of = kinds.get(name) or (_likely(text.strip()) if kind.FIELDS_VARY else _kind_within(kind, name))
    return {name: {_OPERATORS[operator]: _value(name, text.strip(), of)}}


def _kind_within(kind: type[Record], name: str) -> type:
    """Returns the type of a value within a field, such as `installments.number`; str if the type is unknown."""
    hint: Any = kind
    for part in name.split("."):
        if get_origin(hint) is dict:
            hint = get_args(hint)[1]
        elif part.isdecimal():  # a position in a list
            continue
        elif isinstance(hint, type) and issubclass(hint, Struct):
            hint = get_type_hints(hint).get(part, str)
        else:
            return str
        if get_origin(hint) in (tuple, Union, UnionType):  # MongoDB compares each element of a list
            hint = next(each for each in get_args(hint) if each is not NoneType)
    return column_kind(hint)


def _likely(text: str) -> type:
    """Guesses the type of a value for a field without a known type."""
    for kind in (int, float):
        try:
            kind(text)
        except ValueError:
            continue
        return kind
    return bool if text.lower() in ("true", "false") else str


def _value(name: str, text: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind is datetime:
            return point_in_time(text)
        if kind is Decimal:
            return Decimal128(text)
        return kind(text) if kind in (int, float) else text
    except (ValueError, KeyError, ArithmeticError):
        raise UsageError(f"--where: {text!r} is no {_CALLED[kind]}, which {name} is.") from None


_CALLED = {int: "whole number", float: "number", Decimal: "number", bool: "true or false", datetime: "date"}


def point_in_time(text: str) -> datetime:
    """Parses a time, in UTC if it has no zone. Raises ValueError."""
    at = datetime.fromisoformat(text)
    try:
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError(f"{text} is before the year 1, or after the year 9999") from None


def export_records(
    database: Database[Document], kind: type[Record], query: Document, path: Path, csv_options: CsvOptions = PLAIN_CSV
) -> int:
    """Writes the records in the order of their keys. Returns their number.

    Raises UsageError, StorageError, PyMongoError.
    """
    return _write(path, _columns(database, kind, query), _records(database, kind, query), csv_options)


def export_to_postgres(database: Database[Document], kind: type[Record], query: Document, postgres: "Postgres") -> int:
    """Writes the records to the table of their collection. Returns their number.

    Raises the exceptions of `export_records`, and ServiceError.
    """
    from harvester.stores.postgres import CODEC, PostgresTable, version_of

    columns = _columns(database, kind, query)
    table = PostgresTable(postgres, kind.COLLECTION, columns, version_of(kind, columns), vary=kind.FIELDS_VARY)
    rows = iter(_records(database.with_options(CODEC), kind, query))
    while chunk := list(islice(rows, CHUNK)):
        table.write(chunk)
    return table.rows


def _columns(database: Database[Document], kind: type[Record], query: Document) -> list[Column]:
    if not kind.FIELDS_VARY:
        return columns_of(kind)
    stages = [{"$match": query}, *FIELDS_SEEN]
    return columns_seen(kind, database[kind.COLLECTION].aggregate(stages, allowDiskUse=True))


def _records(database: Database[Document], kind: type[Record], query: Document) -> Iterable[Document]:
    return database[kind.COLLECTION].find(query, {OUTBOX: 0}, sort=[("_id", 1)], batch_size=CHUNK)


def export_graph(database: Database[Document], path: Path, csv_options: CsvOptions = PLAIN_CSV) -> int:
    """Writes the follow graph, as GraphML or as a table of edges. Returns the number of edges."""
    edges = database["follows"].find({}, {"did": 1, "subject_did": 1}, sort=[("_id", 1)], batch_size=CHUNK)
    if path.suffix != ".graphml":
        rows = ({"source": row["did"], "target": row["subject_did"]} for row in edges)
        return _write(path, _EDGES, rows, csv_options)
    return _write_graphml(path, database["follows"].aggregate(_NODES, allowDiskUse=True, batchSize=CHUNK), edges)


def _write(path: Path, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], csv_options: CsvOptions) -> int:
    form, zstd = _form_of(path)
    if form is Format.PARQUET:
        check_pyarrow()
    left = iter(rows)
    try:
        file = TableFile(path, columns, form, zstd, csv_options)
        try:
            while chunk := list(islice(left, CHUNK)):
                file.table.write(chunk)
            file.close()
            file.move()
        finally:
            file.abandon()
    except OSError as error:
        raise _unwritable(path, error) from None
    return file.table.rows


def _form_of(path: Path) -> tuple[Format, bool]:
    for ending in (path.suffix, "".join(path.suffixes[-2:])):
        if ending in _FORMS:
            return _FORMS[ending]
    raise UsageError(f"--to: {path} does not end in {', '.join(_FORMS)} (or .graphml, of graph).")


def _write_graphml(path: Path, nodes: Iterable[Document], edges: Iterable[Document]) -> int:
    written = 0
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(_HEAD)
            for node in nodes:
                file.write(_node(node["_id"], node["profile"][0] if node["profile"] else {}))
            for edge in edges:
                written += 1
                file.write(f"<edge source={_quoted(edge['did'])} target={_quoted(edge['subject_did'])}/>\n")
            file.write("</graph>\n</graphml>\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)
    return written


def _node(did: str, profile: Document) -> str:
    data = "".join(
        f'<data key="{name}">{escape(xml_text(str(profile[name])))}</data>'
        for name in _OF_NODE
        if profile.get(name) is not None
    )
    return f"<node id={_quoted(did)}>{data}</node>\n"


def _quoted(text: str) -> str:
    return quoteattr(xml_text(text))


def _unwritable(path: Path, error: OSError) -> StorageError:
    remedy = "Make its folder" if isinstance(error, FileNotFoundError) else "Make room"
    return StorageError(f"{path} cannot be written: {error.strerror or error}. {remedy}, or name another file.")

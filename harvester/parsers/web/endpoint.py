"""Reads a response of a JSON API according to its declaration. Pure, for a bounded process.

Paths, schemas and the patterns in them are written by users, and a response may be anything. Together they can cost any
amount of time and memory, even if each is small.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from harvester.exceptions import PageFailed, ParseError
from harvester.items.bson_limits import unstorable
from harvester.parsers.json_text import canonical, read_json
from harvester.parsers.web import rows as parse
from harvester.recheck.stopping import digest

MAX_ROWS = 100_000
"""Maximum number of rows in a response."""


class EndpointDeclaration(NamedTuple):
    """The part of an endpoint's declaration about its responses."""

    rows: str = ""
    pick: str = ""
    key: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    next: str = ""
    """Path of the cursor or the address of the next page; empty if the response does not hold it."""
    total: str = ""
    """Path of the total number of rows; empty if the response does not hold it."""


class EndpointRow(NamedTuple):
    """A row of a response."""

    text: bytes
    """JSON of the row. Names are sorted if the row has a problem."""
    version: str
    """Digest of the content. It changes with the content."""
    key: str = ""
    problem: str = ""
    """Reason why the row cannot be used; empty if it can."""


class RowsPage(NamedTuple):
    """The rows of a response."""

    answer: str
    """Digest of the list of rows."""
    rows: list[EndpointRow]
    shape: parse.Shape
    """Shape of the usable rows."""
    next: str | int | float | None
    total: int | None


class Whole(NamedTuple):
    """A response that is saved as a whole, or the part that is picked."""

    text: bytes
    raw: bytes
    """JSON with sorted names."""
    shape: parse.Shape


def read_whole(body: bytes, content_type: str, wanted: EndpointDeclaration) -> Whole:
    """Reads a response as a whole. Raises ParseError when it is not JSON or does not fit the schema.

    Raises PageFailed when MongoDB cannot hold it.
    """
    document = read_json(body, content_type)
    value = parse.at(wanted.pick, document) if wanted.pick else document
    if problem := _misfit(value, wanted.schema):
        raise ParseError(f"it does not fit the schema: {problem}")
    if unkept := unstorable({"data": value}):
        raise PageFailed("invalid", f"it cannot be kept: {unkept}")
    return Whole(msgspec.json.encode(value), canonical(value), parse.shape_of([value]))


def read_rows(body: bytes, content_type: str, wanted: EndpointDeclaration, known: str) -> RowsPage:
    """Returns the rows. The list is empty if `known` is the digest of this response.

    `known` is empty if the rows are on several pages. Raises ParseError when the list of rows is missing or has no
    usable row; raises PageFailed for too many rows.
    """
    document = read_json(body, content_type)
    rows = parse.rows_at(wanted.rows, document)
    if len(rows) > MAX_ROWS:
        said = f"it has {len(rows):,} rows, and at most {MAX_ROWS:,} of an answer are read: ask for pages of it"
        raise PageFailed("invalid", said)
    answer = hashlib.sha256(canonical(rows)).hexdigest()[:16]
    leads_to, total = _next(wanted.next, document), parse.at(wanted.total, document) if wanted.total else None
    total = total if type(total) is int else None
    if known == answer:
        return RowsPage(answer, [], {}, leads_to, total)
    found = _apart([_row(row, wanted) for row in rows])
    fits = [row for row, read in zip(rows, found, strict=True) if not read.problem]
    if rows and not fits:
        raise ParseError(f"none of the {len(rows):,} rows is as it should be: {found[-1].problem}")
    return RowsPage(answer, found, parse.shape_of(fits), leads_to, total)


def _row(row: Any, wanted: EndpointDeclaration) -> EndpointRow:
    raw = canonical(row)
    version = digest(raw.decode())
    if problem := _misfit(row, wanted.schema) or parse.lack_of(row, wanted.key):
        return EndpointRow(raw, version, problem=problem)
    return EndpointRow(msgspec.json.encode(row), version, parse.key_of(row, wanted.key))


def _misfit(value: Any, schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return ""
    from harvester.parsers.web.schemas import problem_of  # its import takes longer than most answers do

    return problem_of(value, schema)


def _apart(rows: list[EndpointRow]) -> list[EndpointRow]:
    """Marks rows with a key that an earlier, different row has.

    The first row is the newest; the others would replace it.
    """
    first: dict[str, str] = {}
    found: list[EndpointRow] = []
    for row in rows:
        if row.key and first.setdefault(row.key, row.version) != row.version:
            row = EndpointRow(
                row.text, row.version, problem=f"another row of this answer has its key, {row.key[:100]!r}"
            )
        found.append(row)
    return found


def _next(path: str, document: Any) -> str | int | float | None:
    found = parse.at(path, document) if path else None
    if isinstance(found, (dict, list, bool)):
        raise ParseError(f"at {path!r} there is nothing that leads to the next page, but {type(found).__name__}")
    return found

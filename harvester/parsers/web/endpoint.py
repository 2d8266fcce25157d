"""Reads an answer of a JSON API as its declaration says. Pure, for a process that has bounds.

Paths, schemas and the patterns in them are written by users, and an answer may be anything: together they can cost any
amount of time and memory, however small they are.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from harvester.exceptions import PageFailed, ParseError
from harvester.parsers.json_text import canonical, read_json
from harvester.parsers.web import rows as parse
from harvester.recheck.stopping import digest

MAX_ROWS = 100_000
"""Of one answer."""


class EndpointDeclaration(NamedTuple):
    """What is declared of an endpoint, as far as it is about its answers."""

    rows: str = ""
    pick: str = ""
    key: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    next: str = ""
    """Where the cursor or the address of the next page is; empty: the answer does not hold it."""
    total: str = ""
    """Where the number of all rows is; empty: the answer does not hold it."""


class EndpointRow(NamedTuple):
    """A row of an answer."""

    text: bytes
    """Its JSON. Of a row with a problem names are in order."""
    version: str
    """Another one for each other content."""
    key: str = ""
    problem: str = ""
    """Why it cannot be used; empty when it can."""


class RowsPage(NamedTuple):
    """The rows of an answer."""

    answer: str
    """Another one for each other list of rows."""
    rows: list[EndpointRow]
    shape: parse.Shape
    """Of those that can be used."""
    next: str | int | float | None
    total: int | None


class Whole(NamedTuple):
    """An answer that is kept as a whole, or the part of it that is picked."""

    text: bytes
    raw: bytes
    """The same with names in order."""
    shape: parse.Shape


def read_whole(body: bytes, content_type: str, wanted: EndpointDeclaration) -> Whole:
    """Raises ParseError when it is no JSON, or does not fit the schema."""
    document = read_json(body, content_type)
    value = parse.at(wanted.pick, document) if wanted.pick else document
    if problem := _misfit(value, wanted.schema):
        raise ParseError(f"it does not fit the schema: {problem}")
    return Whole(msgspec.json.encode(value), canonical(value), parse.shape_of([value]))


def read_rows(body: bytes, content_type: str, wanted: EndpointDeclaration, known: str) -> RowsPage:
    """Returns the rows; none of them when `known` is the answer's digest, and its rows are not on several pages.

    Raises ParseError when there is no list of rows, or none that can be used; PageFailed for too many rows.
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
    """Of rows that share a key and are not the same, the first is the newest; the others would take its place."""
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

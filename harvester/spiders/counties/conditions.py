"""Conditions on rows, in the SQL that ArcGIS and Socrata have in common."""

from collections.abc import Sequence
from typing import NamedTuple

from harvester.parsers.counties.columns import CountyColumn
from harvester.parsers.counties.table import Layout
from harvester.parsers.counties.values import MOST_DIGITS

Parcels = Sequence[Sequence[str]]
"""Pairs of an item's id and a parcel's number."""


class Matching(NamedTuple):
    """A query for parcels."""

    condition: str
    """Empty when no parcel can be queried."""
    asked: list[list[str]]
    """The queried parcels, with their numbers in the rows' spelling."""
    impossible: list[list[str]]
    """The parcels whose number cannot occur in the column."""


def matching(layout: Layout, parcels: Parcels, *, padded: bool = False) -> Matching:
    """Builds the condition for the rows of parcels. `padded`: match only numbers with blanks around them."""
    columns = layout.id_columns
    asked: list[list[str]] = []
    impossible: list[list[str]] = []
    conditions: list[str] = []
    for item, parcel_id in parcels:
        parts = parcel_id.split(" ", len(columns) - 1)
        if len(parts) < len(columns) or not all(
            _fits(column, part, padded) for column, part in zip(columns, parts, strict=False)
        ):
            impossible.append([item, parcel_id])
            continue
        parts = [str(int(part)) if column.is_number else part for column, part in zip(columns, parts, strict=False)]
        asked.append([item, " ".join(parts)])
        conditions.append(
            all_of(*(_condition(column, part, padded) for column, part in zip(columns, parts, strict=False)))
        )
    if len(columns) == 1 and asked and not padded:
        values = ",".join(_literal(columns[0], parcel_id) for _, parcel_id in asked)
        return Matching(f"{columns[0].name} IN ({values})", asked, impossible)
    return Matching(" OR ".join(f"({condition})" for condition in conditions), asked, impossible)


def all_of(*conditions: str) -> str:
    """Joins the non-empty conditions with AND."""
    given = list(filter(None, conditions))
    return given[0] if len(given) == 1 else " AND ".join(f"({condition})" for condition in given)


def _fits(column: CountyColumn, value: str, padded: bool) -> bool:
    is_number = value.isascii() and value.isdecimal() and len(value) <= MOST_DIGITS
    return not column.is_number or (is_number and not padded)


def _condition(column: CountyColumn, value: str, padded: bool) -> str:
    if not padded:
        return f"{column.name} = {_literal(column, value)}"
    behind, before = _literal(column, f"{value} %"), _literal(column, f"% {value}")
    return f"{column.name} LIKE {behind} OR {column.name} LIKE {before}"


def _literal(column: CountyColumn, value: str) -> str:
    return value if column.is_number else "'{}'".format(value.replace("'", "''"))

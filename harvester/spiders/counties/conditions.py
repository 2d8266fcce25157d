"""Conditions on rows, in the SQL that ArcGIS and Socrata have in common."""

from collections.abc import Sequence
from typing import NamedTuple

from harvester.parsers.counties.table import Column, Layout

Parcels = Sequence[Sequence[str]]
"""Id of the item, and number of the parcel, of each."""


class Matching(NamedTuple):
    """How to ask for parcels."""

    condition: str
    """Empty when there is nothing to ask for."""
    asked: list[list[str]]
    """The parcels, their numbers as the rows have them."""
    impossible: list[list[str]]
    """Those with a number that no row can have."""


def matching(layout: Layout, parcels: Parcels) -> Matching:
    """For the rows of these parcels."""
    columns = layout.id_columns
    asked: list[list[str]] = []
    impossible: list[list[str]] = []
    conditions: list[list[str]] = []
    for item, parcel_id in parcels:
        parts = parcel_id.split(" ", len(columns) - 1)
        if len(parts) < len(columns) or not all(map(_fits, columns, parts)):
            impossible.append([item, parcel_id])
            continue
        parts = [str(int(part)) if column.is_number else part for column, part in zip(columns, parts, strict=True)]
        asked.append([item, " ".join(parts)])
        conditions.append([_literal(column, part) for column, part in zip(columns, parts, strict=True)])
    if len(columns) == 1 and asked:
        return Matching(f"{columns[0].name} IN ({','.join(value for (value,) in conditions)})", asked, impossible)
    names = [column.name for column in columns]
    each = [all_of(*(f"{name} = {value}" for name, value in zip(names, of, strict=True))) for of in conditions]
    return Matching(" OR ".join(f"({condition})" for condition in each), asked, impossible)


def all_of(*conditions: str) -> str:
    """Those that are not empty, together."""
    given = list(filter(None, conditions))
    return given[0] if len(given) == 1 else " AND ".join(f"({condition})" for condition in given)


def _fits(column: Column, value: str) -> bool:
    return not column.is_number or (value.isascii() and value.isdecimal())


def _literal(column: Column, value: str) -> str:
    return value if column.is_number else "'{}'".format(value.replace("'", "''"))

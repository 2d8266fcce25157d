"""Turns rows of a published table of parcels into records."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from msgspec import Struct

from harvester.exceptions import InvalidRecordError, ParseError
from harvester.items import Provenance, Reject
from harvester.items.property import UNDATED, Assessment, CountyRecord, Property, Sale, normalized
from harvester.parsers.counties import values
from harvester.parsers.counties.addresses import as_box, ends_with_place, parts_of, why_no_place
from harvester.parsers.counties.columns import CountyColumn, Roles, Source
from harvester.parsers.counties.drift import Columns
from harvester.parsers.counties.names import LineKind, agents_only, care_of, is_city, is_notice, line_kinds
from harvester.parsers.json_values import MOST_INT, MOST_LEVELS

CURRENCY = "USD"
MOST_ROWS = 10**8
"""Maximum number of rows in a table; the largest tables, for whole states, have a seventh. Each page becomes an item of
a job."""
_SEVERAL = " + "
"""The separator between the names of columns that make one value."""
_in_words = re.compile(r"(?!\w{1,5}\s*[-:])[^\W\d].*[^\W\d_]{6,}.*|[^\W\d_]{6,}.*").fullmatch
"""Matches a use class in words instead of a code: it has a long word, and no code like `R - Residential` at its start.
"""
_words = re.compile(r"[^\W_]+").findall
_repeated = re.compile(r" \(\d{1,2}\)$").sub
Row = Mapping[str, Any]


class UnreadLabel(NamedTuple):
    """A label or a column with values that no field was read from."""

    times: int
    """Number of rows, or of parcel pages, with the label."""
    sample: str
    """A value of the label."""


class PageRows(Struct):
    """The content of a page."""

    records: list[CountyRecord] = []
    rejects: list[Reject] = []
    number: int = 0
    """Number of rows."""
    without_id: int = 0
    """Number of rows without a parcel's number: streets, water, gaps between parcels."""
    parcel_ids: set[str] = set()
    first: int = 0
    """A digest of the first row, unique in the table; 0 if several rows may be alike."""
    goes_on: bool = False
    """True if the server reports more rows than it returned."""
    columns: Columns = Columns()
    unread: dict[str, UnreadLabel] = {}
    """The labels that no field was read from."""
    empty: dict[str, str] = {}
    """Field -> its label, if that has an empty value."""

    def note_unread(self, others: Mapping[str, Any]) -> None:
        """Counts the labels that no field was read from.

        A label in a table counts once, regardless of the number of rows.
        """
        for label, value in dict(_labelled(others)).items():
            known = self.unread.get(label)
            self.unread[label] = UnreadLabel(known.times + 1, known.sample) if known else UnreadLabel(1, value)


def _labelled(others: Mapping[str, Any], heading: str = "") -> Iterator[tuple[str, str]]:
    """Yields each label with a value; a label in a table or a part is preceded by its heading."""
    for label, value in others.items():
        name = f"{heading}: {label}" if heading else label
        if isinstance(value, dict):
            yield from _labelled(value, name)
        elif isinstance(value, list):
            for row in value:
                if isinstance(row, dict):
                    yield from _labelled(row, name)
        elif not values.is_nothing(value):
            yield _repeated("", name), str(value)


@lru_cache(maxsize=256)
def layout_of(columns: tuple[CountyColumn, ...], source: Source) -> "Layout":
    """Returns the cached layout for these columns, because most pages of a site have the same.

    Raises ParseError like Layout.
    """
    return Layout(columns, source)


class Layout(Roles):
    """Reads the rows of a table. Raises ParseError like Roles."""

    @property
    def parts(self) -> dict[str, str]:
        """Part of the contract -> a column that holds it, for the parts that the table has."""
        values = [name for of in self._assessments.values() for names in of.values() for name in names]
        columns = {
            "owner_names": self._lines["owner_names"],
            "situs_address": self._lines["situs_address"],
            "values": values,
        }
        return {field: names[0] for field, names in columns.items() if names}

    @property
    def id_columns(self) -> list[CountyColumn]:
        """The columns that make the parcel's number."""
        return [self._columns[name] for name in self.of_parcel_id]

    def shown(self, rows: Sequence[Row], *, names_all: bool) -> Columns:
        """Returns the columns of the table on a page. `names_all`: the page lists all columns, also empty ones."""
        numbers = [name for field, names in self._property.items() if field in _OF_PROPERTY for name in names]
        numbers += [name for columns in self._assessments.values() for names in columns.values() for name in names]
        numbers += [name for columns in self._sales.values() for name in columns.get("sale_price", ())]
        kinds = dict.fromkeys(numbers, _is_number) | dict.fromkeys(self._lines["owner_names"], _is_name)
        said = {name: column.kind for name, column in self._columns.items() if column.kind}
        return Columns.of(self._columns if names_all else (), kinds, rows)._replace(kinds=said)

    def parcel_id(self, row: Row) -> str | None:
        """Returns the parcel's number as the row shows it; None if the row has no number."""
        parts = [values.text(row.get(name)) for name in self.of_parcel_id]
        return None if None in parts else " ".join(filter(None, parts))

    def read(self, row: Row, raw: bytes, provenance: Provenance, into: PageRows, *, is_transfer: bool = False) -> None:
        """Adds the records of a row. `is_transfer`: the row is in a table of sales."""
        into.number += 1
        parcel_id = self.parcel_id(row)
        if parcel_id is None:
            into.without_id += 1
            return
        into.parcel_ids.add(parcel_id)
        of = {**identity(self.source, parcel_id), "provenance": provenance, "raw": raw}
        try:
            found = self._records(row, of, is_of_transfer if is_transfer else is_sale)
            into.records += found
            into.note_unread(found[0].others)
        except InvalidRecordError as error:
            into.rejects.append(Reject(Property.KIND, str(error), parcel_id, raw, provenance.url))

    def _records(self, row: Row, of: dict[str, Any], is_kept: "_IsKept") -> tuple[Property, *tuple[CountyRecord, ...]]:
        used = set(self.of_parcel_id)
        reading = _Reading(row, self._columns, used)
        years = (values.year(row.get(name)) for name in self._property.get("tax_year", ()))
        tax_year = next(filter(None, years), None)
        records: list[CountyRecord] = []
        unread: dict[str, str] = {}
        for stage, columns in self._assessments.items():
            found = reading.fields(columns, lambda field: values.read_money)
            roll = "-".join(filter(None, (str(tax_year or UNDATED), stage)))
            if not found.values:
                unread |= {f"{field} of {roll}": reason for field, reason in found.unread.items()}
            else:
                records.append(
                    Assessment(
                        **of,
                        **found.values,
                        labels=found.labels,
                        unread=found.unread,
                        roll=roll,
                        tax_year=tax_year,
                        stage=stage,
                        currency=CURRENCY,
                    )
                )
        records += self._sales_of(reading, of, is_kept)
        return (self._property_of(reading, of, unread), *records)

    def _property_of(self, reading: "_Reading", of: dict[str, Any], unread: dict[str, str]) -> Property:
        found = reading.fields(self._property, lambda field: _OF_PROPERTY.get(field, values.text))
        lines = {field: reading.lines(names) for field, names in self._lines.items()}
        lines["situs_address"] = lines["situs_address"] or reading.lines(self._sited)
        lines["owner_names"] += filter(None, (reading.joined(names) for names in self._persons))
        known = {text.upper() for text, _ in lines["owner_names"]}
        more = [(text.removeprefix("&").lstrip() or text, name) for text, name in lines["more_owners"]]
        more = [(text, name) for text, name in more if text.upper() not in known]
        owners, agents = _owners(lines["owner_names"] + more, found.unread)
        if self._mailing_parts:
            lines["mailing"] = list(filter(None, [reading.joined(self._mailing_parts)]))
        names = known - {text.upper() for text, _ in agents}
        while lines["mailing"] and lines["mailing"][0][0].upper() in names:
            del lines["mailing"][0]
        if self._box and (box := reading.text(self._box)):
            lines["mailing"].insert(0, (as_box(box), self._box))
        if lines["mailing"]:
            agents = agents[: len(agents_only([text for text, _ in agents]))]
        agents += [(care_of(text), name) for text, name in lines["care_of"]]
        mailing = [*agents, *(each for each in lines["mailing"] if each[0] not in [text for text, _ in agents])]
        mailing += self._bare_mailing(reading) if not mailing else []
        mailing += self._street_of(reading, mailing)
        mailing = _first_address(mailing)
        if mailing and any(self._bare_place) and is_city(mailing[-1][0]):
            self._read_bare_place(reading, found)
        elif mailing and (place := reading.lines(self._mailing_place)):
            shown = _place(reading, self._mailing_place)
            if not ends_with_place(mailing[-1][0], shown):
                mailing = [*mailing, (shown, _joined(place))]
        named = owners or (lines["owner_names"] if "owner_names" in found.unread else [])
        for field, parts in {"owner_names": named, "legal_description": lines["legal_description"]}.items():
            if parts:
                found.labels[field] = _joined(parts)
        if mailing:
            found.labels["mailing_address"] = _joined(mailing)
            if all(is_notice(text) for text, _ in mailing):
                found.unread["mailing_address"] = f"{mailing[0][0][: values.MAX_SHOWN]}: it is no address"
            else:
                found.values["mailing_address"] = ", ".join(text for text, _ in mailing)
        self._tell_use(found)
        for field, (area, unit) in self._with_unit.items():
            if field not in found.values and (values.text(reading.shown(unit)) or "").upper() in _ACRES:
                found = found.joined(reading.fields({field: [area]}, lambda field: values.read_acres))
        self._read_situs(reading, lines["situs_address"], found)
        if legal := lines["legal_description"]:
            found.values["legal_description"] = " ".join(text for text, _ in legal)
        ids = {name: text for text, name in reading.lines(self._other_ids)}
        found.labels["parcel_id"] = _SEVERAL.join(self.of_parcel_id)
        return Property(
            **of,
            **found.values,
            labels=found.labels,
            unread={**unread, **found.unread},
            owner_names=tuple(text for text, _ in owners),
            alt_parcel_ids=ids,
            others=reading.others(),
        )

    def _bare_mailing(self, reading: "_Reading") -> list[tuple[str, str]]:
        """Returns an unassigned address that cannot be the property's, because its last line has a city."""
        shown = [text for name in self._bare_lines if (text := values.text(reading.shown(name)))]
        return reading.lines(self._bare_lines) if len(shown) > 1 and is_city(shown[-1]) else []

    def _street_of(self, reading: "_Reading", mailing: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Returns the street of the owner's address, if the lines above it are empty or only name the recipient."""
        street = values.text(reading.shown(self._street)) if self._street else None
        if not street or not street[0].isdigit() or street.upper() in " ".join(text for text, _ in mailing).upper():
            return []
        return reading.lines([self._street])

    def _read_bare_place(self, reading: "_Reading", found: "_Found") -> None:
        """Assigns an unassigned city and ZIP code to the property."""
        city, _, code = self._bare_place
        for field, name in (("situs_city", city), ("situs_zip", code)):
            if name and field not in found.values and (shown := reading.text(name)):
                found.values[field], found.labels[field] = shown, name

    def _tell_use(self, found: "_Found") -> None:
        """Reads a use class in words as the description instead of the code."""
        said, name = found.values.get("use_code"), found.labels.get("use_code", "")
        if said and "use_description" not in found.values and self._columns[name].meaning is None and _in_words(said):
            found.values["use_description"] = found.values.pop("use_code")
            found.labels["use_description"] = found.labels.pop("use_code")

    def _read_situs(self, reading: "_Reading", lines: Sequence[tuple[str, str]], found: "_Found") -> None:
        """Adds the property's address, or the reason why it is unknown."""
        if lines and self._house and not any(map(str.isdigit, lines[0][0])):
            house = [each for each in reading.lines([self._house]) if each[0].strip("0") and each not in lines]
            lines = [*house, *lines]
        address = " ".join(text for text, _ in lines)
        if address and (reason := why_no_place(address)):
            found.unread["situs_address"] = f"{address[: values.MAX_SHOWN]}: {reason}"
            found.labels["situs_address"] = _joined(lines)
        elif address:
            found.labels["situs_address"] = _joined(lines)
            found.values["situs_address"] = address
            found.values["situs_parts"] = parts_of(address)
        elif nobodys := next(filter(None, (values.text(reading.shown(name)) for name in self._of_nobody)), None):
            found.unread["situs_address"] = f"{nobodys[: values.MAX_SHOWN]}: it may be the owner's address"

    def _sales_of(self, reading: "_Reading", of: dict[str, Any], is_kept: "_IsKept") -> Iterator[Sale]:
        for columns in self._sales.values():
            found = reading.fields(columns, lambda field: _OF_SALE.get(field, values.text), is_kept)
            said = found.values
            if not said and not found.unread:
                continue
            if "sale_date" in found.unread and (year := values.year(reading.shown(found.labels["sale_date"]))):
                said.setdefault("sale_year", year)
            yield Sale(
                **of,
                **said,
                labels=found.labels,
                unread=found.unread,
                transfer=transfer_of(said, found.unread),
                currency=CURRENCY,
            )


class _Found(NamedTuple):
    values: dict[str, Any]
    labels: dict[str, str]
    unread: dict[str, str]

    def joined(self, other: "_Found") -> "_Found":
        """Returns both results joined."""
        return _Found(self.values | other.values, self.labels | other.labels, self.unread | other.unread)


_ACRES = ("AC", "ACRE", "ACRES", "A")
_OF_A_DEED = ("instrument_number", "book", "deed_type", "grantor", "grantee")
_IsKept = Callable[[Mapping[str, Any]], bool]
_OF_PROPERTY: Mapping[str, Callable[[Any], Any]] = {
    "tax_year": values.read_year,
    "acres": values.read_acres,
    "gis_acres": values.read_acres,
    "year_built": values.read_year,
    "effective_year_built": values.read_year,
    "living_area_sqft": values.read_square_feet,
}
_OF_SALE: Mapping[str, Callable[[Any], Any]] = {
    "sale_date": values.read_past_date,
    "recording_date": values.read_past_date,
    "sale_year": values.read_year,
    "sale_price": values.read_money,
    "book": values.reference,
    "page": values.reference,
    "instrument_number": values.reference,
}


class _UnreadColumn(Exception):
    """A column whose value is not certain. Raised by `_Reading`."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column, self.reason = column, reason


class _Reading:
    """A row, with the columns that were read from it."""

    def __init__(self, row: Row, columns: Mapping[str, CountyColumn], used: set[str]) -> None:
        self._row = row
        self._columns = columns
        self._used = used

    def fields(
        self,
        columns: Mapping[str, Sequence[str]],
        reader: Callable[[str], Callable[[Any], Any]],
        is_kept: _IsKept = bool,
    ) -> _Found:
        """Returns the values that could be read, and reasons for the others; empty if `is_kept` rejects the result."""
        found, called, unread = {}, {}, {}
        for field, names in columns.items():
            try:
                name, value = self._first(names, reader(field))
            except _UnreadColumn as error:
                called[field], unread[field] = error.column, error.reason
                continue
            if value is not None:
                found[field], called[field] = value, name
        if not is_kept({**unread, **found}):
            return _Found({}, {}, {})
        self._used.update(called[field] for field in found)
        return _Found(found, called, unread)

    def _first(self, names: Sequence[str], read: Callable[[Any], Any]) -> tuple[str, Any]:
        """Returns the first column with a value; a 0 only if no other column has more.

        Raises _UnreadColumn for an uncertain value, without trying the other columns.
        """
        zero: tuple[str, Any] = ("", None)
        for name in names:
            shown = self._row.get(name)
            if shown is None:
                continue
            try:
                if read is values.read_past_date:
                    value = values.read_past_date(shown, is_epoch=self._columns[name].is_date)
                else:
                    value = read(shown)
            except values.Unreadable as error:
                raise _UnreadColumn(name, values.why_unread(shown, error)) from None
            if value:
                return name, value
            if value is not None and zero[1] is None:
                zero = name, value
        return zero

    def shown(self, name: str) -> Any:
        """Returns the raw value of a column."""
        return self._row.get(name)

    def text(self, name: str | None) -> str | None:
        """Returns the text of a column, and marks the column as read."""
        found = values.text(self._row.get(name)) if name else None
        if found and name:
            self._used.add(name)
        return found

    def lines(self, names: Iterable[str | None]) -> list[tuple[str, str]]:
        """Returns the texts of columns that have one, each with its column."""
        return [(found, name) for name in names if name and (found := self.text(name))]

    def joined(self, names: Iterable[str]) -> tuple[str, str] | None:
        """Returns the texts of several columns in one line, with the names of the columns; None if all are empty."""
        found = self.lines(names)
        return (" ".join(text for text, _ in found), _joined(found)) if found else None

    def others(self) -> dict[str, Any]:
        """Returns the columns that no field was read from."""
        return {
            name.replace("\0", " "): storable(value)
            for name, value in self._row.items()
            if name not in self._used and value is not None and (not isinstance(value, str) or value.strip())
        }


def _is_number(text: str) -> bool:
    return values.number(text) is not None


def _is_name(text: str) -> bool:
    return any(map(str.isalpha, text))


def checked_count(rows: int) -> int:
    """Returns the number of rows that a server reports. Raises ParseError when it is too large for parcels."""
    if not 0 <= rows <= MOST_ROWS:
        raise ParseError(f"the server says that there are {str(rows)[:20]} rows, which is no number of parcels")
    return rows


def identity(source: Source, parcel_id: str) -> dict[str, Any]:
    """Returns the fields that identify the parcel in all its records."""
    return {
        "jurisdiction": source.jurisdiction,
        "fips": source.fips,
        "parcel_id": parcel_id,
        "parcel_id_normalized": normalized(parcel_id),
    }


def storable(value: Any, levels: int = MOST_LEVELS) -> Any:
    """Returns the value in a form that MongoDB can store: other values become text."""
    if isinstance(value, dict):
        if levels:
            return {name.replace("\0", " "): storable(part, levels - 1) for name, part in value.items()}
        return str(value)
    if isinstance(value, list):
        return [storable(part, levels - 1) for part in value] if levels else str(value)
    if isinstance(value, int) and abs(value) > MOST_INT:
        return str(value)
    if isinstance(value, Decimal):
        measure = float(value)
        return measure if isfinite(measure) else str(value)
    return value


def is_sale(said: Mapping[str, Any]) -> bool:
    """Returns True for a sale: many rows have only a price of 0, or the number of some deed, which is not enough."""
    return any(name in said for name in ("sale_date", "sale_year", "recording_date")) or bool(said.get("sale_price"))


def is_of_transfer(said: Mapping[str, Any]) -> bool:
    """Returns True if a row in a table of sales is one: a deed or a party alone is enough, whatever the price."""
    return is_sale(said) or any(name in said for name in _OF_A_DEED)


def transfer_of(said: Mapping[str, Any], unread: Mapping[str, str] | None = None) -> str:
    """Returns a key that is unique among the parcel's sales: the date or year, and the deed's number, if known.

    A date that could not be read is included as shown.
    """
    when = said.get("sale_date") or said.get("recording_date")
    if not when and (shown := (unread or {}).get("sale_date", "").rpartition(": ")[0]):
        when = "-".join([UNDATED, *_words(shown)])
    when = when or said.get("sale_year") or UNDATED
    book = f"{said['book']}-{said['page']}" if "book" in said and "page" in said else ""
    deed = "_".join(str(said.get("instrument_number") or book).split())
    return f"{when}/{deed}" if deed else str(when)


def _owners(
    shown: Sequence[tuple[str, str]], unread: dict[str, str]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Returns the names among the lines of owners, and the agents and addresses, each with its column.

    A notice in place of a name is added to `unread`.
    """
    by_kind: dict[LineKind, list[tuple[str, str]]] = {kind: [] for kind in LineKind}
    for line, kind in zip(shown, line_kinds([text for text, _ in shown]), strict=True):
        by_kind[kind].append(line)
    if by_kind[LineKind.NOTICE] and not by_kind[LineKind.NAME]:
        unread["owner_names"] = f"{by_kind[LineKind.NOTICE][0][0][: values.MAX_SHOWN]}: it is no name"
    return by_kind[LineKind.NAME], by_kind[LineKind.MAILING]


def _first_address(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the lines up to the first city, if a second address with a city follows: each owner has one."""
    ends = [at for at, (text, _) in enumerate(lines) if is_city(text)]
    return lines[: ends[0] + 1] if len(ends) > 1 else lines


def _place(reading: _Reading, columns: Sequence[str | None]) -> str:
    """Returns city, state and ZIP in their usual spelling."""
    city, state, code = (reading.text(name) for name in columns)
    return ", ".join(filter(None, (city, " ".join(filter(None, (state, code))))))


def _joined(parts: Iterable[tuple[str, str]]) -> str:
    return _SEVERAL.join(dict.fromkeys(name for _, name in parts))

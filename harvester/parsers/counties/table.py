"""Rows of a published table of parcels, as records. Columns are found by their labels, never by their position."""

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
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.addresses import as_box, ends_with_place, is_code, is_place_only, parts_of
from harvester.parsers.counties.drift import Columns
from harvester.parsers.counties.labels import Label, label_of
from harvester.parsers.counties.names import Line, agents_only, care_of, line_kinds
from harvester.parsers.counties.synonyms import Synonyms, synonyms_of
from harvester.parsers.json_values import MOST_INT, MOST_LEVELS

CURRENCY = "USD"
MOST_COLUMNS_NAMED = 40
"""In the message that one is missing."""
MOST_ROWS = 10**8
"""Of a table; the largest ones, of whole states, have a seventh of that. Each page of it becomes an item of a job."""
_SEVERAL = " + "
"""Between the names of columns that make one value."""
_in_words = re.compile(r"(?!\w{1,5}\s*[-:])[^\W\d].*[^\W\d_]{6,}.*|[^\W\d_]{6,}.*").fullmatch
"""A class of use that is no code: it has a long word, and does not begin with a code like `R - Residential`."""
_words = re.compile(r"[^\W_]+").findall
_repeated = re.compile(r" \(\d{1,2}\)$").sub
Row = Mapping[str, Any]


class Column(NamedTuple):
    """Of a table."""

    name: str
    alias: str = ""
    """What it is called for people, where the table says that."""
    is_date: bool = False
    """Whether its numbers are milliseconds since 1970."""
    is_number: bool = False
    kind: str = ""
    """What it holds, where the table says that with its rows: numbers, dates or text."""
    meaning: Label | None = None
    """What its name says, where its parser knows that better than `label_of`."""

    @property
    def says_more(self) -> bool:
        """Whether there is something to know of it that its name and its values do not say."""
        return self.is_date or bool(self.alias and labels.plain(self.alias) != labels.plain(self.name))


class Source(NamedTuple):
    """Whose table it is."""

    jurisdiction: str
    fips: str
    parcel_id_field: str = ""
    """The column with the parcel's number, or several, as `swis_code + print_key_code`; empty: found by its label."""
    platform: str = ""
    """The software that publishes it; empty: it is not known."""
    labels: tuple[tuple[str, str], ...] = ()
    """What its entry in the registry says of labels: label and field."""

    @property
    def synonyms(self) -> Synonyms:
        """What labels mean here only."""
        return synonyms_of(self.platform, self.jurisdiction, self.labels)


class UnreadLabel(NamedTuple):
    """A label, or a column, with values that no field was read from."""

    times: int
    """In so many rows, or on so many pages of a parcel each."""
    sample: str
    """One of its values."""


class Rows(Struct):
    """What a page holds."""

    records: list[CountyRecord] = []
    rejects: list[Reject] = []
    number: int = 0
    """Of its rows."""
    without_id: int = 0
    """Rows without a parcel's number: streets, water, gaps between parcels."""
    parcel_ids: set[str] = set()
    first: int = 0
    """A digest of its first row, which no other row of the table has; 0 where rows may be alike."""
    goes_on: bool = False
    """Whether the server says that there are more rows than it gave."""
    columns: Columns = Columns()
    unread: dict[str, UnreadLabel] = {}
    """Labels that nobody reads."""
    empty: dict[str, str] = {}
    """Field -> a label of it with nothing beside it."""

    def note_unread(self, others: Mapping[str, Any]) -> None:
        """Counts the labels of what no field of a parcel was read from; those of a table once, however many rows."""
        for label, value in dict(_labelled(others)).items():
            known = self.unread.get(label)
            self.unread[label] = UnreadLabel(known.times + 1, known.sample) if known else UnreadLabel(1, value)


def _labelled(others: Mapping[str, Any], heading: str = "") -> Iterator[tuple[str, str]]:
    """Each label with a value; that of a table or a part of it with its heading."""
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
def layout_of(columns: tuple[Column, ...], source: Source) -> "Layout":
    """That of these columns: most pages of a site have the same. Raises ParseError as Layout does."""
    return Layout(columns, source)


class Layout:
    """Which columns of a table the fields are read from. Raises ParseError when none holds the parcel's number."""

    def __init__(self, columns: Sequence[Column], source: Source) -> None:
        self.source = source
        self._columns = {column.name: column for column in columns}
        self._by_label: dict[str, dict[int, str]] = {}
        self._by_alias: dict[str, str] = {}
        here = source.synonyms
        for column in columns:
            label, number = column.meaning or label_of(column.name)
            if column.meaning is None:
                known = here.meaning(column.name)
                label, number = (labels.whole(column.name, label), number) if known is None else (known, 0)
            self._by_label.setdefault(label, {}).setdefault(number, column.name)
            if column.alias and label not in labels.ALL:
                self._by_alias.setdefault(labels.plain(column.alias), column.name)
        self.of_parcel_id = self._parcel_id_columns(source.parcel_id_field)
        self._property = self._found(labels.PROPERTY)
        self._of_nobody: list[str] = []
        self._mailing_parts: list[str] = []
        self._box = self._column(labels.MAILING_BOX)
        self._lines = {
            field: self._numbered(of)
            for field, of in {
                "owner_names": labels.OWNERS,
                "more_owners": labels.MORE_OWNERS,
                "situs_address": labels.SITUS,
                "legal_description": labels.LEGAL,
                "care_of": labels.CARE_OF,
                "mailing": labels.MAILING,
            }.items()
        }
        self._mailing_place = [
            self._column(of) for of in (labels.MAILING_CITY, labels.MAILING_STATE, labels.MAILING_ZIP)
        ]
        self._persons = [] if self._lines["owner_names"] else self._names_in_parts()
        parts = self._parts(labels.MAILING_PARTS)
        if parts and self._lines["mailing"] in ([], [self._column(labels.MAILING_PARTS[2])]):
            self._mailing_parts, self._lines["mailing"] = parts, parts[:1]
        if not self._lines["situs_address"]:
            self._lines["situs_address"] = self._parts(labels.SITUS_PARTS) or self._numbered(labels.LOCATION)
        self._lines["more_owners"] += self._further_owners()
        self._place_bare_columns()
        self._with_unit = {
            field: (area, unit)
            for field, pairs in labels.WITH_UNIT.items()
            for area, unit in ((self._column([area]), self._column([unit])) for area, unit in pairs)
            if area and unit
        }
        self._other_ids = [
            name
            for label in labels.OTHER_IDS
            for name in self._by_label.get(label, {}).values()
            if name not in self.of_parcel_id
        ]
        self._assessments = {"": self._found(labels.ASSESSMENT)} | {
            stage: self._found(of) for stage, of in labels.STAGES.items()
        }
        self._sales = self._sale_columns()

    @property
    def parts(self) -> dict[str, str]:
        """Field of what each parcel should have -> a column of it, of those that the table has."""
        values = [name for of in self._assessments.values() for names in of.values() for name in names]
        columns = {
            "owner_names": self._lines["owner_names"],
            "situs_address": self._lines["situs_address"],
            "values": values,
        }
        return {field: names[0] for field, names in columns.items() if names}

    @property
    def id_columns(self) -> list[Column]:
        """Those that make the parcel's number."""
        return [self._columns[name] for name in self.of_parcel_id]

    def shown(self, rows: Sequence[Row], *, names_all: bool) -> Columns:
        """What a page shows of the table. `names_all`: it names all columns, also those without a value."""
        numbers = [name for field, names in self._property.items() if field in _OF_PROPERTY for name in names]
        numbers += [name for columns in self._assessments.values() for names in columns.values() for name in names]
        numbers += [name for columns in self._sales.values() for name in columns.get("sale_price", ())]
        kinds = dict.fromkeys(numbers, _is_number) | dict.fromkeys(self._lines["owner_names"], _is_name)
        said = {name: column.kind for name, column in self._columns.items() if column.kind}
        return Columns.of(self._columns if names_all else (), kinds, rows)._replace(kinds=said)

    def parcel_id(self, row: Row) -> str | None:
        """The number as the row writes it; None when it has none."""
        parts = [values.text(row.get(name)) for name in self.of_parcel_id]
        return None if None in parts else " ".join(filter(None, parts))

    def read(self, row: Row, raw: bytes, provenance: Provenance, into: Rows, *, is_transfer: bool = False) -> None:
        """Adds what a row says. `is_transfer`: it is one of a table of sales."""
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
        lines["owner_names"] += filter(None, (reading.joined(names) for names in self._persons))
        known = {text.upper() for text, _ in lines["owner_names"]}
        more = [(text.removeprefix("&").lstrip() or text, name) for text, name in lines["more_owners"]]
        more = [(text, name) for text, name in more if text.upper() not in known]
        owners, agents = _owners(lines["owner_names"] + more, found.unread)
        if self._mailing_parts:
            lines["mailing"] = list(filter(None, [reading.joined(self._mailing_parts)]))
        while lines["mailing"] and lines["mailing"][0][0].upper() in known:
            del lines["mailing"][0]
        if self._box and (box := reading.text(self._box)):
            lines["mailing"].insert(0, (as_box(box), self._box))
        if lines["mailing"]:
            agents = agents[: len(agents_only([text for text, _ in agents]))]
        agents += [(care_of(text), name) for text, name in lines["care_of"]]
        mailing = [*agents, *(each for each in lines["mailing"] if each[0] not in [text for text, _ in agents])]
        if mailing and (place := reading.lines(self._mailing_place)):
            shown = _place(reading, self._mailing_place)
            if not ends_with_place(mailing[-1][0], shown):
                mailing = [*mailing, (shown, _joined(place))]
        named = owners or (lines["owner_names"] if "owner_names" in found.unread else [])
        for field, parts in {"owner_names": named, "legal_description": lines["legal_description"]}.items():
            if parts:
                found.labels[field] = _joined(parts)
        if mailing:
            found.labels["mailing_address"] = _joined(mailing)
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

    def _tell_use(self, found: "_Found") -> None:
        """Takes a class of use that is said in words, and not by a code, for its description."""
        said, name = found.values.get("use_code"), found.labels.get("use_code", "")
        if said and "use_description" not in found.values and self._columns[name].meaning is None and _in_words(said):
            found.values["use_description"] = found.values.pop("use_code")
            found.labels["use_description"] = found.labels.pop("use_code")

    def _read_situs(self, reading: "_Reading", lines: Sequence[tuple[str, str]], found: "_Found") -> None:
        """Adds where the property is, or why that is not known."""
        address = " ".join(text for text, _ in lines)
        if address and is_place_only(address):
            found.unread["situs_address"] = f"{address[: values.MAX_SHOWN]}: it names no street"
        elif is_code(address):
            found.unread["situs_address"] = f"{address[: values.MAX_SHOWN]}: it is a code"
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

    # Which column is which ------------------------------------------------------------------------------------

    def _parcel_id_columns(self, wanted: str) -> list[str]:
        if not wanted:
            name = self._column(labels.PARCEL_ID)
            if name is None:
                raise ParseError(
                    f"no column is known to hold the parcel's number; name it in the site's entry (parcel_id_field):"
                    f" {self._names()}"
                )
            return [name]
        found = [self._named(part.strip()) for part in wanted.split("+")]
        if None in found:
            raise ParseError(f"there is no column {wanted!r}, which holds the parcel's number, but {self._names()}")
        return [name for name in found if name]

    def _named(self, wanted: str) -> str | None:
        if wanted in self._columns:
            return wanted
        return next((name for name in self._columns if labels.plain(name) == labels.plain(wanted)), None)

    def _names(self) -> str:
        names = list(self._columns)
        return ", ".join(names[:MOST_COLUMNS_NAMED]) + (", ..." if len(names) > MOST_COLUMNS_NAMED else "")

    def _found(self, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
        """Field -> its columns, the likeliest first, of the fields that have any."""
        found = {field: self._candidates(of) for field, of in wanted.items()}
        return {field: names for field, names in found.items() if names}

    def _column(self, wanted: Iterable[str]) -> str | None:
        return next(iter(self._candidates(wanted)), None)

    def _candidates(self, wanted: Iterable[str]) -> list[str]:
        """The columns that have one of these labels, else the first that people call so."""
        wanted, known = list(wanted), self._by_label
        numbered = [known[label] for label in wanted if label in known]
        found = [name for each in numbered if (name := each.get(0) or each.get(1))]
        if found or not self._by_alias:
            return found
        return [self._by_alias[label] for label in wanted if label in self._by_alias][:1]

    def _numbered(self, wanted: Iterable[str]) -> list[str]:
        """The columns of the first label that there is, in the order of their numbers."""
        for label in wanted:
            if numbered := self._by_label.get(label):
                return [numbered[number] for number in sorted(numbered)]
        return [name for label in wanted if (name := self._by_alias.get(label))][:1]

    def _further_owners(self) -> list[str]:
        """The second lines of owners that have another label than the first: OWNERNAME, OWNNAME2."""
        if len(self._lines["owner_names"]) != 1:
            return []
        numbered = [self._by_label.get(label, {}) for label in labels.OWNERS]
        known = self._lines["owner_names"] + self._lines["more_owners"]
        return [
            each[number] for each in numbered for number in sorted(each) if number > 1 and each[number] not in known
        ]

    def _place_bare_columns(self) -> None:
        """Tells whose the columns of an address are that do not say it.

        Those beside a state are the owner's when he has no others. Where that leaves the property without an address
        nobody knows whose they are.
        """
        city, state, code = map(self._column, (labels.BARE_CITY, labels.BARE_STATE, labels.BARE_ZIP))
        bare = self._numbered(labels.BARE_ADDRESS)
        is_of_property = self._lines["situs_address"] == bare != []
        if not state or all(self._mailing_place):
            owners = bool(self._mailing_place[0]), bool(self._mailing_place[2])
            for field, name, is_owners in zip(("situs_city", "situs_zip"), (city, code), owners, strict=True):
                if name and field not in self._property and (is_owners or not self._lines["mailing"]):
                    self._property[field] = [name]
        elif self._lines["mailing"] and not is_of_property:
            mine = self._mailing_place
            self._mailing_place = [mine[0] or city, mine[1] or state, mine[2] or code]
        elif not self._lines["mailing"] and not is_of_property:
            self._lines["mailing"], self._mailing_place = bare, [city, state, code]
        elif not self._lines["mailing"]:
            self._lines["situs_address"], self._of_nobody = [], bare

    def _parts(self, wanted: Sequence[Sequence[str]]) -> list[str]:
        """The columns of an address that is shown in parts; empty without one of a street's name."""
        found = [self._column(of) for of in wanted]
        return [name for name in found if name] if found[0] and found[2] else []

    def _names_in_parts(self) -> list[list[str]]:
        """Of each owner that is shown in parts the columns of his name."""
        found = [[name for part in person if (name := self._column(part))] for person in labels.PERSONS]
        return [names for names, person in zip(found, labels.PERSONS, strict=True) if self._column(person[2])]

    def _sale_columns(self) -> dict[int, dict[str, list[str]]]:
        """Number of a sale -> field -> its columns, the likeliest first."""
        sales: dict[int, dict[str, list[str]]] = {}
        for field, wanted in labels.SALE.items():
            for label in wanted:
                for number, name in self._by_label.get(label, {}).items():
                    sales.setdefault(number, {}).setdefault(field, []).append(name)
            by_alias = self._column(wanted) if not any(field in of for of in sales.values()) else None
            if by_alias:
                sales.setdefault(0, {})[field] = [by_alias]
        if sales.get(1) and sales.get(0, {}).keys().isdisjoint(sales[1]):
            sales[1] |= sales.pop(0, {})  # of one sale: some of its columns have a number, and some have none
        return dict(sorted(sales.items()))


class _Found(NamedTuple):
    values: dict[str, Any]
    labels: dict[str, str]
    unread: dict[str, str]

    def joined(self, other: "_Found") -> "_Found":
        """Both."""
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
    """A row, and which of its columns were read."""

    def __init__(self, row: Row, columns: Mapping[str, Column], used: set[str]) -> None:
        self._row = row
        self._columns = columns
        self._used = used

    def fields(
        self,
        columns: Mapping[str, Sequence[str]],
        reader: Callable[[str], Callable[[Any], Any]],
        is_kept: _IsKept = bool,
    ) -> _Found:
        """What could be read, and what could not be; nothing when it is not kept."""
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
        """The first column with a value. One that is 0 is taken only if no other has more to say.

        Raises _UnreadColumn: what another column says instead is not asked.
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
        """What a column holds, as it came."""
        return self._row.get(name)

    def text(self, name: str | None) -> str | None:
        """The text of a column."""
        found = values.text(self._row.get(name)) if name else None
        if found and name:
            self._used.add(name)
        return found

    def lines(self, names: Iterable[str | None]) -> list[tuple[str, str]]:
        """The texts of columns that have any, each with its column."""
        return [(found, name) for name in names if name and (found := self.text(name))]

    def joined(self, names: Iterable[str]) -> tuple[str, str] | None:
        """The text of several columns in one line, with their names; None when they have none."""
        found = self.lines(names)
        return (" ".join(text for text, _ in found), _joined(found)) if found else None

    def others(self) -> dict[str, Any]:
        """What no field was read from."""
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
    """A number of rows that a server tells of. Raises ParseError when no table of parcels has so many."""
    if not 0 <= rows <= MOST_ROWS:
        raise ParseError(f"the server says that there are {str(rows)[:20]} rows, which is no number of parcels")
    return rows


def identity(source: Source, parcel_id: str) -> dict[str, Any]:
    """What every record of a parcel says of it."""
    return {
        "jurisdiction": source.jurisdiction,
        "fips": source.fips,
        "parcel_id": parcel_id,
        "parcel_id_normalized": normalized(parcel_id),
    }


def storable(value: Any, levels: int = MOST_LEVELS) -> Any:
    """As it came, but for what MongoDB cannot hold: that is text."""
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
    """Whether it is one: many a row has a price of 0 and nothing else, or the number of a deed of whatever kind."""
    return any(name in said for name in ("sale_date", "sale_year", "recording_date")) or bool(said.get("sale_price"))


def is_of_transfer(said: Mapping[str, Any]) -> bool:
    """Tells whether a row of a table of sales is one: a deed or a party alone is enough, whatever the price."""
    return is_sale(said) or any(name in said for name in _OF_A_DEED)


def transfer_of(said: Mapping[str, Any], unread: Mapping[str, str] | None = None) -> str:
    """What tells a sale from others of its parcel: its date, or year, and the deed's number, as far as it says them.

    A date that was not read stands there as it is shown.
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
    """The names among the lines of owners, and the agents and addresses, each with its column.

    A notice in place of a name is added to `unread`.
    """
    by_kind: dict[Line, list[tuple[str, str]]] = {kind: [] for kind in Line}
    for line, kind in zip(shown, line_kinds([text for text, _ in shown]), strict=True):
        by_kind[kind].append(line)
    if by_kind[Line.NOTICE] and not by_kind[Line.NAME]:
        unread["owner_names"] = f"{by_kind[Line.NOTICE][0][0][: values.MAX_SHOWN]}: it is no name"
    return by_kind[Line.NAME], by_kind[Line.MAILING]


def _place(reading: _Reading, columns: Sequence[str | None]) -> str:
    """City, state and ZIP, as one writes them."""
    city, state, code = (reading.text(name) for name in columns)
    return ", ".join(filter(None, (city, " ".join(filter(None, (state, code))))))


def _joined(parts: Iterable[tuple[str, str]]) -> str:
    return _SEVERAL.join(dict.fromkeys(name for _, name in parts))

"""Finds which columns of a published table hold which fields, by their labels and never by their position."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels
from harvester.parsers.counties.labels import ColumnLabel, label_of
from harvester.parsers.counties.synonyms import Synonyms, synonyms_of

MOST_COLUMNS_NAMED = 40
"""Maximum number of columns named in the message about a missing one."""


class CountyColumn(NamedTuple):
    """A column of a published table."""

    name: str
    alias: str = ""
    """The label shown to people, if the table has one."""
    is_date: bool = False
    """True if the numbers of the column are milliseconds since 1970."""
    is_number: bool = False
    kind: str = ""
    """The kind of values that the table declares for the column: numbers, dates or text."""
    meaning: ColumnLabel | None = None
    """The meaning of the name, if the parser of the platform knows it better than `label_of`."""

    @property
    def says_more(self) -> bool:
        """True if the column has more to tell than its name and its values: a date type or an alias."""
        return self.is_date or bool(self.alias and labels.plain(self.alias) != labels.plain(self.name))


class Source(NamedTuple):
    """The jurisdiction that publishes a table, and the settings to read it."""

    jurisdiction: str
    fips: str
    parcel_id_field: str = ""
    """The column with the parcel's number, or several joined as `swis_code + print_key_code`; empty: found by its
    label."""
    platform: str = ""
    """The software that publishes the table; empty if unknown."""
    labels: tuple[tuple[str, str], ...] = ()
    """The labels in the registry entry of the jurisdiction: label and field."""

    @property
    def synonyms(self) -> Synonyms:
        """The meanings of labels that hold for this source only."""
        return synonyms_of(self.platform, self.jurisdiction, self.labels)


_OF_LINES: Mapping[str, tuple[str, ...]] = {
    "owner_names": labels.OWNERS,
    "more_owners": labels.MORE_OWNERS,
    "situs_address": labels.SITUS,
    "legal_description": labels.LEGAL,
    "care_of": labels.CARE_OF,
    "mailing": labels.MAILING,
}
"""Field that is joined from the lines of several columns -> labels of the columns."""


class Roles:
    """The columns of a table by the fields they hold. Raises ParseError when no column holds the parcel's number."""

    def __init__(self, columns: Sequence[CountyColumn], source: Source) -> None:
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
        for column in (each for each in columns if each.meaning is None and here.meaning(each.name) is None):
            if marked := labels.without_marks(column.name):
                self._by_label.setdefault(marked.label, {}).setdefault(marked.number, column.name)
        self.of_parcel_id = self._parcel_id_columns(source.parcel_id_field)
        self._property = self._found(labels.PROPERTY)
        self._of_nobody: list[str] = []
        self._mailing_parts: list[str] = []
        self._box = self._column(labels.MAILING_BOX)
        self._lines = {field: self._numbered(of) for field, of in _OF_LINES.items()}
        self._mailing_place = [
            self._column(of) for of in (labels.MAILING_CITY, labels.MAILING_STATE, labels.MAILING_ZIP)
        ]
        self._street = self._column(labels.MAILING_STREET)
        self._persons = [] if self._lines["owner_names"] else self._names_in_parts()
        names = {} if self._lines["owner_names"] or any(self._persons) else self._of_labels(labels.BARE_NAMES)
        if len(names) > 1:
            self._lines["owner_names"] = [names[number] for number in sorted(names)]
        parts = self._parts(labels.MAILING_PARTS)
        if parts and self._lines["mailing"] in ([], [self._column(labels.MAILING_PARTS[2])]):
            self._mailing_parts, self._lines["mailing"] = parts, parts[:1]
        in_parts = self._parts(labels.SITUS_PARTS)
        self._house = next(iter(in_parts[:1]), None) or self._column(labels.SITUS_PARTS[0])
        sited = self._parts(labels.SITED_PARTS)
        if sited and self._lines["situs_address"] == self._numbered(labels.BARE_ADDRESS):
            self._lines["situs_address"] = sited
        self._lines["situs_address"] = self._lines["situs_address"] or in_parts or self._numbered(labels.LOCATION)
        self._sited = sited if sited != self._lines["situs_address"] else []
        self._lines["more_owners"] += self._further_owners()
        self._bare_place: list[str | None] = []
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
        self._add_bare_values()
        self._sales = self._sale_columns()

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
        """Returns field -> columns, the likeliest first, without the fields that have no column."""
        found = {field: self._candidates(of) for field, of in wanted.items()}
        return {field: names for field, names in found.items() if names}

    def _column(self, wanted: Iterable[str]) -> str | None:
        return next(iter(self._candidates(wanted)), None)

    def _candidates(self, wanted: Iterable[str]) -> list[str]:
        """Returns the columns with one of the labels, else the first column with such an alias."""
        wanted, known = list(wanted), self._by_label
        numbered = [known[label] for label in wanted if label in known]
        found = [name for each in numbered if (name := each.get(0) or each.get(1))]
        if found or not self._by_alias:
            return found
        return [self._by_alias[label] for label in wanted if label in self._by_alias][:1]

    def _numbered(self, wanted: Iterable[str]) -> list[str]:
        """Returns the columns of the first label that exists, in the order of their numbers."""
        for label in wanted:
            if numbered := self._by_label.get(label):
                return [numbered[number] for number in sorted(numbered)]
        return [name for label in wanted if (name := self._by_alias.get(label))][:1]

    def _of_labels(self, wanted: Iterable[str]) -> dict[int, str]:
        """Returns number -> column for the first label that exists."""
        return next((self._by_label[label] for label in wanted if label in self._by_label), {})

    def _add_bare_values(self) -> None:
        """Reads `LAND` and `BUILDING` as amounts if the table has both and a sum, but no other amounts for them."""
        known = self._assessments[""]
        bare = {field: self._column(of) for field, of in labels.BARE_VALUES.items()}
        has_parts = any("land" in field or "improvement" in field for field in known)
        if known and not has_parts and all(name and self._columns[name].kind != "text" for name in bare.values()):
            known |= {field: [name] for field, name in bare.items() if name}

    def _further_owners(self) -> list[str]:
        """Returns further columns of owners whose label differs from the first one's: OWNERNAME, OWNNAME2."""
        if len(self._lines["owner_names"]) != 1:
            return []
        numbered = [self._by_label.get(label, {}) for label in labels.OWNERS]
        known = self._lines["owner_names"] + self._lines["more_owners"]
        return [
            each[number] for each in numbered for number in sorted(each) if number > 1 and each[number] not in known
        ]

    def _place_bare_columns(self) -> None:
        """Assigns the address columns whose labels do not say whether they belong to the owner or to the property.

        Columns beside a state belong to the owner if the table has no other columns for his address. If that leaves the
        property without an address, the columns remain unassigned. If the mailing address already has its place, they
        belong to the property.
        """
        city, state, code = map(self._column, (labels.BARE_CITY, labels.BARE_STATE, labels.BARE_ZIP))
        bare = self._numbered(labels.BARE_ADDRESS)
        is_of_property = self._lines["situs_address"] == bare != []
        together = self._column(labels.MAILING_TOGETHER)
        if self._lines["mailing"]:
            self._bare_place = [city, state, code]
        if not state or all(self._mailing_place):
            owners = bool(self._mailing_place[0]), bool(self._mailing_place[2] or together)
            code = None if city and "situs_city" in self._property else code  # this ZIP code belongs to that city
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
        self._bare_lines = [] if self._lines["mailing"] or is_of_property else bare

    def _parts(self, wanted: Sequence[Sequence[str]]) -> list[str]:
        """Returns the columns of an address that is shown in parts; empty if no column holds the street name."""
        found = [self._column(of) for of in wanted]
        return [name for name in found if name] if found[0] and found[2] else []

    def _names_in_parts(self) -> list[list[str]]:
        """Returns lists of columns, one for each owner whose name is shown in parts."""
        found = [[name for part in person if (name := self._column(part))] for person in labels.PERSONS]
        return [names for names, person in zip(found, labels.PERSONS, strict=True) if self._column(person[2])]

    def _sale_columns(self) -> dict[int, dict[str, list[str]]]:
        """Returns number of a sale -> field -> its columns, the likeliest first."""
        sales: dict[int, dict[str, list[str]]] = {}
        for field, wanted in labels.SALE.items():
            for label in wanted:
                for number, name in self._by_label.get(label, {}).items():
                    sales.setdefault(number, {}).setdefault(field, []).append(name)
            if field == "sale_price" and (prices := self._by_label.get(labels.BARE_PRICE)):
                for number in sales.keys() & prices.keys():
                    sales[number].setdefault(field, [prices[number]])
            by_alias = self._column(wanted) if not any(field in of for of in sales.values()) else None
            if by_alias:
                sales.setdefault(0, {})[field] = [by_alias]
        if sales.get(1) and sales.get(0, {}).keys().isdisjoint(sales[1]):
            sales[1] |= sales.pop(0, {})  # one sale: only some columns are numbered
        return dict(sorted(sales.items()))

"""Builds the records of a parcel from its card at Vision Government Solutions (VGSI), split by `vgsi.py`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harvester.exceptions import InvalidRecordError, ParseError
from harvester.items import Provenance, Reject
from harvester.items.property import UNDATED, Assessment, Property, Sale
from harvester.parsers.counties import contract, labels, values
from harvester.parsers.counties.addresses import parts_of, why_no_place
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.names import LineKind, line_kinds
from harvester.parsers.counties.pages import Grid, Labelled
from harvester.parsers.counties.table import CURRENCY, PageRows, identity, is_sale, transfer_of
from harvester.spiders.counties.vgsi.parser import ALIKE, HEADING, NAMES, SALES, VALUES, Card, encode, is_pid

_book_and_page = re.compile(r"([^/]*)/(.*)", re.DOTALL).fullmatch
_TEXTS = ("situs_address", "use_code", "use_description", "zoning", "neighborhood")
_OF_BUILDING: Mapping[str, Callable[[Any], Any]] = {
    "year_built": values.read_year,
    "living_area_sqft": values.read_square_feet,
}
_OF_SALE = ("sale_price", "sale_date", "instrument_number", "book_and_page", "book", "page", "qualification")
_PARTS = {contract.OWNER: "owner", contract.SITUS: "situs_address"}
"""Part of the contract -> its name in NAMES."""
_YEAR = ("VALUATIONYEAR", "YEAR", *labels.PROPERTY["tax_year"])
_COLUMNS = {
    "": ("TOTAL", "TOTALVALUE"),
    "land_": ("LAND", "LANDVALUE"),
    "improvement_": ("IMPROVEMENTS", "IMPROVEMENT", "BUILDING", "BUILDINGS"),
}
_SALE_COLUMNS: Mapping[str, tuple[str, ...]] = {"grantee": ("OWNER", *labels.SALE["grantee"])} | {
    field: NAMES[field][1] for field in _OF_SALE
}


def records_of(card: Card, source: Source, provenance: Provenance) -> PageRows:
    """Returns the records of a card. Raises ParseError like `read_card`, and when the card violates the contract."""
    found = read_card(card, source, provenance)
    if not found.rejects:
        contract.check(found, source.platform)
    return found


def read_card(card: Card, source: Source, provenance: Provenance) -> PageRows:
    """Reads the records of a card, or of the staged part of a card.

    Raises ParseError when a grid has no column for the year, or for the buyer.
    """
    pid = card.named("pid")
    if not pid or not is_pid(pid.text):
        raise ParseError(f"{pid.text if pid else ''!r} is no number of a parcel (PID)")
    found = PageRows(number=1, parcel_ids={pid.text})
    of = {**identity(source, pid.text), "provenance": provenance}
    try:
        reading = _Reading(card)
        assessments = list(_assessments(reading, of))
        sales = list(_sales(reading, of))
        newest = max((each.tax_year or 0 for each in assessments), default=0)
        parcel = _property(reading, of, newest)
        found.records = [parcel, *assessments, *sales]
        found.note_unread(parcel.others)
    except InvalidRecordError as error:
        found.rejects.append(Reject(Property.KIND, str(error), pid.text, encode(card), provenance.url))
        return found
    found.empty = {
        part: field.label for part, what in _PARTS.items() if (field := card.named(what)) and not field.lines
    }
    empty = (grid.caption or grid.id for grid in card.grids if grid.id in VALUES and not grid.rows)
    if (name := next(empty, None)) is not None:
        found.empty.setdefault(contract.VALUE, name)
    return contract.explain(found)


class _Reading:
    """A card, with a record of the fields and rows that were read."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.used: set[int] = set()
        """The `id()` of fields that were read completely."""
        self.left: list[tuple[Grid, list[dict[str, str]]]] = []
        """Grids with their rows or cells that no field was read from."""

    def field(self, what: str, section: str = "") -> Labelled | None:
        found = self.card.named(what, section)
        return found if found and found.lines else None

    def use(self, *fields: Labelled) -> None:
        """Marks fields as read, together with fields that show the same text under an equivalent id."""
        for field in fields:
            alike = ALIKE.get(field.id, ())
            self.used.update(
                id(each) for each in self.card.fields if each is field or (each.id in alike and each.text == field.text)
            )


def _property(reading: _Reading, of: Mapping[str, Any], newest: int) -> Property:
    """Builds the Property. `newest`: the last year with values on the card, current or not; 0 without any."""
    card, said, called, unread = reading.card, dict[str, Any](), dict[str, str](), dict[str, str]()
    for what in _TEXTS:
        if field := reading.field(what):
            said[what], called[what] = field.text, field.label
            reading.use(field)
    if (situs := said.get("situs_address")) and (reason := why_no_place(situs)):
        unread["situs_address"] = f"{said.pop('situs_address')[: values.MAX_SHOWN]}: {reason}"
    owners = [field for field in (reading.field("owner"), reading.field("co_owner")) if field]
    names, agents = _names(owners, unread)
    if owners:
        called["owner_names"] = " + ".join(field.label for field in owners)
        reading.use(*owners)
    mailing = [field for field in (reading.field("mailing_address"), reading.field("mailing_more")) if field]
    if mailing:
        lines = [*agents, *(line for field in mailing for line in field.lines)]
        said["mailing_address"] = ", ".join(dict.fromkeys(lines))
        called["mailing_address"] = " + ".join(field.label for field in mailing)
        reading.use(*mailing)
    measures: list[tuple[str, Callable[[Any], Any], Labelled, str]] = []
    if (area := reading.field("acres")) and (area.id == "LndAcres" or "acre" in area.label.lower()):
        measures.append(("acres", values.read_acres, area, area.label))
    for section in card.sections[:1]:
        for what, reader in _OF_BUILDING.items():
            if field := reading.field(what, section):
                measures.append((what, reader, field, f"{card.heading(section)}: {field.label}"))
    for what, reader, shown, label in measures:
        if (value := _read(reader, shown.text, what, unread)) is not None:
            said[what], called[what] = value, label
            reading.use(shown)
    ids = {}
    for what in ("mblu", "account"):
        if field := reading.field(what):
            ids[field.label] = field.text
            reading.use(field)
    if pid := card.named("pid"):
        called["parcel_id"] = pid.label
        reading.use(pid)
    if newest:
        columns = (
            grid.headers[at] for grid in card.grids if grid.id in VALUES and (at := grid.column(_YEAR)) is not None
        )
        said["tax_year"], called["tax_year"] = newest, next(columns)
    if situs := said.get("situs_address"):
        said["situs_parts"] = parts_of(situs)
    return Property(
        **of,
        **said,
        raw=encode(card),
        labels=called,
        unread=unread,
        owner_names=tuple(names),
        alt_parcel_ids=ids,
        others=_others(reading),
    )


def _names(owners: Sequence[Labelled], unread: dict[str, str]) -> tuple[list[str], list[str]]:
    """Returns names of owners, and the agents and addresses between. Adds a notice in place of names to `unread`."""
    lines = [line for field in owners for line in field.lines]
    by_kind: dict[LineKind, list[str]] = {kind: [] for kind in LineKind}
    for line, kind in zip(lines, line_kinds(lines), strict=True):
        by_kind[kind].append(line)
    if by_kind[LineKind.NOTICE] and not by_kind[LineKind.NAME]:
        unread["owner_names"] = f"{by_kind[LineKind.NOTICE][0][: values.MAX_SHOWN]}: it is no name"
    return by_kind[LineKind.NAME], by_kind[LineKind.MAILING]


def _read(read: Callable[[Any], Any], shown: str, field: str, unread: dict[str, str]) -> Any:
    """Returns the result of `read`, or None with the reason added to `unread`."""
    try:
        return read(shown)
    except values.Unreadable as error:
        unread[field] = values.why_unread(shown, error)
        return None


def _assessments(reading: _Reading, of: Mapping[str, Any]) -> Iterator[Assessment]:
    """Yields an assessment for each year, with the values on both bases.

    Contradictory values are withheld with the reason.
    """
    card = reading.card
    raw = card.only(*VALUES)
    years: dict[int, dict[str, Any]] = {}
    called: dict[int, dict[str, str]] = {}
    unread: dict[int, dict[str, str]] = {}
    for name, (basis, _) in VALUES.items():
        for grid in card.grids:
            if grid.id != name or not grid.rows:
                continue
            of_year = grid.column(_YEAR)
            columns = {field: at for field, of_it in _COLUMNS.items() if (at := grid.column(of_it)) is not None}
            if of_year is None or "" not in columns:
                shown = ", ".join(grid.headers)
                raise ParseError(f"{grid.caption or name} has no column of the year, or none of the total, but {shown}")
            left = []
            for row in grid.sure_rows:
                year = values.year(row[of_year])
                read = {f"{basis}_{field}value": values.money(row[at]) for field, at in columns.items()}
                fields = {field: value for field, value in read.items() if value is not None}
                known = years.setdefault(year, {}) if year and fields else {}
                if not year or not fields:
                    left.append(grid.shown(row))
                    continue
                for field, value in fields.items():
                    if (before := known.setdefault(field, value)) != value:
                        reason = f"{before} and {value}: the page shows several amounts of {year}"
                        unread.setdefault(year, {}).setdefault(field, reason)
                called.setdefault(year, {}).update(
                    {f"{basis}_{field}value": f"{grid.caption}: {grid.headers[at]}" for field, at in columns.items()}
                )
                read_from = [at for field, at in columns.items() if f"{basis}_{field}value" in fields]
                if grid.shown(row, (of_year, *read_from)):
                    left.append(grid.shown(row))
            reading.left += [(grid, left)] if left else []
    for year, known in years.items():
        why = unread.get(year, {})
        sure = {field: value for field, value in known.items() if field not in why}
        label = {field: text for field, text in called[year].items() if field in known}
        yield Assessment(
            **of, **sure, raw=raw, labels=label, unread=why, roll=str(year), tax_year=year, currency=CURRENCY
        )
    if not years:
        yield from _undated(reading, of)


def _undated(reading: _Reading, of: Mapping[str, Any]) -> Iterator[Assessment]:
    """Yields the assessment of a card without years: its sums, and the values of the land."""
    fields, called = dict[str, Any](), dict[str, str]()
    shown = [(f"{basis}_value", what) for basis, what in dict.fromkeys(VALUES.values())]
    shown += [(f"{basis}_land_value", f"land_{what}") for basis, what in dict.fromkeys(VALUES.values())]
    for name, what in shown:
        field = reading.field(what)
        if field and (value := values.money(field.text)) is not None:
            fields[name], called[name] = value, field.label
            reading.use(field)
    if fields:
        kept = map(reading.card.named, ("pid", *(what for _, what in shown)))
        raw = encode(Card([field for field in kept if field], []))
        yield Assessment(**of, **fields, raw=raw, labels=called, roll=UNDATED, currency=CURRENCY)


def _sales(reading: _Reading, of: Mapping[str, Any]) -> Iterator[Sale]:
    """Yields the sales in the history of owners, and the last sale of the owner of record if the history lacks it."""
    card, known = reading.card, dict[str, dict[str, Any]]()
    raw = card.only(SALES)
    for grid in card.grids:
        if grid.id != SALES or not grid.rows:
            continue
        columns = {field: at for field, names in _SALE_COLUMNS.items() if (at := grid.column(names)) is not None}
        if "grantee" not in columns or "sale_date" not in columns:
            shown = ", ".join(grid.headers)
            raise ParseError(f"{grid.caption or grid.id} has no column of the owner, or none of the date, but {shown}")
        left = list[dict[str, str]]()
        for row in grid.sure_rows:
            cells = {field: row[at] for field, at in columns.items() if row[at]}
            said, why = _sale(cells)
            if not _is_sale(said, why):
                left += [rest] if (rest := grid.shown(row)) else []
                continue
            if grid.shown(row, columns.values()) or _unread(cells, said):
                left.append(grid.shown(row))
            transfer = _numbered(transfer_of(said, why), known)
            known[transfer] = said
            called = {field: grid.headers[columns[_column_of(field, columns)]] for field in (*said, *why)}
            yield Sale(**of, **said, raw=raw, labels=called, unread=why, transfer=transfer, currency=CURRENCY)
        reading.left += [(grid, left)] if left else []
    fields = {what: field for what in _OF_SALE if (field := reading.field(what))}
    cells = {what: field.text for what, field in fields.items()}
    said, why = _sale(cells)
    if not _is_sale(said, why):
        return
    if not any(said.items() <= each.items() for each in known.values()):
        transfer = transfer_of(said, why)
        if transfer in known:
            return  # it contradicts the known sale, and stays with the unread fields
        called = {field: fields[_column_of(field, fields)].label for field in (*said, *why)}
        if owner := reading.field("owner"):
            said["grantee"], called["grantee"] = owner.text, owner.label
        owned = [field for field in (card.named("pid"), owner, *fields.values()) if field]
        raw = encode(Card(owned, []))
        yield Sale(**of, **said, raw=raw, labels=called, unread=why, transfer=transfer, currency=CURRENCY)
    unread = _unread(cells, said)
    reading.use(*(field for what, field in fields.items() if what not in unread))


def _is_sale(said: Mapping[str, Any], unread: Mapping[str, str]) -> bool:
    """Returns True if a row of the history is a sale: it has a date, a price or a deed, readable or not."""
    return is_sale({**unread, **said}) or any(name in said for name in ("instrument_number", "book"))


def _sale(shown: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the facts about a sale in a row or for the owner of record, and reasons for the uncertain ones."""
    unread: dict[str, str] = {}
    said: dict[str, Any] = {field: shown[field] for field in ("grantee", "qualification") if field in shown}
    said |= {field: values.reference(shown[field]) for field in ("instrument_number", "book", "page") if field in shown}
    if both := _book_and_page(shown.get("book_and_page", "")):
        said |= {"book": both[1].strip(), "page": both[2].strip()}
    if not any((said.get(field) or "").strip("0") for field in ("book", "page")):
        said.pop("book", None)
        said.pop("page", None)
    said["sale_date"] = _read(values.read_date, shown.get("sale_date", ""), "sale_date", unread)
    said["sale_price"] = _read(values.read_money, shown.get("sale_price", ""), "sale_price", unread)
    return {field: value for field, value in said.items() if value not in (None, "")}, unread


def _unread(shown: Mapping[str, str], said: Mapping[str, Any]) -> list[str]:
    """Returns the shown fields of a sale that could not be read. `/0` is an empty book and page."""
    deed = {"book_and_page": "book", "book": "book", "page": "page"}
    return [
        field
        for field, text in shown.items()
        if deed.get(field, field) not in said and (field not in deed or text.strip("/0 "))
    ]


def _column_of(field: str, columns: Mapping[str, Any]) -> str:
    return field if field in columns else "book_and_page"


def _numbered(transfer: str, known: Mapping[str, Any]) -> str:
    """Returns the key of a sale with a number added, if a parcel was sold twice with seemingly the same deed."""
    if transfer not in known:
        return transfer
    return next(name for number in range(2, len(known) + 3) if (name := f"{transfer}#{number}") not in known)


def _others(reading: _Reading) -> dict[str, Any]:
    """Returns all fields that were not read, by their labels, and all facts about buildings."""
    card, others = reading.card, dict[str, Any]()

    def keep(label: str, name: str, value: Any) -> None:
        label = label.replace("\0", " ").lstrip("$") or name
        if value and others.setdefault(label, value) != value:
            others[f"{label} ({name})"] = value

    for field in card.fields:
        if not field.section and field.lines and id(field) not in reading.used:
            keep(field.label, field.id, field.text)
    for grid, left in reading.left:
        keep(grid.caption or grid.id, grid.id, left)
    read = {*VALUES, SALES}
    for grid in card.grids:
        if not grid.section and grid.id not in read:
            keep(grid.caption or grid.id, grid.id, [row for row in map(grid.shown, grid.rows) if row])
    for section in card.sections:
        keep(card.heading(section), section, _building(card, section))
    return others


def _building(card: Card, section: str) -> dict[str, Any]:
    """Returns all facts about a building. Rows of two columns are read as labels with values."""
    found: dict[str, Any] = {
        field.label: field.text
        for field in card.fields
        if field.section == section and field.lines and field.id != HEADING
    }
    for grid in card.grids:
        if grid.section != section:
            continue
        name = grid.caption.partition(" :")[0] or grid.id
        if len(grid.headers) == 2:
            rows: Any = {}
            for label, value in (row for row in grid.rows if len(row) == 2 and all(row)):
                label = label.rstrip(": ")
                rows[label] = f"{rows[label]}, {value}" if label in rows else value
        else:
            rows = [row for row in map(grid.shown, grid.rows) if row]
        if rows:
            found[name] = rows
    return found

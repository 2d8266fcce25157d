"""Reads pages of Vision Government Solutions (VGSI): a parcel's card, the lists of streets, the answers of searches.

A card is read in two steps: `parse_card` takes the page apart into labelled values and grids, `read_card` makes records
of these. A card as JSON is what is staged, without the hundred kilobytes around it.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Struct

from harvester.exceptions import InvalidRecordError, ParseError
from harvester.items import Provenance, Reject
from harvester.items.property import UNDATED, Assessment, Property, Sale
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.addresses import parts_of
from harvester.parsers.counties.drift import Signature, beside, signature_of
from harvester.parsers.counties.html import lines_of, read_page
from harvester.parsers.counties.pages import Grid, Labelled, grid_of, label_of
from harvester.parsers.counties.table import CURRENCY, Rows, Source, identity, is_sale, transfer_of

_id = re.compile(r"(?:\w+?_)??(?:(ctl\d+)_)?(lbl|grd)([A-Za-z]\w*)").fullmatch
_of_a_label = re.compile(r"Label.*|.*(Label|Lbl|Title)|Town\w*").fullmatch
_heading = re.compile(r"\D*(\d+)\D*(\d*).*", re.DOTALL).fullmatch
_book_and_page = re.compile(r"([^/]*)/(.*)", re.DOTALL).fullmatch
_is_pid = re.compile(r"[0-9]{1,12}").fullmatch
HEADING = "Heading"
"""Id of what a building is called: `Building 1 : Section 1`."""
_SITUS = tuple(label for label in labels.SITUS if label != "ADDRESS")
"""On a card that is the owner's."""
NAMES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pid": (("Pid",), ("PID",)),
    "mblu": (("Mblu",), ("MBLU", "MAPLOT", "MAPBLOCKLOT")),
    "account": (("AcctNum",), ("ACCT", "ACCOUNT", "ACCOUNTNUMBER")),
    "situs_address": (("Location",), ("LOCATION", *_SITUS)),
    "owner": (("Owner", "GenOwner"), labels.OWNERS),
    "co_owner": (("CoOwner",), labels.MORE_OWNERS),
    "mailing_address": (("Addr1",), ("OWNERADDRESS", *labels.MAILING)),
    "use_code": (("UseCode",), labels.PROPERTY["use_code"]),
    "use_description": (("UseCodeDescription",), labels.PROPERTY["use_description"]),
    "zoning": (("Zone",), ("ZONE", *labels.PROPERTY["zoning"])),
    "neighborhood": (("Nbhd",), labels.PROPERTY["neighborhood"]),
    "acres": (("LndAcres", "LndSize"), ("SIZEACRES", *labels.PROPERTY["acres"])),
    "appraisal": (("GenAppraisal",), ("APPRAISAL",)),
    "assessment": (("GenAssessment",), ("ASSESSMENT",)),
    "buildings": (("BldCount",), ("BUILDINGCOUNT",)),
    "sale_price": (("Price",), labels.SALE["sale_price"]),
    "sale_date": (("SaleDate",), labels.SALE["sale_date"]),
    "instrument_number": (("Certificate",), ("CERTIFICATE",)),
    "book_and_page": (("Bp",), ("BOOKPAGE",)),
    "book": (("Book",), labels.SALE["book"]),
    "page": (("Page",), labels.SALE["page"]),
    "qualification": (("Instrument",), ("INSTRUMENT",)),
    "year_built": (("YearBuilt",), labels.PROPERTY["year_built"]),
    "living_area_sqft": (("BldArea",), labels.PROPERTY["living_area_sqft"]),
}
"""What is read -> by which ids, and else by which labels, the likeliest first."""
_ALIKE = {each: ids for ids, _ in NAMES.values() for each in ids}
_TEXTS = ("situs_address", "use_code", "use_description", "zoning", "neighborhood")
_OF_SALE = ("sale_price", "sale_date", "instrument_number", "book_and_page", "book", "page", "qualification")
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "the parcel's number (PID)": ("pid",),
    "Location": ("situs_address",),
    "Owner": ("owner",),
    "Land": ("use_code", "acres"),
}
"""Section -> one of these must be there, be it empty."""
_VALUES: Mapping[str, tuple[str, str]] = {
    "CurrentValueAppr": ("market", "appraisal"),
    "CurrentValueAsmt": ("assessed", "assessment"),
    "HistoryValuesAppr": ("market", "appraisal"),
    "HistoryValuesAsmt": ("assessed", "assessment"),
}
"""Grid -> basis of its values, and the field that sums it up. What it has of a year goes before those behind it."""
_YEAR = ("VALUATIONYEAR", "YEAR", *labels.PROPERTY["tax_year"])
_COLUMNS = {
    "": ("TOTAL", "TOTALVALUE"),
    "land_": ("LAND", "LANDVALUE"),
    "improvement_": ("IMPROVEMENTS", "IMPROVEMENT"),
}
_SALES = "Sales"
_SALE_COLUMNS: Mapping[str, tuple[str, ...]] = {"grantee": ("OWNER", *labels.SALE["grantee"])} | {
    field: NAMES[field][1] for field in _OF_SALE
}


class Card(Struct, dict=True):
    """A parcel's page, taken apart."""

    fields: list[Labelled]
    grids: list[Grid]

    def named(self, what: str, section: str = "") -> Labelled | None:
        """The field that has one of the ids, else one of the labels; of these the first that says something."""
        ids, known = NAMES[what]
        names = [(section, f"#{each}") for each in ids] + [(section, each) for each in known]
        found = [self._by_name[name] for name in names if name in self._by_name]
        return next((field for field in found if field.lines), found[0] if found else None)

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], Labelled]:
        """Section, and `#id` or label: a field with an id that is known is told by that alone."""
        found: dict[tuple[str, str], Labelled] = {}
        for field in self.fields:
            name = f"#{field.id}" if field.id in _ALIKE else labels.plain(field.label)
            found.setdefault((field.section, name), field)
        return found

    @property
    def sections(self) -> list[str]:
        """Buildings, in the order of their numbers."""
        numbers = {field.section: field.text for field in self.fields if field.section and field.id == HEADING}
        return sorted(numbers, key=lambda section: _numbers(numbers[section]))

    def only(self, *what: str) -> bytes:
        """As JSON, the grids of these ids and the fields that name the parcel."""
        fields = [field for field in (self.named("pid"),) if field]
        return _encode(Card(fields, [grid for grid in self.grids if grid.id in what and not grid.section]))


class Suggestion(NamedTuple):
    """Of a search: a parcel, and what is known of it."""

    pid: str
    value: str


_encode = msgspec.json.encode
_card = msgspec.json.Decoder(Card).decode


def parse_card(body: bytes) -> Card:
    """Raises ParseError when it is no card, or lacks a section that each has; it names them all."""
    card = _taken_apart(body)
    lacking = [section for section, names in REQUIRED.items() if not any(map(card.named, names))]
    if not {grid.id for grid in card.grids} & _VALUES.keys() and not card.named("appraisal"):
        lacking += [] if card.named("assessment") else ["Current Value"]
    if not card.named("sale_date") and not any(grid.id == _SALES for grid in card.grids):
        lacking.append("Ownership History")
    count = card.named("buildings")
    if count and (values.whole(count.text) or 0) > 0 and not card.sections:
        lacking.append("Building Information")
    if len(lacking) > len(REQUIRED):  # all of these, and more
        raise ParseError("it is no card of a parcel")
    if lacking:
        raise ParseError(f"the card of the parcel lacks: {', '.join(lacking)}")
    return card


def parse_staged(raw: bytes) -> Card:
    """A card, or what was staged of it. Raises ParseError."""
    try:
        return _card(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"it is no staged card: {error}") from None


def read_card(card: Card, source: Source, provenance: Provenance) -> Rows:
    """The records of a card. Raises ParseError when a grid has no column of the year, or of who bought."""
    pid = card.named("pid")
    if not pid or not _is_pid(pid.text):
        raise ParseError(f"{pid.text if pid else ''!r} is no number of a parcel (PID)")
    found = Rows(number=1, parcel_ids={pid.text})
    of = {**identity(source, pid.text), "provenance": provenance}
    try:
        reading = _Reading(card)
        assessments = list(_assessments(reading, of))
        sales = list(_sales(reading, of))
        found.records = [_property(reading, of), *assessments, *sales]
    except InvalidRecordError as error:
        found.rejects.append(Reject(Property.KIND, str(error), pid.text, _encode(card), provenance.url))
    return found


def signature(card: Card) -> Signature:
    """What it looks like. Buildings look alike, however many there are."""
    return signature_of(_said(card))


def parse_streets(body: bytes) -> list[str]:
    """Names of the streets of a page of Streets.aspx?Letter=. Raises ParseError when it is none."""
    return _listed(body, "streets.aspx", "name", "street")


def parse_street(body: bytes) -> list[str]:
    """Numbers of the parcels of a page of Streets.aspx?Name=. Raises ParseError when it is none."""
    found = _listed(body, "parcel.aspx", "pid", "parcel")
    if bad := [pid for pid in found if not _is_pid(pid)]:
        raise ParseError(f"{bad[0][:40]!r} is no number of a parcel (pid)")
    return found


def parse_suggestions(body: bytes) -> list[Suggestion]:
    """What a search found. Raises ParseError."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"it is no answer of a search: {error}") from None
    rows = said.get("d") if isinstance(said, dict) else None
    if isinstance(rows, dict):
        rows = rows.get("records")
    if not isinstance(rows, list):
        raise ParseError("it is no answer of a search: it has no list `d`")
    found = []
    for row in rows:
        pid = values.text(row.get("id")) if isinstance(row, dict) else None
        if not pid or not _is_pid(pid):
            raise ParseError("a row of the search's answer has no number of a parcel (id)")
        found.append(Suggestion(pid, values.text(row.get("value")) or ""))
    return found


def is_pid(text: str) -> bool:
    """Whether it may be the number by which these sites know a parcel."""
    return bool(_is_pid(text))


# Pages, taken apart ---------------------------------------------------------------------------------------------


def _taken_apart(body: bytes) -> Card:
    card = Card([], [])
    for element in read_page(body).iter("span", "table", "tr"):
        if element.tag == "tr":
            cells = element.findall("td")
            if len(cells) == 2 and _is_label(cells[0]) and cells[1].find(".//span[@id]") is None:
                card.fields.append(Labelled("", label_of(cells[0]), lines_of(cells[1])))
            continue
        named = _id(element.get("id", ""))
        if not named:
            continue
        section, kind, name = named[1] or "", named[2], named[3]
        if kind == "grd" and element.tag == "table":
            card.grids.append(grid_of(element, name, section))
        elif kind == "lbl" and element.tag == "span" and not _of_a_label(name):
            card.fields.append(Labelled(name, _label_beside(element) or name, lines_of(element), section))
    return card


def _is_label(cell: Any) -> bool:
    return "label" in cell.get("class", "")


def _label_beside(element: Any) -> str:
    """In the cell before it, or in the term that it describes."""
    above = next(element.iterancestors("td", "dd"), None)
    before = None if above is None else above.getprevious()
    if before is None or not (before.tag == "dt" or _is_label(before)):
        return ""
    return label_of(before)


def _listed(body: bytes, page: str, parameter: str, what: str) -> list[str]:
    root = read_page(body)
    forms = [urlsplit(form.get("action", "")).path.lower() for form in root.iter("form")]
    lists = root.xpath("//*[@id='list']")
    if not lists and not any(path.endswith("streets.aspx") for path in forms):
        raise ParseError(f"it is no list of {what}s")
    found: dict[str, None] = {}
    for link in root.iter("a"):
        parts = urlsplit(link.get("href", ""))
        if parts.path.lower().rpartition("/")[2] == page:
            asked = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
            if parameter in asked:
                found[asked[parameter]] = None
    linked = sum(1 for each in lists for _ in each.iter("a"))
    if linked and not found:
        raise ParseError(f"none of the {linked} links in the list leads to a {what}")
    return list(found)


# Records --------------------------------------------------------------------------------------------------------


class _Reading:
    """A card, and what was read of it."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.used: set[int] = set()
        """Fields of which nothing is left to be said."""
        self.left: list[tuple[Grid, list[dict[str, str]]]] = []
        """Of grids: rows, or cells of them, that no field was read from."""

    def field(self, what: str, section: str = "") -> Labelled | None:
        found = self.card.named(what, section)
        return found if found and found.lines else None

    def use(self, *fields: Labelled) -> None:
        """They are read, and so are those that say the same by another of the ids."""
        for field in fields:
            alike = _ALIKE.get(field.id, ())
            self.used.update(
                id(each) for each in self.card.fields if each is field or (each.id in alike and each.text == field.text)
            )


def _property(reading: _Reading, of: Mapping[str, Any]) -> Property:
    card, said, called = reading.card, dict[str, Any](), dict[str, str]()
    for what in _TEXTS:
        if field := reading.field(what):
            said[what], called[what] = field.text, field.label
            reading.use(field)
    owners = [field for field in (reading.field("owner"), reading.field("co_owner")) if field]
    if owners:
        called["owner_names"] = " + ".join(field.label for field in owners)
        reading.use(*owners)
    if mailing := reading.field("mailing_address"):
        said["mailing_address"], called["mailing_address"] = mailing.text, mailing.label
        reading.use(mailing)
    if (area := reading.field("acres")) and (area.id == "LndAcres" or "acre" in area.label.lower()):
        acres = values.real(area.text)
        if acres is not None:
            said["acres"], called["acres"] = acres, area.label
            reading.use(area)
    for section in card.sections[:1]:
        heading = _heading_of(card, section)
        for what, reader in (("year_built", values.year), ("living_area_sqft", values.real)):
            field = reading.field(what, section)
            if field and (value := reader(field.text)) is not None:
                said[what], called[what] = value, f"{heading}: {field.label}"
    ids = {}
    for what in ("mblu", "account"):
        if field := reading.field(what):
            ids[field.label] = field.text
            reading.use(field)
    if pid := card.named("pid"):
        called["parcel_id"] = pid.label
        reading.use(pid)
    years = [
        (year, grid.headers[at])
        for grid in card.grids
        if grid.id.startswith("CurrentValue") and (at := grid.column(_YEAR)) is not None
        for row in grid.rows
        if (year := values.year(row[at]))
    ]
    if years:
        said["tax_year"], called["tax_year"] = max(years)
    if situs := said.get("situs_address"):
        said["situs_parts"] = parts_of(situs)
    return Property(
        **of,
        **said,
        raw=_encode(card),
        labels=called,
        owner_names=tuple(line for field in owners for line in field.lines),
        alt_parcel_ids=ids,
        others=_others(reading),
    )


def _assessments(reading: _Reading, of: Mapping[str, Any]) -> Iterator[Assessment]:
    """One of each year, with the values of both bases."""
    card = reading.card
    raw = card.only(*_VALUES)
    years: dict[int, dict[str, Any]] = {}
    called: dict[int, dict[str, str]] = {}
    for name, (basis, _) in _VALUES.items():
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
                if not year or not fields or any(known.get(field, value) != value for field, value in fields.items()):
                    left.append(grid.shown(row))
                    continue
                known |= fields
                called.setdefault(year, {}).update(
                    {f"{basis}_{field}value": f"{grid.caption}: {grid.headers[at]}" for field, at in columns.items()}
                )
                read_from = [at for field, at in columns.items() if f"{basis}_{field}value" in fields]
                if grid.shown(row, (of_year, *read_from)):
                    left.append(grid.shown(row))
            reading.left += [(grid, left)] if left else []
    for year, known in years.items():
        label = {field: text for field, text in called[year].items() if field in known}
        yield Assessment(**of, **known, raw=raw, labels=label, roll=str(year), tax_year=year, currency=CURRENCY)
    if not years:
        yield from _undated(reading, of)


def _undated(reading: _Reading, of: Mapping[str, Any]) -> Iterator[Assessment]:
    """Of cards that show no years: their sums."""
    fields, called = dict[str, Any](), dict[str, str]()
    for basis, what in dict.fromkeys(_VALUES.values()):
        field = reading.field(what)
        if field and (value := values.money(field.text)) is not None:
            fields[f"{basis}_value"], called[f"{basis}_value"] = value, field.label
            reading.use(field)
    if fields:
        kept = map(reading.card.named, ("pid", "appraisal", "assessment"))
        raw = _encode(Card([field for field in kept if field], []))
        yield Assessment(**of, **fields, raw=raw, labels=called, roll=UNDATED, currency=CURRENCY)


def _sales(reading: _Reading, of: Mapping[str, Any]) -> Iterator[Sale]:
    """Those of the history of owners; the last one of the owner of record, when that is not among them."""
    card, known = reading.card, dict[str, dict[str, Any]]()
    raw = card.only(_SALES)
    for grid in card.grids:
        if grid.id != _SALES or not grid.rows:
            continue
        columns = {field: at for field, names in _SALE_COLUMNS.items() if (at := grid.column(names)) is not None}
        if "grantee" not in columns or "sale_date" not in columns:
            shown = ", ".join(grid.headers)
            raise ParseError(f"{grid.caption or grid.id} has no column of the owner, or none of the date, but {shown}")
        left = list[dict[str, str]]()
        for row in grid.sure_rows:
            cells = {field: row[at] for field, at in columns.items() if row[at]}
            said = _sale(cells)
            if not is_sale(said):
                left += [rest] if (rest := grid.shown(row)) else []
                continue
            if grid.shown(row, columns.values()) or _unread(cells, said):
                left.append(grid.shown(row))
            transfer = _numbered(transfer_of(said), known)
            known[transfer] = said
            called = {field: grid.headers[columns[_column_of(field, columns)]] for field in said}
            yield Sale(**of, **said, raw=raw, labels=called, transfer=transfer, currency=CURRENCY)
        reading.left += [(grid, left)] if left else []
    fields = {what: field for what in _OF_SALE if (field := reading.field(what))}
    cells = {what: field.text for what, field in fields.items()}
    said = _sale(cells)
    if not is_sale(said):
        return
    if not any(said.items() <= each.items() for each in known.values()):
        transfer = transfer_of(said)
        if transfer in known:
            return  # it says otherwise, and stays with what no field was read from
        called = {field: fields[_column_of(field, fields)].label for field in said}
        if owner := reading.field("owner"):
            said["grantee"], called["grantee"] = owner.text, owner.label
        owned = [field for field in (card.named("pid"), owner, *fields.values()) if field]
        raw = _encode(Card(owned, []))
        yield Sale(**of, **said, raw=raw, labels=called, transfer=transfer, currency=CURRENCY)
    unread = _unread(cells, said)
    reading.use(*(field for what, field in fields.items() if what not in unread))


def _sale(shown: Mapping[str, str]) -> dict[str, Any]:
    """What a row, or the owner of record, says of a sale."""
    said: dict[str, Any] = {
        field: shown[field]
        for field in ("grantee", "instrument_number", "qualification", "book", "page")
        if field in shown
    }
    if both := _book_and_page(shown.get("book_and_page", "")):
        said |= {"book": both[1].strip(), "page": both[2].strip()}
    if not any(said.get(field, "").strip("0") for field in ("book", "page")):
        said.pop("book", None)
        said.pop("page", None)
    said = {field: value for field, value in said.items() if value}
    if (day := values.iso_date(shown.get("sale_date", ""))) is not None:
        said["sale_date"] = day
    if (price := values.money(shown.get("sale_price", ""))) is not None:
        said["sale_price"] = price
    return said


def _unread(shown: Mapping[str, str], said: Mapping[str, Any]) -> list[str]:
    """What is shown of a sale, and is no date, no price, or no book and page. `/0` says nothing."""
    deed = {"book_and_page": "book", "book": "book", "page": "page"}
    return [
        field
        for field, text in shown.items()
        if deed.get(field, field) not in said and (field not in deed or text.strip("/0 "))
    ]


def _column_of(field: str, columns: Mapping[str, Any]) -> str:
    return field if field in columns else "book_and_page"


def _numbered(transfer: str, known: Mapping[str, Any]) -> str:
    """Another one where a parcel was sold twice by what seems to be one deed."""
    if transfer not in known:
        return transfer
    return next(name for number in range(2, len(known) + 3) if (name := f"{transfer}#{number}") not in known)


def _others(reading: _Reading) -> dict[str, Any]:
    """What no field was read from, by its label, and all of the buildings."""
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
    read = {*_VALUES, _SALES}
    for grid in card.grids:
        if not grid.section and grid.id not in read:
            keep(grid.caption or grid.id, grid.id, [row for row in map(grid.shown, grid.rows) if row])
    for section in card.sections:
        keep(_heading_of(card, section), section, _building(card, section))
    return others


def _building(card: Card, section: str) -> dict[str, Any]:
    """All that is said of it. Rows of two columns, the first of which is a label, are labelled values."""
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


def _said(card: Card) -> Iterator[tuple[str, str]]:
    """Labels, with the ids that tell those of one name apart, and what stands beside them."""
    for field in card.fields:
        if field.id != HEADING:
            of_building = "Building: " if field.section else ""
            yield f"{of_building}{field.label}" + (f" [{field.id}]" if field.id else ""), field.text
    for grid in card.grids:
        name = f"{grid.caption.partition(' :')[0]} [{grid.id}]"
        yield name, ""
        if grid.rows:
            yield from ((f"{name}: {label}", text) for label, text in beside(grid.headers, grid.rows))


def _heading_of(card: Card, section: str) -> str:
    return next(field.text for field in card.fields if field.section == section and field.id == HEADING) or section


def _numbers(heading: str) -> tuple[int, int]:
    found = _heading(heading)
    return (int(found[1]), int(found[2] or 0)) if found else (10**6, 0)

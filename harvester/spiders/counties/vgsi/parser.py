"""Reads pages of Vision Government Solutions (VGSI): a parcel's card, the lists of streets, the responses of searches.

A card is split into labelled values and grids; `vgsi_records.py` turns these into records. As JSON they are staged
instead of the page, which is a hundred kilobytes larger.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
from lxml.html import HtmlElement
from msgspec import Struct

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.drift import Signature, beside, signature_of
from harvester.parsers.counties.encoding import read_json
from harvester.parsers.counties.html import absolute, lines_of, read_page
from harvester.parsers.counties.pages import Grid, Labelled, grid_of, label_of

_id = re.compile(r"(?:\w+?_)??(?:(ctl\d+)_)?(lbl|grd)([A-Za-z]\w*)").fullmatch
_of_a_label = re.compile(r"Label.*|.*(Label|Lbl|Title)|Town\w*").fullmatch
_heading = re.compile(r"\D*(\d+)\D*(\d*).*", re.DOTALL).fullmatch
_is_pid = re.compile(r"[0-9]{1,12}").fullmatch
HEADING = "Heading"
"""Id of the title of a building: `Building 1 : Section 1`."""
_SITUS = tuple(label for label in labels.SITUS if label != "ADDRESS")
"""Labels for the property's address, without ADDRESS: on a card this is the owner's."""
NAMES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pid": (("Pid",), ("PID",)),
    "mblu": (("Mblu",), ("MBLU", "MAPLOT", "MAPBLOCKLOT")),
    "account": (("AcctNum",), ("ACCT", "ACCOUNT", "ACCOUNTNUMBER")),
    "situs_address": (("Location",), ("LOCATION", *_SITUS)),
    "owner": (("Owner", "GenOwner"), labels.OWNERS),
    "co_owner": (("CoOwner",), labels.MORE_OWNERS),
    "mailing_address": (("Addr1",), ("OWNERADDRESS", *labels.MAILING)),
    "mailing_more": (("Addr2",), ("OWNERADDRESS2",)),
    "use_code": (("UseCode",), labels.PROPERTY["use_code"]),
    "use_description": (("UseCodeDescription",), labels.PROPERTY["use_description"]),
    "zoning": (("Zone",), ("ZONE", *labels.PROPERTY["zoning"])),
    "neighborhood": (("Nbhd",), labels.PROPERTY["neighborhood"]),
    "acres": (("LndAcres", "LndSize"), ("SIZEACRES", *labels.PROPERTY["acres"])),
    "appraisal": (("GenAppraisal",), ("APPRAISAL",)),
    "assessment": (("GenAssessment",), ("ASSESSMENT",)),
    "land_appraisal": (("LndAppr",), ()),
    "land_assessment": (("LndAsmt",), ()),
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
"""Name of a value -> its ids, and the labels to try after these, the likeliest first."""
ALIKE = {each: ids for ids, _ in NAMES.values() for each in ids}
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "the parcel's number (PID)": ("pid",),
    "Location": ("situs_address",),
    "Owner": ("owner",),
    "Land": ("use_code", "acres"),
}
"""Section -> names of values; one must be on the card, even if empty."""
VALUES: Mapping[str, tuple[str, str]] = {
    "CurrentValueAppr": ("market", "appraisal"),
    "CurrentValueAsmt": ("assessed", "assessment"),
    "HistoryValuesAppr": ("market", "appraisal"),
    "HistoryValuesAsmt": ("assessed", "assessment"),
}
"""Grid of the page -> (basis of its values, name of its column with the sum). Grids are read in this order."""
SALES = "Sales"
"""The grid of past owners."""


class Card(Struct, dict=True):
    """A parcel's page, split into fields and grids."""

    fields: list[Labelled]
    grids: list[Grid]

    def named(self, what: str, section: str = "") -> Labelled | None:
        """Returns the field with one of the ids or labels, in their order; fields with a value precede empty ones."""
        ids, known = NAMES[what]
        names = [(section, f"#{each}") for each in ids] + [(section, each) for each in known]
        found = [self._by_name[name] for name in names if name in self._by_name]
        return next((field for field in found if field.lines), found[0] if found else None)

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], Labelled]:
        """Section, and `#id` or label -> field. A field with a known id is listed by the id only."""
        found: dict[tuple[str, str], Labelled] = {}
        for field in self.fields:
            name = f"#{field.id}" if field.id in ALIKE else labels.plain(field.label)
            found.setdefault((field.section, name), field)
        return found

    @property
    def sections(self) -> list[str]:
        """The buildings, in the order of their numbers.

        A building without a heading is included only if it is the only one.
        """
        numbers = {field.section: field.text for field in self.fields if field.section and field.id == HEADING}
        if numbers:
            return sorted(numbers, key=lambda section: _numbers(numbers[section]))
        alone = {field.section for field in self.fields if field.section and field.lines}
        return list(alone) if len(alone) == 1 else []

    def heading(self, section: str) -> str:
        """Returns the title of a building."""
        fields = (field for field in self.fields if field.section == section)
        return next((field.text for field in fields if field.id == HEADING), "") or section

    def only(self, *what: str) -> bytes:
        """Returns the grids with these ids, and the field with the parcel's number, as JSON."""
        fields = [field for field in (self.named("pid"),) if field]
        return encode(Card(fields, [grid for grid in self.grids if grid.id in what and not grid.section]))


class Suggestion(NamedTuple):
    """A parcel suggested by a search."""

    pid: str
    value: str


encode = msgspec.json.encode
_card = msgspec.json.Decoder(Card).decode


def parse_card(body: bytes) -> Card:
    """Reads a card. Raises ParseError when it is not a card, or lacks required sections; the message names them."""
    card = _taken_apart(body)
    lacking = [section for section, names in REQUIRED.items() if not any(map(card.named, names))]
    if not {grid.id for grid in card.grids} & VALUES.keys() and not card.named("appraisal"):
        lacking += [] if card.named("assessment") else ["Current Value"]
    if not card.named("sale_date") and not any(grid.id == SALES for grid in card.grids):
        lacking.append("Ownership History")
    count = card.named("buildings")
    if count and (values.whole(count.text) or 0) > 0 and not card.sections:
        lacking.append("Building Information")
    if len(lacking) > len(REQUIRED):  # every required section, and at least one more
        raise ParseError("it is no card of a parcel")
    if lacking:
        raise ParseError(f"the card of the parcel lacks: {', '.join(lacking)}")
    return card


def parse_staged(raw: bytes) -> Card:
    """Reads a staged card, or a staged part. Raises ParseError."""
    try:
        return _card(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"it is no staged card: {error}") from None


def signature(card: Card) -> Signature:
    """Returns the signature of a card. All buildings share their labels, so that their number does not matter."""
    return signature_of(_said(card))


def parse_streets(body: bytes) -> list[str]:
    """Returns the names of the streets on a page of Streets.aspx?Letter=. Raises ParseError when it is another page."""
    return _listed(body, "streets.aspx", "name", "street")


def parse_street(body: bytes) -> list[str]:
    """Returns the numbers of the parcels on a page of Streets.aspx?Name=. Raises ParseError when it is another page."""
    found = _listed(body, "parcel.aspx", "pid", "parcel")
    if bad := [pid for pid in found if not _is_pid(pid)]:
        raise ParseError(f"{bad[0][:40]!r} is no number of a parcel (pid)")
    return found


def parse_suggestions(body: bytes) -> list[Suggestion]:
    """Reads the results of a search. Raises ParseError."""
    try:
        said = read_json(msgspec.json.decode, body)
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
    """Returns True if the text may be a parcel's number on these sites."""
    return bool(_is_pid(text))


# Pages, taken apart ---------------------------------------------------------------------------------------------


def _taken_apart(body: bytes) -> Card:
    card = Card([], [])
    for element in _first_card(read_page(body)):
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


def _first_card(page: HtmlElement) -> Iterator[HtmlElement]:
    """Yields the elements of the first card: a repeated id in NAMES starts the card of another parcel."""
    met = set()
    for element in page.iter("span", "table", "tr"):
        if (found := _id(named := element.get("id", ""))) and found[3] in ALIKE:
            if named in met:
                return
            met.add(named)
        yield element


def _is_label(cell: Any) -> bool:
    return "label" in cell.get("class", "")


def _label_beside(element: Any) -> str:
    """Returns the label in the cell before an element, or in the term that it describes; else empty."""
    above = next(element.iterancestors("td", "dd"), None)
    before = None if above is None else above.getprevious()
    if before is None or not (before.tag == "dt" or _is_label(before)):
        return ""
    return label_of(before)


def _listed(body: bytes, page: str, parameter: str, what: str) -> list[str]:
    root = read_page(body)
    forms = [urlsplit(absolute("", form.get("action", ""))).path.lower() for form in root.iter("form")]
    lists = root.xpath("//*[@id='list']")
    if not lists and not any(path.endswith("streets.aspx") for path in forms):
        raise ParseError(f"it is no list of {what}s")
    found: dict[str, None] = {}
    for link in root.iter("a"):
        parts = urlsplit(absolute("", link.get("href", "")))
        if parts.path.lower().rpartition("/")[2] == page:
            asked = {name.lower(): value for name, value in parse_qsl(parts.query, keep_blank_values=True)}
            if parameter in asked:
                found[asked[parameter]] = None
    linked = sum(1 for each in lists for _ in each.iter("a"))
    if linked and not found:
        raise ParseError(f"none of the {linked} links in the list leads to a {what}")
    return list(found)


def _said(card: Card) -> Iterator[tuple[str, str]]:
    """Yields labels with their values; ids are added to distinguish equal labels."""
    for field in card.fields:
        if field.id != HEADING:
            of_building = "Building: " if field.section else ""
            yield f"{of_building}{field.label}" + (f" [{field.id}]" if field.id else ""), field.text
    for grid in card.grids:
        name = f"{grid.caption.partition(' :')[0]} [{grid.id}]"
        yield name, ""
        if grid.rows:
            yield from ((f"{name}: {label}", text) for label, text in beside(grid.headers, grid.rows))


def _numbers(heading: str) -> tuple[int, int]:
    found = _heading(heading)
    return (int(found[1]), int(found[2] or 0)) if found else (10**6, 0)

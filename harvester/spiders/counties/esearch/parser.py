"""Reads sites of BIS eSearch: a parcel's page, its unpaid taxes, and the results of a search.

A page has panels with headings. A panel has labels beside their values, and tables with a header.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple, TypeVar

import msgspec
from lxml.html import HtmlElement
from msgspec import Struct

from harvester.exceptions import ParseError
from harvester.items.property import normalized
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.encoding import read_json
from harvester.parsers.counties.html import lines_of, read_page, spread, text_of
from harvester.parsers.counties.pages import label_of
from harvester.parsers.counties.sections import MOST_LABELS_NAMED, ParcelPage, Section, summed
from harvester.parsers.counties.synonyms import NONE, Synonyms

IDS = ("PROPERTYID", "QUICKREFID", "PROPID", "ACCOUNT", "ACCOUNTNUMBER", labels.PARCEL_ID[0])
"""Labels of a parcel's number."""
_OF_PARCEL = frozenset([*IDS, "NAME", *labels.OWNERS, *labels.SITUS, "MARKETVALUE", "APPRAISEDVALUE", "ASSESSEDVALUE"])
"""Labels that mark a page about a parcel: such a page has at least one."""
TAXES = "Taxes due"
"""The title of the section for unpaid taxes; their page has no title."""
_HEADINGS = ("h1", "h2", "h3", "h4")
_NOTHING = ("-", "N/A")
"""Texts that stand for an empty value."""
_said_year = re.compile(r"\byear:?\s*((?:19|20)\d\d)\b", re.IGNORECASE).search
_unit = re.compile(r"\s*(?:\([+=-]\)|sqft)$")
_is_notice = re.compile(
    r"for privacy reasons\b.*|.*\bnot (?:shown|displayed|available) online\b.*", re.IGNORECASE
).fullmatch
_owes_nothing = re.compile(r"\bno\b.*\b(?:tax|due|bill|balance|record|result|data)", re.IGNORECASE | re.DOTALL).search


class EsearchResults(NamedTuple):
    """A page of the results of a search."""

    parcel_ids: tuple[str, ...]
    """The parcels in the order of the rows: a parcel has a row for each owner with a share."""
    total: int
    """Number of rows on all pages."""


_Answer = TypeVar("_Answer")


class _Row(Struct):
    property_id: str | int = msgspec.field(name="propertyId")


class _Results(Struct):
    total: int = msgspec.field(name="totalResults")
    rows: list[_Row] | None = msgspec.field(name="resultsList")


class _Session(Struct):
    token: str = msgspec.field(name="searchSessionToken")


def keywords(fields: Mapping[str, str]) -> str:
    """Returns the search text for the given fields and values, in the syntax of the site."""
    said = {name: value.replace('"', " ").strip() for name, value in fields.items() if value}
    return " ".join(f'{name}:"{value}"' if " " in value else f"{name}:{value}" for name, value in said.items())


def read_session_token(body: bytes) -> str:
    """Returns the token of a search session. Raises ParseError."""
    return _decode(body, _Session).token


def read_search_token(body: bytes) -> str:
    """Returns the token that the search page holds for its script. Raises ParseError."""
    for each in read_page(body).iter("meta"):
        if each.get("name") == "search-token" and (token := each.get("content")):
            return str(token)
    raise ParseError("the page of a search lacks: search-token")


def read_results(body: bytes) -> EsearchResults:
    """Reads a page of results. Raises ParseError."""
    answer = _decode(body, _Results)
    return EsearchResults(tuple(str(row.property_id).strip() for row in answer.rows or ()), answer.total)


def read_parcel(body: bytes, asked: str, here: Synonyms = NONE) -> ParcelPage | None:
    """Reads the page of a parcel.

    Returns None when no parcel is on the page. Raises ParseError without its number or year.

    `asked`: the requested number, because some counties show several numbers.
    """
    if not body.strip():
        return None
    page = read_page(body)
    _show_exact(page)
    panels = page.find_class("panel")
    sections = [section for panel in panels for section in _sections(panel) if section.pairs or section.header]
    pairs = [(here.plain(label, section.title), label, lines) for section in sections for label, lines in section.pairs]
    if _OF_PARCEL.isdisjoint(name for name, _, _ in pairs):
        return None
    ids = [(label, lines[0]) for name, label, lines in pairs if name in IDS and lines]
    year, year_label = _year(page, sections)
    if not ids or not year:
        shown = ", ".join(label for _, label, _ in pairs[:MOST_LABELS_NAMED])
        raise ParseError(f"the page of the parcel lacks: {'Year' if ids else 'Property ID'}; there is {shown}")
    label, number = next((each for each in ids if normalized(each[1]) == normalized(asked)), ids[0])
    for section in sections:
        section.pairs += summed(section)
        section.means = {label: "OWNER" for label, _ in section.pairs if labels.plain(label) == "NAME"}
    return ParcelPage(number, year, sections, id_label=label, year_label=year_label)


def read_taxes(body: bytes) -> Section | None:
    """Returns the years with unpaid taxes, or None if no taxes are due. Raises ParseError."""
    page = read_page(body)
    for table in page.iter("table"):
        section = Section(TAXES)
        for row in table.iter("tr"):
            _read_row(row, section)
        known = {*map(labels.plain, section.header)}
        if {"YEAR", "AMOUNTDUE"} <= known:
            return section if section.rows else None
        if known:
            raise ParseError(f"taxes that are due lack: Year or Amount Due; there is {', '.join(section.header)}")
    if not _owes_nothing(text_of(page)):
        raise ParseError(f"it says nothing of taxes that are due: {text_of(page)[:80]!r}")
    return None


def _sections(panel: HtmlElement) -> Iterator[Section]:
    """Yields the sections of a panel: one for each group of labels, one for each table with the labels before it."""
    heading = next(iter(panel.find_class("panel-heading")), None)
    if heading is None:
        return
    title = label_of(heading)
    section = Section(title)
    before: HtmlElement | None = None
    for element in panel.iter("strong", "tr"):
        table = next(element.iterancestors("table"), None)
        if section.header and (table is not before or _is_header(element)):
            yield section
            section = Section(title)
        before = table
        if table is not None and next(table.iterancestors("table"), None) is not None:
            continue  # a nested table belongs to its cell
        if element.tag == "strong":
            _add_pair(section, element)
            continue
        if group := _group(element):
            yield section
            section = Section(f"{title}: {group}")
        _read_row(element, section)
    yield section


def _show_exact(page: HtmlElement) -> None:
    """Replaces acres in cells by the exact number in the attribute `data-acres`: the shown number is rounded."""
    for cell in page.iter("td"):
        shown, exact = values.number(text_of(cell)), values.number(cell.get("data-acres"))
        if shown is not None and exact is not None and abs(exact) < values.MOST_MONEY:
            places = -int(shown.as_tuple().exponent)
            if abs(exact - shown) <= Decimal(5).scaleb(-places - 1):
                del cell[:]
                cell.text = values.plain(exact)


def _group(row: HtmlElement) -> str:
    """Returns the heading of a group of rows: a header cell alone in its row; else empty."""
    return label_of(row[0]) if len(row) == 1 and row[0].tag == "th" else ""


def _is_header(row: HtmlElement) -> bool:
    return len(row) > 1 and all(cell.tag == "th" for cell in row)


def _read_row(row: HtmlElement, section: Section) -> None:
    """Reads a header, a row below a header, or labels beside their values. A lone cell is a note."""
    cells = list(map(_clean, spread(row.iterchildren("td", "th"))))
    if _is_header(row):
        section.header = [label_of(each) for each in row]
    elif not section.header:
        for head in row.findall("th"):
            if (value := head.getnext()) is not None and value.tag == "td":
                _add_lines(section, label_of(head), list(filter(None, map(_clean, lines_of(value)))))
    elif len(row) > 1 and len(cells) == len(section.header):
        section.rows.append(cells)
    elif len(row) > 1:
        raise ParseError(f"a row of {section.title} has {len(cells)} cells, and its header {len(section.header)}")


def _add_lines(section: Section, label: str, lines: list[str]) -> None:
    """Adds a label with its value. A notice about the value gets its own label."""
    section.pairs.append((label, [line for line in lines if not _is_notice(line)]))
    if notices := [line for line in lines if _is_notice(line)]:
        section.pairs.append((f"{label} (notice)", notices))


def _add_pair(section: Section, label: HtmlElement) -> None:
    """Adds a label that precedes its value in the same cell, or outside tables."""
    if text_of(label).endswith(":"):
        value = _clean((label.tail or "").strip())
        section.pairs.append((label_of(label), [value] if value else []))


def _clean(text: str) -> str:
    """Returns a value without a sign of addition and without a unit."""
    return "" if text in _NOTHING else _unit.sub("", text)


def _year(page: HtmlElement, sections: list[Section]) -> tuple[int, str]:
    """Returns the year and its source: a heading, else the latest year in a history, preferably one with a value."""
    for heading in page.iter(*_HEADINGS):
        if found := _said_year(heading.text_content()):
            return int(found[1]), "heading"
    histories = [each for each in sections if labels.plain("".join(each.header[:1])) == "YEAR"]
    rows = [(row, f"{each.title}: {each.header[0]}") for each in histories for row in each.rows]
    years = [(any(row[1:]), values.year(row[0]) or 0, where) for row, where in rows]
    return max(years, default=(False, 0, ""))[1:]


def _decode(body: bytes, kind: type[_Answer]) -> _Answer:
    try:
        return read_json(msgspec.json.Decoder(kind).decode, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"it is no answer of a search: {error}") from None

"""Reads pages of Harris PACS (True Automation): the search form, its results, and the page of a property.

A property's page has sections, each with tables: labels beside their values, or rows below a header.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from lxml.html import HtmlElement

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.html import (
    PageForm,
    absolute,
    form_with,
    has_class,
    lines_of,
    read_page,
    spread,
    text_of,
)
from harvester.parsers.counties.pages import shown_of_all
from harvester.parsers.counties.sections import MOST_LABELS_NAMED, ParcelPage, Section, summed
from harvester.parsers.counties.synonyms import NONE, Synonyms

FIELDS = ("propertySearchOptions:searchText", "propertySearchOptions$searchText")
"""Names of the search field for a number, an owner or an address."""
NUMBERS = (*labels.OTHER_IDS, "ACCOUNT", "PARCELGEOID")
"""Labels of columns with a number of the property."""
_STATE = "__VIEWSTATE"
_RESULTS = "propertySearchResults_resultsTable"
_PROPERTY, _OWNER = "Property", "Owner"
_NAMES = ("NAME", *labels.OWNERS)
_TITLES = {"Roll History": "Roll Value History"}
"""Section name in an element id -> title on the page."""
_OF_OWNERS = ("OWNERID", "MAILINGADDRESS", "OWNERSHIP", "PERCENTOWNERSHIP", "EXEMPTIONS")
"""Labels in an owner's block, after the name."""
_part = re.compile(r"([a-z]+(?:[A-Z][a-z]*)*)Details").fullmatch
_word = re.compile(r"(?<=[a-z])(?=[A-Z])")
_label = re.compile(r"(?:\([^)]*\)\s*)?(\S.*?)\s*:").fullmatch
_says = re.compile(r"[^\W_]").search
"""Matches a text that is more than a sign of addition or a separator line."""
_unit = re.compile(r"\s*sq\.? ?ft\.?$", re.IGNORECASE)
_is_property_id = re.compile(r"[1-9]\d{0,8}", re.ASCII).fullmatch
_year = re.compile(r"\bfor (?:tax )?year\s*(?::\s*)?(\d{4})(?!\d)", re.IGNORECASE).search
_has_none = re.compile(r"\bnone found\b", re.IGNORECASE).search


class Hit(NamedTuple):
    """A row of the results of a search."""

    property_id: str
    numbers: tuple[str, ...]
    """Other numbers of the property."""
    owner: str
    address: str


class PacsResults(NamedTuple):
    """A page of the results of a search."""

    hits: tuple[Hit, ...] = ()
    next_url: str = ""
    """The address of the next page; empty on the last page."""


def is_property_id(number: str) -> bool:
    """Returns True if the number may be the site's own property id. Any other number is found by the search only."""
    return _is_property_id(number) is not None


def is_search(body: bytes) -> bool:
    """Returns True for the page with the search form."""
    return bool(body.strip()) and form_with(read_page(body), FIELDS, "") is not None


def read_search(body: bytes, url: str, words: str) -> tuple[str, str]:
    """Returns the address and the body of a search request for these words. Raises ParseError."""
    form: PageForm | None = form_with(read_page(body), FIELDS, url)
    if form is None or _STATE not in dict(form.values):
        raise ParseError(f"there is no search form with {FIELDS[0]} and {_STATE}")
    field = form.first_of(FIELDS)
    return form.action, form.filled({field: words, field.removesuffix("Text"): "Search"})


def read_results(body: bytes, url: str) -> PacsResults:
    """Reads a page of results. Raises ParseError."""
    page = read_page(body)
    table = next((each for each in page.iter("table") if each.get("id") == _RESULTS), None)
    if table is None:
        if _has_none(page.text_content()):
            return PacsResults()
        raise ParseError(f"it has no table {_RESULTS}, and does not say that there is none")
    hits = tuple(_hits(table))
    if not hits:
        raise ParseError(f"the table {_RESULTS} has no row with a property")
    next_url = _next_page(page, url)
    shown = shown_of_all(page.text_content())
    if shown and not next_url and int(shown[2].replace(",", "")) < int(shown[3].replace(",", "")):
        raise ParseError(f"it shows {shown[0]}, and there is no link to the next page")
    return PacsResults(hits, next_url)


def read_property(body: bytes, url: str, here: Synonyms = NONE) -> ParcelPage | None:
    """Reads the page of a property.

    Returns None when no property is on the page. Raises ParseError when its number is missing.
    """
    page = read_page(body) if body.strip() else None
    sections = list(_sections(page)) if page is not None else []
    if page is None or not any(section.title == _PROPERTY for section in sections):
        return None
    pairs = [(section.title, label, lines) for section in sections for label, lines in section.pairs]
    ids = ((label, lines) for of, label, lines in pairs if of == _PROPERTY and here.plain(label) in labels.PARCEL_ID)
    label, lines = next(ids, ("", []))
    if not lines:
        shown = ", ".join(label for _, label, _ in pairs[:MOST_LABELS_NAMED])
        raise ParseError(f"the page of the property lacks: Property ID; there is {shown}")
    shown_year, asked_year = _year(page.text_content()), values.year(_query(url).get("year", ""))
    return ParcelPage(
        " ".join(lines),
        int(shown_year[1]) if shown_year else asked_year or 0,
        sections,
        id_label=label,
        year_label="heading" if shown_year else "address",
    )


# Results ------------------------------------------------------------------------------------------------------------


def _hits(table: HtmlElement) -> Iterator[Hit]:
    """Yields the rows with a link to a property. The first row has the column names, the last ones link to other pages.

    Raises ParseError when a column is missing or a row does not match the header.
    """
    rows = [row for row in table.iter("tr") if next(row.iterancestors("table")) is table]
    header = _cells(rows[0]) if rows else []
    names = [labels.plain(name) for name in header]
    numbers = [at for at, name in enumerate(names) if name in NUMBERS]
    owner, address = (
        next((at for at, name in enumerate(names) if name in wanted), None) for wanted in (labels.OWNERS, labels.SITUS)
    )
    if not numbers or owner is None or address is None:
        raise ParseError(f"the results lack: Property ID, Owner Name or Property Address; there is {', '.join(header)}")
    for row in rows[1:]:
        if property_id := _property_in(row):
            cells = _cells(row)
            if len(cells) != len(header):
                raise ParseError(f"a row of the results has {len(cells)} cells, and its header {len(header)}")
            yield Hit(property_id, tuple(cells[at] for at in numbers), cells[owner], cells[address])


def _property_in(row: HtmlElement) -> str:
    links = (_query(each.get("href") or "").get("prop_id", "") for each in row.iter("a"))
    marks = (each.get("prop_id") or "" for each in row.iter("span"))
    return next(filter(None, (*links, *marks)), "").strip()


def _next_page(page: HtmlElement, url: str) -> str:
    """Returns the address of the next page, found by the page number in the links; empty on the last page."""
    number = str((values.whole(_query(url).get("page", "1")) or 1) + 1)
    for link in page.iter("a"):
        address = absolute(url, link.get("href") or "")
        if "/searchresults.aspx" in address.lower() and _query(address).get("page") == number:
            return address
    return ""


def _query(url: str) -> dict[str, str]:
    try:
        return {name.lower(): found[0] for name, found in parse_qs(urlsplit(url).query).items()}
    except ValueError:  # invalid address
        return {}


# A property ---------------------------------------------------------------------------------------------------------


def _sections(page: HtmlElement) -> Iterator[Section]:
    """Yields a section for each table of the page. The property's table is split into the property and its owners."""
    for part in page.iter("div"):
        if not (named := _part(part.get("id") or "")):
            continue
        title = _word.sub(" ", named[1]).title()
        for table in part.iter("table"):
            section = _read_table(table, _TITLES.get(title, title))
            if title == _PROPERTY:
                yield from _apart(section)
            elif section.pairs or section.header or section.rows:
                section.pairs += summed(section)
                yield section


def _read_table(table: HtmlElement, title: str) -> Section:
    section = Section(title)
    beside = ""
    for row in table.iter("tr"):
        if next(row.iterancestors("table")) is not table:
            continue
        cells = _cells(row)
        if _label(next(filter(None, cells), "")):
            beside = _add_pairs(section, row, beside)
        elif len(row) == 1 or not any(map(_says, cells)):
            continue  # a heading, a note about missing data, a line
        elif row.find("th") is not None or has_class(row, "tableDataHeader"):
            if section.rows and cells != section.header:
                raise ParseError(f"{title} has rows above its header {cells}")
            section.header = cells
        elif section.header and len(cells) != len(section.header):
            raise ParseError(f"a row of {title} has {len(cells)} cells, and its header {len(section.header)}")
        else:
            section.rows.append(cells)
    return section


def _cells(row: HtmlElement) -> list[str]:
    """Returns the texts of the cells, one for each column."""
    return spread(row.iterchildren("td", "th"))


def _add_pairs(section: Section, row: HtmlElement, beside: str) -> str:
    """Adds labels with their values. A sign of addition may stand between a label and its value.

    A signed value may be followed by a value of another kind, which the same column of a row above names. `beside`:
    this name. Returns the name for the next row.
    """
    is_signed = False
    for cell in row.iterchildren("td", "th"):
        shown = text_of(cell)
        lines = [_unit.sub("", line) for line in lines_of(cell) if _says(line)]
        if labelled := _label(shown):
            section.pairs.append((labelled[1], []))
            is_signed = False
        elif not lines:
            is_signed = is_signed or bool(shown)
        elif section.pairs:
            label, before = section.pairs[-1]
            if not (is_signed and before):
                before.extend(lines)
            elif values.number(lines[0]) is None:
                beside = " ".join(lines)
            else:
                section.pairs.append((f"{label}, {beside}" if beside else label, lines))
    return beside


def _apart(section: Section) -> Iterator[Section]:
    """Yields a section for the property, the owner, and each further owner. The first owner's section has all names."""
    of_property, owners = Section(section.title), list[Section]()
    for pair in section.pairs:
        name = labels.plain(pair[0])
        if name in _NAMES:
            owners.append(Section(f"{_OWNER} {len(owners) + 1}" if owners else _OWNER))
            owners[0].pairs.append(pair)
        elif owners and name in _OF_OWNERS:
            owners[-1].pairs.append(pair)
        else:
            of_property.pairs.append(pair)
            if name in NUMBERS[-1:]:
                of_property.means[pair[0]] = "GEOID"
    yield from (each for each in (of_property, *owners) if each.pairs)

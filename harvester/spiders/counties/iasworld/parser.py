"""Reads pages of Tyler's iasWorld Public Access: search forms, results, and the datalets (data pages) of a parcel."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import whitespace
from typing import NamedTuple
from urllib.parse import parse_qs, urljoin, urlsplit

from lxml.html import HtmlElement

from harvester.exceptions import PageFailed, ParseError
from harvester.items.property import normalized
from harvester.outcomes import Outcome
from harvester.parsers.counties import values
from harvester.parsers.counties.html import (
    PageForm,
    absolute,
    form_with,
    has_class,
    is_visible,
    lines_of,
    read_page,
    text_of,
)
from harvester.parsers.counties.labels import OWNERS, plain
from harvester.parsers.counties.pages import shown_of_all
from harvester.parsers.counties.sections import ParcelPage, Section, dated_year, split_deeds

FIELDS: Mapping[str, tuple[str, ...]] = {
    "parcel": ("inpParid",),
    "owner": ("inpOwner", "inpOwner1"),
    "number": ("inpNumber", "inpNo"),
    "street": ("inpStreet",),
}
"""Search criterion -> names of the field, the likeliest first."""
PAGE = "PageNum"
"""The field with the page number of the results."""
_BUTTON = {"btSearch": "Search", "hdAction": "Search"}
_SHOWN = ("sel", "selected")
"""CSS classes of the side menu's current entry. Without one a datalet may be read twice, which does no harm."""
_PAGE_SIZES = ("selPageSize", "PageSize")
_row_address = re.compile(r"""['"]([^'"]*datalet\.aspx\?[^'"]*)['"]""", re.IGNORECASE).search
_banner = re.compile(
    r"\s*(?:PARID|PARCEL ID|PARCEL NUMBER|PARCEL NO\.?|PARCEL|PID|PIN)\s*:(.*)", re.IGNORECASE
).fullmatch
_MARKS = f"{whitespace}*"
_PLACES = ("CITYSTATEZIP", "CITYSTATEZIPCODE", "CITYSTATEANDZIP", "CITYANDZIPCODE", "CITYZIPCODE", "CITYZIP")
_place = re.compile(r"(.*?[A-Za-z])\.?,?(?:\s+(?:[A-Z]{2}),?)?\s+(\d{5}(?:[- ]?\d{4})?)").fullmatch
_year = re.compile(r"\b(?:19|20)\d\d\b").search
_is_of_owners = re.compile(r"(?!.*(?:history|previous|prior|former)).*\bowners?\b", re.IGNORECASE).match
_is_mailing = re.compile(r"mailing(?: address(?:es)?| information)?", re.IGNORECASE).fullmatch
_is_of_place = re.compile(r"(?!.*\b(?:mail|owner|e-?mail)).*\b(?:address|situs|location)\b", re.IGNORECASE).match
_is_of_house = re.compile(r"\d+\w?\s+.*[A-Za-z]{2}").match
_is_of_mail = re.compile("mail|owner|taxpayer|alternate|billing|tax", re.IGNORECASE).search
_is_address = re.compile(r"https?://[^\s]+").fullmatch


class IasWorldRow(NamedTuple):
    """A row of the results of a search."""

    jurisdiction: str
    """The jurisdiction number on the site: `025`."""
    parcel_id: str
    tax_year: int
    """0 if the row has no year."""
    url: str
    """The address of the datalet, valid in this session only."""


class IasWorldResults(NamedTuple):
    """A page of the results of a search."""

    rows: tuple[IasWorldRow, ...]
    form: PageForm | None
    goes_on: bool
    """True if there are more pages."""


class Tab(NamedTuple):
    """A datalet that the side menu links to."""

    mode: str
    url: str


class First(NamedTuple):
    """The first datalet of a parcel."""

    page: ParcelPage
    tabs: list[Tab]
    """The other datalets in the side menu, in their order, without duplicates."""


def read_search(body: bytes, url: str, by: Sequence[str]) -> tuple[PageForm, list[str]]:
    """Returns the search form and the field names for the criteria `by` (keys of FIELDS).

    Raises ParseError and PageFailed.
    """
    page = _checked(read_page(body))
    form = form_with(page, [name for word in by for name in FIELDS[word]], url)
    if form is None:
        raise ParseError(f"there is no search form with a field {' or '.join(FIELDS[by[0]])}")
    return form, [form.first_of(FIELDS[word]) for word in by]


def search_body(form: PageForm, given: Mapping[str, str], number: int = 1) -> str:
    """Returns the body of a search request. `number`: the requested page of the results."""
    known = {name for name, _ in form.values}
    return form.filled({**_BUTTON, **given, **({PAGE: str(number)} if number > 1 or PAGE in known else {})})


def read_answer(body: bytes, url: str) -> IasWorldResults | First | str:
    """Reads the response to a search: results, the only result's datalet, or its address.

    Raises ParseError and PageFailed.
    """
    page = _checked(read_page(body))
    table = next((each for each in page.iter("table") if each.get("id") == "searchResults"), None)
    if table is not None:
        return _results(page, table, url)
    if _parcel_id(page):
        return First(_datalet(page, url), _tabs(page, url))
    moved = next((each for each in page.iter("a") if "datalet.aspx" in (each.get("href") or "").lower()), None)
    if moved is not None and "moved" in text_of(page).lower():
        return str(urljoin(url, moved.get("href") or ""))
    raise ParseError("it has no table searchResults, and is no datalet")


def read_datalet(body: bytes, url: str) -> ParcelPage:
    """Reads a datalet. Raises ParseError and PageFailed."""
    return _datalet(_checked(read_page(body)), url)


def read_first(body: bytes, url: str) -> First:
    """Reads the first datalet of a parcel. Raises ParseError and PageFailed."""
    page = _checked(read_page(body))
    return First(_datalet(page, url), _tabs(page, url))


def _tabs(page: HtmlElement, url: str) -> list[Tab]:
    """Returns the datalets in the side menu, without the shown one."""
    tabs: dict[str, Tab] = {}
    shown = {_mode_of(url)}
    for menu in (each for each in page.iter("div", "ul", "td") if each.get("id") == "sidemenu"):
        for link in menu.iter("a"):
            if "datalet.aspx" not in (link.get("href") or "").lower():
                continue
            address = absolute(url, link.get("href"))
            if "/datalet.aspx" in address.lower() and (mode := _mode_of(address)):
                tabs.setdefault(mode, Tab(mode, address))
                if any(has_class(each, name) for each in (link, link.getparent()) for name in _SHOWN):
                    shown.add(mode)
    return [tab for mode, tab in tabs.items() if mode not in shown]


def _checked(page: HtmlElement) -> HtmlElement:
    """Returns the page. Raises PageFailed for a maintenance page and for the disclaimer, which replace other pages."""
    for element in page.iter("div", "span", "input", "button"):
        name = element.get("id") or element.get("name") or ""
        if name.endswith("divSMaint") and is_visible(element):
            raise PageFailed(Outcome.MAINTENANCE, text_of(element))
        if name == "btAgree":
            raise PageFailed(Outcome.SESSION_EXPIRED, "the site shows its disclaimer")
    return page


def _results(page: HtmlElement, table: HtmlElement, url: str) -> IasWorldResults:
    found = [each for each in table.iter("tr") if has_class(each, "SearchResults") or _address_in(each)]
    if not found:
        raise ParseError("the table searchResults has no row with a datalet")
    rows = tuple(_row(each, url) for each in found)
    shown = shown_of_all(text_of(page))
    form = form_with(page, [PAGE, *(name for names in FIELDS.values() for name in names)], url)
    if shown:
        goes_on = int(shown[2].replace(",", "")) < int(shown[3].replace(",", ""))
    else:
        size = next((value for name, value in form.values if name in _PAGE_SIZES), "") if form else ""
        goes_on = size.isdecimal() and len(rows) >= int(size)
    return IasWorldResults(rows, form, goes_on)


def _row(row: HtmlElement, url: str) -> IasWorldRow:
    """Reads a row of the results. Its token is JUR:PARID:YEAR."""
    address = _address_in(row)
    for field in row.iter("input"):
        parts = (field.get("value") or "").split(":")
        if len(parts) >= 3 and (parcel_id := ":".join(parts[1:-1]).strip()):
            return IasWorldRow(parts[0].strip(), parcel_id, values.year(parts[-1]) or 0, urljoin(url, address))
    raise ParseError("a row of the table searchResults has no token JUR:PARID:YEAR")


def _address_in(row: HtmlElement) -> str:
    for each in row.iter():
        for name in ("onclick", "href"):
            said = each.get(name) or ""
            if found := _row_address(said):
                return str(found[1])
            if name == "href" and "datalet.aspx?" in said.lower():
                return str(said)
    return ""


def _banner_address(page: HtmlElement) -> list[Section]:
    """Returns the address in the banner, after the owner's name, for pages that show it nowhere else."""
    shown = [text_of(cell) for cell in page.iter("td") if has_class(cell, "DataletHeaderBottom")]
    addresses = [text for text in shown[1:2] if _is_of_house(text)]
    return [Section("Banner", [("Address", addresses)], means={"Address": "ADDRESS"})] if addresses else []


def _year_of(sections: Iterable[Section]) -> int:
    """Returns the year in titles of sections, such as `2025 Tax Status`, if there is exactly one; else 0.

    On some sites the form has the year of the next roll instead.
    """
    years = {int(found[0]) for section in sections if (found := _year(section.title))}
    return years.pop() if len(years) == 1 else 0


def _mode_of(url: str) -> str:
    return _query(url, "mode").lower()


def _query(url: str, name: str) -> str:
    query = {each.lower(): found[0] for each, found in parse_qs(urlsplit(url).query).items()}
    return query.get(name, "")


def _parcel_id(page: HtmlElement) -> str:
    if parcel_id := next(filter(None, map(_banner_id, page.iter("td", "th"))), ""):
        return parcel_id
    hidden = _hidden(page)
    return (hidden.get("hdXPin") or hidden.get("hdPin") or "").replace("\xa0", " ").strip()


def _banner_id(cell: HtmlElement) -> str:
    """Returns the parcel's number if the cell is a banner; else empty."""
    found = _banner(" ".join(lines_of(cell))) if has_class(cell, "DataletHeaderTop") else None
    return str(found[1].strip()) if found else ""


def _hidden(page: HtmlElement) -> dict[str, str]:
    return {each.get("name") or each.get("id") or "": each.get("value") or "" for each in page.iter("input")}


def _datalet(page: HtmlElement, url: str) -> ParcelPage:
    parcel_id = _parcel_id(page)
    if not parcel_id:
        raise ParseError("the datalet has no banner PARID")
    sections = [found for table in _tables_of(page, parcel_id) if (found := _section(table))]
    if not any(_is_of_place(label) for section in sections for label, _ in section.pairs):
        sections += _banner_address(page)
    year = (
        _year_of(sections)
        or values.year(_query(url, "taxyr"))
        or dated_year(sections)
        or values.year(_hidden(page).get("hdTaxYear", ""))
        or 0
    )
    return ParcelPage(parcel_id, year, sections, _pdf_of(page, url))


def _tables_of(page: HtmlElement, parcel_id: str) -> Iterator[HtmlElement]:
    """Yields the tables below this parcel's banner: another parcel may follow, below its own banner."""
    shown = parcel_id
    for element in page.iter("table", "td", "th"):
        if element.tag != "table":
            shown = _banner_id(element) or shown
        elif element.get("id") and normalized(shown) == normalized(parcel_id):
            yield element


def _section(table: HtmlElement) -> Section | None:
    """Reads a table. Returns None when it has no labels."""
    section = Section(_named(table.get("id")))
    for row in table.iter("tr"):
        if next(row.iterancestors("table")) is not table:
            continue
        cells = [each for each in row if each.tag in ("td", "th")]
        if _is_note(cells):
            continue
        if _is_header(cells):
            section.header = [_named(text_of(each)) for each in cells]
        elif section.header:
            if any(found := [text_of(each) for each in cells]):
                section.rows.append(found)
        else:
            _add_pairs(section, cells)
    if _is_of_owners(section.title) or _is_mailing(section.title):
        _turn(section)
    _split_places(section)
    return split_deeds(section) if section.pairs or section.rows or section.header else None


def _turn(section: Section) -> None:
    """Turns labels above the lines of owners into labels at the side: `Current Owner`, `Co-Owner`, `Mailing Address`.

    If each owner has an address, only the first owner's is used: his lines end before the row with the next name.
    """
    names = [at for at, label in enumerate(section.header) if plain(label) in ("NAME", "NAMES", *OWNERS)]
    of_first = [row for row in section.rows if row]
    for number, row in enumerate(of_first[1:], 1):
        if any(at < len(row) and row[at] for at in names) and any(row[at] for at in range(len(row)) if at not in names):
            of_first = of_first[:number]
            break
    for at, label in enumerate(section.header):
        rows = section.rows if at in names else of_first
        section.pairs.append((label, list(dict.fromkeys(row[at] for row in rows if at < len(row) and row[at]))))
    section.header, section.rows = [], []


def _split_places(section: Section) -> None:
    """Splits the property's city and ZIP code into two labels if they share one."""
    if _is_of_mail(section.title):
        return
    for at, (label, lines) in enumerate(section.pairs):
        if plain(label) in _PLACES and (found := _place(" ".join(lines))):
            zip_label = f"{label} (zip)"
            section.pairs[at : at + 1] = [(label, [found[1]]), (zip_label, [found[2]])]
            section.means |= {label: "SITUSCITY", zip_label: "SITUSZIP"}
            return


def _is_note(cells: Sequence[HtmlElement]) -> bool:
    """Returns True for a lone wide cell that is neither a label nor a value."""
    return (
        len(cells) == 1
        and (values.whole(cells[0].get("colspan")) or 1) > 1
        and not any(has_class(cells[0], name) for name in ("DataletSideHeading", "DataletData", "DataletTopHeading"))
    )


def _is_header(cells: Iterable[HtmlElement]) -> bool:
    """Returns True for a row of labels above columns."""
    return not any(has_class(each, "DataletSideHeading") or has_class(each, "DataletData") for each in cells) and any(
        each.tag == "th" or has_class(each, "DataletTopHeading") for each in cells
    )


def _add_pairs(section: Section, cells: Iterable[HtmlElement]) -> None:
    """Adds labels with their values. A blank label continues the lines of the label before."""
    for cell in cells:
        if has_class(cell, "DataletSideHeading"):
            label = _named(text_of(cell))
            if label or not section.pairs:
                section.pairs.append((label, []))
        elif section.pairs:
            section.pairs[-1][1].extend(lines_of(cell))


def _named(shown: str) -> str:
    """Returns a label without surrounding marks: `Address:`, `Taxes **`."""
    return shown.replace("\xa0", " ").lstrip(_MARKS).rstrip(f"{_MARKS}:")


def _pdf_of(page: HtmlElement, url: str) -> str:
    """Returns the address of a linked PDF whose text or address calls it a bill; else empty."""
    for link in page.iter("a"):
        if ".pdf" not in (link.get("href") or "").lower():
            continue
        address = absolute(url, link.get("href"))
        said = f"{text_of(link)} {urlsplit(address).path}".lower()
        if re.search("bill|statement", said) and _is_address(address):
            return address
    return ""

"""Reads pages of Tyler's iasWorld Public Access: search forms, results, and the datalets of a parcel.

Sections and labels differ from county to county: they are known by words of their titles and by lists of labels, never
by their place.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urljoin, urlsplit

import msgspec
from lxml.html import HtmlElement
from msgspec import Struct
from msgspec.structs import replace

from harvester.exceptions import InvalidRecordError, PageFailed, ParseError
from harvester.items import Provenance, Reject
from harvester.items.property import Assessment, CountyRecord, Sale
from harvester.outcomes import Outcome
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.drift import Signature, beside, signature_of
from harvester.parsers.counties.html import (
    Form,
    form_with,
    has_class,
    is_visible,
    lines_of,
    read_page,
    text_of,
)
from harvester.parsers.counties.labels import Label, label_of
from harvester.parsers.counties.table import Column, Layout, Rows, Source, identity
from harvester.parsers.counties.taxes import bills_of

PARCEL_ID = "PARID"
"""The column with the parcel's number, of what is made of a datalet."""
FIELDS: Mapping[str, tuple[str, ...]] = {
    "parcel": ("inpParid",),
    "owner": ("inpOwner", "inpOwner1"),
    "number": ("inpNumber", "inpNo"),
    "street": ("inpStreet",),
}
"""What is searched by -> names of the field, the likeliest first."""
PAGE = "PageNum"
"""Field with the number of the page of results."""
MOST_LABELS_NAMED = 30
"""In the message that a layout is not known."""
_BUTTON = {"btSearch": "Search", "hdAction": "Search"}
_SHOWN = ("sel", "selected")
"""Classes of the entry of the side menu that is shown. Without one it may be read twice, which does no harm."""
_PAGE_SIZES = ("selPageSize", "PageSize")
_row_address = re.compile(r"""['"]([^'"]*datalet\.aspx\?[^'"]*)['"]""", re.IGNORECASE).search
_shown_of_all = re.compile(r"\b([\d,]+)\s*(?:-|–|to)\s*([\d,]+)\s+of\s+([\d,]+)\b", re.IGNORECASE).search
_banner = re.compile(
    r"\s*(?:PARID|PARCEL ID|PARCEL NUMBER|PARCEL NO\.?|PARCEL|PID|PIN)\s*:(.*)", re.IGNORECASE
).fullmatch
_edge = re.compile(r"^[\s*]+|[\s*:]+$")
_year = re.compile(r"\b(?:19|20)\d\d\b").search
_is_address = re.compile(r"https?://[^\s]+").fullmatch


# Pages ----------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A line of the results of a search."""

    jurisdiction: str
    """As the site numbers it: `025`."""
    parcel_id: str
    tax_year: int
    """0: it does not say one."""
    url: str
    """Of its datalet, good in this session only."""


class Results(NamedTuple):
    """A page of what a search has found."""

    rows: tuple[Row, ...]
    form: Form | None
    goes_on: bool
    """Whether there are more pages."""


class Tab(NamedTuple):
    """A datalet that the side menu leads to."""

    mode: str
    url: str


class Section(Struct, omit_defaults=True):
    """A table of a datalet. Its title is the table's id."""

    title: str
    pairs: list[tuple[str, list[str]]] = []
    """Labels with the lines beside them, where it has its labels at the side."""
    header: list[str] = []
    rows: list[list[str]] = []
    """Where it has them above."""


class Datalet(Struct, omit_defaults=True):
    """What is read of a parcel, of one datalet or of all of them."""

    parcel_id: str
    tax_year: int = 0
    """That the datalet is of; 0: it does not say one."""
    sections: list[Section] = []
    pdf_url: str = ""
    """Of a tax bill, if there is a link to one."""


def read_search(body: bytes, url: str, by: Sequence[str]) -> tuple[Form, list[str]]:
    """The search form, and the names of its fields for these words of FIELDS. Raises ParseError and PageFailed."""
    page = _checked(read_page(body))
    form = form_with(page, [name for word in by for name in FIELDS[word]], url)
    if form is None:
        raise ParseError(f"there is no search form with a field {' or '.join(FIELDS[by[0]])}")
    return form, [form.first_of(FIELDS[word]) for word in by]


def search_body(form: Form, given: Mapping[str, str], number: int = 1) -> str:
    """What is posted to search; `number`: which page of its results is asked for."""
    known = {name for name, _ in form.values}
    return form.filled({**_BUTTON, **given, **({PAGE: str(number)} if number > 1 or PAGE in known else {})})


def read_answer(body: bytes, url: str) -> Results | Datalet | str:
    """Of a search: its results, the datalet of the only one, or the address of that. Raises ParseError, PageFailed."""
    page = _checked(read_page(body))
    table = next((each for each in page.iter("table") if each.get("id") == "searchResults"), None)
    if table is not None:
        return _results(page, table, url)
    if _parcel_id(page):
        return _datalet(page, url)
    moved = next((each for each in page.iter("a") if "datalet.aspx" in (each.get("href") or "").lower()), None)
    if moved is not None and "moved" in text_of(page).lower():
        return str(urljoin(url, moved.get("href") or ""))
    raise ParseError("it has no table searchResults, and is no datalet")


def read_datalet(body: bytes, url: str) -> Datalet:
    """What a datalet says. Raises ParseError and PageFailed."""
    return _datalet(_checked(read_page(body)), url)


def read_tabs(body: bytes, url: str) -> list[Tab]:
    """The datalets in the side menu but the one that is shown, in their order, each once."""
    page = read_page(body)
    tabs: dict[str, Tab] = {}
    shown = {_mode_of(url)}
    for menu in (each for each in page.iter("div", "ul", "td") if each.get("id") == "sidemenu"):
        for link in menu.iter("a"):
            address = urljoin(url, (link.get("href") or "").strip())
            if "/datalet.aspx" in address.lower() and (mode := _mode_of(address)):
                tabs.setdefault(mode, Tab(mode, address))
                if any(has_class(each, name) for each in (link, link.getparent()) for name in _SHOWN):
                    shown.add(mode)
    return [tab for mode, tab in tabs.items() if mode not in shown]


def _checked(page: HtmlElement) -> HtmlElement:
    """Raises PageFailed for pages that come in place of others."""
    for element in page.iter("div", "span", "input"):
        name = element.get("id") or element.get("name") or ""
        if name.endswith("divSMaint") and is_visible(element):
            raise PageFailed(Outcome.MAINTENANCE, text_of(element))
        if name == "btAgree":
            raise PageFailed(Outcome.SESSION_EXPIRED, "the site shows its disclaimer")
    return page


def _results(page: HtmlElement, table: HtmlElement, url: str) -> Results:
    found = [each for each in table.iter("tr") if has_class(each, "SearchResults") or _address_in(each)]
    if not found:
        raise ParseError("the table searchResults has no row with a datalet")
    rows = tuple(_row(each, url) for each in found)
    shown = _shown_of_all(text_of(page))
    form = form_with(page, [PAGE, *(name for names in FIELDS.values() for name in names)], url)
    if shown:
        goes_on = int(shown[2].replace(",", "")) < int(shown[3].replace(",", ""))
    else:
        size = next((value for name, value in form.values if name in _PAGE_SIZES), "") if form else ""
        goes_on = size.isdecimal() and len(rows) >= int(size)
    return Results(rows, form, goes_on)


def _row(row: HtmlElement, url: str) -> Row:
    """Its token is JUR:PARID:YEAR."""
    address = _address_in(row)
    for field in row.iter("input"):
        parts = (field.get("value") or "").split(":")
        if len(parts) >= 3 and (parcel_id := ":".join(parts[1:-1]).strip()):
            return Row(parts[0].strip(), parcel_id, values.year(parts[-1]) or 0, urljoin(url, address))
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


def _mode_of(url: str) -> str:
    query = {name.lower(): found[0] for name, found in parse_qs(urlsplit(url).query).items()}
    return query.get("mode", "").lower()


def _parcel_id(page: HtmlElement) -> str:
    for cell in page.iter("td", "th"):
        if has_class(cell, "DataletHeaderTop") and (found := _banner(" ".join(lines_of(cell)))) and found[1].strip():
            return str(found[1].strip())
    hidden = _hidden(page)
    return (hidden.get("hdXPin") or hidden.get("hdPin") or "").replace("\xa0", " ").strip()


def _hidden(page: HtmlElement) -> dict[str, str]:
    return {each.get("name") or each.get("id") or "": each.get("value") or "" for each in page.iter("input")}


def _datalet(page: HtmlElement, url: str) -> Datalet:
    parcel_id = _parcel_id(page)
    if not parcel_id:
        raise ParseError("the datalet has no banner PARID")
    sections = [found for table in page.iter("table") if table.get("id") and (found := _section(table))]
    year = values.year(_hidden(page).get("hdTaxYear", "")) or 0
    return Datalet(parcel_id, year, sections, _pdf_of(page, url))


def _section(table: HtmlElement) -> Section | None:
    """None when nothing in it has a label."""
    section = Section(_named(table.get("id")))
    for row in table.iter("tr"):
        if next(row.iterancestors("table")) is not table:
            continue
        cells = [each for each in row if each.tag in ("td", "th")]
        if _is_header(cells):
            section.header = [_named(text_of(each)) for each in cells]
        elif section.header:
            if any(found := [text_of(each) for each in cells]):
                section.rows.append(found)
        else:
            _add_pairs(section, cells)
    return section if section.pairs or section.rows or section.header else None


def _is_header(cells: Iterable[HtmlElement]) -> bool:
    """Whether they are labels that stand above others."""
    return any(each.tag == "th" or has_class(each, "DataletTopHeading") for each in cells) and not any(
        has_class(each, "DataletSideHeading") or has_class(each, "DataletData") for each in cells
    )


def _add_pairs(section: Section, cells: Iterable[HtmlElement]) -> None:
    """A blank label goes on with the lines of the one before."""
    for cell in cells:
        if has_class(cell, "DataletSideHeading"):
            label = _named(text_of(cell))
            if label or not section.pairs:
                section.pairs.append((label, []))
        elif section.pairs:
            section.pairs[-1][1].extend(lines_of(cell))


def _named(shown: str) -> str:
    """Without what some sites write around a label: `Address:`, `Taxes **`."""
    return _edge.sub("", shown.replace("\xa0", " "))


def _pdf_of(page: HtmlElement, url: str) -> str:
    """A link to a PDF that says of itself that it is a bill."""
    for link in page.iter("a"):
        address = urljoin(url, (link.get("href") or "").strip())
        said = f"{text_of(link)} {urlsplit(address).path}".lower()
        if ".pdf" in address.lower() and re.search("bill|statement", said) and _is_address(address):
            return str(address)
    return ""


# Records --------------------------------------------------------------------------------------------------------

_GENERIC = frozenset(
    [
        *("ADDRESS", "NAME", "CLASS", "TOTAL", "YEAR", "DATE", "PRICE", "AMOUNT", "TYPE", "STATUS", "PAGE", "BOOK"),
        *("LAND", "BUILDING", "IMPROVEMENT", "IMPROVEMENTS", "PARCEL", "CONTACTADDRESS"),
        *("CITY", "STATE", "ZIP", "CITYANDZIPCODE", "CITYSTATEZIP"),
    ]
)
"""Labels that mean something only together with the title of their section."""
_TOTALS = {"TOTAL": "TOTALVALUE", "LAND": "LANDVALUE", "BUILDING": "IMPROVEMENTVALUE", "BUILDINGS": "IMPROVEMENTVALUE"}
_TOTALS |= {"IMPROVEMENT": "IMPROVEMENTVALUE", "IMPROVEMENTS": "IMPROVEMENTVALUE", "IMPR": "IMPROVEMENTVALUE"}
_MARKET = {"TOTAL": "MARKETVALUE", "LAND": "MARKETLANDVALUE"}
_MARKET |= dict.fromkeys(("BUILDING", "BUILDINGS", "IMPROVEMENT", "IMPROVEMENTS", "IMPR"), "MARKETIMPROVEMENTVALUE")
_ASSESSED = {"TOTAL": "ASSESSEDVALUE", "LAND": "ASSESSEDLANDVALUE"}
_ASSESSED |= dict.fromkeys(("BUILDING", "BUILDINGS", "IMPROVEMENT", "IMPROVEMENTS", "IMPR"), "ASSESSEDIMPROVEMENTVALUE")
_YEARS = {"YEAR": "TAXYEAR", "ASSESSEDTAXYEAR": "TAXYEAR", "VALUEYEAR": "TAXYEAR", "ROLLYEAR": "TAXYEAR"}
_PERCENT = {
    "LAND100": "MARKETLANDVALUE",
    "BUILDING100": "MARKETIMPROVEMENTVALUE",
    "TOTALVALUE100": "MARKETVALUE",
    "LAND35": "ASSESSEDLANDVALUE",
    "BUILDING35": "ASSESSEDIMPROVEMENTVALUE",
    "ASSESSEDTOTAL35": "ASSESSEDVALUE",
    "TOTALVALUE35": "ASSESSEDVALUE",
}
_MAILING_LINES = ("ADDRESS", "MAILINGADDRESS", "OWNERMAILING", "CONTACTADDRESS", "CITYSTATEZIP", "MAILING")
_MEANINGS: tuple[tuple[re.Pattern[str], Mapping[str, str]], ...] = tuple(
    (re.compile(words, re.IGNORECASE), meant)
    for words, meant in (
        (
            "mailing|taxpayer",
            {**dict.fromkeys(_MAILING_LINES, "MAILINGADDRESS"), "MAILINGNAME": "TAXPAYERNAME", "NAME": "TAXPAYERNAME"},
        ),
        (
            "owner",
            {"NAME": "OWNER", "OWNERMAILING": "MAILINGADDRESS", "CONTACTADDRESS": "MAILINGADDRESS"}
            | {"OWNERMAILINGCONTACTADDRESS": "MAILINGADDRESS", "SITEPROPERTYADDRESS": "SITUSADDRESS"},
        ),
        (
            "sale|transfer|conveyance",
            {"DATE": "SALEDATE", "PRICE": "SALEPRICE", "AMOUNT": "SALEPRICE", "TRANSFERPRICE": "SALEPRICE"}
            | {"TYPE": "DEEDTYPE", "TO": "GRANTEE", "FROM": "GRANTOR", "BOOK": "DEEDBOOK", "PAGE": "DEEDPAGE"},
        ),
        ("history of values|value history|assessment history", {**_TOTALS, **_YEARS}),
        ("market|appraised", {**_MARKET, **_YEARS, **_PERCENT}),
        ("assessed|taxable", {**_ASSESSED, **_YEARS, **_PERCENT}),
        ("value|auditor|assessment|appraisal", {**_TOTALS, **_YEARS, **_PERCENT}),
        (
            "parcel|property|site|location|profile|summary|general|situs|tax status|legal",
            {"ADDRESS": "SITUSADDRESS", "CLASS": "PROPERTYCLASS", "PARCELADDRESS": "SITUSADDRESS"}
            | {"SITEPROPERTYADDRESS": "SITUSADDRESS", "CITYANDZIPCODE": "SITUSCITY", "CALCULATEDACRES": "GISACRES"},
        ),
    )
)
"""Words of a section's title -> what labels mean there. The first that fits is taken."""
_LINES = frozenset([*labels.OWNERS, *labels.SITUS, *labels.LEGAL, *labels.MAILING])
"""Of what is made of several lines."""
_UNKNOWN = Label("")
_is_value_section = re.compile("value|auditor|assess|apprais|market", re.IGNORECASE).search
_is_of_sales = re.compile("sale|transfer|conveyance", re.IGNORECASE).search
_is_of_taxes = re.compile(r"\btax(es)?\b|payment|bill", re.IGNORECASE).search
_is_total = re.compile(r"(grand )?totals?", re.IGNORECASE).fullmatch
_DESCRIBES = ("owner_names", "situs_address", "use_code", "use_description", "legal_description")
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Datalet).decode


def joined(first: Datalet, others: Iterable[Datalet]) -> Datalet:
    """All that the datalets of a parcel say. A section that several of them show is there once."""
    sections = list(first.sections)
    pdf_url = first.pdf_url
    for other in others:
        sections += [section for section in other.sections if section not in sections]
        pdf_url = pdf_url or other.pdf_url
    return Datalet(first.parcel_id, first.tax_year, sections, pdf_url)


def signature(datalet: Datalet) -> Signature:
    """What it looks like."""
    return signature_of(_said(datalet))


def records_of(datalet: Datalet, source: Source, provenance: Provenance) -> Rows:
    """The records of a parcel. Raises ParseError when nothing is known that describes it."""
    found = read_records(datalet, source, provenance)
    if not found.rejects and not any(getattr(found.records[0], name) for name in _DESCRIBES):
        known = [f"{section.title}: {label}" for section in datalet.sections for label, _ in section.pairs]
        shown = ", ".join(known[:MOST_LABELS_NAMED]) or "no section at all"
        raise ParseError(
            f"no section is known to say who owns the parcel, where it is or what it is used for: there is {shown}"
        )
    return found


def parse_staged(raw: bytes, source: Source, provenance: Provenance) -> Rows:
    """The records of what was staged. Raises ParseError."""
    try:
        return read_records(_decode(raw), source, provenance)
    except msgspec.DecodeError as error:
        raise ParseError(f"it is no datalet: {error}") from None


def read_records(datalet: Datalet, source: Source, provenance: Provenance) -> Rows:
    """Likewise, however little is known."""
    source = source._replace(parcel_id_field=PARCEL_ID)
    raw = _encode(datalet)
    found = _at_sides(datalet, source, provenance, raw)
    if found.rejects:
        return found
    for section in datalet.sections:
        for row in _above(section, datalet):
            part = Layout(row.columns, source)
            rows = Rows()
            part.read(row.cells, raw, provenance, rows)
            wanted = Sale if _is_of_sales(section.title) else Assessment
            found.records += [record for record in rows.records if isinstance(record, wanted)]
            found.rejects += rows.rejects
    of = {**identity(source, datalet.parcel_id), "provenance": provenance, "raw": raw}
    try:
        bills = bills_of(_tax_sections(datalet), datalet.tax_year, datalet.pdf_url, of)
    except InvalidRecordError as error:
        found.rejects.append(Reject("tax_bill", str(error), datalet.parcel_id, raw, provenance.url))
        bills = []
    found.records = [*_merged(found.records), *bills]
    return found


def _said(datalet: Datalet) -> Iterator[tuple[str, str]]:
    for section in datalet.sections:
        yield section.title, ""
        yield from ((f"{section.title}: {label}", " ".join(lines)) for label, lines in section.pairs if label)
        yield from ((f"{section.title}: {label}", text) for label, text in beside(section.header, section.rows))


class _Line(NamedTuple):
    columns: list[Column]
    cells: dict[str, Any]


def _at_sides(datalet: Datalet, source: Source, provenance: Provenance, raw: bytes) -> Rows:
    """Of the sections with labels at their side: the property, and the values and the sale that they speak of.

    The others stay with the property as they are, since of their lines not all need make a record.
    """
    columns = {PARCEL_ID: Column(PARCEL_ID, meaning=Label(PARCEL_ID))}
    cells: dict[str, Any] = {PARCEL_ID: datalet.parcel_id}
    sections: dict[str, int] = {}
    """What is made of lines -> the section that these are taken from."""
    for number, section in enumerate(datalet.sections):
        for label, lines in section.pairs:
            meaning = _meaning(section.title, label)
            if not lines or (meaning.label in labels.PARCEL_ID and lines == [datalet.parcel_id]):
                continue
            is_of_lines = meaning.label in _LINES
            if is_of_lines and sections.setdefault(meaning.label, number) != number:
                is_of_lines, meaning = False, _UNKNOWN
            for said in lines if is_of_lines else [" ".join(lines)]:
                name = _free(f"{section.title}: {label}", cells)
                columns[name] = Column(name, meaning=Label(meaning.label, len(cells)) if is_of_lines else meaning)
                cells[name] = said
        if section.rows:
            cells[_free(section.title, cells)] = [
                {name: value for name, value in _named_cells(section.header, row) if value} for row in section.rows
            ]
    named = any(column.meaning and column.meaning.label in labels.PROPERTY["tax_year"] for column in columns.values())
    if datalet.tax_year and not named:
        columns["hdTaxYear"] = Column("hdTaxYear", meaning=Label("TAXYEAR"))
        cells["hdTaxYear"] = str(datalet.tax_year)
    found = Rows()
    Layout(list(columns.values()), source).read(cells, raw, provenance, found)
    return found


def _above(section: Section, datalet: Datalet) -> Iterator[_Line]:
    """The lines of a section with its labels above that are a sale each, or the values of a year."""
    if not section.rows or not (_is_of_sales(section.title) or _is_of_values(section)):
        return
    meanings = [_meaning(section.title, label) for label in section.header]
    has_year = any(meaning.label in labels.PROPERTY["tax_year"] for meaning in meanings)
    for row in section.rows:
        if not has_year and not _is_of_sales(section.title) and not _is_total(row[0]):
            continue  # parts of the total
        cells: dict[str, Any] = {PARCEL_ID: datalet.parcel_id}
        columns = [Column(PARCEL_ID, meaning=Label("PARID"))]
        for (label, value), meaning in zip(_named_cells(section.header, row), meanings, strict=False):
            name = f"{section.title}: {label}"
            if name not in cells:
                columns.append(Column(name, meaning=meaning))
                cells[name] = value
        year = _year(section.title)
        if not has_year and (year or datalet.tax_year):
            columns.append(Column("year", meaning=Label("TAXYEAR")))
            cells["year"] = year[0] if year else str(datalet.tax_year)
        yield _Line(columns, cells)


def _is_of_values(section: Section) -> bool:
    return bool(_is_value_section(section.title)) and not _is_of_taxes(section.title)


def _named_cells(header: Sequence[str], row: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, value in enumerate(row):
        yield (header[number] if number < len(header) and header[number] else f"column {number + 1}"), value


def _free(name: str, cells: Mapping[str, Any]) -> str:
    count = 2
    unique = name
    while unique in cells:
        unique, count = f"{name} ({count})", count + 1
    return unique


def _meaning(title: str, label: str) -> Label:
    """What a label says in a section of this title. Empty: that is not known."""
    found = label_of(label.replace(".", " ").replace(" ", "_").replace("#", "_NO"))
    for words, meant in _MEANINGS:
        if words.search(title):
            exact = labels.plain(label.replace(".", " "))
            if exact in meant:
                return Label(meant[exact])
            if found.label in meant:
                return Label(meant[found.label], found.number)
            break
    if found.label in _GENERIC:
        return Label(f"{labels.plain(title)}{found.label}", found.number)
    if _is_of_taxes(title) and not _is_read_of_taxes(found.label):
        return Label(f"{labels.plain(title)}{found.label}", found.number)
    return found


def _is_read_of_taxes(label: str) -> bool:
    """Whether a label of a section of taxes may describe the parcel."""
    return any(label in labels.PROPERTY[name] for name in ("use_code", "use_description", "tax_year")) or label in (
        *labels.OWNERS,
        *labels.SITUS,
        *labels.MAILING,
        "TAXPAYERNAME",
    )


def _tax_sections(datalet: Datalet) -> list[Section]:
    return [section for section in datalet.sections if _is_of_taxes(section.title)]


def _merged(records: Iterable[CountyRecord]) -> list[CountyRecord]:
    """One of each key: what one section does not say of a year or a sale, another may."""
    found: dict[tuple[str, str], CountyRecord] = {}
    sales = [record for record in records if isinstance(record, Sale)]
    for record in records:
        key = record.key
        if isinstance(record, Sale) and record.transfer == str(record.sale_date):
            known = [each for each in sales if each.sale_date == record.sale_date and each.transfer != record.transfer]
            if len(known) == 1 and record.sale_price in (None, known[0].sale_price):
                key = known[0].key
                record = replace(record, transfer=known[0].transfer)
        before = found.get((record.KIND, key))
        number = 2
        while isinstance(before, Sale) and isinstance(record, Sale) and _differ(before, record):
            another = replace(record, transfer=f"{record.transfer}#{number}")
            key, number = another.key, number + 1
            before = found.get((record.KIND, key))
            if before is None:
                record = another
        found[record.KIND, key] = _filled(before, record) if before else record
    return list(found.values())


def _differ(first: Sale, second: Sale) -> bool:
    """Whether they are two sales of one day."""
    return None not in (first.sale_price, second.sale_price) and first.sale_price != second.sale_price


def _filled(first: CountyRecord, second: CountyRecord) -> CountyRecord:
    said = {
        name: getattr(second, name)
        for name in first.__struct_fields__
        if getattr(first, name) in (None, "") and getattr(second, name) not in (None, "")
    }
    named = {name: label for name, label in second.labels.items() if name in said}
    return replace(first, **said, labels={**first.labels, **named})

"""Builds the records of a parcel from the sections on its pages: labels beside their values, and tables of rows.

Sections and labels differ between counties: they are recognised by words in titles and by lists of labels, never by
position. Unknown labels stay with the property.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from harvester.exceptions import InvalidRecordError, ParseError
from harvester.items import Provenance, Reject
from harvester.items.property import UNDATED, Assessment, CountyRecord, Property, Sale, normalized
from harvester.parsers.counties import contract, labels, values
from harvester.parsers.counties.columns import CountyColumn, Source
from harvester.parsers.counties.drift import Signature, beside, signature_of
from harvester.parsers.counties.guesses import is_of_parts
from harvester.parsers.counties.labels import ColumnLabel, label_of
from harvester.parsers.counties.synonyms import Synonyms
from harvester.parsers.counties.table import PageRows, UnreadLabel, identity, layout_of
from harvester.parsers.counties.taxes import bills_of

MOST_LABELS_NAMED = 30
"""Maximum number of labels named in the message about an unknown layout."""


class Section(Struct, omit_defaults=True):
    """A part of a page with a title."""

    title: str
    pairs: list[tuple[str, list[str]]] = []
    """Labels with their lines, for labels at the side."""
    header: list[str] = []
    rows: list[list[str]] = []
    """Rows below the labels in `header`."""
    means: dict[str, str] = {}
    """Labels whose words alone do not have the meaning they have here -> the label with that meaning in `labels.py`."""


class ParcelPage(Struct, omit_defaults=True):
    """The content of a page about a parcel, or of several pages joined."""

    parcel_id: str
    tax_year: int = 0
    """The year of the page; 0 if unknown."""
    sections: list[Section] = []
    pdf_url: str = ""
    """The address of a linked tax bill, if there is one."""
    id_label: str = "PARID"
    """The label of the parcel's number on the page."""
    year_label: str = "hdTaxYear"
    """The label, or the place on the page, that shows the year."""


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
_ACTUAL = {"ACTUAL": "MARKETVALUE", "MARKET": "MARKETVALUE", "ASSESSED": "ASSESSEDVALUE"}
_ACTUAL |= {"PRIMARYTAXABLE": "TAXABLEVALUE"}
_YEARS = {"YEAR": "TAXYEAR", "ASSESSEDTAXYEAR": "TAXYEAR", "VALUEYEAR": "TAXYEAR", "ROLLYEAR": "TAXYEAR"}
_PERCENT = {
    "100VALUE": "MARKETVALUE",
    "100VALUES": "MARKETVALUE",
    "35VALUE": "ASSESSEDVALUE",
    "35VALUES": "ASSESSEDVALUE",
    "LAND100": "MARKETLANDVALUE",
    "BUILDING100": "MARKETIMPROVEMENTVALUE",
    "TOTALVALUE100": "MARKETVALUE",
    "LAND35": "ASSESSEDLANDVALUE",
    "BUILDING35": "ASSESSEDIMPROVEMENTVALUE",
    "ASSESSEDTOTAL35": "ASSESSEDVALUE",
    "TOTALVALUE35": "ASSESSEDVALUE",
    "100": "MARKETVALUE",
    "35": "ASSESSEDVALUE",
}
_BASES: tuple[tuple[Callable[[str], re.Match[str] | None], Mapping[str, str]], ...] = tuple(
    (re.compile(rf"(?:total )?(?:{words})(?: values?)?(?: ?\(?\d+ ?%\)?)?", re.IGNORECASE).fullmatch, meant)
    for words, meant in (
        (r"(?:fair )?market|appraised|actual|full|just|100\s*%", _MARKET),
        (r"assessed|35\s*%", _ASSESSED),
    )
)
"""A pattern for a cell that names the basis for a row -> the meanings of the labels above the row."""
_OF_LAND = {
    "MARKETVALUE": "MARKETLANDVALUE",
    "APPRAISEDVALUE": "MARKETLANDVALUE",
    "ASSESSEDVALUE": "ASSESSEDLANDVALUE",
    "TOTALVALUE": "LANDVALUE",
}
_OF_BUILDINGS = {of: label.replace("LAND", "IMPROVEMENT") for of, label in _OF_LAND.items()}
"""Label of a sum -> label of the part, for tables with a row per part and a column per basis."""
_BOARD = {"BOARDOFREVIEWTOTAL": "BOARDTOTAL", "BOARDOFREVIEWEQUALIZEDTOTAL": "ASSESSEDVALUE"}
_PLACES = ("CITYSTATEZIP", "CITYSTATEZIPCODE", "CITYSTATEANDZIP")
_MAILING_LINES = ("ADDRESS", "MAILINGADDRESS", "OWNERMAILING", "CONTACTADDRESS", "MAILING", *_PLACES)
_OWNERS_PLACE = {
    **dict.fromkeys(_PLACES, "MAILINGADDRESS"),
    "CITY": "MAILINGCITY",
    "STATE": "MAILINGSTATE",
    "ZIP": "MAILINGZIP",
    "ZIPCODE": "MAILINGZIP",
}
"""Labels below an owner's address."""
_is_of_owners = re.compile(r"\bowners?\b(?!.*history)", re.IGNORECASE).search
_MEANINGS: tuple[tuple[re.Pattern[str], Mapping[str, str]], ...] = tuple(
    (re.compile(words, re.IGNORECASE), meant)
    for words, meant in (
        (
            "(owner(ship)?|grantee) history|(previous|prior|former) owner",
            {"OWNER": "GRANTEE", "NAME": "GRANTEE", "OWNERNAME": "GRANTEE", "DATE": "SALEDATE", "PRICE": "SALEPRICE"}
            | {"BOOK": "DEEDBOOK", "PAGE": "DEEDPAGE", "AMOUNT": "SALEPRICE"},
        ),
        (
            "mailing|taxpayer",
            {**dict.fromkeys(_MAILING_LINES, "MAILINGADDRESS"), "MAILINGNAME": "TAXPAYERNAME", "NAME": "TAXPAYERNAME"}
            | {"CITY": "MAILINGCITY", "STATE": "MAILINGSTATE", "ZIP": "MAILINGZIP", "ZIPCODE": "MAILINGZIP"},
        ),
        (
            "owner",
            {"NAME": "OWNER", "NAMES": "OWNER", "OWNERMAILING": "MAILINGADDRESS", "CONTACTADDRESS": "MAILINGADDRESS"}
            | {"OWNERMAILINGCONTACTADDRESS": "MAILINGADDRESS", "SITEPROPERTYADDRESS": "SITUSADDRESS"},
        ),
        (
            "sale|transfer|conveyance|deed history",
            {"DATE": "SALEDATE", "PRICE": "SALEPRICE", "AMOUNT": "SALEPRICE", "TRANSFERPRICE": "SALEPRICE"}
            | {"TYPE": "DEEDTYPE", "TO": "GRANTEE", "FROM": "GRANTOR", "BOOK": "DEEDBOOK", "PAGE": "DEEDPAGE"}
            | {"YEAR": "SALEYEAR", "GROSSPRICE": "SALEPRICE", "VOLUME": "DEEDBOOK", "NUMBER": "INSTRUMENTNUMBER"}
            | {"RECORDING": "INSTRUMENTNUMBER", "DEED": "INSTRUMENTNUMBER", "INSTRNO": "INSTRUMENTNUMBER"}
            | dict.fromkeys(("OLDOWNER", "PRIOROWNER", "PREVIOUSOWNER"), "GRANTOR")
            | {"NEWOWNER": "GRANTEE"}
            | {"DOCDESCRIPTION": "DEEDTYPE", "DOCTYPE": "INSTTYPE", "DOCUMENTTYPE": "INSTTYPE"},
        ),
        (
            "history of values|value history|assessment history",
            {**_TOTALS, **_YEARS, **_ACTUAL, "CURRENTUSE": "CURRENTUSEVALUE"},
        ),
        ("market|appraised", {**_MARKET, **_YEARS, **_PERCENT}),
        ("(^|: )taxable value$", {"TOTAL": "TAXABLEVALUE"}),
        ("assessed|taxable", {**_ASSESSED, **_YEARS, **_PERCENT}),
        ("valu|auditor|assessment|appraisal", {**_TOTALS, **_YEARS, **_PERCENT, **_BOARD, **_ACTUAL}),
        ("account summary", {"OWNERS": "OWNER", "ADDRESS": "MAILINGADDRESS"}),
        (
            "parcel|property|site|location|profile|summary|general|situs|tax status|legal",
            {"ADDRESS": "SITUSADDRESS", "CLASS": "PROPERTYCLASS", "PARCELADDRESS": "SITUSADDRESS"}
            | {"SITEPROPERTYADDRESS": "SITUSADDRESS", "CITYANDZIPCODE": "SITUSCITY", "CALCULATEDACRES": "GISACRES"},
        ),
    )
)
"""Words of a section's title -> meanings of labels in it. The first match is used."""
_SIZES = frozenset(
    [
        *("LANDAREA", "LANDSIZE", "LOTSIZE", "LOTAREA", "PARCELSIZE", "PARCELAREA", "SIZE", "AREA"),
        *("TOTALLANDAREA", "TOTALAREA"),
    ]
)
"""Labels of a size that may be in acres or in square feet: only the value shows the unit."""
_LINES = frozenset([*labels.OWNERS, *labels.SITUS, *labels.LEGAL, *labels.MAILING])
"""Labels of fields that consist of several lines."""
_VALUES = frozenset(label for of in labels.ASSESSMENT.values() for label in of)
_AMOUNTS = tuple(labels.ASSESSMENT)
_OF_TIME_OR_PRICE = frozenset(
    label for field in ("sale_date", "recording_date", "sale_year", "sale_price") for label in labels.SALE[field]
)
_PARTS: Mapping[str, str] = {
    **dict.fromkeys(_VALUES, contract.VALUE),
    **dict.fromkeys(labels.SITUS, contract.SITUS),
    **dict.fromkeys(labels.OWNERS, contract.OWNER),
}
"""Label -> the part of the contract that it fulfils."""
_UNKNOWN, _PARCEL_ID = ColumnLabel(""), ColumnLabel("PARID")
_year = re.compile(r"\b(?:19|20)\d\d\b").search
_is_in_acres = re.compile(r"(?<![^\W\d_])(?:acres?|ac)\.?\s*$", re.IGNORECASE).search
_OF_OTHERS = r"(?!.*(?:compar|similar|nearby|neighborhood|surrounding|\barea\b))"
"""Excludes titles of sections with the values and sales of other parcels."""
_is_value_section = re.compile(rf"{_OF_OTHERS}.*(?:valu|auditor|assess|apprais|market)", re.IGNORECASE).match
_is_of_sales = re.compile(
    rf"{_OF_OTHERS}.*(?:sale|transfer|conveyance|deed history|owner(?:ship)? history|(?:previous|prior|former) owner)",
    re.IGNORECASE,
).match
_is_of_before = re.compile(r"\b(?:prior|previous)\b|\blast year", re.IGNORECASE).search
_is_of_taxes = re.compile(r"\btax(es)?\b|payment|bill", re.IGNORECASE).search
_is_of_building = re.compile("building|bldg|dwelling|improv|structure", re.IGNORECASE).search
_book_and_page = re.compile(r"\s*(\w+)\s*[/ -]\s*(\w+)\s*").fullmatch
_is_total = re.compile(r"(grand )?totals?( value)?", re.IGNORECASE).fullmatch
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(ParcelPage).decode


def joined(first: ParcelPage, others: Iterable[ParcelPage]) -> ParcelPage:
    """Returns the pages of a parcel joined into one. A section that several pages show is included once."""
    sections = list(first.sections)
    pdf_url = first.pdf_url
    for other in others:
        sections += [section for section in other.sections if section not in sections]
        pdf_url = pdf_url or other.pdf_url
    return replace(first, sections=sections, pdf_url=pdf_url)


def summed(section: Section, *, of_some: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Yields facts about the whole parcel from rows: the sum of acres, and the year of the first building part.

    `of_some`: rows without acres are skipped, because they are not about land.
    """
    for at, label in enumerate(section.header):
        said = [row[at] for row in section.rows if any(map(str.strip, row))]
        acres = [values.number(each) for each in said if not (of_some and values.is_nothing(each))]
        if labels.plain(label) in ("ACREAGE", "ACRES") and acres and None not in acres:
            yield label, [str(sum(filter(None, acres), Decimal(0)))]
        elif labels.plain(label) == "YEARBUILT" and said and said[0]:
            yield label, [said[0]]


def split_deeds(section: Section) -> Section:
    """Returns a table of sales with book and page of the deeds in separate columns.

    `Instrument` is the kind of a deed if the column has no numbers.
    """
    if not _is_of_sales(section.title):
        return section
    header, rows, means = [*section.header], [[*row] for row in section.rows], {**section.means}
    for at, label in reversed([*enumerate(header)]):
        plain = labels.plain(label)
        if plain == "INSTRUMENT" and not any(map(str.isdigit, "".join(row[at] for row in rows))):
            means[label] = "DEEDTYPE"
        elif plain.endswith(("BOOKPAGE", "BOOKANDPAGE", "VOLPAGE", "VOLUMEPAGE")):
            means |= {label: "DEEDBOOK", f"{label} (page)": "DEEDPAGE"}
            header.insert(at + 1, f"{label} (page)")
            for row in rows:
                row[at : at + 1] = found.groups() if (found := _book_and_page(row[at])) else (row[at], "")
    return replace(section, header=header, rows=rows, means=means)


def newest_year(sections: Iterable[Section]) -> int:
    """Returns the newest year with an amount in tables of values; 0 if no table has one."""
    found = [0]
    for section in sections:
        meanings = [_meaning(section, label).label for label in section.header] if _is_of_values(section) else []
        years = [at for at, label in enumerate(meanings) if label in labels.PROPERTY["tax_year"]]
        amounts = [at for at, label in enumerate(meanings) if label in _VALUES]
        for row in section.rows if years else ():
            if any(values.money(row[at]) is not None for at in amounts if at < len(row)):
                found.append(values.year(row[years[0]]) or 0)
        shown = (row[at] for row in section.rows for at in amounts if at < len(row))
        if (
            (year := _year(section.title))
            and not years
            and (any(_amounts_beside(section)) or any(map(values.money, shown)))
        ):
            found.append(int(year[0]))
    return max(found)


def dated_year(sections: Sequence[Section]) -> int:
    """Returns the newest year of tables of values; 0 if an amount is also shown outside dated sections."""
    undated = (any(_amounts_beside(section)) for section in sections if not _year(section.title))
    return 0 if any(undated) else newest_year(sections)


def _amounts_beside(section: Section) -> Iterator[str]:
    """Yields the labels at the side of a section that have an amount beside them."""
    for label, lines in section.pairs:
        if values.money(" ".join(lines)) is not None and _meaning(section, label).label in _VALUES:
            yield label


def signature(page: ParcelPage) -> Signature:
    """Returns the signature of a page."""
    return signature_of(_said(page))


def records_of(page: ParcelPage, source: Source, provenance: Provenance) -> PageRows:
    """Returns the records of a parcel. Raises ParseError when the page violates the platform's contract."""
    found = read_records(page, source, provenance)
    if not found.rejects:
        contract.check(found, source.platform)
    return found


def parse_staged(raw: bytes, source: Source, provenance: Provenance) -> PageRows:
    """Reads the records of a staged page. Raises ParseError."""
    try:
        return read_records(_decode(raw), source, provenance)
    except msgspec.DecodeError as error:
        raise ParseError(f"it is no staged page of a parcel: {error}") from None


def read_records(page: ParcelPage, source: Source, provenance: Provenance) -> PageRows:
    """Reads the records of a parcel without checking the contract of the platform."""
    page = replace(page, sections=_own_sections(page))
    source = source._replace(parcel_id_field=page.id_label)
    raw = _encode(page)
    page = _with_synonyms(replace(page, sections=list(map(_with_places, page.sections))), source.synonyms)
    page = _with_owners(page)
    page = replace(page, sections=[each for section in page.sections for each in _of_its_year(section, page.tax_year)])
    found = _at_sides(page, source, provenance, raw)
    if found.rejects:
        return found
    _note_labels(page, found)
    unread: dict[str, str] = {}
    left: dict[str, UnreadLabel] = {}
    at_sides = next((record.tax_year for record in found.records if isinstance(record, Assessment)), None)
    shown: set[ColumnLabel] = set()
    for section in page.sections:
        lines = list(_above(section, page))
        if lines:
            _forget(found, section.title, section.header)
        pairs = [(label, " ".join(said), _meaning(section, label)) for label, said in section.pairs]
        for row in (*lines, *_repeated(section, pairs, at_sides, page, shown)):
            part = layout_of(tuple(row.columns), source)
            rows = PageRows()
            is_transfer = bool(_is_of_sales(section.title))
            part.read(row.cells, raw, provenance, rows, is_transfer=is_transfer)
            wanted = Sale if is_transfer else Assessment
            found.records += [record for record in rows.records if isinstance(record, wanted)]
            unread |= _unread_values(rows.records)
            found.rejects += rows.rejects
            left |= rows.unread
    found.unread |= {label: UnreadLabel(1, said.sample) for label, said in left.items()}
    if unread:
        found.records[0] = replace(found.records[0], unread={**unread, **found.records[0].unread})
    of = {**identity(source, page.parcel_id), "provenance": provenance, "raw": raw}
    try:
        bills = bills_of(_tax_sections(page), page.tax_year, page.pdf_url, of)
    except InvalidRecordError as error:
        found.rejects.append(Reject("tax_bill", str(error), page.parcel_id, raw, provenance.url))
        bills = []
    found.records = [*_merged(found.records), *bills]
    return contract.explain(found)


def _of_its_year(section: Section, year: int) -> Iterator[Section]:
    """Yields a section.

    If its title names another year than the page's, or the previous year, its amounts become a separate row.

    Beside the labels of other sections they would be read as amounts for the page's year.
    """
    named = _year(section.title)
    dated = [*_amounts_beside(section)] if _is_of_values(section) else []
    if dated and (_is_of_before(section.title) if named is None else int(named[0]) != year):
        amounts = {label: " ".join(lines) for label, lines in reversed(section.pairs) if label in dated}
        yield replace(section, pairs=[], header=[*amounts], rows=[[*amounts.values()]])
        section = replace(section, pairs=[pair for pair in section.pairs if pair[0] not in amounts])
    yield section


def _with_owners(page: ParcelPage) -> ParcelPage:
    """Returns the page with the owners of a table as labels with values, if no label has the owners."""
    for section in page.sections:
        if any(lines and _meaning(section, label).label in labels.OWNERS for label, lines in section.pairs):
            return page
    return replace(page, sections=list(map(_turned, page.sections)))


def _turned(section: Section) -> Section:
    """Turns a table of owners, or of names with roles, into labels with values; the address is the first owner's."""
    names = [labels.plain(label) for label in section.header]
    at = next((at for at, name in enumerate(names) if name in ("NAME", "NAMES", *labels.OWNERS)), None)
    role = next((at for at, name in enumerate(names) if name in ("RELATIONSHIP", "ROLE")), None)
    if at is None or not (_is_of_owners(section.title) or role is not None) or _is_of_sales(section.title):
        return section
    rows = [row for row in section.rows if len(row) == len(names) and row[at]]
    rows = [row for row in rows if role is None or "owner" in row[role].lower()]
    if not rows:
        return section
    meant = {at: "OWNER"} | {
        place: _OWNERS_PLACE.get(name, "MAILINGADDRESS")
        for place, name in enumerate(names)
        if name in ("ADDRESS", *_OWNERS_PLACE, *labels.MAILING) and rows[0][place]
    }
    pairs = [(section.header[at], list(dict.fromkeys(row[at] for row in rows)))]
    pairs += [(section.header[place], [rows[0][place]]) for place in meant if place != at]
    means = {section.header[place]: label for place, label in meant.items()}
    return replace(section, pairs=[*section.pairs, *pairs], header=[], rows=[], means={**means, **section.means})


def _with_places(section: Section) -> Section:
    """Adds to a section about owners the meanings of city, state and ZIP code.

    If the section also shows the property's address, it is unclear which address they belong to.
    """
    shown = {labels.plain(label): label for label, _ in section.pairs}
    if not _is_of_owners(section.title) or not shown.keys() & {"ADDRESS", *labels.MAILING}:
        return section
    is_of_both = bool(shown.keys() & {*labels.SITUS} - {"ADDRESS"})
    known = {
        shown[name]: f"{name}OFNOBODY" if is_of_both else meant
        for name, meant in _OWNERS_PLACE.items()
        if name in shown
    }
    if "MAILINGADDRESS" in known.values() and "ADDRESS" in shown:
        known[shown["ADDRESS"]] = "MAILINGADDRESS"
    return replace(section, means={**known, **section.means}) if known else section


def _with_synonyms(page: ParcelPage, synonyms: Synonyms) -> ParcelPage:
    """Adds the meanings of labels that hold only for the platform or the jurisdiction."""

    def of(section: Section) -> Section:
        shown = [*(label for label, _ in section.pairs), *section.header]
        known = {label: meant for label in shown if (meant := synonyms.meaning(label, section.title)) is not None}
        return replace(section, means={**section.means, **known}) if known else section

    return replace(page, sections=[of(section) for section in page.sections])


def _note_labels(page: ParcelPage, found: PageRows) -> None:
    """Notes labels with empty values. Removes labels of taxes from the unread ones: they are read elsewhere."""
    for section in page.sections:
        if _is_of_taxes(section.title):
            _forget(found, section.title, [*(label for label, _ in section.pairs), *section.header])
            continue
        cells = ((name, [row[at] for row in section.rows if at < len(row)]) for at, name in enumerate(section.header))
        for label, lines in (*section.pairs, *cells):
            if section.means.get(label) == "":
                found.unread.pop(f"{section.title}: {label}", None)
            if all(map(values.is_nothing, lines)) and (part := _PARTS.get(_meaning(section, label).label)):
                found.empty.setdefault(part, label)


def _forget(found: PageRows, title: str, shown: Iterable[str]) -> None:
    """Removes labels of a section from the unread ones."""
    for label in shown:
        found.unread.pop(f"{title}: {label}", None)


def _unread_values(records: Iterable[CountyRecord]) -> dict[str, str]:
    """Returns the unread amounts, if no amount in the line could be read."""
    parcels = (record for record in records if isinstance(record, Property))
    return {field: reason for each in parcels for field, reason in each.unread.items() if " of " in field}


def _own_sections(page: ParcelPage) -> list[Section]:
    """Returns the sections below the parcel's own number, if the page shows other parcels as well.

    Raises ParseError when the numbers do not stand above the facts about their parcels.
    """
    own = normalized(page.parcel_id)
    numbers = [_numbers(section, page.id_label, own) for section in page.sections]
    if set().union(*numbers) <= {own}:
        return page.sections
    others = ", ".join(sorted(set().union(*numbers) - {own}))
    if not numbers[0] or any(len(each) > 1 for each in numbers):
        raise ParseError(f"beside {page.parcel_id} the page shows {others}, and not what is said of which parcel")
    shown, kept = own, []
    for section, found in zip(page.sections, numbers, strict=True):
        shown = next(iter(found), shown)
        if shown == own:
            kept.append(section)
    return kept


def _numbers(section: Section, id_label: str, own: str) -> set[str]:
    """Returns the parcel numbers in a section, each as `normalized`."""
    found = set()
    for lines in (lines for label, lines in section.pairs if label == id_label and lines):
        number = normalized(" ".join(lines))
        found.add(own if own in (number, normalized(lines[0])) else number)
    return found


def _said(page: ParcelPage) -> Iterator[tuple[str, str]]:
    for section in page.sections:
        yield section.title, ""
        yield from ((f"{section.title}: {label}", " ".join(lines)) for label, lines in section.pairs if label)
        yield from ((f"{section.title}, column {label}", text) for label, text in beside(section.header, section.rows))


class _Line(NamedTuple):
    columns: list[CountyColumn]
    cells: dict[str, Any]


def _at_sides(page: ParcelPage, source: Source, provenance: Provenance, raw: bytes) -> PageRows:
    """Reads the labels at the sides of sections: the property, its values and its sale.

    Tables of rows stay with the property unchanged, because not every row becomes a record.
    """
    columns = {page.id_label: CountyColumn(page.id_label, meaning=_PARCEL_ID)}
    cells: dict[str, Any] = {page.id_label: page.parcel_id}
    sections: dict[str, int] = {}
    """Label that joins several lines -> the section with these lines."""
    for number, section in enumerate(page.sections):
        beside_it = [(label, " ".join(lines), _meaning(section, label)) for label, lines in section.pairs]
        kept = _without_zeros(beside_it)
        for (label, lines), each in zip(section.pairs, beside_it, strict=True):
            meaning = each[2] if each in kept else _UNKNOWN
            if meaning.label in _SIZES and _is_in_acres(" ".join(lines)):
                meaning = ColumnLabel("ACRES")
            if not lines or (meaning.label in labels.PARCEL_ID and lines == [page.parcel_id]):
                continue
            is_of_lines = meaning.label in _LINES
            if is_of_lines and sections.setdefault(meaning.label, number) != number:
                is_of_lines, meaning = False, _UNKNOWN
            for said in lines if is_of_lines else [" ".join(lines)]:
                name = _free(f"{section.title}: {label}", cells)
                columns[name] = CountyColumn(
                    name, meaning=ColumnLabel(meaning.label, len(cells)) if is_of_lines else meaning
                )
                cells[name] = said
        if section.rows:
            cells[_free(section.title, cells)] = [
                {name: value for name, value in _named_cells(section.header, row) if value} for row in section.rows
            ]
    named = any(column.meaning and column.meaning.label in labels.PROPERTY["tax_year"] for column in columns.values())
    if page.tax_year and not named:
        columns[page.year_label] = CountyColumn(page.year_label, meaning=ColumnLabel("TAXYEAR"))
        cells[page.year_label] = str(page.tax_year)
    found = PageRows()
    layout_of(tuple(columns.values()), source).read(cells, raw, provenance, found)
    return found


def _above(section: Section, page: ParcelPage) -> Iterator[_Line]:
    """Yields the rows of a table that are a sale each, or the values of a year."""
    if not section.rows or not (_is_of_sales(section.title) or _is_of_values(section)):
        return
    meanings = of_header = [_meaning(section, label) for label in section.header]
    has_year = any(meaning.label in labels.PROPERTY["tax_year"] for meaning in meanings)
    is_of_values = not _is_of_sales(section.title)
    if is_of_values and not has_year and not _year(section.title) and _is_of_before(section.title):
        return  # the year is unknown
    is_only = len(section.rows) == 1 and (meanings[0].label in _VALUES or _is_sum(section, meanings))
    bases = _bases_of(section) if is_of_values else []
    summed_up = _summed_up(section, meanings) if is_of_values and has_year else set[str]()
    if not has_year and is_of_values and not bases:
        yield from _parts_below(section, meanings, page)
    for number, row in enumerate(section.rows):
        if not has_year and is_of_values and not is_only and not bases and not _is_total(row[0]):
            continue  # parts of the total
        if has_year and is_of_values and len(section.rows) > 1 and _is_sum_of_years(row, meanings):
            continue
        if not summed_up.isdisjoint(_years_of(row, meanings)) and not any(map(_is_total, row)):
            continue  # a class of a year with its sum in another row
        if not is_of_values and _is_note(row, meanings):
            continue
        if bases:
            meanings = [
                _on_basis(label, bases[number], own) for label, own in zip(section.header, of_header, strict=True)
            ]
        cells: dict[str, Any] = {page.id_label: page.parcel_id}
        columns = [CountyColumn(page.id_label, meaning=_PARCEL_ID)]
        said = _without_zeros(
            (*cell, meaning) for cell, meaning in zip(_named_cells(section.header, row), meanings, strict=False)
        )
        for label, value, meaning in said:
            name = f"{section.title}: {label}"
            if name not in cells:
                columns.append(CountyColumn(name, meaning=meaning))
                cells[name] = value
        if not has_year and (year := _year_of(section.title, page)):
            columns.append(CountyColumn("year", meaning=ColumnLabel("TAXYEAR")))
            cells["year"] = year
        yield _Line(columns, cells)
        named = next((value for _, value, meaning in said if meaning.label in labels.PROPERTY["tax_year"]), None)
        yield from _repeated(section, said, values.year(named or cells.get("year")), page)


def _repeated(
    section: Section,
    said: Iterable[tuple[str, str, ColumnLabel]],
    year: int | None,
    page: ParcelPage,
    shown: set[ColumnLabel] | None = None,
) -> Iterator[_Line]:
    """Yields a line for each further amount with the same meaning: if the amounts differ, both are withheld.

    A page with buildings and improvements shows two parts of the improvements. An amount of 0 adds nothing. `shown`:
    meanings of labels in the sections above; the function adds to it.
    """
    known = shown if shown is not None else set()
    for label, value, meaning in said:
        if meaning in known and values.money(value):
            name = f"{section.title}: {label}"
            of_year = [CountyColumn("year", meaning=ColumnLabel("TAXYEAR"))] if year else []
            columns = [CountyColumn(page.id_label, meaning=_PARCEL_ID), CountyColumn(name, meaning=meaning), *of_year]
            yield _Line(columns, {page.id_label: page.parcel_id, name: value, "year": str(year or "")})
        elif meaning.label in _VALUES:
            known.add(meaning)


def _parts_below(section: Section, meanings: Sequence[ColumnLabel], page: ParcelPage) -> Iterator[_Line]:
    """Yields the values of land and buildings as one line, if they are in rows above their total.

    If several rows have amounts for one part, the part has no value. With several totals it is unclear which one a part
    belongs to.
    """
    if sum(bool(_is_total(row[0])) for row in section.rows) != 1:
        return
    cells: dict[str, Any] = {page.id_label: page.parcel_id}
    columns = [CountyColumn(page.id_label, meaning=_PARCEL_ID)]
    for part, known in (("LANDVALUE", _OF_LAND), ("IMPROVEMENTVALUE", _OF_BUILDINGS)):
        rows = [row for row in section.rows if _TOTALS.get(labels.plain(row[0])) == part]
        rows = [row for row in rows if any(map(values.money, row[1:]))] or rows[:1]
        for row in rows if len(rows) == 1 else ():
            for (label, value), meaning in zip(_named_cells(section.header, row), meanings, strict=False):
                name = f"{section.title}: {label}, {row[0]}"
                if meaning.label in known and name not in cells:
                    columns.append(CountyColumn(name, meaning=ColumnLabel(known[meaning.label])))
                    cells[name] = value
    if len(columns) > 1:
        if year := _year_of(section.title, page):
            columns.append(CountyColumn("year", meaning=ColumnLabel("TAXYEAR")))
            cells["year"] = year
        yield _Line(columns, cells)


def _without_zeros(said: Iterable[tuple[str, str, ColumnLabel]]) -> list[tuple[str, str, ColumnLabel]]:
    """Returns the labels with their values, without a 0 if another label has an amount for the same part of the value.

    Dwellings are part of the improvements only beside a label for buildings, and only if no further label about
    buildings has an amount.
    """
    said = list(said)
    dwellings = [each for each in said if _is_dwelling(each)]
    if dwellings:
        others = [each for each in said if _is_of_building(each[0]) and each not in dwellings]
        has_buildings = any(meaning.label in _VALUES for _, _, meaning in others)
        has_more = any(meaning.label not in _VALUES and values.money(value) for _, value, meaning in others)
        if not has_buildings or has_more:
            said = [(*each[:2], _UNKNOWN) if each in dwellings else each for each in said]
    known = {meaning for _, value, meaning in said if meaning.label in _VALUES and values.money(value)}
    return [each for each in said if each[2] not in known or values.money(each[1]) != 0]


def _is_dwelling(said: tuple[str, str, ColumnLabel]) -> bool:
    return said[2].label in _VALUES and "dwelling" in said[0].lower()


def _is_sum(section: Section, meanings: Sequence[ColumnLabel]) -> bool:
    """Returns True for values with a total beside their parts, in a section that is not about a part of the parcel."""
    named = zip(section.header, meanings, strict=True)
    has_total = any(labels.plain(label).startswith("TOTAL") and meaning.label in _VALUES for label, meaning in named)
    return has_total and not is_of_parts(section.title)


def _years_of(row: Sequence[str], meanings: Sequence[ColumnLabel]) -> Iterator[str]:
    """Yields the cells in the year columns of a row."""
    for text, meaning in zip(row, meanings, strict=False):
        if meaning.label in labels.PROPERTY["tax_year"] and text.strip():
            yield text.strip()


def _summed_up(section: Section, meanings: Sequence[ColumnLabel]) -> set[str]:
    """Returns the years that have a row with the total of the other rows."""
    totals = [row for row in section.rows if any(map(_is_total, row))]
    return {year for row in totals for year in _years_of(row, meanings)}


def _is_note(row: Sequence[str], meanings: Sequence[ColumnLabel]) -> bool:
    """Returns True for a row that only notes the lack of sales, in the column of a date or price."""
    shown = [(text, meaning) for text, meaning in zip(row, meanings, strict=False) if text.strip()]
    return len(shown) == 1 and shown[0][1].label in _OF_TIME_OR_PRICE and not any(map(str.isdigit, shown[0][0]))


def _year_of(title: str, page: ParcelPage) -> str:
    """Returns the year of a section without years in its rows: from its title, else from the page; empty if unknown."""
    if named := _year(title):
        return named[0]
    return str(page.tax_year) if page.tax_year and not _is_of_before(title) else ""


def _bases_of(section: Section) -> list[Mapping[str, str]]:
    """Returns the meanings of the labels above for each row, if the same cell of all rows names the basis; else empty.

    Without a basis, two rows that differ only in amounts would be two amounts for one value.
    """
    for at in range(len(section.header)):
        cells = [row[at] for row in section.rows if at < len(row)]
        found = [next((meant for is_basis, meant in _BASES if is_basis(cell.strip())), {}) for cell in cells]
        if len(cells) == len(section.rows) and all(found):
            return found
    return []


def _on_basis(label: str, meant: Mapping[str, str], own: ColumnLabel) -> ColumnLabel:
    """Returns the meaning of a label above a row with this basis."""
    of_part = meant.get(labels.plain(label))
    return ColumnLabel(of_part) if of_part else own if own.label not in _VALUES else _UNKNOWN


def _is_sum_of_years(row: Sequence[str], meanings: Sequence[ColumnLabel]) -> bool:
    """Returns True for a row of a table with years that has another text than a year, such as `Total`."""
    shown = [*_years_of(row, meanings)]
    return bool(shown) and not any(map(_year, shown))


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


def _meaning(section: Section, label: str) -> ColumnLabel:
    """Returns the meaning of a label in its section; empty if unknown."""
    return ColumnLabel(section.means[label]) if label in section.means else _meaning_below(section.title, label)


@lru_cache(maxsize=4096)
def _meaning_below(title: str, label: str) -> ColumnLabel:
    """Returns the meaning of a label from its words and its title.

    Cached, because most pages of a site have the same labels.
    """
    found = label_of(label.replace(".", " ").replace(" ", "_").replace("#", "_NO"))
    if (building := found.label.replace("DWELLING", "BUILDING")) in _VALUES:
        found = ColumnLabel(building, found.number)
    if found.label in _VALUES and is_of_parts(title) and not _is_value_section(title):
        return ColumnLabel(f"{labels.plain(title)}{found.label}", found.number)
    for words, meant in _MEANINGS:
        if words.search(title):
            exact = labels.plain(label.replace(".", " "))
            if exact in meant:
                return ColumnLabel(meant[exact])
            if found.label in meant:
                return ColumnLabel(meant[found.label], found.number)
            break
    if found.label in _GENERIC:
        return ColumnLabel(f"{labels.plain(title)}{found.label}", found.number)
    if _is_of_taxes(title) and not _is_read_of_taxes(found.label):
        return ColumnLabel(f"{labels.plain(title)}{found.label}", found.number)
    return found


def _is_read_of_taxes(label: str) -> bool:
    """Returns True if a label in a section about taxes may describe the parcel."""
    return any(label in labels.PROPERTY[name] for name in ("use_code", "use_description", "tax_year")) or label in (
        *labels.OWNERS,
        *labels.SITUS,
        *labels.MAILING,
        "TAXPAYERNAME",
    )


def _tax_sections(page: ParcelPage) -> list[Section]:
    return [section for section in page.sections if _is_of_taxes(section.title)]


def _merged(records: Iterable[CountyRecord]) -> list[CountyRecord]:
    """Returns one record for each key: records with the same year or sale from several sections complete each other."""
    found: dict[tuple[str, str], CountyRecord] = {}
    sales = [record for record in records if isinstance(record, Sale)]
    for record in records:
        key = record.key
        if isinstance(record, Sale) and record.sale_date and record.transfer == str(record.sale_date):
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
    """Returns True for two distinct sales on one day: the prices differ, or both grantor and grantee differ.

    Without a date, sales with different deed types are distinct as well.
    """

    def is_other(*names: str) -> bool:
        said = [(getattr(first, name), getattr(second, name)) for name in names]
        return all(None not in both and both[0] != both[1] for both in said)

    is_undated = first.transfer.startswith(UNDATED) and is_other("deed_type")
    return is_undated or is_other("sale_price") or is_other("grantor", "grantee")


def _filled(first: CountyRecord, second: CountyRecord) -> CountyRecord:
    """Returns the first record, completed from the second. Contradictory amounts for a year are withheld."""
    unread = {**second.unread, **first.unread}
    for name in _AMOUNTS if isinstance(first, Assessment) else ():
        both = [getattr(first, name), getattr(second, name)]
        if name not in first.unread and None not in both and both[0] != both[1]:
            unread[name] = f"{both[0]} and {both[1]}: the page shows several amounts of {getattr(first, 'roll', '')}"
    said = {
        name: getattr(second, name)
        for name in first.__struct_fields__
        if getattr(first, name) in (None, "") and getattr(second, name) not in (None, "") and name not in unread
    }
    said |= dict.fromkeys((name for name in _AMOUNTS if name in unread and hasattr(first, name)), None)
    named = {name: label for name, label in second.labels.items() if name in said}
    return replace(first, **said, labels={**first.labels, **named}, unread=unread)

"""Reads Schneider Beacon and qPublic: the address of a site's parcel reports, and the reports themselves.

A report has modules, each with a title: labels beside their values, tables, links to files. The modules and their
titles differ between counties, and so do the numbers in element ids: the parser reads only the words in ids.
"""

import json
import re
from collections.abc import Iterator, Sequence

from lxml.html import HtmlElement

from harvester.exceptions import ParseError
from harvester.items.property import normalized
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.encoding import as_utf8
from harvester.parsers.counties.html import absolute, has_class, lines_of, read_page, spread, text_of
from harvester.parsers.counties.pages import label_of
from harvester.parsers.counties.sections import MOST_LABELS_NAMED, ParcelPage, Section, newest_year, split_deeds
from harvester.parsers.counties.synonyms import NONE, Synonyms
from harvester.spiders.counties.beacon.owners import add_owners, is_name, names_owners

KEY = "{0}"
"""The placeholder for a parcel's number in the address of reports."""
REPORT = 4
"""The page type of reports."""
NOTE = "important-note"
"""The CSS class of a note beside a value."""
TAX_YEAR, VALUES = "Tax Year", "Values"
"""Columns of a table that has its years in the header: the year, and the full header, `2025 Working Values`."""
_config = re.compile(rb"\bmapConfig\s*=\s*(?=\{)").search
_is_tool = re.compile(r"radius|in area|area sales|\bmap\b|sketch|photo", re.IGNORECASE).search
"""Titles of modules without facts about the parcel."""
_is_read = re.compile(
    r"sale|transfer|conveyance|valu|assess|apprais|market|\btax(?:es)?\b|payment|bill", re.IGNORECASE
).search
"""Titles of modules whose rows become records, so that their cells must match the header."""
_is_file = re.compile(r"_hlk(?:Name|WebLink)$").search
_year = re.compile(r"\b(?:19|20)\d\d\b").search
_has_letter = re.compile(r"[^\W\d_]").search
_basis = re.compile(r".*\btotal\b.*(\((?:appraised|assessed) \d+%\))", re.IGNORECASE).fullmatch
_report_of = re.compile(r".*\breport:\s*(\S.*)", re.IGNORECASE | re.DOTALL).fullmatch
_note = re.compile(r"\s*\(note:[^)]*\)|^\*.*\b(?:not|only)\b.*", re.IGNORECASE).sub
"""A note about a value, in brackets or after an asterisk."""
_none_found = re.compile(
    r"no results match your search criteria"
    r"|no data available for the following modules:(?:[^.]{0,1000},)?\s*"
    r"(?:(?:parcel|property|general) )?(?:summary|information)\s*(?:[.,]|$)",
    re.IGNORECASE,
).search
"""The message of a report without a parcel: it names an empty module that every parcel would fill."""


def read_template(body: bytes, url: str) -> str:
    """Returns the address of a site's reports, read from any page of the site; KEY is in the place of the parcel's
    number.

    Raises ParseError.
    """
    body = as_utf8(body)
    found = _config(body)
    try:
        config = json.JSONDecoder().raw_decode(body[found.end() :].decode())[0] if found else None
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ParseError("the site's page has no mapConfig, which says where its reports are")
    address = config.get("DefaultReportUrl")
    if not isinstance(address, str) or KEY not in address:
        tabs = config.get("Tabs")
        pages = [tab for tab in tabs if isinstance(tab, dict)] if isinstance(tabs, list) else []
        page = next((tab.get("PageId") for tab in pages if tab.get("PageTypeId") == REPORT), None)
        ids = f"AppID={config.get('AppId')}&LayerID={config.get('LayerId')}"
        address = f"?{ids}&PageTypeID={REPORT}&PageID={page}&KeyValue={KEY}" if page else ""
    if not address:
        raise ParseError("the site's mapConfig has neither DefaultReportUrl nor a tab with reports")
    if template := absolute(url, address):
        return template
    raise ParseError(f"the site's reports are said to be at {address}, which is no address")


def read_report(body: bytes, key: str, url: str, here: Synonyms = NONE) -> ParcelPage | None:
    """Reads the report of a parcel. Returns None when the site reports no such parcel. Raises ParseError.

    `key`: the number of the requested parcel; empty: the report may show any parcel.
    """
    page = read_page(body)
    sections = [section for title, content in _modules(page) for section in _sections(content, title, url)]
    numbers = next((found for section in sections if (found := _numbers(section, here))), [])
    if not numbers:
        if _none_found(text_of(page)):
            return None
        shown = [f"{section.title}: {label}" for section in sections for label, _ in section.pairs]
        there_is = ", ".join(shown[:MOST_LABELS_NAMED]) or "no label"
        raise ParseError(f"the report of the parcel lacks: Parcel ID; there is {there_is}")
    _, label, parcel_id = min(numbers)
    titled = _report_of(page.findtext(".//title") or "")
    known = {number for _, _, number in numbers} | {titled[1] if titled else parcel_id}
    if key and normalized(key) not in map(normalized, known):
        raise ParseError(f"the parcel {key} was asked for, and the report is that of {parcel_id}")
    years = [values.year(row[0]) or 0 for each in sections if each.header[:1] == [TAX_YEAR] for row in each.rows]
    year = newest_year(sections) or max(years, default=0)
    return ParcelPage(parcel_id, year, sections, id_label=label, year_label=TAX_YEAR)


def _numbers(section: Section, here: Synonyms) -> list[tuple[int, str, str]]:
    """Returns the possible numbers of the parcel, each with its rank (the lowest is best) and its label."""
    plain = [(here.plain(label.replace(".", " "), section.title), label, lines) for label, lines in section.pairs]
    known = labels.OTHER_IDS
    return [(known.index(name), label, lines[0]) for name, label, lines in plain if lines and name in known]


def _modules(page: HtmlElement) -> Iterator[tuple[str, HtmlElement]]:
    """Yields the modules, each with its title."""
    title = ""
    for element in page.iter("header", "div"):
        if has_class(element, "module-header"):
            title = next((label_of(each) for each in element.iter() if has_class(each, "title")), "")
        elif has_class(element, "module-content") and title and not _is_tool(title):
            yield title, element


def _sections(content: HtmlElement, title: str, url: str) -> Iterator[Section]:
    """Yields the sections of a module: one for owners, labels and links to files, and one for each table."""
    first, tables = Section(title), []
    blocks = [first.pairs]
    for table in content.iter("table"):
        header, rows = _rows(table)
        if header:
            tables.append(_table(title, header, [said for row in rows if any(said := spread(row))]))
        else:
            for row in rows:
                _add_pairs(blocks, row)
    if names_owners(title):
        add_owners(content, first)
    for link in content.iter("a"):
        if _is_file(link.get("id") or "") and (address := absolute(url, link.get("href") or "")):
            first.pairs.append((label_of(link), [address]))
    if first.pairs:
        yield first
    for block in blocks[1:]:
        yield Section(title, [], [label for label, _ in block], [[" ".join(lines) for _, lines in block]])
    yield from tables


def _add_pairs(blocks: list[list[tuple[str, list[str]]]], row: Sequence[HtmlElement]) -> None:
    """Adds labels with their values.

    A repeated label starts the block of another building, which becomes its own section.

    A blank label continues the lines of the label before.
    """
    if any(is_name(each.get("id") or "") for cell in row for each in cell.iter()):
        return
    for at in range(0, len(row) - 1, 2):
        label = label_of(row[at])
        for note in [each for each in row[at + 1].iterdescendants() if has_class(each, NOTE)]:
            note.drop_tree()
        lines = [said for line in lines_of(row[at + 1]) if (said := _note("", line))]
        if not label and blocks[-1]:
            blocks[-1][-1][1].extend(lines)
            continue
        if any(label == known for known, _ in blocks[-1]):
            blocks.append([])
        blocks[-1].append((label, lines))


def _rows(table: HtmlElement) -> tuple[list[str], list[HtmlElement]]:
    """Returns the labels above a table, if it has any, and its rows.

    Skips rows that only wrap other tables, and notes (lone cells).
    """
    header: list[str] = []
    rows: list[HtmlElement] = []
    for row in table.iter("tr"):
        if next(row.iterancestors("table")) is not table or next(row.iter("table"), None) is not None:
            continue
        if not rows and len(row) > 1 and _is_header(row):
            header = [text.rstrip(":* ") for text in spread(row)]
        elif len(row) > 1:
            rows.append(row)
    return header, rows


def _is_header(row: HtmlElement) -> bool:
    """Returns True for a row of labels above columns; a column without a label may have another kind of cell.

    Below the head of a table only the leftmost cells may lack a label.
    """
    is_head = next(row.iterancestors("thead"), None) is not None
    first = next((at for at, each in enumerate(row) if each.tag == "th"), len(row))
    return first < len(row) and all(
        each.tag == "th" or ((is_head or at < first) and not text_of(each)) for at, each in enumerate(row)
    )


def _table(title: str, header: list[str], rows: list[list[str]]) -> Section:
    """Returns a table as rows with labels above. A table with years in its header is transposed."""
    bad = next((row for row in rows if len(row) != len(header)), None)
    if bad and _is_read(title):
        raise ParseError(f"a row of {title} has {len(bad)} cells, and its header {len(header)}")
    if not bad:
        used = [at for at, label in enumerate(header) if label or any(row[at] for row in rows)]
        header, rows = [header[at] for at in used], [[row[at] for at in used] for row in rows]
    years = [found[0] if (found := _year(label)) else "" for label in header]
    first = next((at for at, year in enumerate(years) if year), 0)
    if bad or not first or not all(years[first:]) or any(header[at] for at in range(1, first)):
        return split_deeds(Section(title, [], header, rows))
    names = _on_basis([next((said for said in reversed(row[:first]) if _has_letter(said)), "") for row in rows])
    by_year = ([years[at], header[at], *(row[at] for row in rows)] for at in range(first, len(header)))
    return Section(title, [], [TAX_YEAR, header[0] or VALUES, *names], list(by_year))


def _on_basis(names: Sequence[str]) -> list[str]:
    """Appends the basis of `Total Value (Appraised 100%)` to the names of the parts above. Numbers repeated names."""
    found: list[str] = []
    begun = 0
    for name in names:
        if basis := _basis(name):
            found[begun:] = [f"{part} {basis[1]}" for part in found[begun:]]
            begun = len(found) + 1
        found.append(name)
    return [f"{name} ({found[:at].count(name) + 1})" if name in found[:at] else name for at, name in enumerate(found)]

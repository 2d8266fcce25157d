"""Reads pages of DEVNET wEdge: a parcel's page in each of the known layouts, and the results of a search.

The layouts order their content differently. All have headings, labels beside their values, and tables with a header.
"""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from lxml.html import HtmlElement

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.html import absolute, has_class, is_visible, lines_of, read_page, spread, text_of
from harvester.parsers.counties.names import LineKind, line_kinds
from harvester.parsers.counties.pages import label_of
from harvester.parsers.counties.sections import MOST_LABELS_NAMED, ParcelPage, Section, split_deeds
from harvester.parsers.counties.synonyms import NONE, Synonyms

_OF_PARCEL = frozenset([*labels.PARCEL_ID, *labels.OWNERS, *labels.SITUS])
"""Labels that mark a page about a parcel: such a page has at least one."""
NO_RESULTS = "no results found"
_LABELS = ("inner-label", "col-sm-5", "md:w-1/3")
"""CSS classes of labels with their value in the next element."""
_HEADINGS = ("h2", "h3", "h4")
_parcel_of = re.compile(r".*/parcel/view/([^/]+)(?:/(\d{4}))?/?", re.IGNORECASE).fullmatch
_installment = re.compile(r"installment (\d+)", re.IGNORECASE).search
_tax_year = re.compile(r"tax year \(", re.IGNORECASE).match
_year_at_end = re.compile(r".*:\s*(\d{4})").fullmatch
_is_read = re.compile(
    r"sale|transfer|conveyance|valu|assess|apprais|market|\btax(?:es)?\b|payment|bill", re.IGNORECASE
).search
"""Titles above rows that become records, so that their cells must match the header."""
_is_of_values = re.compile("assess", re.IGNORECASE).search
_is_formatting = re.compile(r"[\s-]+")


def view_of(parcel_id: str) -> str:
    """Returns a parcel's number as spelled in the addresses on DEVNET sites."""
    return _is_formatting.sub("", parcel_id)


def viewed(url: str) -> str:
    """Returns the number of the parcel with a page at this address; empty if the address is not a parcel's."""
    found = _parcel_of(urlsplit(url).path)
    return unquote(found[1]) if found else ""


def read_parcel(body: bytes, url: str, here: Synonyms = NONE) -> ParcelPage | None:
    """Reads the page of a parcel.

    Returns None when no parcel is on the page. Raises ParseError when its number is missing.
    """
    sections, year = _sections(read_page(body)) if body.strip() else ([], 0)
    pairs = [(here.plain(label, section.title), label, lines) for section in sections for label, lines in section.pairs]
    if _OF_PARCEL.isdisjoint(name for name, _, _ in pairs):
        return None
    said = {name: (label, lines) for name, label, lines in reversed(pairs) if lines}
    label, lines = next((said[name] for name in labels.PARCEL_ID if name in said), ("", []))
    if not lines:
        shown = ", ".join(label for _, label, _ in pairs[:MOST_LABELS_NAMED])
        raise ParseError(f"the page of the parcel lacks: Parcel Number; there is {shown}")
    address = _parcel_of(urlsplit(url).path)
    in_address = int(address[2]) if address and address[2] else 0
    return ParcelPage(
        " ".join(lines), year or in_address, sections, id_label=label, year_label="heading" if year else "address"
    )


def read_search(body: bytes) -> list[str]:
    """Returns the distinct numbers of the parcels in the results of a search. Raises ParseError."""
    page = read_page(body)
    links = (absolute("", link.get("href") or "") for link in page.iter("a"))
    found = dict.fromkeys(number for link in links if (number := viewed(link)))
    if not found and NO_RESULTS not in text_of(page).lower():
        raise ParseError("it is no answer of a search: it names no parcel, and does not say that there is none")
    return list(found)


def _sections(page: HtmlElement) -> tuple[list[Section], int]:
    """Returns the sections and their year (0: unknown). A repeated parcel number starts new sections."""
    sections: list[Section] = []
    title, year = "", 0
    beside: dict[str, Section] = {}
    seen = {label_of(each) for each in page.iter("div", "label") if _is_label(each) and is_visible(each)}
    for element in page.iter("div", "label", "table", *_HEADINGS):
        if element.tag in _HEADINGS or has_class(element, "panel-heading"):
            shown = label_of(element)
            if found := _year_at_end(shown):
                year = year or int(found[1])
            if element.tag != "h4":
                title = shown
        elif element.tag == "table":
            sections += _tables(element, title)
        elif _is_label(element):
            if label_of(element) in seen and not is_visible(element):
                continue  # a value for another year
            if _is_number(label_of(element)) and title in beside and _shows_number(beside[title]):
                beside = {}
            if title not in beside:
                sections.append(beside.setdefault(title, Section(title)))
            _add_pair(beside[title].pairs, label_of(element), _value_of(element))
    for section in sections:
        _split_owners(section)
    return [section for section in sections if section.pairs or section.header], _year_in(sections) or year


def _split_owners(section: Section) -> None:
    """Splits a value with names above an address: the address gets its own label."""
    for at, (label, lines) in reversed([*enumerate(section.pairs)]):
        name = labels.plain(label)
        kinds = line_kinds(lines, with_address="ADDRESS" in name) if name in labels.OWNERS else []
        if LineKind.MAILING in kinds and LineKind.NAME in kinds:
            names, address = (
                [line for line, kind in zip(lines, kinds, strict=True) if (kind is LineKind.MAILING) == is_mailing]
                for is_mailing in (False, True)
            )
            of_address = f"{label} (address)"
            section.pairs[at : at + 1] = [(label, names), (of_address, address)]
            section.means[of_address] = "OWNERNAMEADDRESSADDRESS"


def _is_number(label: str) -> bool:
    return labels.plain(label) in labels.PARCEL_ID


def _shows_number(section: Section) -> bool:
    return any(_is_number(label) for label, _ in section.pairs)


def _value_of(label: HtmlElement) -> list[str]:
    """Returns the lines of the next element, or of the element after the label's wrapper."""
    value = label.getnext()
    if value is None and (around := label.getparent()) is not None:
        value = around.getnext()
    if value is None or any(_is_label(each) for each in value.iter("div", "label")):
        return []
    return [shown for line in lines_of(value) if (shown := line.rstrip(" ,"))]


def _is_label(element: HtmlElement) -> bool:
    return any(has_class(element, name) for name in _LABELS)


def _add_pair(pairs: list[tuple[str, list[str]]], label: str, lines: list[str]) -> None:
    """Adds a label with its lines.

    A blank label continues the label before. An identical pair is skipped: it serves narrow screens.
    """
    if not label and pairs:
        pairs[-1][1].extend(lines)
    elif (label, lines) not in pairs:
        pairs.append((label, lines))


def _year_in(sections: Iterable[Section]) -> int:
    said = ("".join(lines[:1]) for section in sections for label, lines in section.pairs if _is_year(label))
    return next((found for shown in said if (found := values.year(shown))), 0)


def _is_year(label: str) -> bool:
    return labels.plain(label) == "TAXYEAR"


def _tables(table: HtmlElement, title: str) -> Iterator[Section]:
    """Yields a section for each block of a table with a header.

    A cell that is alone in its row is the title of the next block. The title of the first block of a table with values
    is the label above the first column.
    """
    rows = [row for row in table.iter("tr") if next(row.iterancestors("table")) is table]
    header = next(([label_of(each) for each in row] for row in rows if _is_header(row)), [])
    if (
        sides := [row for row in rows if len(row) == 2 and (row[0].tag, row[1].tag) == ("th", "td")]
        if not header
        else []
    ):
        yield Section(title, [(label_of(row[0]), lines_of(row[1])) for row in sides])
        return
    blocks: list[tuple[str, list[list[str]]]] = [("", [])]
    for row in (each for each in rows if header and each.find("td") is not None and "data-subrow" not in each.attrib):
        cells = spread(row.iter("td", "th"))
        if len(row) == 1 < len(header):
            blocks.append((cells[0], []))
        elif len(cells) != len(header) and _is_read(title):
            raise ParseError(f"a row of {title or 'a table'} has {len(cells)} cells, and its header {len(header)}")
        elif any(cells):
            blocks[-1][1].append(_as_wide(cells, len(header)))
    blocks = [block for block in blocks if block[1]]
    of_values = bool(_is_of_values(title))
    if of_values and len(blocks) > 1 and not blocks[0][0]:
        blocks[0] = (header[0], blocks[0][1])
    name, added = _within(table, title)
    for block, lines in blocks:
        called = [_called(each, at, lines) if at or not of_values else "" for at, each in enumerate(header)]
        if of_values and not block and "TOTAL" in map(labels.plain, called):
            pairs = [(f"{line[0]}: {each}", [line[at]]) for line in lines for at, each in enumerate(called) if at]
            yield Section(title, [pair for pair in pairs if pair[1][0]])
        else:
            yield split_deeds(
                Section(
                    f"{name}: {block}" if block else name,
                    [],
                    [*called, *added],
                    [[*line, *added.values()] for line in lines],
                )
            )


def _is_header(row: HtmlElement) -> bool:
    return len(row) > 0 and all(each.tag == "th" for each in row)


def _as_wide(cells: list[str], wide: int) -> list[str]:
    """Fits a row to the width of the header; the surplus cells join the last one. Such rows do not become records."""
    if len(cells) > wide:
        return [*cells[: wide - 1], " ".join(cells[wide - 1 :])]
    return cells + [""] * (wide - len(cells))


def _called(header: str, at: int, lines: list[list[str]]) -> str:
    """Returns the label of a column: the year if its cells are `Tax Year (2024 - 2025)`, else its header."""
    return "Tax Year" if any(_tax_year(line[at]) for line in lines) else header


def _within(table: HtmlElement, title: str) -> tuple[str, dict[str, str]]:
    """Returns the title of a table nested below a bill's row, and columns to add: year and installment of the bill."""
    around = next((row for row in table.iterancestors("tr") if row.get("data-subrow") is not None), None)
    above = around.getprevious() if around is not None else None
    year = (
        next((text for each in above.iter("td") if _tax_year(text := text_of(each))), "") if above is not None else ""
    )
    part = _installment(title)
    if not year or not part:
        return title, {}
    return f"Payments: {title}", {"Tax Year": year, "Installment": part[1]}

"""Reads pages of Patriot Properties WebPro: the card of a parcel, and the results of a search.

A label precedes its value in its own cell, or shares a cell with the value; one card may do both. A blank label
continues the value above.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from lxml.html import HtmlElement

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.html import MOST_COLUMNS, absolute, lines_of, read_page, text_of
from harvester.parsers.counties.sections import MOST_LABELS_NAMED, ParcelPage, Section
from harvester.parsers.counties.synonyms import NONE, Synonyms

ACCOUNT = "Property Account Number"
_IDS = ("PROPERTYACCOUNTNUMBER", "ACCOUNTNUMBER", "ACCOUNT", labels.PARCEL_ID[0])
"""Labels of the parcel's number. The last one is the number on the map, for cards without an account."""
NARRATIVE, LEGAL = "Narrative Description", "Legal Description"
"""Titles above a text."""
_KNOWN = frozenset(
    [
        *("PROPERTYACCOUNTNUMBER", "LOCATION", "OWNER", "TOTALVALUE"),
        *("PARCELID", "OLDPARCELID", "ADDRESS", "CITY", "STATE", "ZIP", "ZONING", "LEGALREFERENCE", "GRANTORSELLER"),
        *(
            "SALEDATE",
            "SALEPRICE",
            "YEAR",
            "VALUEYEAR",
            "FISCALYEAR",
            "LANDAREA",
            "PROPERTYTYPE",
            "LANDUSE",
            "DISTRICT",
        ),
        *("BUILDINGVALUE", "XTRAFEATURESVALUE", "YARDITEMSVALUE", "LANDVALUE", "ASSESSEDVALUE", "NEIGHBORHOOD"),
    ]
)
"""Labels that mark a cell as a label. Unknown labels are found by their position between these."""
MAX_LABEL = 100
"""Maximum length of a label in characters. Narratives are longer, and a page may have many."""
_is_account = re.compile(r"[0-9]{1,15}").fullmatch
_is_of_card = re.compile(r"card\s+(\d+)\s+value", re.IGNORECASE).fullmatch
_is_of_parcel = re.compile(r"total(?:\s+parcel)?(?:\s+value)?|parcel\s+value", re.IGNORECASE).fullmatch
_card_of = re.compile(r"card\s+(\d+)\s+of\s+(\d+)", re.IGNORECASE).fullmatch
_says_nothing = re.compile(r"no (?:records?|results?|matches|properties|parcels)\b", re.IGNORECASE).search
_MEANS = {
    "PROPERTYACCOUNTNUMBER": "PARID",
    "LOCATION": "SITUSADDRESS",
    "LEGALREFERENCE": "INSTRUMENTNO",
    "GRANTORSELLER": "GRANTOR",
    "ADDRESS": "MAILINGADDRESS",
    "CITY": "MAILINGCITY",
    "STATE": "MAILINGSTATE",
    "ZIP": "MAILINGZIP",
    "YEAR": "TAXYEAR",
    "VALUEYEAR": "TAXYEAR",
    "FISCALYEAR": "TAXYEAR",
}
"""Label -> the label with the same meaning in `labels.py`."""
_NUMBERS = frozenset(["Parcel ID", "Old Parcel ID", ACCOUNT])
"""Labels of numbers with significant blanks."""
_TOLD = {
    "classified as": ("USEDESC", re.compile(r"classified as (.+?)\s*(?: with |[.,]|$)", re.IGNORECASE).search),
    "built about": ("YEARBUILT", re.compile(r"built about (\d{4})", re.IGNORECASE).search),
    "acres of land": ("ACRES", re.compile(r"contains ([\d.,]+) acres of land", re.IGNORECASE).search),
}
"""Words in the narrative -> the label of the fact beside them, and a pattern for the fact."""


class PatriotRow(NamedTuple):
    """A parcel in the results of a search."""

    account: str
    address: str


class PatriotResults(NamedTuple):
    """A page of the results of a search."""

    parcels: list[PatriotRow]
    last: int
    """The last page that this one links to."""


def is_account(text: str) -> bool:
    """Returns True if the text may be an account number on Patriot sites."""
    return bool(_is_account(text))


def why_other(asked: str, shown: str) -> str:
    """Returns the message for a card that shows another account than the requested one."""
    if not shown.strip("0") or not is_account(shown):
        return f"the account {asked} was asked for, and the card shows none by which it could be known, but {shown}"
    return f"the account {asked} was asked for, and the card is that of {shown}"


def read_card(body: bytes, here: Synonyms = NONE) -> ParcelPage | None:
    """Reads the card. Returns None when it has no parcel. Raises ParseError when the parcel's number is missing.

    For a card without an account the parcel's number is the one on the map.
    """
    sections = _sections(read_page(body)) if body.strip() else []
    said = {
        here.plain(label): (label, lines) for section in reversed(sections) for label, lines in reversed(section.pairs)
    }
    ids = [said[name] for name in _IDS if name in said]
    if not ids:
        shown = ", ".join([label for section in sections for label, _ in section.pairs][:MOST_LABELS_NAMED])
        raise ParseError(f"the card of the parcel lacks: {ACCOUNT}; there is {shown or 'no label at all'}")
    is_blank = not any(said.get(label, ("", []))[1] for label in ("LOCATION", "OWNER", "PARCELID"))
    label, lines = next((each for each in ids if each[1]), ids[0])
    return ParcelPage(" ".join(lines), 0, sections, id_label=label) if lines and not is_blank else None


def read_results(body: bytes) -> PatriotResults:
    """Reads the results of a search. Raises ParseError."""
    page = read_page(body)
    found: dict[str, PatriotRow] = {}
    last = 1
    for link in page.iter("a"):
        address = urlsplit(absolute("", link.get("href") or ""))
        asked = {name.lower(): value for name, value in parse_qsl(address.query)}
        if account := asked.get("accountnumber") or asked.get("anum"):
            cell = next(link.iterancestors("td"), None)
            beside = cell.getnext() if cell is not None else None
            found.setdefault(account, PatriotRow(account, "" if beside is None else " ".join(text_of(beside).split())))
        else:
            last = max(last, values.whole(asked.get("page")) or 0)
    if not found and not _says_nothing(text_of(page)):
        raise ParseError("it is no answer of a search: it names no parcel, and does not say that there is none")
    return PatriotResults(list(found.values()), last)


def _sections(page: HtmlElement) -> list[Section]:
    """Returns the sections. A row with a single text is the title of the rows after it."""
    sections = [Section("Parcel")]
    title_row: HtmlElement | None = None
    columns = _Columns()
    for row in page.iter("tr", "td"):
        if row.tag == "td" and row.getparent() is not None and row.getparent().tag == "tr":
            continue  # read with its row; only a cell outside rows is read alone
        parts = row if row.tag == "tr" else [row]
        cells = [each for each in parts if each.tag in ("td", "th") and each.find(".//tr") is None]
        texts = [shown for each in cells if (shown := " ".join(text_of(each).split()))]
        if any(map(_is_of_card, texts)):
            columns.begin(cells)
        elif found := next(filter(None, map(_card_of, texts)), None):
            columns.card, columns.cards = int(found[1]), int(found[2])
        elif len(texts) == 1 and not any(map(_starts_with_label, cells)):
            is_text = title_row is not None and _is_below(row, title_row)
            if is_text and sections[-1].title == NARRATIVE:
                _read_narrative(sections[-1], texts[0])
            elif is_text and sections[-1].title == LEGAL:
                sections[-1].pairs.append((LEGAL, texts))
            else:
                sections.append(Section(texts[0].rstrip(":* ")))
                title_row = row
        else:
            if any(_label(each) == ACCOUNT for each in cells):
                sections.append(Section(sections[0].title))  # the next rows belong to that account
            columns.add_row(sections[-1], cells)
    return [section for section in sections if section.pairs]


def _is_below(row: HtmlElement, title: HtmlElement) -> bool:
    """Returns True for the row after the title's row, or for a row within that one."""
    return any(each.getprevious() is title for each in (row, *row.iterancestors("tr")))


class _Columns:
    """The labels with values in a table's rows, and the columns that hold amounts for one card among several."""

    def __init__(self) -> None:
        self.card = self.cards = 1
        self._of_card: range = range(0)
        self._of_parcel: range = range(0)
        self._above: dict[int, list[str]] = {}
        """Column -> its value in the row above."""
        self._table: HtmlElement | None = None

    def begin(self, cells: Sequence[HtmlElement]) -> None:
        """Reads the row above values, with `Card 1 Value` and maybe `Total Parcel Value`."""
        self._of_card = self._of_parcel = range(0)
        for at, end, cell in _placed(cells):
            if _is_of_card(shown := " ".join(text_of(cell).split())):
                self._of_card = range(at, end)
            elif _is_of_parcel(shown):
                self._of_parcel = range(at, end)

    def add_row(self, section: Section, cells: Sequence[HtmlElement]) -> None:
        """Adds the labels and values in a row. An amount for one card among several is not the parcel's amount."""
        if not cells:
            return
        table = next(cells[0].iterancestors("table"), None)
        if table is not self._table:
            self._table, self._above = table, {}
        placed, number, name = list(_placed(cells)), 0, ""
        while number < len(placed):
            at, _, cell = placed[number]
            label, lines = _label(cell), _value(cell)
            beside = placed[number + 1][2] if number + 1 < len(placed) else None
            number += 1
            if at in self._of_parcel and name and not _starts_with_label(cell):
                label, lines = name, lines_of(cell)
            elif not lines and beside is not None and not _starts_with_label(beside):
                lines = lines_of(beside)
                number += 1
            name = label or name
            lines = [" ".join(line.split()) if label not in _NUMBERS else line for line in lines or []]
            if not label and lines and at in self._above:
                self._above[at].extend(lines)
            elif label or lines:
                self._add(section, at, label, lines)
                self._above[at] = lines

    def _add(self, section: Section, at: int, label: str, lines: list[str]) -> None:
        if at in self._of_card and len(lines) == 1 and labels.plain(label).endswith("VALUE"):
            if self._of_parcel:
                label = f"Card {self.card} Value: {label}"
            elif self.cards > 1:
                lines = [f"{lines[0]} of card {self.card} of {self.cards}"]
        section.pairs.append((label, lines))
        if meant := _MEANS.get(labels.plain(label)):
            section.means[label] = meant


def _placed(cells: Sequence[HtmlElement]) -> Iterator[tuple[int, int, HtmlElement]]:
    """Yields each cell with its first column and the column after its last."""
    at = 0
    for cell in cells:
        end = at + min(max(values.whole(cell.get("colspan")) or 1, 1), MOST_COLUMNS)
        yield at, end, cell
        at = end


def _is_known(text: str) -> bool:
    return len(text) <= MAX_LABEL and labels.plain(text) in _KNOWN


def _starts_with_label(cell: HtmlElement) -> bool:
    return _is_known(_label(cell))


def _label(cell: HtmlElement) -> str:
    """Returns the text of a cell, or only its first part if that is a known label."""
    whole = " ".join(text_of(cell).split()).rstrip(":* ")
    if _is_known(whole):
        return whole
    first = _first_part(cell)
    return first if _is_known(first) else whole


def _value(cell: HtmlElement) -> list[str] | None:
    """Returns the lines after the label of a cell; None without a known label, or without lines after it."""
    first = _first_part(cell)
    whole = "".join(cell.itertext()).strip(" \t\r\n")
    if not _is_known(first) or (labels.plain(whole) == labels.plain(first) and "\xa0" not in whole):
        return None
    found = re.match(r"[\s\xa0]*" + r"\s+".join(map(re.escape, first.split())) + r"[\s\xa0:*]*", text_of(cell))
    lines = lines_of(cell)
    if lines and " ".join(lines[0].split()).rstrip(":* ") == first:
        return lines[1:]
    rest = text_of(cell)[found.end() :] if found else ""
    return [rest] if rest else []


def _first_part(cell: HtmlElement) -> str:
    """Returns the first text in a cell, up to a colon or a no-break space unless it is part of a known label."""
    shown = next((text for text in cell.itertext() if text.strip()), "")
    pieces = re.split(r"[:\xa0]", shown.strip()[: 2 * MAX_LABEL])
    begun = (" ".join(" ".join(pieces[:number]).split()) for number in range(len(pieces), 0, -1))
    return next((label for label in begun if labels.plain(label) in _KNOWN), " ".join(pieces[0].split()))


def _read_narrative(section: Section, shown: str) -> None:
    section.pairs.append((NARRATIVE, [shown]))
    for words, (meant, search) in _TOLD.items():
        if found := search(shown):
            section.pairs.append((words, [found[1]]))
            section.means[words] = meant

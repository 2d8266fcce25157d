"""Reads pages of Patriot Properties WebPro: the card of a parcel, and the results of a search."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from lxml.html import HtmlElement

from harvester.exceptions import ParseError
from harvester.parsers.counties import labels, values
from harvester.parsers.counties.html import absolute, lines_of, read_page, text_of
from harvester.parsers.counties.pages import label_of
from harvester.parsers.counties.sections import MOST_LABELS_NAMED, ParcelPage, Section

ACCOUNT = "Property Account Number"
REQUIRED = {ACCOUNT: "PROPERTYACCOUNTNUMBER", "Location": "LOCATION", "Owner": "OWNER", "Total Value": "TOTALVALUE"}
"""What every card has -> its label."""
NARRATIVE = "Narrative Description"
_KNOWN = frozenset(
    [
        *REQUIRED.values(),
        *("PARCELID", "OLDPARCELID", "ADDRESS", "CITY", "STATE", "ZIP", "ZONING", "LEGALREFERENCE", "GRANTORSELLER"),
        *("SALEDATE", "SALEPRICE", "YEAR", "BUILDINGVALUE", "XTRAFEATURESVALUE", "LANDAREA", "LANDVALUE"),
    ]
)
"""Labels that a cell is known by. Another one is known by its place between those."""
_is_account = re.compile(r"[0-9]{1,15}").fullmatch
_says_nothing = re.compile(r"no (?:records?|results?|matches|properties|parcels)\b", re.IGNORECASE).search
_MEANS = {
    "PROPERTYACCOUNTNUMBER": "PARID",
    "LOCATION": "SITUSADDRESS",
    "LEGALREFERENCE": "INSTRUMENTNO",
    "GRANTORSELLER": "GRANTOR",
}
"""Labels -> what they say, as the lists of labels have it."""
_TOLD = {
    "classified as": ("USEDESC", re.compile(r"classified as (.+?) with ").search),
    "built about": ("YEARBUILT", re.compile(r"built about (\d{4})").search),
    "acres of land": ("ACRES", re.compile(r"contains ([\d.,]+) acres of land").search),
}
"""What the narrative says, by the words that it stands beside."""


class Row(NamedTuple):
    """A parcel that a search has found."""

    account: str
    address: str


class Results(NamedTuple):
    """A page of what it has found."""

    parcels: list[Row]
    last: int
    """The last page that this one leads to."""


def is_account(text: str) -> bool:
    """Whether it may be the number by which these sites know a parcel."""
    return bool(_is_account(text))


def read_card(body: bytes) -> ParcelPage | None:
    """What the card says; None when it is that of no parcel. Raises ParseError when it lacks what each has."""
    sections = _sections(read_page(body)) if body.strip() else []
    said = {labels.plain(label): lines for section in reversed(sections) for label, lines in reversed(section.pairs)}
    lacking = [what for what, label in REQUIRED.items() if label not in said]
    if lacking:
        shown = ", ".join([label for section in sections for label, _ in section.pairs][:MOST_LABELS_NAMED])
        raise ParseError(f"the card of the parcel lacks: {', '.join(lacking)}; there is {shown or 'no label at all'}")
    account = " ".join(said[REQUIRED[ACCOUNT]])
    return ParcelPage(account, 0, sections, id_label=ACCOUNT) if account else None


def read_results(body: bytes) -> Results:
    """What a search has found. Raises ParseError."""
    page = read_page(body)
    found: dict[str, Row] = {}
    last = 1
    for link in page.iter("a"):
        address = urlsplit(absolute("", link.get("href") or ""))
        asked = {name.lower(): value for name, value in parse_qsl(address.query)}
        if account := asked.get("accountnumber") or asked.get("anum"):
            cell = next(link.iterancestors("td"), None)
            beside = cell.getnext() if cell is not None else None
            found.setdefault(account, Row(account, "" if beside is None else " ".join(text_of(beside).split())))
        else:
            last = max(last, values.whole(asked.get("page")) or 0)
    if not found and not _says_nothing(text_of(page)):
        raise ParseError("it is no answer of a search: it names no parcel, and does not say that there is none")
    return Results(list(found.values()), last)


def _sections(page: HtmlElement) -> list[Section]:
    """A row with one text is the title of those that follow it."""
    sections = [Section("Parcel")]
    for row in page.iter("tr"):
        cells = [each for each in row if each.tag in ("td", "th") and each.find(".//tr") is None]
        texts = [each for each in cells if text_of(each)]
        if len(texts) == 1 and labels.plain(label_of(texts[0])) not in _KNOWN:
            shown = text_of(texts[0])
            if sections[-1].title == NARRATIVE:
                _read_narrative(sections[-1], shown)
            else:
                sections.append(Section(label_of(texts[0])))
            continue
        if any(labels.plain(label_of(each)) == REQUIRED[ACCOUNT] for each in texts):
            sections.append(Section(sections[0].title))  # what comes is said of that account
        _add_pairs(sections[-1], cells)
    return [section for section in sections if section.pairs]


def _read_narrative(section: Section, shown: str) -> None:
    section.pairs.append((NARRATIVE, [shown]))
    for words, (meant, search) in _TOLD.items():
        if found := search(shown):
            section.pairs.append((words, [found[1]]))
            section.means[words] = meant


def _add_pairs(section: Section, cells: Sequence[HtmlElement]) -> None:
    at = 0
    while at < len(cells):
        label = label_of(cells[at])
        beside = cells[at + 1] if at + 1 < len(cells) else None
        if beside is not None and labels.plain(label_of(beside)) in _KNOWN:
            beside = None
        at += 1 if beside is None else 2
        if label or (beside is not None and text_of(beside)):
            section.pairs.append((label, [] if beside is None else lines_of(beside)))
            if meant := _MEANS.get(labels.plain(label)):
                section.means[label] = meant

"""Reads pages of Tyler EagleWeb: an account on the sites of assessors and treasurers, and the results of a search."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote_plus, urlencode, urlsplit

from lxml.html import HtmlElement
from msgspec.structs import replace

from harvester.exceptions import PageFailed, ParseError
from harvester.items.property import normalized
from harvester.outcomes import Outcome
from harvester.parsers.counties import labels
from harvester.parsers.counties.html import has_class, lines_of, read_page, text_of
from harvester.parsers.counties.pages import NUMBER, label_of
from harvester.parsers.counties.sections import MOST_LABELS_NAMED, ParcelPage, Section, summed

SUMMARY, VALUE, TRANSACTIONS = "Account Summary", "Account Value", "Tax Transaction Detail"
"""Titles of the sections on a treasurer's site."""
_is_none = re.compile(r"no (results|accounts) found", re.IGNORECASE).search
_of_all = re.compile(rf"\bof ({NUMBER}) on\b|\b({NUMBER}) results?\b", re.IGNORECASE).search
_in_address = re.compile(r"account\.jsp\?(?:[^#]*&)?account(?:num)?=([^&#]+)", re.IGNORECASE).search
_account = re.compile(r"\s*account\s*:\s*(\S.*)", re.IGNORECASE).fullmatch
_with_year = re.compile(r"(.*\S)\s*\(((?:19|20)\d\d)\)").fullmatch
_levy = re.compile(r"\s*(?=\bMill Levy\b)").split


class EagleWebResults(NamedTuple):
    """A page of the results of a search."""

    accounts: list[str]
    number: int
    """Number of all accounts found, shown or not."""


def is_treasurer(root: str) -> bool:
    """Returns True if the address belongs to a treasurer's site, not to an assessor's."""
    return "/treasurer" in urlsplit(root).path.lower()


def account_url(root: str, number: str, *, of_transactions: bool = False) -> str:
    """Returns the address of an account's page; treasurers have a second page with transactions."""
    if not is_treasurer(root):
        return f"{root}taxweb/account.jsp?{urlencode({'accountNum': number})}"
    query = {"account": number} | ({"action": "tx"} if of_transactions else {})
    return f"{root}treasurerweb/account.jsp?{urlencode(query)}"


def read_account(body: bytes) -> ParcelPage | None:
    """Reads the page of an account. Returns None when no account is on the page. Raises ParseError and PageFailed."""
    if not body.strip():
        return None
    page = read_page(body)
    if (summary := _of_id(page, "taxAccountSummary")) is not None:
        found = ParcelPage("", sections=list(_treasurers(page, summary)), id_label="Account Id")
        found.parcel_id = _said(found, ["ACCOUNTID", "ACCOUNT", "ACCOUNTNUMBER"])
    elif any(has_class(table, "accountSummary") for table in page.iter("table")):
        shown = _heading(page)
        found = _with_year_of_values(ParcelPage("", sections=_assessors(page), id_label="Account"))
        found.parcel_id = shown or _said(found, ["ACCOUNTNUMBER", "ACCOUNT"])
    else:
        _check_session(page)
        return None
    if not found.parcel_id:
        known = [label for section in found.sections for label, _ in section.pairs]
        there_is = ", ".join(known[:MOST_LABELS_NAMED])
        raise ParseError(f"the page of the account lacks: {found.id_label}; there is {there_is}")
    return found


def read_transactions(body: bytes, number: str) -> ParcelPage:
    """Reads a treasurer's page with the transactions of an account.

    Raises PageFailed, and ParseError also when its heading shows another account.
    """
    page = read_page(body)
    if (shown := _heading(page)) and normalized(shown) != normalized(number):
        raise ParseError(f"the account {number} was asked for, and the transactions are those of {shown}")
    tables = [(table, title) for table, title in _titled(page) if has_class(table, "account")]
    if not tables:
        _check_session(page)
        raise ParseError("the page of transactions has no table of the class account")
    sections = [section for table, title in tables for section in _tables(table, f"{TRANSACTIONS}: {title}")]
    for section in sections:
        section.header = [section.header[0] or "Tax Year", *section.header[1:]] if section.header else []
    return ParcelPage(number, sections=sections)


def read_results(body: bytes, url: str) -> EagleWebResults:
    """Reads the results of a search.

    The site may redirect straight to the only account. Raises ParseError and PageFailed.
    """
    if only := _number_in(url):
        return EagleWebResults([only], 1)
    page = read_page(body)
    found = list(dict.fromkeys(filter(None, (_number_in(link.get("href") or "") for link in page.iter("a")))))
    shown = text_of(page)
    if not found and not _is_none(shown):
        _check_session(page)
        raise ParseError("it is no answer of a search: it names no account, and does not say that there is none")
    number = _of_all(shown) if found else None
    return EagleWebResults(found, int((number[1] or number[2]).replace(",", "")) if number else len(found))


def _check_session(page: HtmlElement) -> None:
    """Raises PageFailed for the login page."""
    if any("loginpost.jsp" in (form.get("action") or "").lower() for form in page.iter("form")):
        raise PageFailed(Outcome.SESSION_EXPIRED, "the site shows its login page")


def _heading(page: HtmlElement) -> str:
    """Returns the account's number if a heading shows it; else empty."""
    found = next((named for each in page.iter("h1", "h2") if (named := _account(text_of(each)))), None)
    return found[1].strip() if found else ""


def _number_in(url: str) -> str:
    """Returns the number of the account in an address; empty if the address is not an account's."""
    found = _in_address(url)
    return unquote_plus(found[1]).strip() if found else ""


def _of_id(page: HtmlElement, name: str) -> HtmlElement | None:
    return next((each for each in page.iter("div", "table", "td") if each.get("id") == name), None)


def _titled(page: HtmlElement) -> Iterator[tuple[HtmlElement, str]]:
    """Yields the tables of the middle of a page, each with the heading before it, unless that is the account's.

    Tables below the heading of a second account are left out.
    """
    title = account = ""
    middle = _of_id(page, "middle")
    for element in (page if middle is None else middle).iter("h1", "h2", "h3", "table"):
        if element.tag == "table":
            yield element, title
        elif named := _account(shown := label_of(element)):
            if account and normalized(named[1]) != normalized(account):
                return
            title, account = "", account or named[1]
        else:
            title = shown


def _said(page: ParcelPage, wanted: Iterable[str]) -> str:
    said = {labels.plain(label): " ".join(lines) for section in page.sections for label, lines in section.pairs}
    return next((said[name] for name in wanted if said.get(name)), "")


# The assessor -------------------------------------------------------------------------------------------------


def _assessors(page: HtmlElement) -> list[Section]:
    """Returns the sections of the summary, which has its titles in a row above, and of the tables around it."""
    sections: list[Section] = []
    for table, title in _titled(page):
        if has_class(table, "accountSummary"):
            sections += _summary(table)
        elif not any(has_class(each, "accountSummary") for each in table.iterancestors("table")):
            sections += [section for section in _tables(table, title) if section.header]
    return sections


def _summary(table: HtmlElement) -> Iterator[Section]:
    titles: list[str] = []
    for row in _rows(table):
        cells = _cells(row)
        if not any(next(cell.iter("table"), None) is not None for cell in cells):
            titles = [label_of(cell) for cell in cells]
            continue
        for at, cell in enumerate(cells):
            title = titles[min(at, len(titles) - 1)] if titles else ""
            for inner in cell.iter("table"):
                if next(inner.iterancestors("table")) is table:
                    yield from _tables(inner, title)


def _tables(table: HtmlElement, title: str) -> Iterator[Section]:
    """Yields a section for the labels at the side and in the caption, and a section for the rows below the header.

    A lone cell below a header is a remark, not a row.
    """
    beside, below = Section(title), Section(title)
    for caption in table.findall("caption"):
        said = [piece.partition(":") for piece in _levy(text_of(caption))]
        beside.pairs += [(label.strip(), [value.strip()]) for label, _, value in said if value.strip()]
    for row in _rows(table):
        cells = _cells(row)
        if len(cells) > 1 and (all(cell.tag == "th" for cell in cells) or _is_bold(cells)):
            below.header = [label_of(cell) for cell in cells]
        elif pair := _pair(cells):
            beside.pairs.append(pair)
        elif below.header and len(cells) > 1 and any(shown := [text_of(cell) for cell in cells]):
            if len(shown) != len(below.header):
                raise ParseError(f"a row of {title} has {len(shown)} cells, and its header {len(below.header)}")
            below.rows.append(shown)
    below.pairs += summed(below, of_some=True)
    yield from (section for section in (beside, below) if section.pairs or section.header)


def _is_bold(cells: list[HtmlElement]) -> bool:
    """Returns True for a header, False for a label beside its value: each cell is bold, and no cell has a digit."""
    return all(
        (shown := text_of(cell))
        and shown == " ".join(text_of(each) for each in cell.iter("strong", "b"))
        and not any(map(str.isdecimal, shown))
        for cell in cells
    )


def _pair(cells: list[HtmlElement]) -> tuple[str, list[str]] | None:
    """Returns a bold label with the lines after it, in its own cell or in the next cells."""
    bold = next(cells[0].iter("strong", "b"), None) if cells else None
    if bold is None and not (len(cells) > 1 and cells[0].tag == "th"):
        return None
    if len(cells) > 1:
        return label_of(cells[0]), [line for cell in cells[1:] for line in lines_of(cell)]
    assert bold is not None
    named, (first, *others) = text_of(bold), lines_of(cells[0]) or [""]
    rest = first.removeprefix(named).lstrip(": ")
    label = " ".join((bold.text or "").split()).rstrip(":* ") or label_of(bold)
    return label, [rest, *others] if rest else others


def _with_year_of_values(page: ParcelPage) -> ParcelPage:
    """Takes the year in a label such as `Actual (2024)` as the year of the page."""
    years = [int(found[2]) for section in page.sections for label, _ in section.pairs if (found := _with_year(label))]
    if not years:
        return page
    for section in page.sections:
        section.pairs = [
            (found[1] if (found := _with_year(label)) and int(found[2]) == years[0] else label, lines)
            for label, lines in section.pairs
        ]
    return replace(page, tax_year=years[0], year_label="in brackets")


# The treasurer ------------------------------------------------------------------------------------------------


def _treasurers(page: HtmlElement, summary: HtmlElement) -> Iterator[Section]:
    section = Section(SUMMARY)
    for row in summary.iter("tr"):
        cells = _cells(row)
        if len(cells) > 1:
            label, lines = label_of(cells[0]), [line for cell in cells[1:] for line in lines_of(cell)]
            if label or not section.pairs:
                section.pairs.append((label, lines))
            else:
                section.pairs[-1][1].extend(lines)
    yield section
    if (totals := _of_id(page, "totals")) is not None:
        rows = [_cells(row) for row in totals.iter("tr")]
        yield Section("Inquiry", [(label_of(cells[0]), lines_of(cells[-1])) for cells in rows if len(cells) > 1])
    if (value := _of_id(page, "taxAccountValueSummary")) is not None:
        yield from _values(value)


def _values(summary: HtmlElement) -> Iterator[Section]:
    """Yields two labels above two values, then rows below `Actual` and `Assessed`, then labels with taxes."""
    beside, below = Section(VALUE), Section(VALUE)
    above, group = ["", "", ""], ""
    for row in summary.iter("tr"):
        first, middle, last = [*(text_of(cell) for cell in _cells(row)), "", "", ""][:3]
        if not first and middle and last:
            below.header = ["Type", middle, last]
        elif middle and below.header:
            below.rows.append([first, middle, last])
        elif first and not last:
            group = first
        elif below.header and first:
            beside.pairs.append((f"{group}: {first}" if group else first, [last]))
        elif any(above):
            beside.pairs += [(above[0], [first]), (above[2], [last])]
            above = ["", "", ""]
        elif first:
            above = [first, middle, last]
    yield from (section for section in (beside, below) if section.pairs or section.header)


def _rows(table: HtmlElement) -> Iterator[HtmlElement]:
    return (row for row in table.iter("tr") if next(row.iterancestors("table")) is table)


def _cells(row: HtmlElement) -> list[HtmlElement]:
    return [cell for cell in row if cell.tag in ("td", "th")]

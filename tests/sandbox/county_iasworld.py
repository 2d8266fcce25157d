"""A county's parcels as Tyler's iasWorld Public Access shows them: forms, one session for each visitor, datalets.

Its pages are made from what is known of such sites, and are without scripts and styles.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from harvester.sandbox.pdf import pdf
from tests.crawling import Answer
from tests.sandbox.county import County, Document, Parcel, changed
from tests.sandbox.county_portal import CountyPortal

ROOT = "/PT/"
SEARCH = "search/commonsearch.aspx"
DISCLAIMER = "search/Disclaimer.aspx"
DATALET = "Datalets/Datalet.aspx"
COOKIE = "ASP.NET_SessionId"
TABS = ("values", "sales", "taxes")
BILL = "Reports/TaxBill.pdf"
NO_RECORDS = "Your search did not find any records."
TOO_MANY = "Your search returned too many records."
STALE = Answer(500, b"<h2>Validation of viewstate MAC failed.</h2>", kind="text/html")
NO_ACCESS = Answer(200, b"<html><p>Sorry, You don't have access to requested page.</p></html>", kind="text/html")
MAINTENANCE = Answer(
    200, b"<html><p>We are currently conducting maintenance. Please come back later.</p></html>", kind="text/html"
)
_MODES = {"parid": ("inpParid",), "owner": ("inpOwner1",), "address": ("inpNo", "inpStreet")}
_HIDDEN = {"ScriptManager1_TSM": "", "hdListType": "PA", "hdJur": "000", "hdIndex": "1", "mask": "", "sIndex": "-1"}
_HEAD = (
    "<html><head><meta name='Description' content='iasWorld'></head><body>"
    '<div id="divSMaint" style="display:none">The System is currently unavailable due to maintenance.'
    " Please check again later.</div>"
)


class Line(NamedTuple):
    """Of the results: a parcel in a year."""

    parcel: Parcel
    year: int


class _Session:
    """What the site remembers of a visitor."""

    def __init__(self) -> None:
        self.agreed = self.busy = False
        self.state = ""
        """The ViewState of the form that was shown last; no other is taken."""
        self.found: list[Line] = []


class IasworldPortal(CountyPortal):
    """One in three parcels has a line for each of two years, the others are shown at once."""

    page = "inpParid="

    def __init__(self, county: County, most: int = 10_000) -> None:
        super().__init__()
        self.county = county
        self.most = most
        """Results that a search may have."""
        self.page_size = 15
        """Results that are shown at once."""
        self.pdf: Callable[[Parcel], Answer] = lambda parcel: Answer(200, bill_pdf(parcel), kind="application/pdf")
        """What stands where the latest bill of a parcel should."""
        self.agreements = self.stale = 0
        self._sessions: dict[str, _Session] = {}
        self._parcels = {parcel.parcel_id: parcel for parcel in county.parcels}
        self._lines = {parcel.parcel_id: _lines(number, parcel) for number, parcel in enumerate(county.parcels)}

    @property
    def entry_url(self) -> str:
        """As a person opens it."""
        return f"{self.url}{ROOT}"

    async def respond(self, path: str, number: int) -> Answer:
        address, _, posted = path.partition("?__") if "?__" in path else (path, "", "")
        posted = f"__{posted}" if posted else ""
        session = self._sessions.get(cookie_in(self.heads[path][number]))
        if session and session.busy:
            self.overlaps += 1
        if session:
            session.busy = True
        try:
            await asyncio.sleep(0)
            return self._answer(address, posted, session)
        finally:
            if session:
                session.busy = False

    def forget(self) -> None:
        self._sessions.clear()

    def _answer(self, address: str, posted: str, session: _Session | None) -> Answer:
        parts = urlsplit(address)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        form = {name: values[0] for name, values in parse_qs(posted, keep_blank_values=True).items()}
        page = parts.path.removeprefix(ROOT)
        if page == DISCLAIMER:
            return self._disclaimer(session, query, form)
        if session is None or not session.agreed:
            back = quote(f"../{address.removeprefix(ROOT)}", safe="")
            return Answer(302, b"", {"Location": f"{ROOT}{DISCLAIMER}?FromUrl={back}"}, kind="text/html")
        if page == SEARCH:
            return self._results(session, query, form) if form else self._search(session, query)
        if page.lower() == DATALET.lower():
            return self._datalet(session, query)
        if page == BILL and (parcel := self._parcels.get(query.get("pin", ""))):
            return self.pdf(parcel)
        return Answer(404, b"<html>There is no such page.</html>", kind="text/html")

    # Disclaimer and search --------------------------------------------------------------------------------------

    def _disclaimer(self, session: _Session | None, query: Mapping[str, str], form: Mapping[str, str]) -> Answer:
        if form:
            if session is None or form.get("__VIEWSTATE") != session.state or "btAgree" not in form:
                self.stale += 1
                return STALE
            session.agreed = True
            self.agreements += 1
            return Answer(302, b"", {"Location": form["hdURL"], "Set-Cookie": "DISCLAIMER=1; path=/"}, kind="text/html")
        headers = {}
        if session is None:
            name, session = secrets.token_hex(12), _Session()
            self._sessions[name] = session
            headers = {"Set-Cookie": f"{COOKIE}={name}; path=/; HttpOnly"}
        inner = (
            f'<input type="hidden" name="hdURL" value="{escape(query.get("FromUrl", "../search"))}">'
            '<p>For information only.</p><button type="submit" name="btAgree" value="">Agree</button>'
        )
        return self._form(session, "Form1", "./Disclaimer.aspx", inner, headers)

    def _search(self, session: _Session, query: Mapping[str, str]) -> Answer:
        return self._form(session, "frmMain", _action(query), _inputs(query.get("mode", ""), {}))

    def _results(self, session: _Session, query: Mapping[str, str], form: Mapping[str, str]) -> Answer:
        mode = query.get("mode", "")
        known = {**_HIDDEN, "__EVENTVALIDATION": "ok", "hdAction": "Search"}
        if form.get("__VIEWSTATE") != session.state or any(form.get(name) != known[name] for name in known):
            self.stale += 1
            return STALE
        number = int(form.get("PageNum", "1"))
        session.found = [line for parcel in self._matching(mode, form) for line in self._lines[parcel.parcel_id]]
        if not session.found:
            return _html(f"<p>{NO_RECORDS}</p>")
        if len(session.found) > self.most:
            return _html(f"<p>{TOO_MANY}</p>")
        if len(session.found) == 1:
            return Answer(302, b"", {"Location": f"../{DATALET}?sIndex=0&idx=1"}, kind="text/html")
        begin = (number - 1) * self.page_size
        rows = [_result(index, line) for index, line in enumerate(session.found, 1)][begin : begin + self.page_size]
        shown = f"Displaying {begin + 1} - {begin + len(rows)} of {len(session.found)}"
        head = "<tr><th>All</th><th>Owner</th><th>Parcel ID</th><th>TaxYr</th></tr>"
        table = f'<table id="searchResults">{head}{"".join(rows)}</table><p>{shown}</p>'
        return self._form(session, "frmMain", _action(query), _inputs(mode, form) + table)

    def _matching(self, mode: str, form: Mapping[str, str]) -> Iterator[Parcel]:
        wanted = [form.get(name, "").upper() for name in _MODES.get(mode, ())]
        for parcel in self.county.parcels:
            if mode == "parid":
                fits = parcel.parcel_id == wanted[0]
            elif mode == "owner":
                fits = any(owner.startswith(wanted[0]) for owner in parcel.owners)
            else:
                number, _, street = (parcel.address or "").partition(" ")
                fits = wanted[0] in ("", number) and street.startswith(wanted[1]) and bool(street)
            if fits:
                yield parcel

    def _form(
        self, session: _Session, name: str, action: str, inner: str, headers: Mapping[str, str] | None = None
    ) -> Answer:
        session.state = secrets.token_urlsafe(24)
        fields = f'<input type="hidden" name="__VIEWSTATE" value="{session.state}">'
        fields += '<input type="hidden" name="__EVENTVALIDATION" value="ok">'
        body = (
            f'{_HEAD}<form name="{name}" method="post" action="{escape(action)}">{fields}{inner}</form></body></html>'
        )
        return Answer(200, body.encode(), headers or {}, kind="text/html; charset=utf-8")

    # Datalets ---------------------------------------------------------------------------------------------------

    def _datalet(self, session: _Session, query: Mapping[str, str]) -> Answer:
        index = int(query.get("idx", "0"))
        if not 1 <= index <= len(session.found):
            return NO_ACCESS
        line = session.found[index - 1]
        mode = query.get("mode", "profile")
        address = f"../Datalets/datalet.aspx?sIndex=0&amp;idx={index}&amp;LMparent=20"
        links = "".join(
            f'<li class="{"sel" if tab == mode else "unsel"}"><a href="{address}&amp;mode={tab}">{tab}</a></li>'
            for tab in ("profile", *TABS)
        )
        links += '<li><a href="../maps/map.aspx?sIndex=0">Map</a></li>'
        menu = f'<div id="sidemenu"><ul class="navigation">{links}</ul></div>'
        banner = (
            f'<table><tr><td class="DataletHeaderTop">PARID: {escape(line.parcel.parcel_id)}</td></tr>'
            f'<tr><td class="DataletHeaderBottom">{escape(line.parcel.address or "")}&nbsp;</td></tr></table>'
        )
        hidden = f'<input type="hidden" name="hdTaxYear" value="{line.year}">'
        return _html(menu + hidden + changed(banner + sections(mode, line), self.now_changed))


def bill_lines(parcel: Parcel) -> list[str]:
    """What stands in the PDF of its latest bill."""
    year, billed = max(_billed(parcel))
    return [f"Tax bill {year}", f"Parcel {parcel.parcel_id}", *parcel.owners, f"Net annual tax ${billed:,.2f}"]


def bill_pdf(parcel: Parcel) -> bytes:
    """The PDF of its latest bill."""
    return pdf(bill_lines(parcel))


def bills(county: County, jurisdiction: str) -> dict[str, Document]:
    """`_id` -> what of the document of a tax bill is the county's own."""
    return {
        f"{jurisdiction} {year} {parcel.parcel_id}": {
            "jurisdiction": jurisdiction,
            "parcel_id": parcel.parcel_id,
            "tax_year": year,
            "currency": "USD",
            "billed": billed,
            "paid": billed if year < parcel.tax_year else Decimal(0),
        }
        for parcel in county.parcels
        for year, billed in _billed(parcel)
    }


def _billed(parcel: Parcel) -> list[tuple[int, Decimal]]:
    cents = Decimal("0.01")
    return [(2024, (parcel.market / 60).quantize(cents)), (2025, (parcel.market / 50).quantize(cents))]


def _lines(number: int, parcel: Parcel) -> list[Line]:
    return [Line(parcel, year) for year in ((2024, 2025) if number % 3 == 0 else (2025,))]


def cookie_in(head: str) -> str:
    """The session that a request names."""
    found = [line for line in head.split("\r\n") if line.lower().startswith("cookie:")]
    pairs = [pair.strip().partition("=") for line in found for pair in line.partition(":")[2].split(";")]
    return {name: value for name, _, value in pairs}.get(COOKIE, "")


def _action(query: Mapping[str, str]) -> str:
    return f"./commonsearch.aspx?mode={query.get('mode', '')}"


def _inputs(mode: str, given: Mapping[str, str]) -> str:
    hidden = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in _HIDDEN.items())
    own = "".join(f'<input name="{name}" value="{escape(given.get(name, ""))}">' for name in _MODES.get(mode, ()))
    number = given.get("PageNum", "1")
    return (
        f'{hidden}{own}<input type="hidden" name="hdAction" value=""><input type="hidden" name="PageNum"'
        f' value="{number}"><select name="selPageSize"><option selected>15</option></select>'
        '<button type="submit" name="btSearch" value="Search">Search</button>'
    )


def _result(index: int, line: Line) -> str:
    parcel = escape(line.parcel.parcel_id)
    return (
        f'<tr class="SearchResults" onclick="javascript:selectSearchRow(\'../{DATALET}?sIndex=0&amp;idx={index}\')">'
        f'<td><input type="hidden" name="chkPin" value="000:{parcel}:{line.year}"></td>'
        f"<td>{escape(' '.join(line.parcel.owners))}</td><td><div>{parcel}</div></td><td>{line.year}</td></tr>"
    )


def sections(mode: str, line: Line) -> str:
    parcel = line.parcel
    if mode == "values":
        year, lower = str(line.year), line.year - 1 if line.year == parcel.tax_year else None
        header = ("Tax Year", "Market Value", "Land Value", "Taxable Value")
        rows = [(year, _money(parcel.market), _money(parcel.land), _money(parcel.taxable))]
        return _above("Value History", header, rows) if lower else _above("Value History", header, [])
    if mode == "sales":
        if not parcel.sold:
            return _above("Sales", ("Sale Date", "Sale Price", "Instrument No."), [])
        sale = (parcel.sold.strftime("%d-%b-%Y").upper(), _money(parcel.price), parcel.deed or "")
        return _above("Sales", ("Sale Date", "Sale Price", "Instrument No."), [sale])
    if mode == "taxes":
        rows_of_taxes = [
            (str(year), f"{billed:,}", f"-{billed:,}" if year < parcel.tax_year else "0.00")
            for year, billed in _billed(parcel)
        ]
        link = f'<a href="../{BILL}?pin={quote(parcel.parcel_id)}">Tax bill</a>'
        return _above("Annual Taxes", ("Tax Year", "Net Annual Tax", "Total Paid"), rows_of_taxes) + link
    owners: list[tuple[str, str]] = [("Owner" if not n else "", name) for n, name in enumerate(parcel.owners)]
    sides = [
        ("Property Address", parcel.address or ""),
        ("Land Use Code:", parcel.use_code if line.year == parcel.tax_year else "000"),
        ("Total Acres **", f"{parcel.acres}"),
        ("Flood Zone", parcel.flood_zone or ""),
    ]
    return _sides("Parcel", sides) + _sides("Owner", owners or [("Owner", "")])


def _money(amount: Decimal | None) -> str:
    return "" if amount is None else f"${amount:,.2f}"


def _sides(title: str, rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><td class="DataletSideHeading">{escape(label) or "&nbsp;"}</td>'
        f'<td class="DataletData">{escape(value) or "&nbsp;"}</td></tr>'
        for label, value in rows
    )
    return f'<table id="{title}">{cells}</table>'


def _above(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<td class="DataletTopHeading">{escape(label)}</td>' for label in header)
    cells = "".join(
        "<tr>" + "".join(f'<td class="DataletData">{escape(cell) or "&nbsp;"}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f'<table id="{title}"><tr>{head}</tr>{cells}</table>'


def _html(inner: str) -> Answer:
    return Answer(200, f"{_HEAD}{inner}</body></html>".encode(), kind="text/html; charset=utf-8")


def kinds_of_failures() -> dict[str, Any]:
    """Name -> an answer of that kind."""
    return {
        "maintenance": MAINTENANCE,
        "rate_limited": Answer(429, b"", {"Retry-After": "1"}, kind="text/html"),
        "server_error": Answer(503, b"<html>Service Unavailable</html>", kind="text/html"),
        "network": Answer(silent=True),
        "cut_short": Answer(body=b"<html>", missing=9, kind="text/html"),
        "stale": STALE,
    }

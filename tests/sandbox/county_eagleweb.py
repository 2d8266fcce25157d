"""A county's accounts as Tyler EagleWeb shows them, in the look of an assessor and in that of a treasurer.

Its pages are made from what is known of such sites, and are without scripts and styles. The truth is made without the
parsers of harvester: what they read is compared with it.
"""

import secrets
from collections.abc import Mapping, Sequence
from decimal import Decimal
from html import escape
from urllib.parse import parse_qs, urlsplit

from tests.crawling import Answer
from tests.sandbox.county import County, Document, Parcel, changed
from tests.sandbox.county_portal import Changes, CountyPortal

ASSESSOR, TREASURER = "/assessor/", "/treasurer/"
LOGIN, ENTER = "web/login.jsp", "web/loginPOST.jsp"
COOKIE = "JSESSIONID"
_ACCOUNT = {ASSESSOR: ("taxweb/account.jsp", "accountNum"), TREASURER: ("treasurerweb/account.jsp", "account")}
_SEARCH = {ASSESSOR: "taxweb/results.jsp", TREASURER: "treasurerweb/searchPOST.jsp"}
_NONE = {ASSESSOR: "No results found", TREASURER: "No accounts found"}


class EaglewebPortal(CountyPortal):
    """Both look at the same accounts; a session of one is none of the other."""

    page = "account.jsp?"

    def __init__(self, county: County, most: int = 100) -> None:
        super().__init__()
        self.county = county
        self.most = most
        """Results that are shown at once."""
        self.button = "Enter EagleWeb"
        """Of the guests."""
        self.changes_of: dict[str, Changes] = {}
        """Number of an account -> what is changed in its page."""
        self.guests = 0
        """Sessions that were begun."""
        self._sessions: set[str] = set()
        self._accounts = {parcel.parcel_id: parcel for parcel in county.parcels}

    def forget(self) -> None:
        self._sessions.clear()

    def well(self, path: str) -> Answer:
        parts = urlsplit(path)
        root = TREASURER if parts.path.startswith(TREASURER) else ASSESSOR
        place, query = parts.path.removeprefix(root), {name: of[0] for name, of in parse_qs(parts.query).items()}
        if place == LOGIN:
            return _html(self._login())
        if place == ENTER:
            session = secrets.token_hex(12)
            self._sessions.add(root + session)
            self.guests += 1
            headers = {"Location": f"{root}web/search.jsp", "Set-Cookie": f"{COOKIE}={session}; Path={root}"}
            return Answer(302, b"", headers, kind="text/html")
        if self._sessions.isdisjoint(root + each for each in _cookies(self.heads[path][-1])):
            return Answer(302, b"", {"Location": f"{root}{LOGIN}"}, kind="text/html")
        if place == "web/search.jsp":
            return _html("<h1>Search for an Account</h1>")
        if place == _SEARCH[root]:
            return self._search(root, query)
        page, name = _ACCOUNT[root]
        parcel = self._accounts.get(query.get(name, "")) if place == page else None
        if parcel is None:
            return _html('<div id="middle"><h1>Account</h1></div>')
        look = _assessors if root == ASSESSOR else _transactions if query.get("action") == "tx" else _treasurers
        return _html(changed(look(parcel), self.changes_of.get(parcel.parcel_id, self.now_changed)))

    def _login(self) -> str:
        return (
            '<form action="loginPOST.jsp" method="post"><input name="userId"><input type="password" name="password">'
            '<input type="submit" name="submit" value="Login"></form><div id="middle_left">'
            f'<form action="loginPOST.jsp" method="post"><input type="submit" name="submit" value="{self.button}">'
            '<input type="hidden" name="guest" value="true"></form></div>'
        )

    def _search(self, root: str, form: Mapping[str, str]) -> Answer:
        number = form.get("AccountNumID", form.get("TaxAccountID", ""))
        found = [number] if number in self._accounts else []
        house, street, owner = (
            form.get(name, "") for name in ("SitusIDHouseNumber", "SitusIDStreetName", "OwnerIDSearchString")
        )
        for parcel in self.county.parcels:
            at, _, along = (parcel.address or "").partition(" ")
            is_there = bool(street) and house in ("", at) and along.startswith(street)
            if is_there or (owner and any(name.startswith(owner) for name in parcel.owners)):
                found.append(parcel.parcel_id)
        page, name = _ACCOUNT[root]
        if len(found) == 1:
            return Answer(302, b"", {"Location": f"{root}{page}?{name}={found[0]}"}, kind="text/html")
        rows = "".join(
            f'<tr class="tableRow1"><td><a href="account.jsp?{name}={each}">{each}</a></td></tr>'
            for each in found[: self.most]
        )
        shown = f"<p>Showing {len(found)} results</p>" if found else f"<p>{_NONE[root]}</p>"
        return _html(f'<div id="middle">{shown}<table id="searchResultsTable">{rows}</table></div>')


def accounts(parcels: int) -> County:
    """A county whose parcels are known by the numbers of their accounts."""
    county = County(parcels)
    county.parcels = [parcel._replace(parcel_id=f"R{at:07}") for at, parcel in enumerate(county.parcels)]
    return county


def assessors_truth(county: County, jurisdiction: str) -> dict[str, dict[str, Document]]:
    """As `County.truth`, with what an assessor's page says, and the bill of the year before."""
    found = county.truth(jurisdiction) | {"tax_bills": {}}
    for parcel in county.parcels:
        found["assessments"][f"{jurisdiction} 2025 {parcel.parcel_id}"].pop("land_value")
        names = found["properties"][f"{jurisdiction} {parcel.parcel_id}"]
        if "owner_names" in names:
            names["owner_names"] = [" & ".join(parcel.owners)]
        found["tax_bills"][f"{jurisdiction} 2024 {parcel.parcel_id}"] = _bill(
            jurisdiction, parcel, 2024, billed=tax_of(parcel)
        )
    return found


def treasurers_truth(county: County, jurisdiction: str) -> dict[str, dict[str, Document]]:
    """Likewise of a treasurer's: values of no year, no sales, and the bills of two years, of which one is paid."""
    found: dict[str, dict[str, Document]] = {"properties": {}, "assessments": {}, "sales": {}, "tax_bills": {}}
    for parcel in county.parcels:
        of = {"jurisdiction": jurisdiction, "parcel_id": parcel.parcel_id}
        said = {"owner_names": list(parcel.owners), "situs_address": parcel.address}
        found["properties"][f"{jurisdiction} {parcel.parcel_id}"] = of | {
            name: value for name, value in said.items() if value
        }
        found["assessments"][f"{jurisdiction} undated {parcel.parcel_id}"] = of | {
            "currency": "USD",
            "market_value": parcel.market,
            "assessed_value": parcel.land,
            "assessed_land_value": Decimal(1),
        }
        tax = tax_of(parcel)
        for year, paid in ((2024, {"paid": tax}), (2025, {})):
            key = f"{jurisdiction} {year} {parcel.parcel_id}"
            found["tax_bills"][key] = _bill(jurisdiction, parcel, year, billed=tax, **paid)
    return found


def _bill(jurisdiction: str, parcel: Parcel, year: int, **amounts: Decimal) -> Document:
    of: Document = {"jurisdiction": jurisdiction, "parcel_id": parcel.parcel_id, "tax_year": year, "currency": "USD"}
    return of | amounts


def tax_of(parcel: Parcel) -> Decimal:
    """What is billed for it each year."""
    return (parcel.market / 50).quantize(Decimal("0.01"))


def assessors_page(parcel: Parcel) -> bytes:
    return _html(_assessors(parcel)).body


def treasurers_pages(parcel: Parcel) -> tuple[bytes, bytes]:
    """Of the account, and of its transactions."""
    return _html(_treasurers(parcel)).body, _html(_transactions(parcel)).body


def _assessors(parcel: Parcel) -> str:
    location = [
        ("Parcel Number", f"{parcel.parcel_id[1:]}-00"), ("Situs Address", parcel.address or ""),
        ("Acres", f"{parcel.acres}"), ("Flood Zone", parcel.flood_zone or ""),
    ]  # fmt: skip
    places = "".join(f"<tr><td><strong>{label}</strong> {escape(value)}</td></tr>" for label, value in location)
    owner = escape(" & ".join(parcel.owners))
    values = [("Actual", " (2025)", parcel.market), ("Primary Taxable", "", parcel.taxable)]
    amounts = "".join(
        f'<tr><td><b>{label}</b>{year}</td><td align="right">{_money(value)}</td></tr>' for label, year, value in values
    )
    sale = [(f"{parcel.sold:%m/%d/%Y}", _money(parcel.price), parcel.deed or "")] if parcel.sold else []
    types = _table(("Type", "Actual", "Assessed", "Acres"), [("Land", _money(parcel.land), "$1", f"{parcel.acres}")])
    types = types.replace("<table>", "<table><caption>Tax Area: 0100 Mill Levy: 87.775</caption>")
    transfers = _table(("Sale Date", "Sale Price", "Reception Number"), sale)
    years = _table(("Tax Year", "Taxes"), [("*2025", "$9.99"), ("2024", _money(tax_of(parcel)))])
    return (
        f'<div id="middle"><h1>Account: {parcel.parcel_id}</h1><table class="accountSummary">'
        "<tr><th>Location</th><th>Owner Information</th><th>Assessment History</th></tr>"
        f"<tr><td><table>{places}</table></td>"
        f"<td><table><tr><td><b>Owner Name</b> {owner}</td></tr><tr><td><b>Owner Address</b> 1 ELM ST<br>ADA, MI 49301"
        f"</td></tr></table></td><td><table>{amounts}<tr><th><b>Legal Class</b></th><td>{parcel.use_code}</td></tr>"
        f'</table>{types}</td></tr><tr><th colspan="3">Transfers</th></tr><tr><td colspan="3">{transfers}</td></tr>'
        f'<tr><th colspan="3">Tax History</th></tr><tr><td colspan="3">{years}</td></tr></table></div>'
    )


def _treasurers(parcel: Parcel) -> str:
    owners = [("Owners" if not at else "", name) for at, name in enumerate(parcel.owners or ("",))]
    said = [
        ("Account&nbsp;Id", parcel.parcel_id), ("Parcel&nbsp;Number", f"{parcel.parcel_id[1:]}-00"), *owners,
        ("Address", "1 ELM ST<br>ADA, MI 49301"), ("Situs&nbsp;Address", parcel.address or ""), ("Legal", "LOT 7"),
    ]  # fmt: skip
    rows = "".join(f'<tr class="hasLabel"><td class="label">{label}</td><td>{value}</td></tr>' for label, value in said)
    tax = _money(tax_of(parcel))
    values = [
        ("Area Id", "", "Mill Levy"), ("0100 - ADA", "", "87.775"), ("", "Actual", "Assessed"),
        ("Land", _money(parcel.land), "$1"), ("Total Value", _money(parcel.market), _money(parcel.land)),
        ("Taxes", "", tax),
    ]  # fmt: skip
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in values)
    return (
        f'<div id="middle"><h1>Summary</h1><div id="taxAccountSummary"><table>{rows}</table></div>'
        f'<h1>Inquiry</h1><div id="totals"><table><tr><td>Total Due</td><td align="right">{tax}</td></tr></table></div>'
        f'<div id="taxAccountValueSummary"><div><table>{cells}</table></div></div></div>'
    )


def _transactions(parcel: Parcel) -> str:
    due = [f"{each} Due" for each in ("Tax", "Interest", "Penalty", "Misc", "Lien", "Lien Interest", "Total")]
    tax = _money(tax_of(parcel))
    lines = [
        ("2025", "Tax Charge", "1/10/26", tax, tax), ("2024", "Tax Payment", "4/30/25", f"-{tax}", "$0.00"),
        ("2024", "Tax Charge", "1/10/25", tax, tax),
    ]  # fmt: skip
    summary = _table(("Tax Year", *due), [("2025", tax, *["$0.00"] * 5, tax)])
    detail = _table(("Tax Year", "Type", "Effective Date", "Amount", "Balance"), lines)
    tables = f"<h2>Summary</h2>{summary}<h2>Detail</h2>{detail}".replace("<table>", '<table class="account stripe">')
    return f'<div id="middle">{tables}</div>'


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table><tr>{''.join(f'<th>{each}</th>' for each in header)}</tr>{''.join(lines)}</table>"


def _money(amount: Decimal | None) -> str:
    return "" if amount is None else f"${amount:,.2f}"


def _cookies(head: str) -> list[str]:
    lines = [line for line in head.split("\r\n") if line.lower().startswith("cookie:")]
    pairs = [pair.strip().partition("=") for line in lines for pair in line.partition(":")[2].split(";")]
    return [value for name, _, value in pairs if name == COOKIE]


def _html(inner: str) -> Answer:
    body = f"<!DOCTYPE html><html><head><title>Account</title></head><body>{inner}</body></html>"
    return Answer(body=body.encode(), kind="text/html; charset=utf-8")

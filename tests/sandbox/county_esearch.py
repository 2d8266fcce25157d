"""A county's parcels as BIS eSearch shows them, by the hosts that want tokens and by those that do not.

Its pages are made from what is known of such sites, and are without scripts and styles. The truth is made without the
parsers of harvester: what they read is compared with it.
"""

import json
import re
from collections.abc import Sequence
from html import escape
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.crawling import Answer
from tests.sandbox.county import County, Document, Parcel, changed
from tests.sandbox.county_devnet import tax_of
from tests.sandbox.county_portal import CountyPortal

VIEW, TAXES = "/Property/View/", "/Property/GetPropertyTaxDueModalResult"
CAPTCHA, SESSION = "/search/shouldUseRecaptcha", "/search/requestSessionToken"
SEARCH, RESULTS = "/search/result", "/search/SearchResults"
HTML = "text/html; charset=utf-8"
ERROR = Answer(200, b"<html><title>Error</title><h2>An Error Occurred!</h2></html>", kind=HTML)
MISSING = Answer(404, b"<html><title>404</title></html>", kind=HTML)
MOST_ROWS = 3
"""Of a page of results, however many are asked for."""
_DUE = (
    "Year", "Taxable Value", "Base Tax", "Base Taxes Paid", "Base Tax Due", "Discount/Penalty & Interest",
    "Attorney Fees", "Amount Due",
)  # fmt: skip
_HISTORY = ("Year", "Improvements", "Land Market", "Ag Valuation", "Appraised", "HS Cap Loss", "Assessed")
_DEEDS = ("Deed Date", "Type", "Description", "Grantor", "Grantee", "Volume", "Page", "Number")
_LAND = ("Type", "Description", "Acreage", "Sqft", "Eff Front", "Eff Depth", "Market Value", "Prod. Value")
_keyword = re.compile(r'(\w+):(?:"([^"]*)"|(\S+))').findall


class EsearchPortal(CountyPortal):
    """`wants`: "token", "cookie" beside that, "captcha", or nothing, as older hosts do."""

    page = VIEW

    def __init__(self, county: County, wants: str = "") -> None:
        super().__init__()
        self.county = county
        self.wants = wants
        self.parcels = {parcel.parcel_id: parcel for parcel in county.parcels}
        self.tokens: dict[str, str] = {}
        """Those that are known: token -> the keywords that it is for; empty: of a session that has searched nothing."""
        self.sessions: dict[str, str] = {}
        """Token -> the session of the cookie with which it was given."""
        self.made = 0
        """Tokens of sessions that were given."""

    def forget(self) -> None:
        self.tokens.clear()

    def well(self, path: str) -> Answer:
        place, _, query = path.partition("?")
        query, _, posted = query.partition("?")
        given = {name: values[0] for name, values in parse_qs(query).items()}
        if place.startswith(VIEW):
            parcel = self.parcels.get(unquote(place.removeprefix(VIEW)))
            return _html(changed(page_of(parcel), self.now_changed)) if parcel else ERROR
        if place == TAXES:
            return _html(taxes_of(self.parcels[given["id"]])) if given["year"] == "2025" else ERROR
        if place == RESULTS and not posted and not self.wants:
            return self._results(given["keywords"], int(given["page"]), int(given["pageSize"]))
        return self._with_token(place, given, posted, self.heads[path][-1]) if self.wants else MISSING

    def _with_token(self, place: str, given: dict[str, str], posted: str, head: str) -> Answer:
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        if "content-type" in headers and not posted:
            return Answer(415, b"", kind="text/html")
        if place == CAPTCHA:
            return _json(self.wants == "captcha")
        cookies = SimpleCookie(headers.get("cookie", ""))
        session = cookies["session"].value if "session" in cookies else ""
        if place == SESSION:
            self.made += 1
            is_new = self.wants == "cookie" and not session
            session = f"{self.made}" if is_new else session
            self.tokens[token := f"<{self.made}>&+/="] = ""
            self.sessions[token] = session
            answer = _json({"searchSessionToken": token})
            return answer._replace(headers={"Set-Cookie": f"session={session}; path=/"}) if is_new else answer
        asked = json.loads(posted) if posted else {}
        token = str(asked.get("searchToken", given.get("searchSessionToken", "")))
        keywords = given["keywords"]
        mine = self.sessions.get(token.removeprefix("search ")) == session
        if place == SEARCH and self.tokens.get(token) == "" and mine:
            self.tokens[f"search {token}"] = keywords
            meta = f'<meta name="search-token" content="{escape(f"search {token}")}">'
            return _html(f"<html><head><title>Search</title>{meta}</head><body>Results</body></html>")
        if place == RESULTS and self.tokens.get(token) == keywords and mine and asked["recaptchaToken"] == "":
            assert headers["x-requested-with"] == "xmlhttprequest"
            return self._results(keywords, asked["page"], asked["pageSize"])
        return MISSING

    def _results(self, keywords: str, page: int, rows: int) -> Answer:
        wanted = {name: (quoted or bare).upper() for name, quoted, bare in _keyword(keywords)}
        found = [parcel for parcel in self.county.parcels if _is_found(parcel, wanted)]
        rows = min(rows, MOST_ROWS)
        shown = [
            {"propertyId": each.parcel_id, "ownerName": " & ".join(each.owners), "address": each.address, "year": 2025}
            for each in found[(page - 1) * rows : page * rows]
        ]
        return _json({"resultsList": shown, "totalResults": len(found), "totalPages": -(-len(found) // rows)})


def truth(county: County, jurisdiction: str, *, taxes: bool = True) -> dict[str, dict[str, Document]]:
    """As `County.truth`, with what such a site says of a parcel, and the taxes that are due."""
    found = county.truth(jurisdiction) | {"tax_bills": {}}
    for parcel in county.parcels:
        key = f"{jurisdiction} 2025 {parcel.parcel_id}"
        names, values = found["properties"][f"{jurisdiction} {parcel.parcel_id}"], found["assessments"][key]
        if "owner_names" in names:
            names["owner_names"] = [" & ".join(parcel.owners)]
        del values["land_value"]
        if (taxable := values.pop("taxable_value", None)) is not None:
            values["assessed_value"] = taxable
        if taxes and _owes(parcel):
            of = {name: values[name] for name in ("jurisdiction", "parcel_id", "tax_year", "currency")}
            found["tax_bills"][key] = of | {"billed": tax_of(parcel), "paid": tax_of(parcel) // 2}
    for sale in found["sales"].values():
        sale.pop("sale_price", None)
    return found


def page_of(parcel: Parcel) -> str:
    """Its page."""
    account = [
        _pair("Property ID", parcel.parcel_id) + "<td><strong>Geographic ID:</strong> G-1</td>",
        _pair("Property Use", parcel.use_code),
    ]
    location = [_pair("Situs Address", parcel.address or ""), _pair("Flood Zone", parcel.flood_zone or "")]
    owner = [
        _pair("Owner ID", "7"),
        _pair("Name", " & ".join(parcel.owners)),
        "<th>Mailing Address:</th><td>PO BOX 7<br>DUMAS, TX 79029</td>",
    ]
    details = [
        row
        for title, rows in (("Account", account), ("Location", location), ("Owner", owner))
        for row in (f'<th colspan="3">{title}</th>', *rows)
    ]
    assessed = _money(parcel.taxable) if parcel.taxable is not None else "N/A"
    worth = [_pair("Market Value", f"{_money(parcel.market)} (=)"), _pair("Assessed Value", assessed)]
    land = _money(parcel.land)
    history = ("2025", _money(parcel.market - parcel.land), land, "$0", "N/A", "$0", assessed)
    deed = (
        (f"{parcel.sold:%m/%d/%Y}", "WD", "WARRANTY DEED", "", "", "", "", parcel.deed or "") if parcel.sold else None
    )
    panels = {
        "Property Details": _rows(details),
        "Property Values": _rows(worth),
        "Property Land": _table(_LAND, [("RL", "LOT", f"{parcel.acres}", "", "", "", land, "")]),
        "Property Roll Value History": _table(_HISTORY, [("2026", *["N/A"] * 6), history]),
        "Property Deed History": _table(_DEEDS, [deed] if deed else []),
    }
    inner = "".join(
        f'<div class="panel panel-primary"><div class="panel-heading">{title}</div>{body}</div>'
        for title, body in panels.items()
    )
    title = f"<h3>Property ID: {parcel.parcel_id} For Year 2025</h3>"
    return f"<!DOCTYPE html><html><head><title>Search</title></head><body>{title}{inner}</body></html>"


def taxes_of(parcel: Parcel) -> str:
    """What is due for it."""
    tax, paid = tax_of(parcel), tax_of(parcel) // 2
    due = tax - paid
    row = ("2025", "", _money(tax), _money(paid), _money(due), "$0.00", "$0.00", _money(due))
    total = f'<tr><td colspan="7">Total</td><td>{_money(due)}</td></tr>' if _owes(parcel) else ""
    return _table(_DUE, [row] if _owes(parcel) else []).replace("</table>", f"{total}</table>")


def _owes(parcel: Parcel) -> bool:
    return parcel.flood_zone == "X"


def _is_found(parcel: Parcel, wanted: dict[str, str]) -> bool:
    number, _, street = (parcel.address or "").partition(" ")
    said = {"PropertyId": parcel.parcel_id, "StreetNumber": number, "StreetName": street}
    said["OwnerName"] = " ".join(parcel.owners)
    exact = {"PropertyId", "StreetNumber"}
    return all(value == said[name] if name in exact else value in said[name] for name, value in wanted.items())


def _pair(label: str, value: str) -> str:
    return f"<th>{label}:</th><td>{escape(value)}</td>"


def _rows(rows: Sequence[str]) -> str:
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return _rows(["".join(f"<th>{escape(each)}</th>" for each in header), *lines])


def _money(amount: Any) -> str:
    return f"${amount:,.2f}"


def _json(said: Any) -> Answer:
    return Answer(body=json.dumps(said).encode())


def _html(page: str) -> Answer:
    return Answer(body=page.encode(), kind=HTML)

"""Counties' parcels as Harris PACS shows them: one search form, results that lie in the session, a page of a property.

Its pages are made from what is known of such sites, and are without scripts and styles. The truth is made without the
parsers of harvester: what they read is compared with it.
"""

import asyncio
import re
import secrets
from collections.abc import Mapping, Sequence
from decimal import Decimal
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.crawling import Answer
from tests.sandbox.county import County, Document, Parcel, changed
from tests.sandbox.county_iasworld import STALE, cookie_in, kinds_of_failures
from tests.sandbox.county_portal import CountyPortal

ROOT = "/clientdb/"
SEARCH, RESULTS, PROPERTY = "PropertySearch.aspx", "SearchResults.aspx", "Property.aspx"
CID = 7
MAINTENANCE = Answer(302, b"", {"Location": f"{ROOT}customdisplay.htm?aspxerrorpath={ROOT}{SEARCH}"}, kind="text/html")
EXPIRED = Answer(200, b"<html><p>Your session has expired. Please begin again.</p></html>", kind="text/html")
_HIDDEN = {"__EVENTTARGET": "", "__EVENTARGUMENT": "", "__VIEWSTATEGENERATOR": "90059987", "__EVENTVALIDATION": "ok"}


class Known(NamedTuple):
    """A property: its number at the site is no part of the county's own."""

    property_id: str
    geographic_id: str
    parcel: Parcel


class _Session:
    """What the site remembers of a visitor."""

    def __init__(self) -> None:
        self.cid = ""
        """The client whose search it has opened last: whatever is asked for is looked for there."""
        self.busy = False
        self.state = ""
        """The ViewState of the form that was shown last; no other is taken."""
        self.found: list[Known] | None = None


class PacsPortal(CountyPortal):
    """Clients of the platform at one host. `washington`: in the look of that state's counties."""

    page = PROPERTY

    def __init__(self, *counties: County, washington: bool = False) -> None:
        super().__init__()
        self.washington = washington
        self.clients = {str(CID + at): _known(county, at) for at, county in enumerate(counties)}
        """By cid."""
        self.page_size = 25
        """Results that are shown at once."""
        self.sessions = self.stale = 0
        self._sessions: dict[str, _Session] = {}

    @property
    def entry_url(self) -> str:
        """As a person opens it, but for the number of the client."""
        return f"{self.url}{ROOT}"

    async def respond(self, path: str, number: int) -> Answer:
        address, _, posted = path.partition("?__") if "?__" in path else (path, "", "")
        session = self._sessions.get(cookie_in(self.heads[path][number]))
        if session:
            self.overlaps += session.busy
            session.busy = True
        try:
            await asyncio.sleep(0)
            return self._answer(address, f"__{posted}" if posted else "", session)
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
        if page == "customdisplay.htm":
            return _html("<p>The site will be back soon.</p>")
        if page == "":
            return _moved(f"{ROOT}{SEARCH}?{parts.query}")
        if page == SEARCH:
            return self._search(session, query, form)
        if session is None or (page == RESULTS and session.found is None):
            return EXPIRED if page == RESULTS else _moved(f"{ROOT}{SEARCH}?{parts.query}")
        if page == RESULTS:
            return self._results(session, int(query.get("page", "1")))
        if page == PROPERTY:
            found = [each for each in self.clients[session.cid] if each.property_id == query.get("prop_id")]
            shown = page_of(found[0], washington=self.washington) if found else "<p>There is no such property.</p>"
            return _html(changed(shown, self.now_changed))
        return Answer(404, b"<html>There is no such page.</html>", kind="text/html")

    @property
    def _field(self) -> str:
        return "propertySearchOptions" + ("$" if self.washington else ":")

    def _search(self, session: _Session | None, query: Mapping[str, str], form: Mapping[str, str]) -> Answer:
        headers = {}
        if form:
            if (
                session is None
                or form.get("__VIEWSTATE") != session.state
                or any(form.get(name) != value for name, value in _HIDDEN.items())
                or form.get(f"{self._field}search") != "Search"
                or form.get(f"{self._field}taxyear") != "2025"
            ):
                self.stale += 1
                return STALE
            session.found = self._matching(session.cid, form.get(f"{self._field}searchText", ""))
            return _moved(f"{RESULTS}?cid={session.cid}")
        if session is None:
            name, session = secrets.token_hex(12), _Session()
            self._sessions[name] = session
            self.sessions += 1
            headers = {"Set-Cookie": f"ASP.NET_SessionId={name}; path=/; HttpOnly"}
        session.cid, session.state = query.get("cid", ""), secrets.token_urlsafe(24)
        hidden = {**_HIDDEN, "__VIEWSTATE": session.state}
        fields = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in hidden.items())
        inner = (
            f'<form name="Form1" method="post" action="{SEARCH}?cid={session.cid}">{fields}'
            f'<input name="{self._field}searchText" id="propertySearchOptions_searchText">'
            f'<input type="submit" name="{self._field}search" value="Search">'
            f'<input type="submit" name="{self._field}advanced" value="Advanced &gt;&gt;">'
            f'<select name="{self._field}taxyear"><option value="2026">2026 - Values not available</option>'
            '<option value="2025" selected>2025</option></select></form>'
        )
        return _html(inner)._replace(headers=headers)

    def _matching(self, cid: str, text: str) -> list[Known]:
        """The search looks everywhere."""
        wanted = text.upper()
        return [
            each
            for each in self.clients[cid]
            if _plain(text) in (each.property_id, _plain(each.geographic_id))
            or any(wanted in said for said in (*each.parcel.owners, each.parcel.address or ""))
        ]

    def _results(self, session: _Session, number: int) -> Answer:
        found = session.found or []
        if not found:
            return _html('<h3 id="propertySearchResults_pageHeading">Property Search Results &gt; None found.</h3>')
        begin = (number - 1) * self.page_size
        shown = found[begin : begin + self.page_size]
        names = ("Account", "Parcel", "Type", "Tax Code", "Address") if self.washington else (
            "Property ID", "Geographic ID", "Type", "Property Address"
        )  # fmt: skip
        header = ("", *names, "Legal Description", "Owner Name", "Appraised Value", "")
        rows = "".join(self._row(session.cid, each) for each in shown)
        last = (len(found) + self.page_size - 1) // self.page_size
        pages = " ".join(
            f'<a href="{RESULTS}?rtype=address&amp;page={each}">{each}</a>' if each != number else str(each)
            for each in range(1, last + 1)
        )
        heading = f"Property Search Results &gt; {begin + 1} - {begin + len(shown)} of {len(found):,} for Year 2025."
        return _html(
            f'<h3 id="propertySearchResults_pageHeading">{heading}</h3><table id="propertySearchResults_resultsTable">'
            f'<tr class="tableHeader">{"".join(f"<th>{name}</th>" for name in header)}</tr>{rows}'
            f'<tr><td class="paging" colspan="{len(header)}">{pages}</td></tr></table>'
        )

    def _row(self, cid: str, each: Known) -> str:
        link = f'<a href="{PROPERTY}?cid={cid}&amp;prop_id={each.property_id}&amp;year=2025">View Details</a>'
        code = ("0010",) if self.washington else ()
        cells = (
            f'<input type="checkbox"><span prop_id="{each.property_id}"></span>',
            *(each.property_id, escape(each.geographic_id), "Real", *code, escape(each.parcel.address or "")),
            *("LOT 1", escape(" & ".join(each.parcel.owners)), _money(each.parcel.market), link),
        )
        return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def property_ids(county: County, at: int = 0) -> list[str]:
    """In the order of its parcels. `at`: which client of a portal the county is."""
    return [each.property_id for each in _known(county, at)]


def truth(county: County, jurisdiction: str) -> dict[str, dict[str, Document]]:
    """As `County.truth`, by property ids, with what the platform says of a parcel."""
    numbered = County(0)
    numbered.parcels = [each.parcel._replace(parcel_id=each.property_id) for each in _known(county, 0)]
    found = numbered.truth(jurisdiction)
    for parcel in numbered.parcels:
        values = found["assessments"][f"{jurisdiction} 2025 {parcel.parcel_id}"]
        del values["land_value"]
        if "taxable_value" in values:
            values["assessed_value"] = values.pop("taxable_value")
        of = {name: values[name] for name in ("jurisdiction", "parcel_id", "currency")}
        before: Document = {**of, "tax_year": 2024, "assessed_value": parcel.land}
        found["assessments"][f"{jurisdiction} 2024 {parcel.parcel_id}"] = before
    for sale in found["sales"].values():
        del sale["sale_price"]
    return found


def page_of(known: Known, *, washington: bool = False) -> str:
    """The page of a property."""
    parcel, (left, right) = known.parcel, _parts(Decimal(str(known.parcel.acres)))
    assessed = "N/A" if parcel.taxable is None else _money(parcel.taxable)
    owner = " &amp; ".join(map(escape, parcel.owners))
    geographic = "Parcel # / Geo ID" if washington else "Geographic ID"
    property_rows = [
        "<tr><td colspan='4' class='propertyDetailsHeading'>Account</td></tr>",
        _pairs(("Property ID", known.property_id), ("Legal Description", "LOT 1<BR>OLD POST")),
        _pairs((geographic, escape(known.geographic_id)), ("Agent Code", "")),
        _pairs(("Type", "Real"), ("Property Use Code", parcel.use_code)),
        _pairs(("Flood Zone", parcel.flood_zone or ""), ("Property Use Description", "")),
        "<tr><td colspan='4'>Location</td></tr>",
        _pairs(("Address", escape(parcel.address or "")), ("Mapsco", "")),
        "<tr><td colspan='4'>Owner</td></tr>",
        *(
            _pairs(("Name", escape(name)), ("Owner ID", f"{100 + at}"))
            + _pairs(("Mailing Address", f"PO BOX {at} <BR> ADA, TX 78000"), ("% Ownership", "50.0000000000%"))
            + _pairs(("", ""), ("<a href='#'>Exemptions</a>", "HS"))
            for at, name in enumerate(parcel.owners or ("",))
        ),
    ]
    sums = [
        ("(+)", "Improvement Homesite Value", _money(parcel.market - parcel.land), ""),
        ("(+)", "Land Non-Homesite Value", _money(parcel.land), "Ag / Timber Use Value"),
        ("(+)", "Agricultural Market Valuation", "$0", "$0"),
        ("(=)", "Market Value", _money(parcel.market), ""),
        ("(&ndash;)", "HS Cap", "$0", ""),
        ("(=)", "Assessed Value", assessed, ""),
    ]
    value_rows = [
        f"<tr><td>{sign} {label}:</td><td>{sign[1:-1]}</td><td>{value}</td><td>{use}&nbsp;</td></tr>"
        for sign, label, value, use in sums
    ]
    value_rows.insert(3, "<tr><td>&nbsp;</td><td>&nbsp;</td><td>--------------------------</td><td></td></tr>")
    closing = [
        f"<tr><td></td><td>{label}:</td><td>{value}</td><td></td><td></td><td></td></tr>"
        for label, value in (("Total Tax Rate", "2.1"), ("Taxes w/Current Exemptions", "$210.00"))
    ]
    deed = ("1", f"{parcel.sold:%m/%d/%Y}", "WD", "WARRANTY DEED", "DOE JANE", owner, "", "", parcel.deed or "") if (
        parcel.sold
    ) else ()  # fmt: skip
    improvement = (
        '<table class="improvements"><tr><th>Improvement #1:</th><td>RESIDENTIAL</td><th>Living Area:</th>'
        "<td>1,500.0 sqft</td><th>Value:</th><td>$97,390</td></tr></table>"
        + _table(("", "Type", "Year Built", "SQFT"), [("", "MA", "1975", "1500.0"), ("", "GAR", "1980", "400.0")])
        if parcel.price
        else "<table><tr><td>No improvements exist for this property.</td></tr></table>"
    )
    year = "2025 - 2026" if washington else "2025"
    return (
        f"<h3>Property Search Results &gt; {known.property_id} {owner} for Year {year}</h3>"
        + _part("property", f"<table summary='Property Details'>{''.join(property_rows)}</table>")
        + _part("values", f"<table summary='Property Values'>{''.join(value_rows)}</table>")
        + _part(
            "taxingJurisdiction",
            f"<table>{_pairs(('Owner', owner))}{_pairs(('% Ownership', '100%'))}</table>"
            + _table(
                ("Entity", "Description", "Tax Rate", "Appraised Value", "Taxable Value", "Estimated Tax"),
                [("CAD", "APPRAISAL DISTRICT", "0.0", "$1", "$1", "$0.00")],
            ).replace("</table>", f"{''.join(closing)}</table>"),
        )
        + _part("improvementBuilding", improvement)
        + _part(
            "land",
            _table(
                ("#", "Type", "Description", "Acres", "Market Value"),
                [("1", "A", "Homesite", left, "$1"), ("2", "B", "Rest", right, "N/A")],
            ),
        )
        + _part(
            "rollHistory",
            _table(
                ("Year", "Improvements", "Land Market", "Ag Valuation", "Appraised", "HS Cap", "Assessed"),
                [
                    ("2025", "N/A", _money(parcel.land), "0", "N/A", "N/A", assessed),
                    ("2024", "$0", _money(parcel.land), "0", _money(parcel.land), "$0", _money(parcel.land)),
                ],
            ),
        )
        + _part(
            "deedHistory",
            _table(
                ("#", "Deed Date", "Type", "Description", "Grantor", "Grantee", "Volume", "Page", "Deed Number"),
                [deed] if deed else [],
            ),
        )
    )


def failures() -> dict[str, Any]:
    """Name -> an answer of that kind."""
    return kinds_of_failures() | {"maintenance": MAINTENANCE, "expired": EXPIRED}


def _known(county: County, at: int) -> list[Known]:
    """Clients number their properties alike."""
    numbered = enumerate(county.parcels)
    return [Known(str(10_001 + 7 * number), f"{parcel.parcel_id}-{at}", parcel) for number, parcel in numbered]


def _parts(acres: Decimal) -> tuple[str, str]:
    left = (acres / 3).quantize(Decimal("0.01"))
    return f"{left}", f"{acres - left}"


def _plain(number: str) -> str:
    return re.sub(r"[^A-Z0-9]", "", number.upper()).lstrip("0")


def _pairs(*pairs: tuple[str, str]) -> str:
    cells = "".join(f"<td>{label}{':' if label else ''}</td><td>{value or '&nbsp;'}</td>" for label, value in pairs)
    return f"<tr>{cells}</tr>"


def _part(name: str, inner: str) -> str:
    return f'<div id="{name}Heading">{name}</div><div id="{name}Details">{inner}</div>'


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<td>{each}</td>" for each in header)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table><tr class="tableDataHeader">{head}</tr>{lines}</table>'


def _money(amount: Decimal) -> str:
    return f"${amount:,.2f}"


def _moved(to: str) -> Answer:
    return Answer(302, b"", {"Location": to}, kind="text/html")


def _html(inner: str) -> Answer:
    body = f"<!DOCTYPE html><html><head><title>County CAD</title></head><body>{inner}</body></html>"
    return Answer(body=body.encode(), kind="text/html; charset=utf-8")

"""A town's parcels as Patriot Properties WebPro shows them: a session remembers which of them is shown.

Its pages are made from what is known of such sites, and are without scripts and styles. The truth is made without the
parsers of harvester: what they read is compared with it.
"""

import asyncio
import secrets
from decimal import Decimal
from html import escape
from urllib.parse import parse_qs

from tests.crawling import Answer
from tests.sandbox.county import County, Document, Parcel, changed
from tests.sandbox.county_portal import CountyPortal

SUMMARY, CARD, SEARCH = "/Summary.asp", "/summary-bottom.asp", "/SearchResults.asp"
COOKIE = "ASPSESSIONIDABCD"
FIRST = 1001
"""The account of the first parcel."""
TIMED_OUT = "<html><body>Your session has timed out. Please start again.</body></html>"


class PatriotPortal(CountyPortal):
    """Accounts are numbered from FIRST."""

    page = CARD

    def __init__(self, county: County) -> None:
        super().__init__()
        self.accounts = {str(FIRST + at): parcel for at, parcel in enumerate(county.parcels)}
        self.changed: dict[str, dict[bytes, bytes]] = {}
        """Account, or none for all -> in its card: what is written -> what is written instead."""
        self.page_size = 15
        """Results that are shown at once."""
        self._sessions: dict[str, _Session] = {}

    async def respond(self, path: str, number: int) -> Answer:
        name = self.heads[path][number].partition(f"{COOKIE}=")[2].partition("\r\n")[0].partition(";")[0].strip()
        session = self._sessions.get(name)
        if session:
            self.overlaps += session.busy
            session.busy = True
        try:
            await asyncio.sleep(0)
            return self._answer(path, session)
        finally:
            if session:
                session.busy = False

    def forget(self) -> None:
        self._sessions.clear()

    def _answer(self, path: str, session: "_Session | None") -> Answer:
        place, _, query = path.partition("?")
        asked = {name.lower(): values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
        cookie = {}
        if session is None and (place == SUMMARY or "searchstreetname" in asked):
            name = secrets.token_hex(12)
            session = self._sessions[name] = _Session()
            cookie = {"Set-Cookie": f"{COOKIE}={name}; path=/"}
        if place not in (SUMMARY, CARD, SEARCH):
            return Answer(404, b"<html><title>404</title></html>", kind="text/html")
        if session is None:
            return _html(TIMED_OUT)
        if place == SUMMARY:
            session.account = asked.get("accountnumber", "")
            return _html("<frameset><frame src='summary-bottom.asp'></frameset>", cookie)
        if place == SEARCH:
            if "searchstreetname" in asked:
                session.found = self._found(asked["searchstreetnum"], asked["searchstreetname"])
            return _html(self._results(session.found, int(asked.get("page", "1"))), cookie)
        body = card_of(self.accounts.get(session.account), session.account).encode()
        for before, after in {**self.changed.get("", {}), **self.changed.get(session.account, {})}.items():
            body = body.replace(before, after)
        return Answer(body=changed(body.decode(), self.now_changed).encode(), kind="text/html; charset=utf-8")

    def _found(self, house: str, street: str) -> list[str]:
        found = []
        for account, parcel in self.accounts.items():
            at, _, along = (parcel.address or "").partition(" ")
            if not (house or street) or (along and house in ("", at) and along.startswith(street)):
                found.append(account)
        return found

    def _results(self, found: list[str], page: int) -> str:
        pages = -(-len(found) // self.page_size)
        rows = ""
        for account in found[(page - 1) * self.page_size : page * self.page_size]:
            parcel = self.accounts[account]
            at, _, along = (parcel.address or "").partition(" ")
            rows += (
                f'<tr><td><a href="Summary.asp?AccountNumber={account}">{parcel.parcel_id}</a></td>'
                f"<td>{at}  {escape(along)}</td><td>{escape(' '.join(parcel.owners))}</td></tr>"
            )
        links = (f'<a href="SearchResults.asp?page={at}">{at}</a>' for at in (page - 1, page + 1) if 0 < at <= pages)
        return f"<table>{rows}</table>{' '.join(links)}" if rows else "<p>No records found</p>"


class _Session:
    """What the site remembers of a visitor."""

    def __init__(self) -> None:
        self.account = ""
        self.found: list[str] = []
        self.busy = False


def truth(county: County, jurisdiction: str) -> dict[str, dict[str, Document]]:
    """As `County.truth`, with accounts for numbers, and what a card says of a parcel."""
    found: dict[str, dict[str, Document]] = {"properties": {}, "assessments": {}, "sales": {}}
    for at, parcel in enumerate(county.parcels):
        account = str(FIRST + at)
        for collection, documents in _one(parcel).truth(jurisdiction).items():
            for key, document in documents.items():
                document["parcel_id"] = account
                if collection == "properties":
                    del document["use_code"]
                if collection == "assessments":
                    document["total_value"] = document.pop("market_value")
                    document.pop("taxable_value", None)
                found[collection][key.replace(parcel.parcel_id, account)] = document
    return found


def _one(parcel: Parcel) -> County:
    county = County(0)
    county.parcels = [parcel]
    return county


def card_of(parcel: Parcel | None, account: str) -> str:
    """The page; without a parcel all its values are missing."""
    owners = list(parcel.owners) if parcel else []
    sold = parcel.sold if parcel else None
    building = parcel.market - parcel.land if parcel else None
    known = [
        [("Location", parcel and parcel.address), ("Property Account Number", account if parcel else ""),
         ("Parcel ID", parcel and parcel.parcel_id)],
        "Current Property Mailing Address",
        [("Owner", "<br>".join(map(escape, owners))), ("City", "ADA"), ("State", "ME")],
        [("Address", "1 ELM ST"), ("Zip", "04001"), ("Zoning", "R1"), ("Flood Zone", parcel and parcel.flood_zone)],
        "Current Property Sales Information",
        [("Sale Date", f"{sold:%m/%d/%Y}" if sold else ""), ("Legal Reference", parcel and parcel.deed)],
        [("Sale Price", _money(parcel and parcel.price)), ("Grantor(Seller)", "")],
        "Current Property Assessment",
        [("Year", parcel and parcel.tax_year), ("Building Value", _money(building))],
        [("Land Value", _money(parcel and parcel.land)), ("Total Value", _money(parcel and parcel.market))],
    ]  # fmt: skip
    rows = ""
    for row in known:
        cells = f'<td colspan="6">{row}</td>' if isinstance(row, str) else "".join(
            f"<td>{label}</td><td>{value or '&nbsp;'}</td>" for label, value in row
        )  # fmt: skip
        rows += f"<tr>{cells}</tr>"
    acres = parcel.acres if parcel else 0
    told = (
        f"This property contains {acres} acres of land mainly classified as One Family with a(n) Cape style building."
    )
    rows += f"<tr><td>Narrative Description</td></tr><tr><td>{told}</td></tr>"
    return f"<html><body><table>{rows}</table></body></html>"


def _money(amount: Decimal | None) -> str:
    return "" if amount is None else f"{amount:,.2f}"


def _html(inner: str, headers: dict[str, str] | None = None) -> Answer:
    return Answer(body=inner.encode(), headers=headers or {}, kind="text/html; charset=utf-8")

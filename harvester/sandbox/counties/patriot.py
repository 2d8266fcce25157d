"""A made-up town in Patriot Properties' WebPro. The session remembers which parcel's card is shown."""

import secrets
from html import escape

from aiohttp import web

from harvester.sandbox.counties.parcels import Parcel, Town

COOKIE = "ASPSESSIONIDQAABBCCD"
PAGE_SIZE = 20
"""Maximum number of results in a page."""
ENTRY = """
[us-ma-sandbox]
hosts = ["{host}"]
[us-ma-sandbox.politeness]
requests_per_second = 0
[us-ma-sandbox.identities]
count = 4  # sessions side by side, each with a parcel
logins_per_hour = 1000
[us-ma-sandbox.property]
name = "Mockport, which is made up"
fips = "25000"
platform = "patriot"
base_url = "http://{host}/"
"""


class _Session:
    """The state of a visitor's session."""

    def __init__(self) -> None:
        self.account = 0
        self.found: list[Parcel] = []


def app_of(parcels: int) -> web.Application:
    """Returns the web application of the site. The account of a parcel is its number."""
    town = Town("Mockport", "MA", "01900", parcels)
    sessions: dict[str, _Session] = {}

    def session_of(request: web.Request) -> tuple[_Session, str]:
        """Returns the visitor's session and, if the session is new, its name."""
        if known := sessions.get(request.cookies.get(COOKIE, "")):
            return known, ""
        name = secrets.token_hex(12).upper()
        sessions[name] = made = _Session()
        return made, name

    def page(inner: str, new: str) -> web.Response:
        response = web.Response(text=inner, content_type="text/html")
        if new:
            response.set_cookie(COOKIE, new, path="/")
        return response

    async def welcome(request: web.Request) -> web.Response:
        return page("<html><frameset><frame src='search-middle-ns.asp'></frameset></html>", session_of(request)[1])

    async def summary(request: web.Request) -> web.Response:
        session, new = session_of(request)
        account = request.query.get("AccountNumber", "")
        session.account = int(account) if account.isdecimal() and len(account) < 10 else 0
        return page("<html><frameset><frame src='summary-bottom.asp' name='Bottom'></frameset></html>", new)

    async def card(request: web.Request) -> web.Response:
        session, new = session_of(request)
        return page(_card(town.parcel(session.account)), new)

    async def results(request: web.Request) -> web.Response:
        session, new = session_of(request)
        if request.method == "POST":
            form = await request.post()
            number, street = str(form.get("SearchStreetNum", "")), str(form.get("SearchStreetName", "")).upper()
            session.found = [
                each for each in town.all() if number in ("", str(each.house)) and each.street.startswith(street)
            ]
        at = request.query.get("page", "1")
        return page(_results(session.found, int(at) if at.isdecimal() and len(at) < 6 else 1), new)

    app = web.Application()
    app.router.add_get("/default.asp", welcome)
    app.router.add_get("/Summary.asp", summary)
    app.router.add_get("/summary-bottom.asp", card)
    app.router.add_route("*", "/SearchResults.asp", results)
    return app


def _results(found: list[Parcel], page: int) -> str:
    pages = -(-len(found) // PAGE_SIZE)
    rows = "".join(
        f'<tr><td><a href="Summary.asp?AccountNumber={each.number}" target="_top">{_map_and_lot(each)}</a></td>'
        f"<td>{each.house}  {escape(each.street)}</td><td>{escape(each.owners[0])}</td></tr>"
        for each in found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    )
    links = [f'<a href="SearchResults.asp?page={at}">{at}</a>' for at in (page - 1, page + 1) if 0 < at <= pages]
    return f"<html><table>{rows}</table>{' '.join(links)}</html>" if rows else "<html><p>No records found</p></html>"


def _map_and_lot(parcel: Parcel) -> str:
    return f"{parcel.number // 40 + 1} {parcel.number % 40} 0"


def _card(parcel: Parcel | None) -> str:
    """Renders the card. Without a parcel all values are empty."""
    top = "".join(
        f'<td width="30%" align="{align}"><font face="Arial" size="2" face="Arial"><b>{label} </font>'
        f'<font face="Arial" color="#0000FF" size="2">&nbsp;{escape(value)}</font></b></td>\n'
        for align, label, value in (
            ("left", "Location", f"{parcel.house}  {parcel.street}" if parcel else ""),
            ("center", "Property Account Number", str(parcel.number) if parcel else ""),
            ("right", "Parcel ID", _map_and_lot(parcel) if parcel else ""),
        )
    )
    street, city, state, zip_code = parcel.mailing if parcel else ("", "", "", "")
    owners = [*(parcel.owners if parcel else ()), "", ""]
    last = parcel.sales[0] if parcel and parcel.sales else None
    now = parcel.values[0] if parcel else None
    mailing = [
        ("Owner", owners[0], "City", city),
        ("", owners[1], "State", state),
        ("Address", street, "Zip", f"{zip_code}-0000" if zip_code else ""),
        ("", "", "Zoning", "SR" if parcel else ""),
    ]
    sale = [
        ("Sale Date", f"{last.day:%m/%d/%Y}" if last else "", "Legal\n Reference", last.deed if last else ""),
        ("Sale\n Price", f"{last.price:,}" if last else "", "Grantor(Seller)", f"{last.seller}," if last else ""),
    ]
    values = [
        ("Year", str(now.year) if now else "", "Building\n Value", f"{now.building:,}" if now else ""),
        ("", "", "Xtra Features\n Value", "0" if now else ""),
        ("Land\n Area", f"{parcel.acres}0 acres" if parcel else "", "Land\n Value", f"{now.land:,}" if now else ""),
        ("", "", "Total\n Value", f"{now.total:,}" if now else ""),
    ]
    of_card = (
        '<tr><td width="14%" align="right">&nbsp;</td><td width="16%" align="left">&nbsp;</td>'
        '<td colspan=2 width="36%" align="center"><u><b>Card 1 Value</b></u></td></tr>'
    )
    return (
        '<html>\n<body bgcolor="white">\n<table width="100%"><tr><td width="15%"><p align="left"></p></td>'
        '<td width="40%"><p align="center">\nCard 1 of 1\n</p></td></tr></table>\n<form name="FCenter">\n'
        f'<table border="1" cellpadding="0" cellspacing="1" width="100%">\n<tr>{top}</tr></table>\n'
        + _titled("Current Property Mailing Address", _rows(mailing))
        + _titled("Current Property Sales Information", _rows(sale))
        + _titled("Current\n Property Assessment", of_card + _rows(values))
        + _titled("Narrative Description", f"<tr><td>{_told(parcel) if parcel else ''}</td></tr>")
        + _titled("Legal Description", "<tr><td></td></tr>")
        + "</form></body></html>"
    )


def _told(parcel: Parcel) -> str:
    def blue(said: object) -> str:
        return f'<font color="blue">{escape(str(said))} </font>'

    building = (
        f"with a(n) {blue(parcel.style.upper())} style building, built about {blue(parcel.built)},"
        f" having {blue(parcel.rooms)} total room(s)"
    )
    return (
        '<font color="black" size="2" face="Arial"><strong>\n This property contains '
        f"{blue(f'{parcel.acres}0 acres')} of land mainly classified as {blue(parcel.use.upper())}"
        f" {building if parcel.style else 'with no building'}.</strong></font>"
    )


def _titled(title: str, rows: str) -> str:
    return (
        '<table border="0" cellpadding="0" cellspacing="0" width="100%">\n<tr><td width="100%">'
        f'<p align="center"><b><font face="Arial" size="2">{title}</font></b></td></tr>\n'
        '<tr><td width="100%"><div align="center"><table border="1" cellpadding="0" cellspacing="1" width="100%">'
        f'<tr><td><table border="0" cellpadding="0" cellspacing="0" width="100%" bordercolor="#c0c0c0">{rows}</table>'
        "</td></tr></table></div></td></tr></table>\n"
    )


def _rows(rows: list[tuple[str, str, str, str]]) -> str:
    """Renders two labels and two values in a row. A value without label continues the value above."""
    return "".join(f"<tr>{_pair(*row[:2])}{_pair(*row[2:])}</tr>\n" for row in rows)


def _pair(label: str, value: str) -> str:
    font = '<font size="2" face="Arial"'
    return (
        f'<td width="14%" align="right"><font face="Arial, Arial, Helvetica">{font}><b>{label}</b></font></font></td>'
        f'<td width="36%" align="left"><b>{font} color="#0000FF">&nbsp;{escape(value)}</font></b></td>'
    )

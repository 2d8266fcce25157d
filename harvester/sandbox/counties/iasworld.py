"""A made-up county in Tyler's iasWorld Public Access: a disclaimer, a search form, datalets in a session."""

import secrets
from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import quote

from aiohttp import web

from harvester.sandbox.counties import bills
from harvester.sandbox.counties.parcels import TAX_YEAR, Parcel, Town

ROOT = "/PublicAccess/"
COOKIE = "ASP.NET_SessionId"
JURISDICTION = "048"
BILL = "Reports/TaxBill.pdf"
PAGE_SIZE = 15
"""Maximum number of results in a page."""
TABS = {"profile_nh": "Parcel", "values_nh": "Values", "sales_all": "Sales", "tax_all": "Taxes"}
"""Maps the mode of a datalet to its title in the menu."""
SEARCHED = {"parid": ("inpParid",), "owner": ("inpOwner1",), "address": ("inpNo", "inpStreet")}
"""Maps the mode of a search to the fields of its form."""
ENTRY = """
[us-pa-sandbox]
hosts = ["{host}"]
[us-pa-sandbox.politeness]
requests_per_second = 0
[us-pa-sandbox.identities]
count = 4
logins_per_hour = 1000
[us-pa-sandbox.property]
name = "Pretend County"
fips = "42000"
platform = "iasworld"
base_url = "http://{host}/PublicAccess/"
disclaimer = "accepted by the sandbox, which has written it, on 2026-01-31"
"""


def parcel_id_of(number: int) -> str:
    """Returns the parcel id of this county. Its blanks are significant."""
    return f"L{number // 100 + 1:02}NE4C {number // 10 % 10 + 1} {number % 10 + 1}       {1000 + number}"


class _Session:
    """The state of a visitor's session."""

    def __init__(self) -> None:
        self.agreed = False
        self.state = ""
        """The ViewState of the last form. Forms with another ViewState are refused."""
        self.found: list[Parcel] = []


class _Portal:
    def __init__(self, parcels: int) -> None:
        self.town = Town("Pretendville", "PA", "18000", parcels)
        self.sessions: dict[str, _Session] = {}
        self._numbers = {_words(parcel_id_of(number)): number for number in range(1, parcels + 1)}

    # Disclaimer and search --------------------------------------------------------------------------------------

    async def disclaimer(self, request: web.Request) -> web.Response:
        session = self.sessions.get(request.cookies.get(COOKIE, ""))
        if request.method == "POST" and session:
            form = await request.post()
            if form.get("__VIEWSTATE") != session.state or "btAgree" not in form:
                return _stale()
            session.agreed = True
            return web.Response(status=302, headers={"Location": str(form.get("hdURL", "../search"))})
        name = ""
        if session is None:
            name, session = secrets.token_hex(12), _Session()
            self.sessions[name] = session
        back = escape(request.query.get("FromUrl", "../search/commonsearch.aspx?mode=parid"))
        inner = (
            f"<input type='hidden' name='hdURL' value='{back}'><p>This county is made up.</p>"
            "<button id='btAgree' name='btAgree' type='submit' value=''>Agree</button>"
        )
        response = _form(session, "Form1", "./Disclaimer.aspx", inner)
        if name:
            response.set_cookie(COOKIE, name, path="/", httponly=True)
        return response

    async def search(self, request: web.Request) -> web.Response:
        session = self.sessions.get(request.cookies.get(COOKIE, ""))
        if session is None or not session.agreed:
            return self._to_disclaimer(request)
        mode = request.query.get("mode", "parid")
        if request.method != "POST":
            return _form(session, "frmMain", f"./commonsearch.aspx?mode={mode}", _inputs(mode, {}))
        form = {name: str(value) for name, value in (await request.post()).items()}
        if form.get("__VIEWSTATE") != session.state:
            return _stale()
        session.found = self._matching(mode, form)
        if not session.found:
            return _page("<p>Your search did not find any records.</p>")
        if len(session.found) == 1:
            return web.Response(status=302, headers={"Location": "../Datalets/Datalet.aspx?sIndex=0&idx=1"})
        number = form.get("PageNum", "1")
        begin = (int(number) - 1 if number.isdecimal() and len(number) < 6 else 0) * PAGE_SIZE
        found = session.found[begin : begin + PAGE_SIZE]
        rows = "".join(_result(begin + at, parcel) for at, parcel in enumerate(found, 1))
        shown = f"Displaying {begin + 1} - {begin + len(found)} of {len(session.found)}"
        head = "<tr><th>All</th><th>Parcel ID</th><th>Owner</th><th>Address</th></tr>"
        table = f"<table id='searchResults'>{head}{rows}</table><p>{shown}</p>"
        return _form(session, "frmMain", f"./commonsearch.aspx?mode={mode}", _inputs(mode, form) + table)

    def _matching(self, mode: str, form: Mapping[str, str]) -> list[Parcel]:
        words = [_words(form.get(name, "").upper()) for name in SEARCHED.get(mode, ())]
        if not any(words):
            return []
        if mode == "parid":
            parcel = self.town.parcel(self._numbers.get(words[0], 0))
            return [parcel] if parcel else []
        if mode == "owner":
            return [each for each in self.town.all() if any(name.startswith(words[0]) for name in each.owners)]
        number, street = words
        return [each for each in self.town.all() if number in ("", str(each.house)) and each.street.startswith(street)]

    def _to_disclaimer(self, request: web.Request) -> web.Response:
        back = quote(f"../{request.path_qs.removeprefix(ROOT)}", safe="")
        return web.Response(status=302, headers={"Location": f"{ROOT}search/Disclaimer.aspx?FromUrl={back}"})

    # Datalets ---------------------------------------------------------------------------------------------------

    async def datalet(self, request: web.Request) -> web.Response:
        session = self.sessions.get(request.cookies.get(COOKIE, ""))
        if session is None or not session.agreed:
            return self._to_disclaimer(request)
        index = request.query.get("idx", "")
        if not (index.isdecimal() and len(index) < 9 and 1 <= int(index) <= len(session.found)):
            return _page("<p>Sorry, You don't have access to requested page.</p>")
        parcel, mode = session.found[int(index) - 1], request.query.get("mode", "profile_nh")
        links = "".join(
            f"<li class='{'sel' if tab == mode else 'unsel'}'><a href='../datalets/datalet.aspx?mode={tab}&amp;sIndex=0"
            f"&amp;idx={index}&amp;LMparent=20' target=''><span>{title}</span></a></li>"
            for tab, title in TABS.items()
        )
        menu = f"<div id='sidemenu'><ul class='navigation'>{links}</ul></div>"
        year = f"<input type='hidden' name='hdTaxYear' value='{TAX_YEAR}'>"
        return _page(menu + year + _banner(parcel) + _datalets(parcel, mode))

    async def bill(self, request: web.Request) -> web.Response:
        session = self.sessions.get(request.cookies.get(COOKIE, ""))
        if session is None or not session.agreed:
            return self._to_disclaimer(request)
        parcel_id = request.query.get("pin", "")
        parcel = self.town.parcel(self._numbers.get(_words(parcel_id), 0))
        if parcel is None:
            raise web.HTTPNotFound
        return bills.answer(parcel, parcel_id)


def app_of(parcels: int) -> web.Application:
    """Returns the web application of the site."""
    portal, app = _Portal(parcels), web.Application()
    app.router.add_route("*", f"{ROOT}search/Disclaimer.aspx", portal.disclaimer)
    app.router.add_route("*", f"{ROOT}search/commonsearch.aspx", portal.search)
    app.router.add_get(f"{ROOT}{BILL}", portal.bill)
    for folder, page in (("Datalets", "Datalet.aspx"), ("datalets", "datalet.aspx")):
        app.router.add_get(f"{ROOT}{folder}/{page}", portal.datalet)
    return app


def _datalets(parcel: Parcel, mode: str) -> str:
    street, city, state, zip_code = parcel.mailing
    if mode == "values_nh":
        rows = [(str(of.year), _dollars(of.land), _dollars(of.building), _dollars(of.total)) for of in parcel.values]
        return _above("Values", ("Tax Year", "Land Value", "Building Value", "Total Value"), rows)
    if mode == "sales_all":
        labels = ("Sale Date", "Sale Price", "Book/Page", "Grantor", "Grantee")
        sales = [
            (f"{of.day:%d-%b-%y}".upper(), _dollars(of.price), of.deed, of.seller, of.buyer) for of in parcel.sales
        ]
        return _above("Sales", labels, sales)
    if mode == "tax_all":
        link = f"<a href='../{BILL}?pin={quote(parcel_id_of(parcel.number))}'>Tax bill</a>"
        taxes = [(str(of.year), f"{of.billed:,}", f"{of.paid:,}") for of in bills.bills_of(parcel)]
        return _above("Annual Taxes", ("Tax Year", "Net Annual Tax", "Total Paid"), taxes) + link
    owners = [*parcel.owners, ""][:2]
    parcel_rows = [
        ("Address", f"{parcel.house}       {parcel.street}"),
        ("Unit Desc", ""),
        ("Class", "R - Residential"),
        ("Land Use Code", f"{parcel.use_code} - {parcel.use}"),
        ("Municipality", "PRETENDVILLE"),
        ("Neighborhood", parcel.neighborhood),
        ("", ""),
        ("Total Acres", parcel.acres.removeprefix("0")),
    ]
    mailing = [
        ("Mailing Name 1", owners[0]),
        ("Mailing Name 2", owners[1]),
        ("Address 1", street),
        ("Address 2", ""),
        ("Address 3", f"{city} {state} {zip_code}"),
    ]
    return (
        _beside(1, "Parcel", parcel_rows)
        + _beside(2, "Owner", [("Owner 1", owners[0]), ("Owner 2", owners[1])])
        + _beside(3, "Tax Mailing Name and Address", mailing)
    )


def _beside(number: int, title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Renders a datalet with labels beside their values."""
    lines = "".join(
        f"<tr><td width='40%' valign='top' align='left' class=\"DataletSideHeading\">{label or '&nbsp;'}</td>"
        f"<td width='*' valign='top' align='left' class=\"DataletData\">{escape(value) or '&nbsp;'}</td></tr>"
        for label, value in rows
    )
    return _datalet(number, title, lines)


def _above(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Renders a datalet with labels above their values."""
    head = "".join(f'<td class="DataletTopHeading">{label}</td>' for label in header)
    lines = "".join(
        "<tr>" + "".join(f'<td class="DataletData">{escape(cell) or "&nbsp;"}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return _datalet(1, title, f"<tr>{head}</tr>{lines}")


def _datalet(number: int, title: str, rows: str) -> str:
    table = "align=center width='100%' border='0' borderColor=black cellPadding=1 cellSpacing=0"
    return (
        f"<div id='datalet_div_{number}'><table {table}><tr><td colspan=2 class=\"DataletTitleColor\"><font size=-1>"
        f"{title}</font></td></tr></table><table id='{title}' {table}>{rows}"
        '<tr><td colspan=2 height="1" valign="top" width=\'100%\'></td></tr></table></div>'
    )


def _banner(parcel: Parcel) -> str:
    top, bottom = 'class="DataletHeaderTop"', 'class="DataletHeaderBottom"'
    return (
        f'<table width="100%" border="0" cellspacing="0" cellpadding="0"><tr {top} height="1"><td {top} width="50%" '
        f'align="left" colspan="2" nowrap="1">PARID: {parcel_id_of(parcel.number)}</td><td {top} width="50%" '
        f'align="right" colspan="2"></td></tr><tr {bottom} height="1"><td {bottom} width="50%" align="left" '
        f'colspan="2">{escape(parcel.owners[0])},  </td><td {bottom} width="50%" align="right" colspan="2">'
        f"{escape(parcel.situs)}  </td></tr></table>"
    )


def _result(index: int, parcel: Parcel) -> str:
    number = parcel_id_of(parcel.number)
    address = f"../Datalets/Datalet.aspx?sIndex=0&amp;idx={index}"
    return (
        f"<tr class='SearchResults' onclick=\"javascript:selectSearchRow('{address}')\">"
        f"<td><input type='hidden' name='chkPin' value='{JURISDICTION}:{number}:{TAX_YEAR}'></td>"
        f"<td><div>{number}</div></td><td>{escape(parcel.owners[0])}</td><td>{escape(parcel.situs)}</td></tr>"
    )


def _inputs(mode: str, given: Mapping[str, str]) -> str:
    own = "".join(f"<input name='{name}' value='{escape(given.get(name, ''))}'>" for name in SEARCHED.get(mode, ()))
    return (
        f"{own}<input type='hidden' name='hdAction' value=''><input type='hidden' name='PageNum' value='1'>"
        "<select name='selPageSize'><option selected>15</option></select>"
        "<button type='submit' name='btSearch' value='Search'>Search</button>"
    )


def _form(session: _Session, name: str, action: str, inner: str) -> web.Response:
    session.state = secrets.token_urlsafe(24)
    hidden = f"<input type='hidden' name='__VIEWSTATE' id='__VIEWSTATE' value='{session.state}'>"
    return _page(f'<form name="{name}" method="POST" action="{escape(action)}" id="{name}">{hidden}{inner}</form>')


def _page(inner: str) -> web.Response:
    head = (
        "<!DOCTYPE HTML>\n<html lang='en-US'><head><title>Pretend County</title>"
        "<meta http-equiv='Description' content='iasWorld'></head><body id='thebody' class='normalpage'>"
        "<div id='pagewrapper'><div id='divSMaint' style='display:none;width:780'><table><tr><td id='tdSMaint'>&nbsp;"
        "The System is currently unavailable due to maintenance.  Please check again later.</td></tr></table></div>"
    )
    return web.Response(text=f"{head}{inner}</div></body></html>", content_type="text/html")


def _stale() -> web.Response:
    return web.Response(status=500, text="<h2>Validation of viewstate MAC failed.</h2>", content_type="text/html")


def _words(text: str) -> str:
    return " ".join(text.split())


def _dollars(amount: int) -> str:
    return f"${amount:,}"

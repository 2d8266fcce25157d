"""A made-up town in the software of Vision Government Solutions: a card for each parcel, and lists of streets."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import cycle
from urllib.parse import quote

from aiohttp import web

from harvester.sandbox.counties.parcels import Parcel, Town, Values

PLACE = "/samplefieldvt/"
FIRST_PID = 100
ASSESSED = 0.7
"""Share of the appraised value that is assessed."""
ENTRY = """
[us-vt-sandbox]
hosts = ["{host}"]
[us-vt-sandbox.politeness]
requests_per_second = 0  # it is this machine that is asked
[us-vt-sandbox.property]
name = "Samplefield, which is made up"
fips = "50000"
platform = "vgsi"
base_url = "http://{host}/samplefieldvt/"
"""


def app_of(parcels: int) -> web.Application:
    """Returns the web application of the site."""
    town = Town("Samplefield", "VT", "05000", parcels)

    async def card(request: web.Request) -> web.Response:
        pid = {name.lower(): value for name, value in request.query.items()}.get("pid", "")
        parcel = town.parcel(int(pid) - FIRST_PID) if pid.isdecimal() and len(pid) < 10 else None
        return _page(_card(parcel) if parcel else _ERROR)

    async def streets(request: web.Request) -> web.Response:
        asked = {name.lower(): value for name, value in request.query.items()}
        rows: list[tuple[str, str]] = []
        if "name" in asked:
            there = [each for each in town.all() if each.street == asked["name"]]
            rows = [(f"Parcel.aspx?pid={FIRST_PID + each.number}", each.situs) for each in there]
        else:
            names = sorted({each.street for each in town.all()})
            begins = [name for name in names if name.startswith(asked.get("letter", "A").upper())]
            rows = [(f"Streets.aspx?Name={quote(name)}", name) for name in begins]
        links = "".join(f'<li class="fixedButton"><a href="{escape(to)}">{escape(name)}</a></li>' for to, name in rows)
        return _page(f'<form method="post" action="./Streets.aspx" id="form1"><ul id="list">{links}</ul></form>')

    app = web.Application()
    app.router.add_get(f"{PLACE}Parcel.aspx", card)
    app.router.add_get(f"{PLACE}Streets.aspx", streets)
    return app


_ERROR = (
    '<form method="post" action="./Error.aspx?Message=There+was+an+error+loading+the+parcel." id="form1">'
    "<p>There was an error loading the parcel.</p></form>"
)


def _page(inner: str) -> web.Response:
    head = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Vision Government Solutions</title></head>'
    return web.Response(text=f'{head}\n<body class="page front">{inner}</body></html>', content_type="text/html")


def _card(parcel: Parcel) -> str:
    pid, now = FIRST_PID + parcel.number, parcel.values[0]
    co_owner = parcel.owners[1] if len(parcel.owners) > 1 else ""
    general = (
        ("Location", "Location", "", parcel.situs),
        ("Mblu", "Mblu", "Mblu", f"{parcel.number // 40 + 1}/ {parcel.number % 40}/ / / "),
        ("AcctNum", "AcctNum", "Acct#", f" {2_000 + parcel.number}"),
        ("OwnGeneral", "GenOwner", "Owner", parcel.owners[0]),
        ("Assessment", "GenAssessment", "Assessment", _dollars(now.total * ASSESSED)),
        ("Appraisal", "GenAppraisal", "Appraisal", _dollars(now.total)),
        ("Pid", "Pid", "PID", str(pid)),
        ("BCnt", "BldCount", "Building Count", str(int(bool(parcel.style)))),
    )
    rows = "".join(
        f'<dl id="MainContent_row{row}" class="dl-horizontal fLeft">\n <dt>{escape(label or row)}</dt>\n <dd>\n'
        f' <span id="MainContent_lbl{name}">{escape(value)}</span></dd>\n </dl>\n'
        for row, name, label, value in general
    )
    street, city, state, zip_code = parcel.mailing
    address = f"{escape(street)}<br>{escape(city)}, {state} {zip_code}"
    last = parcel.sales[0] if parcel.sales else None
    owner = _fields(
        ("", "Owner", "lblOwner", escape(parcel.owners[0])),
        ("rowCoOwn", "Co-Owner", "lblCoOwner", escape(co_owner)),
        ("rowOwnAddr", "Address", "lblAddr1", address),
    ) + _fields(
        ("", "Sale Price", "lblPrice", _dollars(last.price) if last else ""),
        ("rowCertificate", "Certificate", "lblCertificate", ""),
        ("rowBp", "Book &amp; Page ", "lblBp", last.deed if last else ""),
        ("", "Sale Date", "lblSaleDate", f"{last.day:%m/%d/%Y}" if last else ""),
    )
    history = [
        (escape(sale.buyer), _dollars(sale.price), "&nbsp;", sale.deed, f"{sale.day:%m/%d/%Y}") for sale in parcel.sales
    ]
    sales = _grid("grdSales", "Ownership History", _OF_SALES, history)
    current = _both("Current", "Current Value", parcel.values[:1])
    earlier = _both("History", "Valuation History", parcel.values[1:])
    return (
        f'<form method="post" action="./Parcel.aspx?pid={pid}" id="form1"><div id="MainContent_panParcel"></div>'
        f'<div class="ui-widget" id="tabs"><div id="tabs-1"><fieldset>'
        f'<legend><span id="MainContent_lblTab1Title">{escape(parcel.situs)}</span></legend>\n'
        f'<div class="row-fluid" style="font-size: 16px;">{rows}</div></fieldset></div>'
        f'<div id="tabs-3"><div id="MainContent_currentVal">{current}</div></div>'
        f'<div id="tabs-2"><div id="MainContent_panCurOwn"><fieldset><legend>'
        f'<span id="MainContent_lblTab2Title">Owner of Record</span></legend>{owner}</fieldset></div>'
        f'<div id="MainContent_panSlh"><fieldset><legend>Ownership History</legend><div>{sales}</div></fieldset></div>'
        f'</div><div id="tabs-4"><div id="MainContent_panBldg"><fieldset><legend>Building Information</legend>'
        f"</fieldset> {_building(parcel)}</div></div>"
        f'<div id="tabs-5"><div id="MainContent_panLand">{_land(parcel)}</div></div>'
        f'<div id="tabs-7"><div id="MainContent_panAshHist">{earlier}</div></div></div></form>'
    )


_OF_SALES = ("Owner", "Sale Price", "Certificate", "Book &amp; Page", "Sale Date")
_OF_VALUES = ("Valuation Year", "Improvements", "Land", "Total")


def _both(which: str, legend: str, values: Sequence[Values]) -> str:
    """Renders two grids: appraised values and assessed values."""
    name = "Value" if which == "Current" else "Values"
    grids = ""
    for title, part, share in (("Appraisal", "Appr", 1.0), ("Assessment", "Asmt", ASSESSED)):
        rows = [
            (str(of.year), *(_dollars(amount * share) for amount in (of.building, of.land, of.total))) for of in values
        ]
        grids += f"<div>{_grid(f'grd{which}{name}{part}', title, _OF_VALUES, rows)}</div>"
    return f"<fieldset><legend>{legend}</legend><div>{grids}</div></fieldset>"


def _building(parcel: Parcel) -> str:
    if not parcel.style:
        return ""
    fields = _fields(
        ("ctl01_rowAYB", "Year Built:", "ctl01_lblYearBuilt", str(parcel.built)),
        ("ctl01_rowBuldgArea", "Living Area:", "ctl01_lblBldArea", f"{parcel.area:,}"),
    )
    attributes = [
        ("Style:", parcel.style),
        ("Model", "Residential"),
        ("Grade:", "Average"),
        ("Total Rooms:", f"{parcel.rooms} Rooms"),
        ("Cndtn", "&nbsp;"),
    ]
    grid = _grid("ctl01_grdCns", "Building Attributes", ("Field", "Description"), attributes)
    return (
        '<div id="accordion" style="width: 100%;"><fieldset><legend><span id="MainContent_ctl01_lblHeading">'
        f'Building 1 : Section 1</span></legend><div>{fields}<div id="MainContent_ctl01_panView">{grid}</div></div>'
        "</fieldset></div>"
    )


def _land(parcel: Parcel) -> str:
    now = parcel.values[0]
    use = _fields(
        ("rowLandUse", "Use Code", "lblUseCode", parcel.use_code),
        ("rowLandDesc", "Description", "lblUseCodeDescription", escape(parcel.use)),
        ("rowLandZone", "Zone", "lblZone", "RR"),
        ("rowLandNbhd", "Neighborhood", "lblNbhd", parcel.neighborhood),
    )
    line = _fields(
        ("rowLandAc", "Size (Acres)", "lblLndAcres", parcel.acres),
        ("rowLandFrontage", "Frontage", "lblLndFront", "0"),
        ("rowLandAssess", "Assessed Value", "lblLndAsmt", _dollars(now.land * ASSESSED)),
        ("rowLandApprais", "Appraised Value", "lblLndAppr", _dollars(now.land)),
    )
    return (
        f"<fieldset><legend>Land</legend><div>{use}</div>"
        f"<fieldset><legend>Land Line Valuation </legend>{line}</fieldset></fieldset>"
    )


def _fields(*fields: tuple[str, str, str, str]) -> str:
    """Renders rows from the id of a row, a label, the id of a span, and a value in HTML."""
    rows = "".join(
        f'<tr{_id(row)}>\n <td class="plabel" data-original-title="" title="">{label}'
        f'</td><td class="data" data-original-title="" title="">'
        f'<span id="MainContent_{name}">{value}</span></td>\n </tr>'
        for row, label, name, value in fields
    )
    return f'<div style="float: left; width: 50%">\n<table>\n<tbody>{rows}</tbody></table></div>'


def _id(row: str) -> str:
    return f' id="MainContent_{row}"' if row else ""


def _grid(name: str, caption: str, header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = "".join(f'<th scope="col">{label}</th>' for label in header)
    lines = "".join(
        f'<tr class="{kind}">\n {"".join(f"<td>{cell}</td>" for cell in row)}\n </tr>'
        for kind, row in zip(cycle(("RowStyle", "AltRowStyle")), rows, strict=False)
    )
    return (
        f'<table class="GridViewStyle" rules="all" witdh="100%" id="MainContent_{name}" cellspacing="0" border="1">\n'
        f' <caption>\n {caption}\n </caption><tbody><tr class="HeaderStyle">\n {heads}\n </tr>{lines}</tbody></table>'
    )


def _dollars(amount: float) -> str:
    return f"${round(amount):,}"

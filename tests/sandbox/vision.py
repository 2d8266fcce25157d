"""A made-up town on Vision Government Solutions: cards, lists of streets and searches, as such sites publish them.

The truth is made without the parsers of harvester: what they read is compared with it.
"""

import json
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from html import escape
from random import Random
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote

from tests.crawling import Answer
from tests.sandbox.county import changed
from tests.sandbox.county_portal import CountyPortal

Document = dict[str, Any]
PLACE = "/adatownme/"
CARD, STREETS = "Parcel.aspx", "Streets.aspx"
VIEW_STATE = "x" * 12_000
_NAMES = ("ADAMS, ANN", "O'BRIEN & SONS LLC", "DE LA CRUZ, IVY", "SMITH, JOHN", "MÜLLER, EVA", "TOWN OF ADA")
_STREETS = ("MAIN ST", "22 MILE RD", "ST JOHN'S AVE", "ELM CT", "ELM ST", "ZION HILL EXT", "1ST AVE")


class Transfer(NamedTuple):
    """A line of the history of owners."""

    owner: str
    price: int | None
    certificate: str
    book: str
    page: str
    instrument: str
    day: date | None


class Building(NamedTuple):
    """A building, or a section of one."""

    heading: str
    year: int | None
    area: int
    attributes: dict[str, str]
    areas: tuple[tuple[str, str, int, int], ...]


class Parcel(NamedTuple):
    """As the assessor knows it."""

    pid: int
    mblu: str
    account: str
    location: str
    street: str
    owner: str
    co_owner: str
    address: tuple[str, ...]
    values: dict[int, tuple[int, int]]
    """Year -> improvements and land; the first is the current one. Assessed are 70 % of them."""
    transfers: tuple[Transfer, ...]
    buildings: tuple[Building, ...]
    use: tuple[str, str]
    zone: str
    acres: str
    features: tuple[tuple[str, ...], ...]
    school: str
    """Of a label that only this town has."""
    look: int
    """Which of the templates it is shown with."""


class VisionTown(CountyPortal):
    """A town of so many parcels. Their numbers have gaps, and a second block begins at 100000."""

    page = CARD

    def __init__(self, parcels: int, seed: int = 1) -> None:
        super().__init__()
        self.parcels = {parcel.pid: parcel for parcel in (_parcel(n, Random(f"{seed} {n}")) for n in range(parcels))}
        self.renamed: dict[int, dict[bytes, bytes]] = {}
        """Number of a parcel -> in its card: what is written -> what is written instead."""

    @property
    def base_url(self) -> str:
        """As its entry in the registry says it."""
        return f"{self.url}{PLACE}"

    def truth(self, jurisdiction: str) -> dict[str, dict[str, Document]]:
        """Collection -> `_id` -> document, but for labels, parts of addresses and what says where it was seen."""
        found: dict[str, dict[str, Document]] = {"properties": {}, "assessments": {}, "sales": {}}
        for parcel in self.parcels.values():
            for collection, key, document in truth_of(parcel, jurisdiction):
                found[collection][key] = document
        return found

    def well(self, path: str) -> Answer:
        place, _, query = path.partition("?")
        if not place.startswith(PLACE):
            return Answer(404, b"<html><title>404 - File or directory not found.</title></html>", kind="text/html")
        page = place.removeprefix(PLACE)
        if page.startswith("async.asmx/"):
            return self._search(page.rpartition("/")[2], self.heads[path][-1], query)
        asked = {name.lower(): values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
        if page == CARD:
            parcel = self.parcels.get(int(asked["pid"]) if asked.get("pid", "").isdecimal() else 0)
            body = card_of(parcel) if parcel else ERROR
            for before, after in self.renamed.get(parcel.pid if parcel else 0, {}).items():
                body = body.replace(before, after)
            return _page(changed(body.decode(), self.now_changed).encode())
        if page == STREETS:
            return _page(self._streets(asked))
        return _page(b"<html><body><form action='./Default.aspx'>Welcome</form></body></html>")

    def _streets(self, asked: dict[str, str]) -> bytes:
        names = sorted({parcel.street for parcel in self.parcels.values()})
        if "name" in asked:
            rows = [
                (f"Parcel.aspx?{'Pid' if parcel.look else 'pid'}={parcel.pid}", parcel.location or " ")
                for parcel in self.parcels.values()
                if parcel.street == asked["name"]
            ]
        else:
            begins = asked.get("letter", "A")
            rows = [(f"Streets.aspx?Name={_loose(name)}", name) for name in names if (name or "1ST").startswith(begins)]
        letters = "".join(f"<a href='Streets.aspx?Letter={letter}'>{letter}</a>" for letter in "12ABC")
        shown = "".join(f'<li class="fixedButton"><a href="{escape(to)}">{escape(text)}</a></li>' for to, text in rows)
        return _frame("./Streets.aspx", f'<div>{letters}</div><ul id="list">{shown}</ul>')

    def _search(self, call: str, head: str, body: str) -> Answer:
        if "content-type: application/json" not in head.lower() or call not in ("GetDataAddress", "GetData2"):
            return Answer(500, b'{"Message":"There was an error processing the request."}')
        asked = json.loads(body)
        words = asked["inVal"].upper()
        known = {pid: {"i_address": each.location, "i_owner": each.owner} for pid, each in self.parcels.items()}
        found = [
            {"id": str(pid), "value": of[asked["src"]], "source": asked["src"]}
            for pid, of in known.items()
            if words in of[asked["src"]]
        ]
        return Answer(body=json.dumps({"d": found}).encode(), kind="application/json; charset=utf-8")


def _parcel(number: int, random: Random) -> Parcel:
    pid = 3 * number + 7 if number % 3 else 100_000 + number
    street = random.choice(_STREETS)
    values = {
        year: (100 * random.randrange(0, 9_000), 100 * random.randrange(1, 3_000))
        for year in random.choice(((2025,), (2025, 2024, 2023), (2024, 2025)))
    }
    transfers = tuple(
        Transfer(
            owner=f"{random.choice(_NAMES)} {number}-{at}",
            price=random.choice((0, 1000 * random.randrange(1, 900), None)) if at < 3 else None,
            certificate=random.choice(("", f"C{number}")),
            **random.choice(({"book": str(random.randrange(1, 9999)), "page": f"0{at + 1}"}, {"book": "", "page": ""})),
            instrument=random.choice(("1A", "00", "", "Q")),
            day=date(2024, 1, 1) - timedelta(1000 * at + random.randrange(999)) if at < 3 else None,
        )
        for at in range(random.choice((1, 2, 5)))
    )
    buildings = tuple(_building(at, random) for at in range(random.choice((0, 1, 1, 2))))
    return Parcel(
        pid=pid,
        mblu=f"{number % 400}/ {number}/  / /",
        account=f"{number:06}",
        location=f"{2 * number + 1} {street}" if number % 20 else "",
        street=street if number % 20 else "",
        owner=transfers[0].owner,
        co_owner=random.choice(("", f"WU, LI {number}")),
        address=random.choice((("1 ELM ST", "ADA, ME 04001"), ("PO BOX 7", "C/O BANK", "BYRON, OH 44101"))),
        values=values,
        transfers=transfers,
        buildings=buildings,
        use=random.choice((("1010", "Single Fam MDL-01"), ("1300", "VAC LAND"))),
        zone=random.choice(("R1", "")),
        acres=random.choice(("0.25", "19.9", "1,200.5")),
        features=random.choice(((), (("FPL1", "FIREPLACE 1 ST", "1.00 UNITS", "$1,900", "1"),))),
        school=random.choice(("", "SAD 7")),
        look=random.randrange(4),
    )


def _building(at: int, random: Random) -> Building:
    return Building(
        heading=f"Building {at + 1} : Section 1",
        year=random.choice((None, random.randrange(1780, 2025))),
        area=random.randrange(0, 6000),
        attributes={"Style": random.choice(("Cape Cod", "Colonial")), "Heat Fuel": random.choice(("Oil", "Gas", ""))},
        areas=(("BAS", "First Floor", 900, 900), ("WDK", "Deck, Wood", 120, 0))[: random.choice((0, 2))],
    )


# The records that a crawl must lead to ---------------------------------------------------------------------------


def truth_of(parcel: Parcel, jurisdiction: str) -> Iterable[tuple[str, str, Document]]:
    """Collection, `_id` and document of each record."""
    pid = str(parcel.pid)
    of = {"jurisdiction": jurisdiction, "fips": "26001", "parcel_id": pid, "parcel_id_normalized": pid}
    main = parcel.buildings[0] if parcel.buildings else None
    years = list(parcel.values)
    others: Document = {
        "Assessment": _money(_assessed(sum(parcel.values[years[0]]))),
        "Appraisal": _money(sum(parcel.values[years[0]])),
        "Building Count": str(len(parcel.buildings)),
        "School Dist": parcel.school,
        "Extra Features": [dict(zip(_FEATURES, row, strict=True)) for row in parcel.features],
        "Special Land": [{"Land Use Code": "6324", "Units": "18", "Unit Type": "AC"}] if parcel.look == 2 else [],
        "Frontage": "0",
    }
    for building in parcel.buildings:
        others[building.heading] = _known(
            {
                "Year Built": str(building.year or ""),
                "Living Area": f"{building.area:,}",
                "Replacement Cost Less Depreciation": "$4,100",
                "Building Attributes": _known(building.attributes),
                "Building Sub-Areas (sq ft)": [
                    _known({"Code": a, "Description": b, "Gross Area": f"{c:,}", "Living Area": f"{d:,}"})
                    for a, b, c, d in building.areas
                ],
            }
        )
    unsold = [each for each in parcel.transfers if each.day is None and not (each.certificate or each.book)]
    others["Ownership History"] = [
        _known(
            {
                "Owner": each.owner,
                "Certificate": each.certificate,
                "Book & Page": _deed(each).strip(),
                "Instrument": each.instrument,
            }
        )
        for each in unsold
    ]
    alt = {"Mblu": parcel.mblu, "Acct#": parcel.account}
    yield (
        "properties",
        f"{jurisdiction} {pid}",
        of
        | _known(
            {
                "tax_year": max(years),
                "alt_parcel_ids": alt,
                "owner_names": [name for name in (parcel.owner, parcel.co_owner) if name],
                "mailing_address": ", ".join(parcel.address),
                "situs_address": parcel.location,
                "use_code": parcel.use[0],
                "use_description": parcel.use[1],
                "zoning": parcel.zone,
                "acres": float(parcel.acres.replace(",", "")),
                "year_built": main.year if main else None,
                "unread": {}
                if parcel.location
                else {"situs_address": "nothing beside 'Location': the page shows none"},
                "others": _known(others),
            }
        )
        | ({"living_area_sqft": float(main.area)} if main else {}),
    )
    for year, (improvements, land) in parcel.values.items():
        yield (
            "assessments",
            f"{jurisdiction} {year} {pid}",
            of
            | {
                "roll": str(year),
                "tax_year": year,
                "currency": "USD",
                "market_value": Decimal(improvements + land),
                "market_land_value": Decimal(land),
                "market_improvement_value": Decimal(improvements),
                "assessed_value": Decimal(_assessed(improvements + land)),
                "assessed_land_value": Decimal(_assessed(land)),
                "assessed_improvement_value": Decimal(_assessed(improvements)),
            },
        )
    known: set[str] = set()
    for each in parcel.transfers:
        if each in unsold:
            continue
        deed = each.certificate or (f"{each.book}-{each.page}" if each.book else "")
        when = str(each.day or "undated")
        transfer = f"{when}/{deed}" if deed else when
        if transfer in known:
            transfer = f"{transfer}#2"  # of several that show no date and one certificate
        known.add(transfer)
        document: Document = of | _known(
            {
                "transfer": transfer,
                "sale_date": each.day.isoformat() if each.day else None,
                "currency": "USD",
                "grantee": each.owner,
                "instrument_number": each.certificate,
                "book": each.book,
                "page": each.page,
                "qualification": each.instrument,
            }
        )
        if each.price is not None:
            document["sale_price"] = Decimal(each.price)
        yield "sales", f"{jurisdiction} {transfer} {pid}", document


def _known(fields: Document) -> Document:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _assessed(value: int) -> int:
    return value * 7 // 10


# Pages -----------------------------------------------------------------------------------------------------------

_FEATURES = ("Code", "Description", "Size", "Value", "Bldg #")


def card_of(parcel: Parcel) -> bytes:
    """Its page. Where looks differ: buildings count from ctl01 or ctl02, columns stand in another order, labels end
    with a colon, history may be left out, book and page stand apart."""
    look, year = parcel.look, next(iter(parcel.values))
    last = parcel.transfers[0]
    terms = [
        ("Location", "lblLocation", parcel.location),
        ("Mblu", "lblMblu", parcel.mblu),
        ("Acct#", "lblAcctNum", f"   {parcel.account}"),
        ("Owner", "lblGenOwner", parcel.owner),
        ("School Dist", "lblSchool", parcel.school),
        ("Assessment", "lblGenAssessment", _money(_assessed(sum(parcel.values[year])))),
        ("Appraisal", "lblGenAppraisal", _money(sum(parcel.values[year]))),
        ("PID", "lblPid", str(parcel.pid)),
        ("Building Count", "lblBldCount", str(len(parcel.buildings))),
    ]
    owner = [("Owner", "lblOwner", parcel.owner), ("Co-Owner", "lblCoOwner", parcel.co_owner)]
    address = "<br>".join(map(escape, parcel.address))
    deed = [("Book & Page ", "lblBp", _deed(last)), ("", "lblBook", ""), ("", "lblPage", "")]
    if look == 3:
        deed = [("", "lblBp", ""), ("Book", "lblBook", last.book), ("Page", "lblPage", last.page)]
    sale = [
        ("Sale Price", "lblPrice", _money(last.price)),
        ("Certificate", "lblCertificate", last.certificate),
        *deed,
        ("Sale Date", "lblSaleDate", _day(last.day)),
        ("Instrument", "lblInstrument", last.instrument),
    ]
    size = "lblLndSize" if look == 1 else "lblLndAcres"
    land = [
        ("Use Code", "lblUseCode", parcel.use[0]),
        ("Description", "lblUseCodeDescription", parcel.use[1]),
        ("Zone", "lblZone", parcel.zone),
        ("Neighborhood", "lblNbhd", ""),
        ("Size (Acres)", size, parcel.acres),
        ("Frontage", "lblLndFront", "0"),
    ]
    current = {year: parcel.values[year]}
    assessed = {each: (_assessed(a), _assessed(b)) for each, (a, b) in parcel.values.items()}
    transfers = [
        (each.owner, _money(each.price), each.certificate, _deed(each), each.instrument, _day(each.day))
        for each in parcel.transfers
    ]
    owners = ("Owner", "Sale Price", "Certificate", "Book & Page", "Instrument", "Sale Date")
    if look == 2:
        owners, transfers = owners[::-1], [row[::-1] for row in transfers]
    parts = [
        '<span id="MainContent_lblTab1Title">A parcel</span>',
        "".join(
            f'<dl><dt><span id="MainContent_{name}Label">{label}</span></dt>'
            f'<dd>\n  <span id="MainContent_{name}">{escape(value)}</span></dd></dl>'
            for label, name, value in terms
        ),
        _values("Appraisal", "grdCurrentValueAppr", current, look),
        _values("Assessment", "grdCurrentValueAsmt", {year: assessed[year]}, look),
        _labelled(owner, look)
        + f'<table><tr><td class="plabel">Address</td><td class="data"><span id="MainContent_lblAddr1">{address}</span>'
        "</td></tr></table>",
        _labelled(sale, look),
        _grid("Ownership History", "grdSales", owners, transfers),
        "".join(_building_of(at + (1 if look else 2), each, look) for at, each in enumerate(parcel.buildings)),
        _grid("Extra Features", "grdXf", _FEATURES, parcel.features),
        _labelled(land, look),
        _grid(
            "Special Land",
            "grdSpclLand",
            ("Land Use Code", "Land Use Description", "Units", "Unit Type"),
            [("6324", "", "18", "AC")] if look == 2 else [],
        ),
        _grid("Outbuildings", "grdOb", ("Code", "Description"), []),
        _values("Appraisal", "grdHistoryValuesAppr", parcel.values, look),
        _values("Assessment", "grdHistoryValuesAsmt", assessed, look),
    ]
    return _frame(f"./Parcel.aspx?pid={parcel.pid}", "".join(parts))


def _building_of(at: int, building: Building, look: int) -> str:
    section = f"MainContent_ctl{at:02}_"
    rows = [
        ("Year Built", "lblYearBuilt", str(building.year or "")),
        ("Living Area", "lblBldArea", f"{building.area:,}"),
        ("Replacement Cost<br />Less Depreciation", "lblRcnld", "$4,100"),
    ]
    fields = "".join(
        f'<tr><td class="plabel">\n   {label}:\n </td><td class="data"><span id="{section}{name}">'
        f"{value}</span></td></tr>"
        for label, name, value in rows
    )
    attributes = [(f"{name}:" if look % 2 else name, value) for name, value in building.attributes.items()]
    areas = [(a, b, f"\n   {c:,}\n", f"\n {d:,}\n") for a, b, c, d in building.areas]
    return (
        f'<fieldset><legend><span id="{section}lblHeading">{building.heading}</span></legend><table>{fields}</table>'
        + _grid("Building Attributes" if at < 2 else f"Building Attributes : Bldg {at} of 3", "grdCns",
                ("Field", "Description"), attributes, section)
        + _grid("Building Sub-Areas (sq ft)", "grdSub", ("Code", "Description", "Gross<br>Area", "Living<br>Area"),
                areas, section)
        + "</fieldset>"
    )  # fmt: skip


def _labelled(rows: Iterable[tuple[str, str, str]], look: int) -> str:
    """A table of labels and values."""
    mark = ":" if look == 1 else ""
    cells = "".join(
        f'<tr><td class="plabel">{escape(label)}{mark if label else ""}</td>'
        f'<td class="data"><span id="MainContent_{name}">{escape(value)}</span></td></tr>'
        for label, name, value in rows
    )
    return f"<table>{cells}</table>"


def _values(caption: str, name: str, years: dict[int, tuple[int, int]], look: int) -> str:
    headers: tuple[str, ...] = ("Valuation Year", "Improvements", "Land", "Total")
    rows = [(str(year), _money(a), _money(b), _money(a + b)) for year, (a, b) in years.items()]
    if look == 2:
        headers, rows = headers[::-1], [row[::-1] for row in rows]
    return _grid(caption, name, headers, rows)


def _grid(
    caption: str, name: str, headers: Iterable[str], rows: Iterable[Iterable[str]], section: str = "MainContent_"
) -> str:
    shown = [list(row) for row in rows]
    if shown:
        cells = "".join(
            "<tr class='RowStyle'>" + "".join(f"<td>{escape(cell) or '&nbsp;'}</td>" for cell in row) + "</tr>"
            for row in shown
        )
        names = [each if "<br>" in each else escape(each) for each in headers]
        inner = f"<tr class='HeaderStyle'>{''.join(f'<th>{each}</th>' for each in names)}</tr>{cells}"
    else:
        inner = (
            f'<tr class="EmptyRowStyle"><td colspan="9"><div><br /><span>No Data for {caption}</span><br /></div>'
            "</td></tr>"
        )
    return (
        f'<div><table class="GridViewStyle" id="{section}{name}"><caption>\n\t{caption}\n'
        f"<span>Legend</span></caption>{inner}</table></div>"
    )


def _frame(action: str, inner: str) -> bytes:
    return (
        "<!DOCTYPE html><html><head><title>\n\tVision Government Solutions\n</title></head><body>"
        f'<form method="post" action="{escape(action)}" id="form1"><input type="hidden" name="__VIEWSTATE" '
        f'value="{VIEW_STATE}"><span id="lblTownName">ADA, ME</span>{inner}</form></body></html>'
    ).encode()


ERROR = _frame("./Error.aspx?Message=There+was+an+error+loading+the+parcel.", "<p>There was an error.</p>")
MAINTENANCE = Answer(200, b"<html><title>Down for maintenance</title><body>Back soon.</body></html>", kind="text/html")
NO_ACCESS = Answer(200, b"<html><body>Sorry, You don't have access to requested page.</body></html>", kind="text/html")
BLOCKED = Answer(403, b"<html><body>Forbidden</body></html>", kind="text/html")


def _page(body: bytes) -> Answer:
    return Answer(body=body, kind="text/html; charset=utf-8")


def _loose(name: str) -> str:
    """As some towns write links: with blanks as they are."""
    return name if " " in name and "'" not in name else quote(name)


def _money(value: int | None) -> str:
    return "" if value is None else f"${value:,}"


def _day(day: date | None) -> str:
    return f"{day:%m/%d/%Y}" if day else ""


def _deed(transfer: Transfer) -> str:
    return f"  {transfer.book}/{transfer.page}" if transfer.book else "/0"

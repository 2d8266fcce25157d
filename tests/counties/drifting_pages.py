"""Pages of three platforms, in the markup that these have, of a county that changes them in fourteen ways."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from random import Random
from typing import NamedTuple

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import normalized
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.drift import Signature
from harvester.parsers.counties.sections import ParcelPage, records_of, signature
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.beacon import parser as beacon
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.vgsi import parser as vgsi
from harvester.spiders.counties.vgsi.records import read_card

SEEN = Provenance("https://county.example/", datetime(2026, 1, 31, tzinfo=UTC), "county")
COUNTY = Source("us-oh-made-up", "39001")
KINDS: Mapping[str, bool] = {
    "moved": True,
    "renamed": True,
    "merged": True,
    "swapped": False,
    "masked": False,
    "zip in the name": False,
    "thousands": False,
    "zeroed": False,
    "years shifted": False,
    "section doubled": False,
    "another parcel": True,
    "empty shell": True,
    "login": True,
    "maintenance": True,
}
"""What changes -> whether a page tells it by itself: of these nothing wrong may be stored."""
LOGIN = (
    '<form method="post" action="Login.aspx"><label>User name</label><input name="UserName"><label>Password</label>'
    '<input type="password" name="Password"><input type="submit" value="Log In"></form>'
)
MAINTENANCE = "<p>The system is currently unavailable due to maintenance. Please check again later.</p>"
_NAMES = (
    "SPECIMEN LENA",
    "SAMPLE OTTO & IDA",
    "DOE JANE ETAL",
    "EXAMPLE HOLDINGS LLC",
    "ST MARY'S CHURCH",
    "ROE PAUL TR",
)
_STREETS = ("ELM ST", "EXAMPLE RD NW", "1ST AVE", "O'HARA LN", "COUNTY ROAD 12")


class Lot(NamedTuple):
    """A parcel as the assessor knows it."""

    number: str
    owner: str
    situs: str
    mailing: str
    use: str
    acres: str
    values: Mapping[int, tuple[int, int]]
    """Year -> building and land."""
    sale: tuple[str, int]


def lots(count: int) -> list[Lot]:
    """So many parcels; some are vacant, some owners have several."""
    return [_lot(at, Random(at)) for at in range(count)]


def _lot(at: int, random: Random) -> Lot:
    land, building = random.randrange(4_000, 300_000), random.choice((0, *[random.randrange(20_000, 900_000)] * 4))
    day = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(random.randrange(12_000))
    return Lot(
        str(1000 + 3 * at),
        f"{random.choice(_NAMES)} {at // random.choice((1, 1, 1, 3))}",
        f"{at + 11} {random.choice(_STREETS)}",
        f"PO BOX {random.randrange(9999)}, COLUMBUS, OH 4{random.randrange(3000, 3999)}",
        random.choice(("510", "510", "520", "400", "685")),
        f"{random.randrange(10, 900) / 100}",
        {2025: (building, land), 2024: (building * 9 // 10, land - 500)},
        (f"{day:%m/%d/%Y}", random.choice((0, random.randrange(50_000, 900_000)))),
    )


class Part(NamedTuple):
    """A section of a page."""

    title: str
    pairs: list[tuple[str, str]] = []  # noqa: RUF012
    """What it is, as Lot calls it or as it is shown -> its value."""
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def _parts(lot: Lot, kind: str) -> list[Part]:
    scale = {"thousands": 1000}.get(kind, 1)

    def money(amount: int) -> str:
        return "$0" if kind == "zeroed" else f"${round(amount / scale):,}"

    owner = {"masked": "LOGIN TO VIEW", "zip in the name": "43215"}.get(kind, lot.owner)
    situs, mailing = (lot.mailing, lot.situs) if kind == "swapped" else (lot.situs, lot.mailing)
    shift = 1 if kind == "years shifted" else 0
    values = [(str(year - shift), money(a), money(b), money(a + b)) for year, (a, b) in lot.values.items()]
    day = lot.sale[0][:-4] + str(int(lot.sale[0][-4:]) - shift)
    summary = [("number", lot.number), ("situs", situs), ("use", lot.use), ("acres", lot.acres)]
    owners = [("owner", owner), ("mailing", mailing)]
    if kind == "moved":
        owners.append(summary.pop(1))
    elif kind == "renamed":
        summary[1] = ("Where It Is", situs)
    elif kind == "merged":
        owners = [("Holder and Where to Write", f"{owner}, {mailing}")]
    parts = [
        Part("summary", summary),
        Part("owner", owners),
        Part("values", [], ("year", "building", "land", "total"), values),
        Part("sales", [], ("day", "price"), [(day, money(lot.sale[1]))]),
    ]
    if kind == "section doubled":
        more = [
            (year, a, b, f"${each[0] + each[1] + 9:,}")
            for (year, a, b, _), each in zip(values, lot.values.values(), strict=True)
        ]
        parts.insert(2, parts[2]._replace(rows=more))
    if kind == "empty shell":
        shown = [(name, lot.number if name == "number" else "") for name, _ in summary]
        parts = [Part("summary", shown), Part("owner", [(name, "") for name, _ in owners]), *(
            part._replace(rows=()) for part in parts[2:]
        )]  # fmt: skip
    return parts


# Platforms ----------------------------------------------------------------------------------------------------------

_IASWORLD = {
    "summary": "Parcel",
    "owner": "Owner",
    "values": "Value History",
    "sales": "Sales",
    "situs": "Property Address",
    "use": "Land Use Code",
    "acres": "Total Acres",
    "mailing": "Mailing Address",
    "owner_name": "Owner 1",
    "year": "Tax Year",
    "building": "Building Value",
    "land": "Land Value",
    "total": "Market Value",
    "day": "Sale Date",
    "price": "Sale Price",
}
_BEACON = {
    "summary": "Parcel Summary",
    "owner": "Owner Information",
    "values": "Valuation",
    "sales": "Sales",
    "number": "Parcel ID",
    "situs": "Location Address",
    "use": "Property Use Code",
    "acres": "Acres",
    "building": "Building Value",
    "land": "Land Value",
    "total": "Just (Market) Value",
    "day": "Sale Date",
    "price": "Sale Price",
    "year": "Tax Year",
}
_VGSI = {
    "number": ("PID", "lblPid"),
    "situs": ("Location", "lblLocation"),
    "owner": ("Owner", "lblOwner"),
    "mailing": ("Address", "lblAddr1"),
    "use": ("Use Code", "lblUseCode"),
    "acres": ("Size (Acres)", "lblLndAcres"),
}


def _iasworld_page(number: str, parts: Sequence[Part]) -> str:
    side = '<td width="40%" valign="top" class="DataletSideHeading">{}</td><td width="*" class="DataletData">{}</td>'
    page = (
        '<table border=0 width="100%"><tr id="datalet_header_row"><td><table width="100%" cellspacing=0><tr '
        f'class="DataletHeaderTop"><td class="DataletHeaderTop" colspan=2>PARID: {number}</td></tr></table></td></tr>'
        '<input type="hidden" name="hdTaxYear" value="2025">'
    )
    for at, part in enumerate(parts):
        title = _IASWORLD[part.title]
        pairs = [(_IASWORLD.get("owner_name" if name == "owner" else name, name), value) for name, value in part.pairs]
        rows = [
            f"<tr>{side.format(label, escape(value) or '&nbsp;')}</tr>" for label, value in pairs if label != "number"
        ]
        if part.header:
            rows.append(_row("td", [_IASWORLD[name] for name in part.header], ' class="DataletTopHeading"'))
            rows += [_row("td", row, ' class="DataletData"') for row in part.rows]
        page += (
            f'<tr><td><div id="datalet_div_{at}"><table><tr><td colspan=2 class="DataletTitleColor"><font size=-1>'
            f'{title}</font></td></tr></table><table id="{title}" width="100%">{"".join(rows)}</table></div></td></tr>'
        )
    return f"{page}</table>"


def _beacon_page(number: str, parts: Sequence[Part]) -> str:
    page = ""
    for at, part in enumerate(parts):
        content = ""
        pairs = [(name, value) for name, value in part.pairs if part.title == "summary" or name not in _VGSI]
        if pairs:
            lines = "".join(
                f'<tr><th scope="row"><strong>{_BEACON.get(name, name)}</strong></th><td><div><span>'
                f"{escape(value)}</span></div></td></tr>"
                for name, value in pairs
            )
            content = f'<table class="tabular-data-two-column"><tbody>{lines}</tbody></table>'
        owners = dict(part.pairs) if part.title == "owner" else {}
        if "owner" in owners:
            named, name = "ctlBodyPane_ctl01_ctl01_rptOwner_ctl00_", escape(owners["owner"])
            content += (
                f'<div class="block-row"><span id="{named}sprOwnerName1_lnkUpm_lnkSearch">{name}</span>'
                f'<br><span id="{named}lblOwnerAddress">{escape(owners["mailing"])}</span></div>'
            )
        if "situs" in owners:
            content += (
                f'<table class="tabular-data-two-column">{_row("td", ["Location Address", owners["situs"]])}</table>'
            )
        if part.rows:
            names = [_BEACON[name] for name in part.header]
            if part.title == "values":
                across = zip(names[1:], *(row[1:] for row in part.rows), strict=True)
                head = _row("th", ["", *(row[0] for row in part.rows)])
                body = "".join(_row("td", cells) for cells in across)
            else:
                head, body = _row("th", names), "".join(_row("td", row) for row in part.rows)
            content += f'<table class="tabular-data"><thead>{head}</thead><tbody>{body}</tbody></table>'
        page += (
            f'<section id="ctlBodyPane_ctl{at:02}_mSection"><header class="module-header"><div class="title">'
            f'{_BEACON[part.title]}</div></header><div class="module-content">{content}</div></section>'
        )
    return page


def _vgsi_page(number: str, parts: Sequence[Part]) -> str:
    page = ""
    for part in parts:
        for at, (name, value) in enumerate(part.pairs):
            label, named = _VGSI.get(name, (name, f"lblOther{at}"))
            page += (
                f'<dl class="dl-horizontal fLeft"><dt><span id="MainContent_{named}Label">{label}</span></dt>'
                f'<dd><span id="MainContent_{named}">{escape(value)}</span></dd></dl>'
            )
        if part.title == "values":
            head = _row("th", ("Valuation Year", "Improvements", "Land", "Total"))
            body = "".join(_row("td", row) for row in part.rows)
            page += f'<table id="MainContent_grdHistoryValuesAppr"><caption>Appraisal</caption>{head}{body}</table>'
        if part.title == "sales":
            head = _row("th", ("Owner", "Sale Price", "Certificate", "Book & Page", "Instrument", "Sale Date"))
            body = "".join(_row("td", ("A", price, "", "1/2", "00", day)) for day, price in part.rows)
            page += f'<table id="MainContent_grdSales"><caption>Ownership History</caption>{head}{body}</table>'
    return page


def _row(tag: str, cells: Sequence[str], attributes: str = "") -> str:
    shown = "".join(f"<{tag}{attributes}>{escape(cell) or '&nbsp;'}</{tag}>" for cell in cells)
    return f"<tr>{shown}</tr>"


Page = Callable[[str, Sequence[Part]], str]
PAGES: Mapping[str, Page] = {"iasworld": _iasworld_page, "beacon": _beacon_page, "vgsi": _vgsi_page}


def page_of(platform: str, lot: Lot, beside: Lot, kind: str = "") -> bytes:
    """The page of a parcel. `beside`: the one that is shown in its place."""
    lot = beside if kind == "another parcel" else lot
    inner = {"login": LOGIN, "maintenance": MAINTENANCE}.get(kind) or PAGES[platform](lot.number, _parts(lot, kind))
    return f"<!DOCTYPE html><html><head><title>County</title></head><body>{inner}</body></html>".encode()


def read(platform: str, body: bytes, asked: str) -> tuple[Signature, PageRows]:
    """What the spider reads of it. Raises ParseError."""
    if platform == "vgsi":
        card = vgsi.parse_card(body)
        rows = read_card(card, COUNTY, SEEN)
        _check(next(iter(rows.parcel_ids)), asked)
        return vgsi.signature(card), rows
    url = "https://county.example/"
    page: ParcelPage | None
    page = iasworld.read_datalet(body, url) if platform == "iasworld" else beacon.read_report(body, asked, url)
    if page is None:
        raise ParseError("it says that there is no such parcel")
    _check(page.parcel_id, asked)
    return signature(page), records_of(page, COUNTY, SEEN)


def _check(shown: str, asked: str) -> None:
    if normalized(shown) != normalized(asked):
        raise ParseError(f"{asked} was asked for, and {shown} is shown")


def kinds() -> Iterator[tuple[str, str]]:
    """Each platform with each kind of change."""
    return ((platform, kind) for platform in PAGES for kind in KINDS)

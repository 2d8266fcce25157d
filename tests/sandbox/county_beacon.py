"""A county's parcels as Schneider Beacon and qPublic show them: a page that says where reports are, and the reports.

Its pages are made from what is known of such sites, and are without scripts and styles. The truth is made without the
parsers of harvester: what they read is compared with it.
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from html import escape
from urllib.parse import parse_qs

from tests.crawling import Answer
from tests.sandbox.county import County, Document, Parcel, changed
from tests.sandbox.county_portal import CountyPortal

SEARCH = "/Application.aspx?AppID=834&LayerID=15170&PageID=6823&PageTypeID=2"
REPORT = "/Application.aspx?AppID=834&LayerID=15170&PageTypeID=4&PageID=6825&KeyValue="
PARAMETERS = "parameters = { AppID = 834, LayerID = 15170, PageID = 6823 }"
LOOKS = (0, 1, 2)
"""Counties of Florida, Georgia and Ohio."""
_CONFIG = {
    "AppId": 834,
    "LayerId": 15170,
    "PageId": 6823,
    "PageTypeId": 2,
    "Tabs": [{"Name": "Search", "PageId": 6823, "PageTypeId": 2}, {"Name": "Report", "PageId": 6825, "PageTypeId": 4}],
    "Search": {"Name": True, "Address": True, "ParcelId": True, "AlternateId": False},
    "DefaultReportUrl": f"{REPORT}{{0}}",
}


class BeaconPortal(CountyPortal):
    """Its parcels are shown in these looks in turn."""

    page = REPORT

    def __init__(self, county: County, looks: Sequence[int] = LOOKS) -> None:
        super().__init__()
        self.county = county
        self.looks = {parcel.parcel_id: (parcel, looks[at % len(looks)]) for at, parcel in enumerate(county.parcels)}
        self.changed: dict[str, dict[bytes, bytes]] = {}
        """Number of a parcel -> in its report: what is written -> what is written instead."""

    def well(self, path: str) -> Answer:
        if path == SEARCH:
            return _html("", "Search")
        if not path.startswith(REPORT):
            return Answer(404, b"<html><title>404</title></html>", kind="text/html")
        key = parcel_of(path)
        if key not in self.looks:
            return html(NO_REPORT if key.isdecimal() else NOTHING_FOUND)
        body = report_of(*self.looks[key])
        for before, after in self.changed.get(key, {}).items():
            body = body.replace(before, after)
        return html(changed(body.decode(), self.now_changed).encode())


def parcel_of(path: str) -> str:
    """Number of the parcel whose report this is the address of."""
    return parse_qs(path)["KeyValue"][0]


def truth(county: County, jurisdiction: str, looks: Sequence[int] = LOOKS) -> dict[str, dict[str, Document]]:
    """As `County.truth`, with the year before, and what each look says of a parcel."""
    found = county.truth(jurisdiction)
    for at, parcel in enumerate(county.parcels):
        key = f"{jurisdiction} 2025 {parcel.parcel_id}"
        values, look = found["assessments"][key], looks[at % len(looks)]
        if look == 1:
            del values["market_value"], values["land_value"]
            values["assessed_value"], values["assessed_land_value"] = parcel.market, parcel.land
        elif look == 2:
            del values["land_value"]
            values |= {"assessed_value": third(parcel.market), "assessed_land_value": third(parcel.land)}
        before = {name: value for name, value in values.items() if name != "taxable_value"} | {"tax_year": 2024}
        found["assessments"][f"{jurisdiction} 2024 {parcel.parcel_id}"] = before
    return found


def third(amount: Decimal) -> Decimal:
    """What Ohio assesses: 35 %."""
    return (amount * 35 / 100).quantize(Decimal("0.01"))


def report_of(parcel: Parcel, look: int) -> bytes:
    """Its report, in one of the looks."""
    year, before = "2025 Working Values", "2024 Certified Values"
    market, land, taxable = _money(parcel.market), _money(parcel.land), _money(parcel.taxable) or "See below"
    rows = [("Land Value", land), ("Just (Market) Value", market), ("Taxable Value", taxable)]
    if look == 1:
        rows = [("+ Assessed Land Value", land), ("= Total Assessed Value", market), ("Taxable Value", taxable)]
    if look == 2:
        year, before = "2025", "2024"
        rows = [("Land Value", land), ("Total Value (Appraised 100%)", market)]
        rows += [
            ("Land Value", _money(third(parcel.land))),
            ("Total Value (Assessed 35%)", _money(third(parcel.market))),
        ]
        rows += [("Taxable Value", taxable)]
    lines = [(label, value, "" if label == "Taxable Value" else value) for label, value in rows]
    address, use = (
        ("Location Address", "Property Use Code"),
        ("Property Address", "Class"),
        ("Physical Address", "Class"),
    )[look]
    summary = [
        (("Parcel ID", "Parcel Number", "Parcel ID")[look], parcel.parcel_id),
        (address, parcel.address or ""),
        (use, parcel.use_code),
        ("Acres", f"{parcel.acres}"),
        ("Flood Zone", parcel.flood_zone or ""),
    ]
    modules = [
        ("Parcel Summary", _pairs(summary)),
        (("Owner Information", "Owner", "Owners")[look], _owners(parcel, look)),
    ]
    modules += [("Valuation", _table(("", year, before), lines))]
    empty = ["Condominium Information", "Sketches"]
    if parcel.sold:
        sale = (
            f"{parcel.sold.month}/{parcel.sold.day}/{parcel.sold.year}",
            _money(parcel.price),
            "WD",
            parcel.deed or "",
        )
        modules += [("Sales", _table(("Sale Date", "Sale Price", "Instrument", "Instrument Number"), [sale]))]
    else:
        empty.append("Sales")
    inner = "".join(
        f'<section id="ctlBodyPane_ctl{at:02}_mSection"><header class="module-header"><a class="toggle-collapse">'
        f'<div class="title">{title}</div></a></header><div class="module-content">{content}</div></section>'
        for at, (title, content) in enumerate(modules)
    )
    return _html(f"{inner}{_no_data(empty)}", f"Report: {parcel.parcel_id}").body


def _owners(parcel: Parcel, look: int) -> str:
    def span(named: str, text: str) -> str:
        return f'<span id="ctlBodyPane_ctl01_ctl01_{named}">{escape(text)}</span>'

    if look == 1:
        names = "".join(span(f"sprLnkOwnerName{at}_lblSearch", name) for at, name in enumerate(parcel.owners, 1))
        where = span("lblAddress", "1 ELM ST") + span("lblCityStateZip", "ADA, MI 49301") if names else ""
        return f'<table class="tabular-data-two-column"><tr><th>{names}{where}</th><td></td></tr></table>'
    found = ""
    for at, name in enumerate(parcel.owners):
        found += f'<div class="block-row">{span(f"rptOwner_ctl0{at}_sprOwnerName1_lnkUpm_lnkSearch", name)}'
        found += f"{span(f'rptOwner_ctl0{at}_lblOwnerAddress', '1 ELM ST')}</div>"
    return f"<strong>Owner</strong><br>{found}" if found and look == 0 else found


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><th scope="row"><strong>{label}</strong></th><td><div><span>{escape(value)}</span></div></td></tr>'
        for label, value in pairs
    )
    return f'<table class="tabular-data-two-column"><tbody>{rows}</tbody></table>'


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    above = "".join(f"<th>{each}</th>" for each in header)
    return f"<table><thead><tr>{above}</tr></thead><tbody>{lines}</tbody></table>"


def _money(amount: Decimal | None) -> str:
    return "" if amount is None else f"${amount:,.2f}"


def _no_data(modules: Sequence[str]) -> str:
    said = f"<strong>No data available for the following modules:</strong>\n {', '.join(modules)}."
    return f'<div id="ctlBodyPane_noDataList_pnlNoDataForModules"><p>{said}</p></div>'


def html(body: bytes) -> Answer:
    """A page."""
    return Answer(body=body, kind="text/html; charset=utf-8")


def _html(inner: str, title: str) -> Answer:
    config = f"<script>var mapConfig = {json.dumps(_CONFIG)};Beacon.API.Initialize();</script>"
    head = f"<head><title>qPublic - Made-up County - {title}</title>{config}</head>"
    return html(f"<!DOCTYPE html><html>{head}<body>{inner}</body></html>".encode())


NO_REPORT = _html(_no_data(["Land Information", "Parcel Summary", "Owner"]), "Report: 1").body
"""What is shown for a number that the site may know, and has nothing of."""
NOTHING_FOUND = _html("<div>No results match your search criteria.</div>", "Report").body
"""For one that it does not know."""

"""A county's parcels as DEVNET wEdge shows them, in its three looks.

Its pages are made from what is known of such sites, and are without scripts and styles. The truth is made without the
parsers of harvester: what they read is compared with it.
"""

from collections.abc import Sequence
from decimal import Decimal
from html import escape
from urllib.parse import parse_qs, unquote

from tests.crawling import Answer
from tests.sandbox.county import County, Document, Parcel, changed
from tests.sandbox.county_portal import CountyPortal

VIEW, SEARCH = "/parcel/view/", "/Search/ExecuteSearch"
LOOKS = (0, 1, 2)
"""In the style of Bootstrap, with panels, and in that of Tailwind."""
_NONE = "<h3>Search Results</h3><p>No Results Found</p>"
_LEVELS = ("Homesite", "Dwelling", "Farm Land", "Farm Building", "Mineral", "Total")
_SALE = (
    "Year", "Document #", "Sale Type", "Sale Date", "Sold By", "Sold To",
    "Gross Price", "Personal Property", "Net Price",
)  # fmt: skip


class DevnetPortal(CountyPortal):
    """Its parcels are shown in these looks in turn."""

    page = VIEW

    def __init__(self, county: County, looks: Sequence[int] = LOOKS) -> None:
        super().__init__()
        self.county = county
        self.looks = {number_of(parcel): (parcel, looks[at % len(looks)]) for at, parcel in enumerate(county.parcels)}
        self.changed: dict[str, dict[bytes, bytes]] = {}
        """Number of a parcel -> in its page: what is written -> what is written instead."""

    def well(self, path: str) -> Answer:
        place, _, query = path.partition("?")
        if place == SEARCH:
            return self._search({name: values[0] for name, values in parse_qs(query).items()})
        number, _, year = unquote(place.removeprefix(VIEW)).partition("/")
        if not place.startswith(VIEW) or number not in self.looks:
            return Answer(404, b"<html><title>404</title></html>", kind="text/html")
        parcel, look = self.looks[number]
        if look == 2 and not year:
            return _moved(f"{VIEW}{number}/{parcel.tax_year}")
        body = page_of(parcel, look)
        for before, after in self.changed.get(number, {}).items():
            body = body.replace(before, after)
        return Answer(body=changed(body.decode(), self.now_changed).encode(), kind="text/html; charset=utf-8")

    def _search(self, form: dict[str, str]) -> Answer:
        house, street = form.get("house_number", ""), form.get("street_name", "")
        found = [number for number in self.looks if number == form.get("property_key")]
        for number, (parcel, _) in self.looks.items():
            at, _, along = (parcel.address or "").partition(" ")
            if street and house in ("", at) and along.startswith(street):
                found.append(number)
        if len(found) == 1:
            return _moved(f"{VIEW}{found[0]}/2025")
        links = "".join(f'<tr><td><a href="{VIEW}{number}/2025">{number}</a></td></tr>' for number in found)
        return _html(f"<h3>Search Results</h3><table>{links}</table>" if found else _NONE)


def number_of(parcel: Parcel) -> str:
    """As addresses have it: without hyphens and blanks."""
    return parcel.parcel_id.replace("-", "").replace(" ", "")


def truth(county: County, jurisdiction: str, looks: Sequence[int] = LOOKS) -> dict[str, dict[str, Document]]:
    """As `County.truth`, with what each look says of a parcel, and the bills."""
    found = county.truth(jurisdiction) | {"tax_bills": {}}
    for at, parcel in enumerate(county.parcels):
        key, look = f"{jurisdiction} 2025 {parcel.parcel_id}", looks[at % len(looks)]
        values = found["assessments"][key]
        values["assessed_value"], land = values.pop("market_value"), values.pop("land_value")
        if look == 0:
            names = found["properties"][f"{jurisdiction} {parcel.parcel_id}"]
            if "owner_names" in names:
                names["owner_names"] = [" & ".join(parcel.owners)]
        elif look == 1:
            del found["assessments"][key]
            sale = parcel.sold and (f"{parcel.sold}/{parcel.deed}" if parcel.deed else f"{parcel.sold}")
            found["sales"].pop(f"{jurisdiction} {sale} {parcel.parcel_id}", None)
        else:
            values["assessed_land_value"] = land
        if look != 1:
            bill: Document = {name: values[name] for name in ("jurisdiction", "parcel_id", "tax_year", "currency")}
            bill |= {"paid": tax_of(parcel)} | ({"billed": tax_of(parcel)} if look == 0 else {})
            found["tax_bills"][key] = bill
    return found


def tax_of(parcel: Parcel) -> Decimal:
    """What is billed for it, and paid."""
    return (parcel.market / 50).quantize(Decimal("0.01"))


def page_of(parcel: Parcel, look: int) -> bytes:
    """Its page, in one of the looks."""
    return _html((_bordered, _panels, _tailwind)[look](parcel)).body


def _bordered(parcel: Parcel) -> str:
    owners = "<br>".join([" & ".join(parcel.owners), "1 ELM ST", "ADA, MI 49301"] if parcel.owners else [])
    pairs = [
        ("Parcel Number", escape(parcel.parcel_id)),
        ("Site Address", escape(parcel.address or "")),
        ("Owner Name &amp; Address", owners.replace(" & ", " &amp; ")),
        ("Tax Year", f"<div>{parcel.tax_year} (Payable {parcel.tax_year + 1})</div>"),
        ("Property Class", parcel.use_code),
        ("Acres", f"{parcel.acres}"),
        ("Net Taxable Value", _money(parcel.taxable)),
        ("Tax Rate", "Unavailable"),
        ("Flood Zone", parcel.flood_zone or ""),
    ]
    cells = "".join(
        f'<tr><td><div class="inner-label">{label}</div><div class="inner-value">{value}</div></td></tr>'
        for label, value in pairs
    )
    levels = [
        ("Township", *[""] * 5, "1"),
        ("Board of Review Equalized", _money(parcel.land), *[""] * 4, _money(parcel.market)),
    ]
    tax = str(_money(tax_of(parcel)))
    sale = _sale(parcel)
    return (
        f'<div id="parcel-views"><h3>Property Information</h3><table class="table table-bordered">{cells}</table>'
        f"<h3>Assessments</h3><h4> : {parcel.tax_year}</h4>{_table(('Level', *_LEVELS), levels)}"
        f"<h3>Sales History</h3>{_table(_SALE, [sale] if sale else [])}"
        "<h3>Payment History</h3>"
        + _table(("Tax Year", "Total Billed", "Total Paid", "Amount Unpaid"), [("2025", tax, tax, "$0.00")])
        + "</div>"
    )


def _panels(parcel: Parcel) -> str:
    pairs = [
        ("Property ID", parcel.parcel_id),
        ("Tax Year", str(parcel.tax_year)),
        ("Site Address", parcel.address or ""),
        ("Property Class", parcel.use_code),
        ("Acres", f"{parcel.acres}"),
        ("Flood Zone", parcel.flood_zone or ""),
    ]
    rows = "".join(
        f'<div class="row"><div class="col-sm-5"><label>{label}</label></div>'
        f'<div class="col-sm-7">{escape(value)}</div></div>'
        for label, value in pairs
    )
    names = "".join(
        f'<div class="row"><div class="col-sm-4"><div class="inner-label">{label}</div></div>'
        f'<div class="col-sm-8">{escape(value)}</div></div>'
        for label, value in [("Parcel Owner" if not at else "", name) for at, name in enumerate(parcel.owners or ("",))]
    )
    return (
        f'<div class="panel-heading">Overview</div><div class="panel-body" id="overview-body">{rows}</div>'
        f'<div class="panel-heading">Related Names</div><div style="border: 1px solid">{names}</div>'
    )


def _tailwind(parcel: Parcel) -> str:
    def panel(name: str, title: str, inner: str) -> str:
        heading = f'<div class="panel-heading"><h2>{title}</h2></div>'
        return f'<div id="{name}1" class="panel">{heading}<div class="panel-body">{inner}</div></div>'

    def pair(label: str, value: str) -> str:
        around = '<div class="border p-2 rounded"><div class="flex">'
        return f'{around}<div class="md:w-1/3">{label}</div><div class="md:w-2/3">{escape(value)}</div></div></div>'

    overview = [
        ("Parcel Number", parcel.parcel_id), ("Site Address", parcel.address or ""),
        ("Property Class", parcel.use_code), ("Acres", f"{parcel.acres}"), ("Flood Zone", parcel.flood_zone or ""),
    ]  # fmt: skip
    taxable, land, market = _money(parcel.taxable), _money(parcel.land), _money(parcel.market)
    values = [("Total", "", "", taxable), ("Exempt", "", "", "$0"), ("Assessed Value",), ("Total", land, "", market)]
    tax = str(_money(tax_of(parcel)))
    sale = _sale(parcel)
    details = ("Due Date", "Tax Billed", "Cost Billed", "Penalty/Interest", "Total Due", "Total Paid", "Total Unpaid")
    installment = _table(details, [("08/18/2025", tax, "$0.00", "$0.00", tax, tax, "$0.00")])
    inner = f'<tr data-subrow="1"><td colspan="5">{panel("x", "Installment 1", installment)}</td></tr>'
    years = [("", "Tax Year (2025 - 2026)", tax, tax, "$0.00")]
    payments = _table(("", "", "Total Due", "Total Paid", "Total Unpaid"), years).replace(
        "</table>", f"{inner}</table>"
    )
    return '<div id="property-page">{}</div>'.format(
        panel("Names", "Names", "".join(pair("Owner", name) for name in parcel.owners or ("",)))
        + panel("Overview", "Overview", "".join(pair(label, value) for label, value in overview))
        + panel("Assessments", "Assessments", _table(("Taxable Value", "Land", "Improvements", "Total"), values))
        + panel("Sales", "Sales", _table(_SALE, [sale] if sale else []))
        + panel("PaymentHistory", "Payment History", payments)
    )


def _sale(parcel: Parcel) -> tuple[str, ...]:
    if not parcel.sold:
        return ()
    price = _money(parcel.price)
    day = f"{parcel.sold:%m/%d/%Y}"
    return (str(parcel.sold.year), parcel.deed or "", "Warranty Deed", day, "", "", price, "$0.00", price)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table><tr>{''.join(f'<th>{each}</th>' for each in header)}</tr>{''.join(lines)}</table>"


def _money(amount: Decimal | None) -> str:
    return "" if amount is None else f"${amount:,.2f}"


def _moved(to: str) -> Answer:
    return Answer(302, b"", {"Location": to}, kind="text/html")


def _html(inner: str) -> Answer:
    body = f"<!DOCTYPE html><html><head><title>wEdge</title></head><body>{inner}</body></html>"
    return Answer(body=body.encode(), kind="text/html; charset=utf-8")

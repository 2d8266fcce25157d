"""What sites change on their pages in mid-job, of each platform in ten ways and more, and what is said then."""

from collections.abc import Callable, Mapping

from tests.counties.stands import STANDS, TWIN, Stand, beacon, devnet
from tests.sandbox.county_portal import Changes

Told = list[tuple[Changes, str]]
"""What is changed, and what is said of it."""
VGSI: Told = [
    ({'id="MainContent_lblLocation"': 'name="x"', ">Location<": ">Situs<"}, "lacks: Location"),
    ({'id="MainContent_lblPid"': 'name="x"', ">PID<": ">Key<"}, "PID"),
    ({"<th>Sale Date</th>": "<th>When</th>"}, "Ownership History has no column of the owner, or none of the date"),
    ({"<th>Improvements</th>": ""}, "cells, and its header"),
    ({">Zone<": ">Zoning District<", ">Zone:<": ">Zoning District:<", "lblZone": "lblZd"}, "lacks 'Zone [Zone]'"),
    ({">Size (Acres)": ">Size (Sq Ft)"}, "and has 'Size (Sq Ft) [Lnd"),
    ({"Use Code": "Use Code and Description"}, "'Use Code [UseCode]', and has"),
    ({"<th>Improvements</th>": "<th>Improvements and Extras</th>"}, "Improvements"),
    ({"<th>Owner</th>": "<th>Sale Price</th>", "<th>Sale Price</th>": "<th>Owner</th>"}, "Ownership History"),
    ({"lblYearBuilt": "lblYb", "Year Built:": "Built:"}, "lacks 'Building: Year Built"),
    ({"Extra Features": "Additional Features", "grdXf": "grdAf"}, "lacks 'Extra Features"),
    ({'class="plabel"': 'class="x"', "lblLnd": "lblL", "lblUse": "lblU"}, "lacks: Land"),
    ({"lblOwner": "lblHolder", "lblGenOwner": "lblGenHolder", ">Owner": ">Holder"}, "lacks: Owner"),
]
IASWORLD: Told = [
    ({"PARID:": "RECORD:"}, "the datalet has no banner PARID"),
    ({"Property Address": "Where It Is"}, "lacks 'Parcel: Property Address'"),
    ({"Land Use Code:": "Class of Use"}, "lacks 'Parcel: Land Use Code'"),
    ({"Total Acres **": "Total Sq Ft"}, "and has 'Parcel: Total Sq Ft'"),
    ({'id="Owner"': 'id="Holders of Title"'}, "lacks 'Owner'"),
    ({"Market Value": "Land Value", "Land Value": "Market and Land Value"}, "lacks 'Value History, column "),
    ({"Sale Date": "Sale Price", "Sale Price": "Sale Date"}, "lacks 'Sales, column "),
    ({'id="Sales"': 'name="Sales"'}, "lacks 'Sales'"),
    ({'id="Annual Taxes"': 'id="Charges"'}, "and has 'Charges'"),
    ({'class="DataletSideHeading"': 'class="Heading"'}, "the page does not say who owns the parcel"),
]
ESEARCH: Told = [
    ({">Name:<": ">Holder:<"}, "who owns the parcel"),
    ({"Market Value:": "Total Value:"}, "lacks 'Property Values: Market Value', and has"),
    ({">Acreage<": ">Hectares<"}, "lacks 'Property Land, column Acreage'"),
    ({">Improvements<": ">Improvements and Extras<"}, "lacks 'Property Roll Value History, column Improvements'"),
    ({"Property Deed History": "Property Documents"}, "lacks 'Property Deed History"),
    ({"Situs Address:": "Where:"}, "where it is"),
    ({"Property ID:": "Account:"}, "lacks 'Property Details: Account: Property ID', and has"),
    ({"Assessed Value:": "Assessed and Taxable Value:"}, "lacks 'Property Values: Assessed Value', and has"),
    ({"Deed Date": "Volume", "Volume": "Deed Date"}, "lacks 'Property Deed History, column "),
    ({"<th>HS Cap Loss</th>": ""}, "cells, and its header"),
    ({'class="panel-heading"': 'class="heading"'}, "its page says nothing of it"),
]
PACS: Told = [
    ({"Property ID:": "Account:"}, "lacks 'Property: Property ID'"),
    ({"Address:": "Where:"}, "where it is"),
    ({"Name:": "Holder:"}, "lacks 'Owner"),
    ({'id="valuesDetails"': 'id="x"'}, "lacks 'Values"),
    ({"Geographic ID:": "Quick Ref ID:"}, "lacks 'Property: Geographic ID"),
    (
        {"Market Value:": "Assessed Value:", "Assessed Value:": "Market and Assessed Value:"},
        "lacks 'Values: Market Value",
    ),
    ({"Land Market": "Appraised", "Appraised": "Land and Appraised"}, "lacks 'Roll Value History, column "),
    ({"Deed Date": "Volume", "Volume": "Deed Date"}, "lacks 'Deed History, column "),
    ({"<td>HS Cap</td>": ""}, "a row of Roll Value History has 7 cells, and its header 6"),
    ({'id="deedHistoryDetails"': 'id="transfersDetails"'}, "and has 'Transfers'"),
    ({"<td>Acres</td>": "<td>Sqft</td>"}, "lacks 'Land, column Acres"),
]
DEVNET: Told = [
    ({">Parcel Number<": ">Folder<"}, "the page of the parcel lacks: Parcel Number"),
    ({">Site Address<": ">Where<"}, "where it is"),
    ({"Owner Name &amp; Address": "Holder"}, "who owns the parcel"),
    ({">Acres<": ">Hectares<"}, "lacks 'Property Information: Acres', and has"),
    ({">Property Class<": ">Use of Land<"}, "lacks 'Property Information: Property Class', and has"),
    ({">Net Taxable Value<": ">Taxable and Exempt<"}, "lacks 'Property Information: Net Taxable Value', and has"),
    ({"Sales History": "Transfers"}, "lacks 'Sales History"),
    ({">Sale Date<": ">Gross Price<", ">Gross Price<": ">Sale Date<"}, "lacks 'Sales History, column "),
    ({"<th>Level</th>": ""}, "cells, and its header"),
    ({"Board of Review Equalized": "Final"}, "lacks 'Assessments: Board of Review Equalized: "),
    ({'"inner-label"': '"label"'}, "its page says nothing of it"),
    ({">Total Billed<": ">Billed and Paid<"}, "lacks 'Payment History, column Total Billed"),
]
BEACON: Told = [
    ({">Parcel ID<": ">Folder<"}, "the report of the parcel lacks: Parcel ID"),
    ({"sprOwnerName": "sprName"}, "has no owner's name"),
    ({">Location Address<": ">Where<"}, "lacks 'Parcel Summary: Location Address', and has"),
    ({">Acres<": ">Hectares<"}, "lacks 'Parcel Summary: Acres', and has"),
    ({">Property Use Code<": ">Use of Land<"}, "lacks 'Parcel Summary: Property Use Code', and has"),
    ({">Just (Market) Value<": ">Just and Assessed Value<"}, "Just (Market) Value"),
    ({"2025 Working Values": "Working Values"}, "which may say what it is worth"),
    ({">Valuation<": ">Worth<"}, "which may say what it is worth"),
    ({">Sale Date<": ">Sale Price<", ">Sale Price<": ">Sale Date<"}, "lacks 'Sales, column "),
    ({"<th>Instrument</th>": ""}, "cells, and its header"),
    ({'"module-content"': '"content"'}, "lacks"),
]
EAGLEWEB: Told = [
    ({">Parcel Number<": ">Folder<"}, "Parcel Number', and has"),
    ({">Owner Name<": ">Whose<"}, "who owns the parcel"),
    ({">Situs Address<": ">Where<"}, "where it is"),
    ({">Acres</strong>": ">Hectares</strong>"}, "lacks 'Location: Acres', and has"),
    ({">Actual</b>": ">Actual and Assessed</b>"}, "lacks 'Assessment History: Actual"),
    ({">Legal Class<": ">Use of Land<"}, "lacks 'Assessment History: Legal Class"),
    ({">Sale Date<": ">Sale Price<", ">Sale Price<": ">Sale Date<"}, "lacks 'Transfers, column "),
    ({">Transfers<": ">Documents<"}, "lacks 'Transfers"),
    ({"<th>Reception Number</th>": ""}, "cells, and its header"),
    ({"<h1>Account: ": "<h1>"}, "the page of the account lacks: Account"),
    ({">Tax Year<": ">Period<"}, "lacks 'Tax History, column Tax Year"),
]
PATRIOT: Told = [
    ({"Property Account Number": "Folder"}, "lacks 'Parcel: Property Account Number'"),
    ({">Location<": ">Where<"}, "where it is"),
    ({">Owner<": ">Holder<"}, "who owns the parcel"),
    ({">Total Value<": ">Sum<"}, "lacks 'Current Property Assessment: Total Value"),
    ({">Land Value<": ">Of the Land<"}, "lacks 'Current Property Assessment: Land Value"),
    ({">Building Value<": ">Building and Extras<"}, "lacks 'Current Property Assessment: Building Value"),
    ({">Sale Date<": ">Sale Price<", ">Sale Price<": ">Sale Date<"}, "lacks 'Current Property Sales Information: "),
    ({"Current Property Sales Information": "Transfers"}, "lacks 'Current Property Sales Information"),
    ({"acres of land": "hectares of land"}, "lacks 'Narrative Description: acres of land"),
    ({">Year<": ">Period<"}, "lacks 'Current Property Assessment: Year"),
    ({">Zoning<": ">Zone and Use<"}, "lacks 'Current Property Mailing Address: Zoning"),
]
ARCGIS: Told = [
    ({"PIN": "KEY_NO"}, "no column is known to hold the parcel's number"),
    ({"OWNER1": "HOLDER"}, "it lacks 'OWNER1', and has 'HOLDER'"),
    ({"MARKET_VAL": "MKT_AMT"}, "it lacks 'MARKET_VAL', and has 'MKT_AMT'"),
    ({"FLOOD_ZONE": "FLOOD"}, "it lacks 'FLOOD_ZONE', and has 'FLOOD'"),
    ({"ACRES": "SQFT"}, "it lacks 'ACRES', and has 'SQFT'"),
    ({"OWNER1": "OWNERS", "OWNER2": ""}, "it lacks 'OWNER1', 'OWNER2', and has 'OWNERS'"),
    ({"LAND_VAL": ""}, "it lacks 'LAND_VAL'"),
    ({"SALE_DATE": "", "SALE_PRICE": "", "DEED_REF": ""}, "'SALE_DATE', 'SALE_PRICE'"),
    (
        {"OWNER1": "MARKET_VAL", "MARKET_VAL": "OWNER1"},
        "has values of another kind than before",
    ),
    ({"SITUS_ADDR": "ACRES", "ACRES": "SITUS_ADDR"}, "the column 'ACRES' has values of another kind"),
]
SOCRATA_NAMES = {
    "PIN": "parcel_number", "OWNER1": "owner_name_1", "OWNER2": "owner_name_2", "MARKET_VAL": "full_market_value",
    "FLOOD_ZONE": "flood_zone", "ACRES": "acres", "LAND_VAL": "land_value", "SALE_DATE": "sale_date",
    "SALE_PRICE": "sale_price", "DEED_REF": "instrument_number", "SITUS_ADDR": "property_location",
}  # fmt: skip


def _socrata() -> Told:
    """As of ArcGIS, by the names that the dataset has."""

    def told(said: str) -> str:
        for name, own in SOCRATA_NAMES.items():
            said = said.replace(f"'{name}'", f"'{own}'")
        return said

    return [
        ({SOCRATA_NAMES[name]: SOCRATA_NAMES.get(to, to) for name, to in changes.items()}, told(said))
        for changes, said in ARCGIS
    ]


CHANGES: Mapping[str, Told] = {
    "arcgis": ARCGIS,
    "beacon": BEACON,
    "devnet": DEVNET,
    "eagleweb": EAGLEWEB,
    "esearch": ESEARCH,
    "iasworld": IASWORLD,
    "pacs": PACS,
    "patriot": PATRIOT,
    "socrata": _socrata(),
    "vgsi": VGSI,
}
DRIFTING: Mapping[str, Callable[[int], Stand]] = {
    **{name: stand for name, stand in STANDS.items() if name not in (TWIN, "eagleweb")},
    "arcgis": lambda pages: STANDS["arcgis"](5 * pages),
    "beacon": lambda pages: beacon(pages, (0,)),
    "devnet": lambda pages: devnet(pages, (0,)),
    "eagleweb": STANDS[TWIN],
    "socrata": lambda pages: STANDS["socrata"](5 * pages),
}
"""Name -> a county of so many pages of parcels, of one look, as counties have."""

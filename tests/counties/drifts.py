"""What sites change on their pages in mid-job, of each platform in ten ways and more, and what is named then."""

from collections.abc import Callable, Mapping

from harvester.parsers.counties import contract
from tests.counties.stands import STANDS, TWIN, Stand, beacon, devnet
from tests.sandbox.county_portal import Changes

Told = list[tuple[Changes, str]]
"""What is changed, and what is named then."""
NO_PARCEL = "nothing of it"
"""Of a page that says nothing of the parcel that was asked for."""
VGSI: Told = [
    ({'id="MainContent_lblLocation"': 'name="x"', ">Location<": ">Situs<"}, "lacks: Location"),
    ({'id="MainContent_lblPid"': 'name="x"', ">PID<": ">Key<"}, "PID"),
    ({"<th>Sale Date</th>": "<th>When</th>"}, "Ownership History"),
    ({"<th>Improvements</th>": ""}, "cells"),
    ({">Zone<": ">Zoning District<", ">Zone:<": ">Zoning District:<", "lblZone": "lblZd"}, "'Zone [Zone]'"),
    ({">Size (Acres)": ">Size (Sq Ft)"}, "'Size (Sq Ft) [Lnd"),
    ({"Use Code": "Use Code and Description"}, "'Use Code [UseCode]'"),
    ({"<th>Improvements</th>": "<th>Improvements and Extras</th>"}, "Improvements"),
    ({"<th>Owner</th>": "<th>Sale Price</th>", "<th>Sale Price</th>": "<th>Owner</th>"}, "Ownership History"),
    ({"lblYearBuilt": "lblYb", "Year Built:": "Built:"}, "'Building: Year Built"),
    ({"Extra Features": "Additional Features", "grdXf": "grdAf"}, "'Extra Features"),
    ({'class="plabel"': 'class="x"', "lblLnd": "lblL", "lblUse": "lblU"}, "lacks: Land"),
    ({"lblOwner": "lblHolder", "lblGenOwner": "lblGenHolder", ">Owner": ">Holder"}, "lacks: Owner"),
]
IASWORLD: Told = [
    ({"PARID:": "RECORD:"}, "banner PARID"),
    ({"Property Address": "Where It Is"}, "'Parcel: Property Address'"),
    ({"Land Use Code:": "Class of Use"}, "'Parcel: Land Use Code'"),
    ({"Total Acres **": "Total Sq Ft"}, "'Parcel: Total Sq Ft'"),
    ({'id="Owner"': 'id="Holders of Title"'}, "'Owner'"),
    ({"Market Value": "Land Value", "Land Value": "Market and Land Value"}, "'Value History, column "),
    ({"Sale Date": "Sale Price", "Sale Price": "Sale Date"}, "'Sales, column "),
    ({'id="Sales"': 'name="Sales"'}, "'Sales'"),
    ({'id="Annual Taxes"': 'id="Charges"'}, "'Charges'"),
    ({'class="DataletSideHeading"': 'class="Heading"'}, contract.CALLED[contract.OWNER]),
]
ESEARCH: Told = [
    ({">Name:<": ">Holder:<"}, contract.CALLED[contract.OWNER]),
    ({"Market Value:": "Total Value:"}, "'Property Values: Market Value'"),
    ({">Acreage<": ">Hectares<"}, "'Property Land, column Acreage'"),
    ({">Improvements<": ">Improvements and Extras<"}, "'Property Roll Value History, column Improvements'"),
    ({"Property Deed History": "Property Documents"}, "'Property Deed History"),
    ({"Situs Address:": "Where:"}, contract.CALLED[contract.SITUS]),
    ({"Property ID:": "Account:"}, "'Property Details: Account: Property ID'"),
    ({"Assessed Value:": "Assessed and Taxable Value:"}, "'Property Values: Assessed Value'"),
    ({"Deed Date": "Volume", "Volume": "Deed Date"}, "'Property Deed History, column "),
    ({"<th>HS Cap Loss</th>": ""}, "cells"),
    ({'class="panel-heading"': 'class="heading"'}, NO_PARCEL),
]
PACS: Told = [
    ({"Property ID:": "Account:"}, "'Property: Property ID'"),
    ({"Address:": "Where:"}, contract.CALLED[contract.SITUS]),
    ({"Name:": "Holder:"}, "'Owner"),
    ({'id="valuesDetails"': 'id="x"'}, "'Values"),
    ({"Geographic ID:": "Quick Ref ID:"}, "'Property: Geographic ID"),
    (
        {"Market Value:": "Assessed Value:", "Assessed Value:": "Market and Assessed Value:"},
        "'Values: Market Value",
    ),
    ({"Land Market": "Appraised", "Appraised": "Land and Appraised"}, "'Roll Value History, column "),
    ({"Deed Date": "Volume", "Volume": "Deed Date"}, "'Deed History, column "),
    ({"<td>HS Cap</td>": ""}, "Roll Value History has 7 cells"),
    ({'id="deedHistoryDetails"': 'id="transfersDetails"'}, "'Transfers'"),
    ({"<td>Acres</td>": "<td>Sqft</td>"}, "'Land, column Acres"),
]
DEVNET: Told = [
    ({">Parcel Number<": ">Folder<"}, "lacks: Parcel Number"),
    ({">Site Address<": ">Where<"}, contract.CALLED[contract.SITUS]),
    ({"Owner Name &amp; Address": "Holder"}, contract.CALLED[contract.OWNER]),
    ({">Acres<": ">Hectares<"}, "'Property Information: Acres'"),
    ({">Property Class<": ">Use of Land<"}, "'Property Information: Property Class'"),
    ({">Net Taxable Value<": ">Taxable and Exempt<"}, "'Property Information: Net Taxable Value'"),
    ({"Sales History": "Transfers"}, "'Sales History"),
    ({">Sale Date<": ">Gross Price<", ">Gross Price<": ">Sale Date<"}, "'Sales History, column "),
    ({"<th>Level</th>": ""}, "cells"),
    ({"Board of Review Equalized": "Final"}, "'Assessments: Board of Review Equalized: "),
    ({'"inner-label"': '"label"'}, NO_PARCEL),
    ({">Total Billed<": ">Billed and Paid<"}, "'Payment History, column Total Billed"),
]
BEACON: Told = [
    ({">Parcel ID<": ">Folder<"}, "lacks: Parcel ID"),
    ({"sprOwnerName": "sprName"}, "owner's name"),
    ({">Location Address<": ">Where<"}, "'Parcel Summary: Location Address'"),
    ({">Acres<": ">Hectares<"}, "'Parcel Summary: Acres'"),
    ({">Property Use Code<": ">Use of Land<"}, "'Parcel Summary: Property Use Code'"),
    ({">Just (Market) Value<": ">Just and Assessed Value<"}, "Just (Market) Value"),
    ({"2025 Working Values": "Working Values"}, contract.CALLED[contract.VALUE]),
    ({">Valuation<": ">Worth<"}, contract.CALLED[contract.VALUE]),
    ({">Sale Date<": ">Sale Price<", ">Sale Price<": ">Sale Date<"}, "'Sales, column "),
    ({"<th>Instrument</th>": ""}, "cells"),
    ({'"module-content"': '"content"'}, "lacks"),
]
EAGLEWEB: Told = [
    ({">Parcel Number<": ">Folder<"}, "Parcel Number'"),
    ({">Owner Name<": ">Whose<"}, contract.CALLED[contract.OWNER]),
    ({">Situs Address<": ">Where<"}, contract.CALLED[contract.SITUS]),
    ({">Acres</strong>": ">Hectares</strong>"}, "'Location: Acres'"),
    ({">Actual</b>": ">Actual and Assessed</b>"}, "'Assessment History: Actual"),
    ({">Legal Class<": ">Use of Land<"}, "'Assessment History: Legal Class"),
    ({">Sale Date<": ">Sale Price<", ">Sale Price<": ">Sale Date<"}, "'Transfers, column "),
    ({">Transfers<": ">Documents<"}, "'Transfers"),
    ({"<th>Reception Number</th>": ""}, "cells"),
    ({"<h1>Account: ": "<h1>"}, "lacks: Account"),
    ({">Tax Year<": ">Period<"}, "'Tax History, column Tax Year"),
]
PATRIOT: Told = [
    ({"Property Account Number": "Folder"}, "'Parcel: Property Account Number'"),
    ({">Location<": ">Where<"}, contract.CALLED[contract.SITUS]),
    ({">Owner<": ">Holder<"}, contract.CALLED[contract.OWNER]),
    ({">Total Value<": ">Sum<"}, "'Current Property Assessment: Total Value"),
    ({">Land Value<": ">Of the Land<"}, "'Current Property Assessment: Land Value"),
    ({">Building Value<": ">Building and Extras<"}, "'Current Property Assessment: Building Value"),
    ({">Sale Date<": ">Sale Price<", ">Sale Price<": ">Sale Date<"}, "'Current Property Sales Information: "),
    ({"Current Property Sales Information": "Transfers"}, "'Current Property Sales Information"),
    ({"acres of land": "hectares of land"}, "'Narrative Description: acres of land"),
    ({">Year<": ">Period<"}, "'Current Property Assessment: Year"),
    ({">Zoning<": ">Zone and Use<"}, "'Current Property Mailing Address: Zoning"),
]
ARCGIS: Told = [
    ({"PIN": "KEY_NO"}, "parcel's number"),
    ({"OWNER1": "HOLDER"}, "'OWNER1'"),
    ({"MARKET_VAL": "MKT_AMT"}, "'MARKET_VAL'"),
    ({"FLOOD_ZONE": "FLOOD"}, "'FLOOD_ZONE'"),
    ({"ACRES": "SQFT"}, "'ACRES'"),
    ({"OWNER1": "OWNERS", "OWNER2": ""}, "'OWNER1', 'OWNER2'"),
    ({"LAND_VAL": ""}, "'LAND_VAL'"),
    ({"SALE_DATE": "", "SALE_PRICE": "", "DEED_REF": ""}, "'SALE_DATE', 'SALE_PRICE'"),
    (
        {"OWNER1": "MARKET_VAL", "MARKET_VAL": "OWNER1"},
        "'MARKET_VAL'",
    ),
    ({"SITUS_ADDR": "ACRES", "ACRES": "SITUS_ADDR"}, "'ACRES'"),
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

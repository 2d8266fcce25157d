"""A site that changes its pages is noticed, and nothing wrong is stored; a vacant lot is no change."""

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from scrapy import Request
from scrapy.utils.test import get_crawler

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Property
from harvester.meta import JOB
from harvester.parsers.counties import arcgis, esearch, iasworld, pacs, socrata, vgsi
from harvester.parsers.counties.drift import LEARNT, Pages, Signature, Table, difference, signature_of
from harvester.parsers.counties.sections import joined, records_of, signature
from harvester.parsers.counties.table import Rows, Source
from harvester.spiders.counties.witness import NEW_LABELS, Witnesses
from tests.counties.conftest import SITE
from tests.sandbox import county_esearch, county_pacs
from tests.sandbox.county import County, changed
from tests.sandbox.county_iasworld import TABS, Line, sections
from tests.sandbox.county_tables import DATASET, LAYER, ArcgisTable, CountyTable, SocrataTable
from tests.sandbox.vision import VisionTown, card_of

SEEN = Provenance("https://county.example/", datetime(2026, 1, 31, tzinfo=UTC), "vgsi")
SOURCE = Source(SITE, "26001")
PARCELS = 60
"""That are read before the site changes."""
Changes = dict[str, str]
"""What is written on a page -> what is written instead."""
TOWN_CHANGES: list[tuple[Changes, str]] = [
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
PORTAL_CHANGES: list[tuple[Changes, str]] = [
    ({"PARID:": "RECORD:"}, "the datalet has no banner PARID"),
    ({"Property Address": "Where It Is"}, "lacks 'Parcel: Property Address'"),
    ({"Land Use Code:": "Class of Use"}, "lacks 'Parcel: Land Use Code'"),
    ({"Total Acres **": "Total Sq Ft"}, "and has 'Parcel: Total Sq Ft'"),
    ({'id="Owner"': 'id="Holders of Title"'}, "lacks 'Owner'"),
    ({"Market Value": "Land Value", "Land Value": "Market and Land Value"}, "lacks 'Value History: "),
    ({"Sale Date": "Sale Price", "Sale Price": "Sale Date"}, "lacks 'Sales: "),
    ({'id="Sales"': 'name="Sales"'}, "lacks 'Sales'"),
    ({'id="Annual Taxes"': 'id="Charges"'}, "and has 'Charges'"),
    ({'class="DataletSideHeading"': 'class="Heading"'}, "no section is known to say who owns the parcel"),
]
DISTRICT_CHANGES: list[tuple[Changes, str]] = [
    ({">Name:<": ">Holder:<"}, "the page of the parcel lacks: Name"),
    ({"Market Value:": "Total Value:"}, "lacks 'Property Values: Market Value', and has"),
    ({">Acreage<": ">Hectares<"}, "lacks 'Property Land: Acreage'"),
    ({">Improvements<": ">Improvements and Extras<"}, "lacks 'Property Roll Value History: Improvements'"),
    ({"Property Deed History": "Property Documents"}, "lacks 'Property Deed History"),
]
PROPERTY_CHANGES: list[tuple[Changes, str]] = [
    ({"Property ID:": "Account:"}, "the page of the property lacks: Property ID"),
    ({"Address:": "Where:"}, "lacks: Address"),
    ({"Name:": "Holder:"}, "lacks: Name"),
    ({'id="valuesDetails"': 'id="x"'}, "lacks: Values"),
    ({"Geographic ID:": "Quick Ref ID:"}, "lacks 'Property: Geographic ID"),
    (
        {"Market Value:": "Assessed Value:", "Assessed Value:": "Market and Assessed Value:"},
        "lacks 'Values: Market Value",
    ),
    ({"Land Market": "Appraised", "Appraised": "Land and Appraised"}, "lacks 'Roll Value History: "),
    ({"Deed Date": "Volume", "Volume": "Deed Date"}, "lacks 'Deed History: "),
    ({"<td>HS Cap</td>": ""}, "a row of Roll Value History has 7 cells, and its header 6"),
    ({'id="deedHistoryDetails"': 'id="transfersDetails"'}, "and has 'Transfers'"),
    ({"<td>Acres</td>": "<td>Sqft</td>"}, "lacks 'Land: Acres"),
]


Card = Callable[[str, Changes], tuple[Signature, Rows]]


class Crawl:
    """Asks for parcels as a spider does, of one process, without the frontier."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.stats = get_crawler().stats
        self.witnesses = Witnesses(self.stats)
        self.asked = 0

    def read(self, parcel_id: str, changes: Changes, doubt: list[Any] | None = None) -> list[Any]:
        """What is stored of a parcel, but for its labels. Raises ParseError."""
        self.asked += 1
        signature, read = self.card(parcel_id, changes)
        asked = self.witnesses.ask(page(), parcel_id, signature, doubt)
        if asked:
            return self.read(asked[0], changes, asked[1])
        return [replace(record, raw=b"", labels={}) for record in read.records]

    def misread(self, parcels: Iterable[str], changes: Changes) -> list[str]:
        """Why parcels were not stored; empty for those that were, as they are."""
        said = []
        for parcel in parcels:
            try:
                stored = self.read(parcel, changes)
            except ParseError as error:
                said.append(str(error))
                continue
            assert stored == [replace(record, raw=b"", labels={}) for record in self.card(parcel, {})[1].records]
            said.append("")
        return said


def page(job: str = "job") -> Request:
    return Request("https://county.example/", meta={JOB: job})


Site = tuple[Crawl, list[str]]


def read_half(card: Card, parcels: list[str]) -> Site:
    """A crawl that has read a half of them, and the other half."""
    crawl = Crawl(card)
    assert not any(crawl.misread(parcels[:PARCELS], {}))
    return crawl, parcels[PARCELS:]


@pytest.fixture(scope="module")
def read_town() -> Site:
    """A town on VGSI."""
    parcels = {str(pid): parcel for pid, parcel in VisionTown(2 * PARCELS).parcels.items()}

    def card(pid: str, changes: Changes) -> tuple[Signature, Rows]:
        found = vgsi.parse_card(changed(card_of(parcels[pid]).decode(), changes).encode())
        return vgsi.signature(found), vgsi.read_card(found, SOURCE, SEEN)

    return read_half(card, list(parcels))


@pytest.fixture(scope="module")
def read_portal() -> Site:
    """A county on iasWorld."""
    county = {parcel.parcel_id: parcel for parcel in County(2 * PARCELS).parcels}

    def card(parcel_id: str, changes: Changes) -> tuple[Signature, Rows]:
        banner = f'<td class="DataletHeaderTop">PARID: {parcel_id}</td>'
        datalets = []
        for tab in ("profile", *TABS):
            body = f"<html><body><table><tr>{banner}</tr></table>{sections(tab, Line(county[parcel_id], 2025))}"
            datalets.append(iasworld.read_datalet(changed(body, changes).encode(), "https://county.example/PT/"))
        whole = joined(datalets[0], datalets[1:])
        return signature(whole), records_of(whole, SOURCE, SEEN)

    return read_half(card, list(county))


@pytest.fixture(scope="module")
def read_district() -> Site:
    """A district of Texas on BIS eSearch."""
    county = {parcel.parcel_id: parcel for parcel in County(2 * PARCELS).parcels}

    def card(parcel_id: str, changes: Changes) -> tuple[Signature, Rows]:
        found = esearch.read_parcel(changed(county_esearch.page_of(county[parcel_id]), changes).encode(), parcel_id)
        assert found
        return signature(found), records_of(found, SOURCE, SEEN)

    return read_half(card, list(county))


@pytest.fixture(scope="module")
def read_properties() -> Site:
    """A county on PACS."""
    county = County(2 * PARCELS)
    known = dict(zip(county_pacs.property_ids(county), county.parcels, strict=True))

    def card(property_id: str, changes: Changes) -> tuple[Signature, Rows]:
        shown = county_pacs.page_of(county_pacs.Known(property_id, f"0-{property_id}", known[property_id]))
        found = pacs.read_property(changed(shown, changes).encode(), "https://county.example/clientdb/")
        if found is None:
            raise ParseError("its page says nothing of it")
        return signature(found), records_of(found, SOURCE, SEEN)

    return read_half(card, list(known))


def check(site: Site, changes: Changes, said: str) -> None:
    """Within 20 parcels it is noticed, and what was stored is right; once it is as before, it goes on."""
    crawl, left = copy(site[0]), site[1]
    misread = crawl.misread(left[:20], changes)
    assert any(said in each for each in misread), misread
    assert not any(crawl.misread(left[20:25], {}))


def copy(crawl: Crawl) -> Crawl:
    found = Crawl(crawl.card)
    found.asked, found.witnesses._pages = crawl.asked, deepcopy(crawl.witnesses._pages)
    return found


@pytest.mark.parametrize(("changes", "said"), TOWN_CHANGES)
def test_a_town_that_changes_its_cards_is_noticed_and_nothing_wrong_is_stored(
    changes: Changes, said: str, read_town: Site
) -> None:
    check(read_town, changes, said)


@pytest.mark.parametrize(("changes", "said"), PORTAL_CHANGES)
def test_a_county_on_iasworld_that_changes_its_datalets_is_noticed_likewise(
    changes: Changes, said: str, read_portal: Site
) -> None:
    check(read_portal, changes, said)


@pytest.mark.parametrize(("changes", "said"), DISTRICT_CHANGES)
def test_a_district_on_esearch_that_changes_its_pages_is_noticed_likewise(
    changes: Changes, said: str, read_district: Site
) -> None:
    check(read_district, changes, said)


@pytest.mark.parametrize(("changes", "said"), PROPERTY_CHANGES)
def test_a_county_on_pacs_that_changes_its_pages_is_noticed_likewise(
    changes: Changes, said: str, read_properties: Site
) -> None:
    check(read_properties, changes, said)


@pytest.mark.parametrize("site", ["read_town", "read_portal", "read_district", "read_properties"])
def test_parcels_that_lack_what_others_have_are_stored_and_cost_little(
    site: str, request: pytest.FixtureRequest
) -> None:
    """Some have buildings, sales, several owners; some templates write labels otherwise."""
    crawl, left = request.getfixturevalue(site)
    crawl = copy(crawl)
    assert crawl.asked < 1.8 * PARCELS, "two more are asked for with each that is of a new kind"
    crawl.asked = 0
    assert not any(crawl.misread(left, {}))
    assert crawl.asked < 1.2 * PARCELS


async def test_labels_that_are_new_and_no_sign_of_another_layout_are_told_of(read_town: Site) -> None:
    crawl, left = copy(read_town[0]), read_town[1]
    more = {"<dl>": '<dl><dt><span id="a_lblFloodLabel">Flood 2025</span></dt><dd><span id="a_lblFlood">AE</span></dd>'}
    signature, _ = crawl.card(left[0], more)
    assert crawl.witnesses.ask(page(), left[0], signature, [left[0], sorted(signature)]) is None
    assert crawl.stats.get_value(NEW_LABELS) == ["Flood YEAR [Flood]"]
    assert crawl.witnesses.ask(page(), left[0], signature, None) is None, "it is known from then on"


def test_a_card_that_changes_while_its_witness_is_asked_is_in_doubt_again(read_town: Site) -> None:
    crawl, (pid, *_) = copy(read_town[0]), read_town[1]
    first, _ = crawl.card(pid, {})
    second, _ = crawl.card(pid, {"<th>Owner</th>": "<th>Sale Price</th>", "<th>Sale Price</th>": "<th>Owner</th>"})
    asked = crawl.witnesses.ask(page(), pid, second, [pid, sorted(first)])
    assert asked
    assert asked[0] != pid, "it is not taken: the witness is asked"


def test_what_is_known_of_a_job_is_not_known_of_another_and_begins_anew_when_the_witness_is_gone(
    read_town: Site,
) -> None:
    crawl, (pid, *_) = copy(read_town[0]), read_town[1]
    strange = signature_of([("Something else", "1")])
    asked = crawl.witnesses.ask(page(), pid, strange, None)
    assert asked
    assert asked[1][0] == pid
    assert crawl.witnesses.ask(page("another"), pid, strange, None) is None
    crawl.witnesses.forget(page())
    assert crawl.witnesses.ask(page(), pid, strange, None) is None


def test_a_label_that_only_some_have_is_missed_when_so_many_in_a_row_lack_it_as_would_be_no_chance() -> None:
    with_building, without = signature_of([("Owner", "A"), ("Built", "1990")]), signature_of([("Owner", "A")])
    pages = Pages()
    for number in range(100):
        pages.learn(str(number), without if number % 2 else with_building, is_right=False)
    in_a_row = 0
    while not pages.is_strange(without):
        in_a_row += 1
        pages.learn("x", without, is_right=False)
    assert 8 <= in_a_row <= 16
    assert not pages.is_strange(with_building)
    pages.learn("y", without, is_right=True)
    assert not pages.is_strange(without), "the witness has said that it is right"


def test_the_first_pages_are_taken_as_they_are() -> None:
    pages = Pages()
    for number in range(LEARNT):
        page = signature_of([(f"Label {number}", "")])
        assert not pages.is_strange(page)
        assert pages.learn(str(number), page, is_right=False) == []
    assert pages.is_strange(signature_of([("Another", "")]))


def test_what_is_gone_and_what_is_instead_is_said_and_no_more_than_a_few() -> None:
    before = signature_of([("Total", "$1"), ("Day", "2024-01-31"), ("Zone", "")])
    assert difference(before, before | {"More"}) == ""
    assert difference(before, signature_of([("Total", "R1"), ("Day", "2024-01-31"), ("Zone", "")])) == (
        "lacks 'Total (a number)', and has 'Total (text)'"
    )
    assert difference(before, signature_of([("Sum", "$1")])) == "lacks 'Day', 'Total', 'Zone', and has 'Sum'"
    assert "'4' and 3 more" in difference(map(str, range(8)), Signature())


# Tables -----------------------------------------------------------------------------------------------------------


def read_table(table: CountyTable, offset: int = 0) -> Rows:
    """A page of 50 rows."""
    if isinstance(table, ArcgisTable):
        asked = f"where=1%3D1&outFields=*&orderByFields=OBJECTID&resultOffset={offset}&resultRecordCount=50"
        return arcgis.parse_page(table.well(f"{LAYER}/query?{asked}").body, SOURCE, SEEN)
    answer = table.well(f"/resource/{DATASET}.json?$limit=50&$offset={offset}")
    return socrata.parse_page(answer.body, answer.headers["X-SODA2-Fields"].encode(), SOURCE, SEEN)


def change(table: CountyTable, columns: dict[str, str], of: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """These columns, and what becomes of each row."""
    table.fill(columns, map(of, table.select("*", "1=1")))


TABLE_CHANGES: dict[str, tuple[Changes, str]] = {
    "the number renamed": ({"PIN": "KEY_NO"}, "no column is known to hold the parcel's number"),
    "the owner renamed": ({"OWNER1": "HOLDER"}, "it lacks 'OWNER1', and has 'HOLDER'"),
    "a value renamed": ({"MARKET_VAL": "MKT_AMT"}, "it lacks 'MARKET_VAL', and has 'MKT_AMT'"),
    "a column of no field renamed": ({"FLOOD_ZONE": "FLOOD"}, "it lacks 'FLOOD_ZONE', and has 'FLOOD'"),
    "another unit": ({"ACRES": "SQFT"}, "it lacks 'ACRES', and has 'SQFT'"),
    "two merged": ({"OWNER1": "OWNERS", "OWNER2": ""}, "it lacks 'OWNER1', 'OWNER2', and has 'OWNERS'"),
    "one gone": ({"LAND_VAL": ""}, "it lacks 'LAND_VAL'"),
    "several gone": ({"SALE_DATE": "", "SALE_PRICE": "", "DEED_REF": ""}, "'SALE_DATE', 'SALE_PRICE'"),
    "two labels moved and their values not": (
        {"OWNER1": "MARKET_VAL", "MARKET_VAL": "OWNER1"},
        "has values of another kind than before",
    ),
    "others moved": ({"SITUS_ADDR": "ACRES", "ACRES": "SITUS_ADDR"}, "the column 'ACRES' has values of another kind"),
}
SOCRATA_NAMES = {
    "PIN": "parcel_number", "OWNER1": "owner_name_1", "OWNER2": "owner_name_2", "MARKET_VAL": "full_market_value",
    "FLOOD_ZONE": "flood_zone", "ACRES": "acres", "LAND_VAL": "land_value", "SALE_DATE": "sale_date",
    "SALE_PRICE": "sale_price", "DEED_REF": "instrument_number", "SITUS_ADDR": "property_location",
}  # fmt: skip


@pytest.mark.parametrize("platform", [ArcgisTable, SocrataTable])
@pytest.mark.parametrize("what", TABLE_CHANGES)
def test_a_table_that_changes_its_columns_is_noticed_at_its_next_page(what: str, platform: type[CountyTable]) -> None:
    changes, said = TABLE_CHANGES[what]
    names = SOCRATA_NAMES if platform is SocrataTable else dict(zip(SOCRATA_NAMES, SOCRATA_NAMES, strict=True))
    changes = {names[name]: names.get(to, to) for name, to in changes.items()}
    for name in SOCRATA_NAMES:
        said = said.replace(f"'{name}'", f"'{names[name]}'")
    table, look = platform(County(200)), Table()
    for offset in (0, 50):
        assert look.check(read_table(table, offset).columns) == []
    columns = {to: type_ for name, type_ in table.columns.items() if (to := changes.get(name, name))}
    change(table, columns, lambda row: {changes.get(name, name): value for name, value in row.items()})
    with pytest.raises(ParseError) as noticed:
        look.check(read_table(table, 100).columns)
    assert said in str(noticed.value)


@pytest.mark.parametrize("platform", [ArcgisTable, SocrataTable])
def test_columns_that_change_places_with_their_labels_or_are_added_lead_to_the_same_records(
    platform: type[CountyTable],
) -> None:
    table, look = platform(County(100)), Table()
    before = read_table(table, 50)
    assert look.check(read_table(table).columns) == look.check(before.columns) == []
    moved = dict(reversed(table.columns.items())) | {"EXTRA": "String"}
    change(table, moved, lambda row: row | {"EXTRA": "x"})
    now = read_table(table, 50)
    assert look.check(now.columns) == ["EXTRA"]
    assert look.check(now.columns) == [], "it is told once"

    def plain(rows: Rows) -> list[Any]:
        others = [
            {"others": each.others | {"EXTRA": "x"}} if isinstance(each, Property) else {} for each in rows.records
        ]
        return [replace(each, raw=b"", **more) for each, more in zip(rows.records, others, strict=True)]

    assert plain(now) == plain(before)


def test_pages_of_vacant_lots_and_of_few_rows_are_no_change() -> None:
    """Zeros and blanks are no values of another kind; nor is a word in a column that had few."""
    columns, source = ["PIN", "YEARBUILT", "MARKETVALUE", "OWNER"], SOURCE._replace(parcel_id_field="PIN")
    look = Table()

    def page(*values: Any, rows: int = 30) -> Rows:
        return socrata.parse_page(
            json.dumps([dict(zip(columns, (str(n), *values), strict=True)) for n in range(rows)]).encode(),
            json.dumps(columns).encode(),
            source,
            SEEN,
        )

    assert look.check(page("1990", "100", "ADAMS").columns) == []
    for values in (("0", "0.00", ""), ("", "--", "0")):
        assert look.check(page(*values).columns) == []
    assert look.check(page("unknown", "exempt", "7", rows=4).columns) == []
    with pytest.raises(ParseError, match="'YEARBUILT' has values of another kind"):
        look.check(page("unknown", "100", "ADAMS").columns)
    assert look.check(page("unknown", "100", "ADAMS").columns._replace(names=frozenset(), filled={}, read={})) == []

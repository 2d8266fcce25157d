"""A page that goes on with another parcel says nothing of the parcel that was asked for, from there on."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from msgspec.structs import replace

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import CountyRecord, Sale
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, Section, records_of
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.beacon import parser as beacon
from harvester.spiders.counties.devnet import parser as devnet
from harvester.spiders.counties.eagleweb import parser as eagleweb
from harvester.spiders.counties.esearch import parser as esearch
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.pacs import parser as pacs
from harvester.spiders.counties.patriot import parser as patriot
from harvester.spiders.counties.vgsi import parser as vgsi
from harvester.spiders.counties.vgsi.records import read_card
from tests.sandbox import county_beacon, county_devnet, county_eagleweb, county_esearch, county_pacs, county_patriot
from tests.sandbox.county import Parcel
from tests.sandbox.vision import VisionTown, card_of

SEEN = Provenance("https://county.example/", datetime(2026, 1, 31, tzinfo=UTC), "iasworld")
COUNTY = Source("us-oh-made-up", "39001")


def iasworld_parcel(number: str, price: str) -> str:
    return (
        f'<table><tr><td class="DataletHeaderTop">PARID: {number}</td></tr></table>'
        f'<table id="Owner"><tr><td class="DataletSideHeading">Owner</td><td class="DataletData">OF {number}</td></tr>'
        '</table><table id="Sales"><tr><td class="DataletTopHeading">Sale Date</td><td class="DataletTopHeading">'
        f'Sale Price</td></tr><tr><td class="DataletData">01/31/2020</td><td class="DataletData">{price}</td></tr>'
        "</table>"
    )


def beside(first: bytes, second: bytes) -> bytes:
    """A page with all that both show."""
    if b"</body>" not in first:
        return first + second
    inner = second.partition(b"<body")[2].partition(b">")[2].rpartition(b"</body>")[0]
    at = first.rindex(b"</body>")
    return first[:at] + inner + first[at:]


def prices_of(found: PageRows) -> list[str]:
    return [str(record.sale_price) for record in found.records if isinstance(record, Sale)]


def test_tables_below_the_banner_of_another_parcel_are_not_those_of_the_first() -> None:
    page = f"<html><body>{iasworld_parcel('010-1', '$100')}{iasworld_parcel('010-2', '$200')}</body></html>"
    found = records_of(iasworld.read_datalet(page.encode(), "https://county.example/"), COUNTY, SEEN)
    assert prices_of(found) == ["100"]
    assert found.records[0].owner_names == ("OF 010-1",)  # type: ignore[attr-defined]


def test_a_banner_that_comes_again_with_the_same_parcel_begins_no_other() -> None:
    page = iasworld_parcel("010-1", "$100") + iasworld_parcel("010 1", "$200").replace("01/31", "02/28")
    found = records_of(iasworld.read_datalet(page.encode(), "https://county.example/"), COUNTY, SEEN)
    assert prices_of(found) == ["100", "200"]


def test_the_second_card_of_a_page_is_not_read_as_part_of_the_first() -> None:
    cards = [card_of(parcel) for parcel in VisionTown(9).parcels.values()]
    for first, second in pairwise(cards):
        alone = read_card(vgsi.parse_card(first), COUNTY, SEEN)
        both = read_card(vgsi.parse_card(beside(first, second)), COUNTY, SEEN)
        assert both.parcel_ids == alone.parcel_ids
        assert both.records == alone.records


def test_sections_from_the_number_of_another_parcel_on_are_not_those_of_the_page() -> None:
    """So it is on all platforms whose pages are read as sections."""

    def parcel(number: str, price: str) -> list[Section]:
        return [
            Section("Parcel Summary", [("Parcel ID", [number]), ("Owner", [f"OF {number}"])]),
            Section("Sales", header=["Sale Date", "Sale Price"], rows=[["01/31/2020", price]]),
        ]

    page = ParcelPage("1-2", sections=[*parcel("1-2", "$100"), *parcel("1-3", "$200")], id_label="Parcel ID")
    found = records_of(page, COUNTY, SEEN)
    assert prices_of(found) == ["100"]


def test_sections_above_the_numbers_of_several_parcels_are_nobodys() -> None:
    owner = Section("Owner", [("Owner", ["ADAMS"])])
    first, second = (Section("Parcel", [("Parcel ID", [number])]) for number in ("1-2", "1-3"))
    with pytest.raises(ParseError, match="1-2 the page shows 13"):
        records_of(ParcelPage("1-2", sections=[owner, first, second], id_label="Parcel ID"), COUNTY, SEEN)
    both = Section("Parcel", [("Parcel ID", ["1-2"]), ("Owner", ["ADAMS"]), ("Parcel ID", ["1-3"])])
    with pytest.raises(ParseError, match="1-2 the page shows 13"):
        records_of(ParcelPage("1-2", sections=[both], id_label="Parcel ID"), COUNTY, SEEN)


URL = "https://county.example/"
Shown = Callable[[Parcel], str | bytes]
Read = Callable[[bytes, str], ParcelPage | None]
PLATFORMS: dict[str, tuple[Shown, Read]] = {
    "beacon": (
        lambda parcel: county_beacon.report_of(parcel, 0),
        lambda page, asked: beacon.read_report(page, asked, URL),
    ),
    "devnet": (lambda parcel: county_devnet.page_of(parcel, 0), lambda page, asked: devnet.read_parcel(page, URL)),
    "eagleweb": (county_eagleweb.assessors_page, lambda page, asked: eagleweb.read_account(page)),
    "esearch": (county_esearch.page_of, esearch.read_parcel),
    "pacs": (
        lambda parcel: county_pacs.page_of(county_pacs.Known(parcel.parcel_id, f"0-{parcel.parcel_id}", parcel)),
        lambda page, asked: pacs.read_property(page, f"{URL}clientdb/"),
    ),
    "patriot": (
        lambda parcel: county_patriot.card_of(parcel, parcel.parcel_id[1:]),
        lambda page, asked: patriot.read_card(page),
    ),
}


def records_on(body: bytes, parcel_id: str, read: Read) -> list[CountyRecord]:
    """What is made of a page, but for the page itself; nothing of one that is refused."""
    try:
        page = read(body, parcel_id)
        assert page
        return [replace(each, raw=b"", labels={}) for each in records_of(page, COUNTY, SEEN).records]
    except ParseError:
        return []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_of_two_parcels_on_a_page_none_has_what_is_said_of_the_other(platform: str) -> None:
    shown, read = PLATFORMS[platform]
    parcels = county_eagleweb.accounts(6).parcels
    was_read = 0
    for first, second in pairwise(parcels):
        bodies = [each if isinstance(each := shown(parcel), bytes) else each.encode() for parcel in (first, second)]
        alone = [records_on(body, parcel.parcel_id, read) for body, parcel in zip(bodies, (first, second), strict=True)]
        for asked in (first, second):
            if found := records_on(beside(*bodies), asked.parcel_id, read):
                assert found == alone[found[0].parcel_id == alone[1][0].parcel_id]
                was_read += 1
    assert was_read or platform == "beacon", "its reports show owners before numbers"


def test_transactions_below_the_heading_of_another_account_are_refused() -> None:
    body = b"<h1>Account: R2</h1><table class='account'><tr><th></th><th>Total Due</th></tr></table>"
    assert eagleweb.read_transactions(body, "r-2").sections
    with pytest.raises(ParseError, match=r"\bR1\b.*\bR2\b"):
        eagleweb.read_transactions(body, "R1")

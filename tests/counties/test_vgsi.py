"""Pages of VGSI: cards of parcels, lists of streets, answers of searches; and pages that are none of these."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.exceptions import ParseError
from harvester.items import Provenance, Record
from harvester.items.property import Assessment, Property, Sale
from harvester.parsers.counties.addresses import AddressQuery
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.vgsi import parser as vgsi
from harvester.spiders.counties.vgsi.records import read_card
from tests.counties.unread import shown_of
from tests.sandbox import vision
from tests.sandbox.vision import VisionTown, card_of, truth_of

PAGES = Path(__file__).parent / "pages"
CARD = (PAGES / "vgsi_card.html").read_bytes()
SEEN = Provenance("https://gis.vgsi.com/adatownme/Parcel.aspx?pid=975", datetime(2026, 1, 31, tzinfo=UTC), "vgsi")
ADA = Source("us-me-ada", "26001")


def read(body: bytes) -> PageRows:
    return read_card(vgsi.parse_card(body), ADA, SEEN)


def of_kind(found: PageRows, kind: type[Record]) -> list[Any]:
    return [record for record in found.records if isinstance(record, kind)]


def test_a_card_is_read_with_the_sources_own_labels_and_nothing_of_it_is_dropped() -> None:
    found = read(CARD)
    (parcel,) = of_kind(found, Property)
    assert parcel.key == "us-me-ada 975"
    assert parcel.owner_names == ("ADAMS, DORSET W", "FARMER, MARK A", "FARMER, EVE")
    assert parcel.mailing_address == "135 SPRING DR, APT 2, ADA, ME 04001"
    assert parcel.alt_parcel_ids == {"Map/Block/Lot": "409/  28/  /  /", "Acct#": "774"}
    assert (parcel.situs_address, parcel.use_code, parcel.use_description) == ("28 ACORN HILL RD", "1010", "Single Fam")
    assert (parcel.zoning, parcel.neighborhood, parcel.acres, parcel.tax_year) == ("RD", None, 19.9, 2024)
    assert (parcel.year_built, parcel.living_area_sqft) == (1804, 5135.0)  # of building 1, which stands second
    assert parcel.labels == {
        "parcel_id": "PID",
        "owner_names": "Owner + Co-Owner",
        "mailing_address": "Address",
        "situs_address": "Location",
        "use_code": "Use Code",
        "use_description": "Description",
        "zoning": "Zone",
        "acres": "Size (Acres)",
        "tax_year": "Valuation Year",
        "year_built": "Building 1 : Section 1: Year Built",
        "living_area_sqft": "Building 1 : Section 1: Living Area",
    }
    others = parcel.others
    assert (others["School Dist"], others["Alt Land Appr"], others["Frontage"]) == ("SAD 7", "No", "0")
    assert others["Utilities"] == "Well, Septic"  # a value without an id
    assert others["Appraisal (HistoryValuesAppr)"] == [
        {"Valuation Year": "2023", "Improvements": "$0", "Land": "$100", "Total": "$100", "Current Use": "$50"}
    ]
    assert others["Building 1 : Section 1"]["Building Attributes"] == {"Style": "Family Duplex", "Stories": "2 Stories"}
    assert others["Building 1 : Section 1"]["Building Sub-Areas (sq ft)"][-1] == {
        "Gross Area": "7,851",
        "Living Area": "5,135",
    }
    assert others["Building 2 : Section 1"]["Replacement Cost Less Depreciation"] == "$4,100"
    assert others["Extra Features"] == [
        {"Code": "FPL1", "Description": "FIREPLACE 1 ST", "Size": "1.00 UNITS", "Value": "$1,900", "Bldg #": "1"}
    ]
    assert "Outbuildings" not in others  # "No Data for Outbuildings"


def test_each_year_is_an_assessment_with_both_bases_and_what_contradicts_is_kept_beside() -> None:
    values = {each.roll: each for each in of_kind(read(CARD), Assessment)}
    assert list(values) == ["2024", "2023"]
    assert (values["2024"].market_value, values["2024"].assessed_value) == (Decimal(202400), Decimal(900))
    assert values["2024"].market_improvement_value == Decimal(0)
    assert values["2024"].labels["assessed_land_value"] == "Assessment: Land"
    assert (values["2023"].market_value, values["2023"].assessed_value) == (Decimal(100), None)
    without = CARD.replace(b"<td>2024</td>", b"<td>&nbsp;</td>").replace(b"<td>2023</td>", b"<td>&nbsp;</td>")
    (undated,) = of_kind(read(without), Assessment)
    assert (undated.roll, undated.market_value, undated.assessed_value) == ("undated", Decimal(202400), Decimal(900))


def test_each_line_of_the_history_is_a_sale_but_for_those_without_a_date_and_a_price() -> None:
    sales = of_kind(read(CARD), Sale)
    assert [sale.transfer for sale in sales] == [
        "2017-07-25/4299-0778",
        "1997-09-29/2278-0025",
        "1997-08-25/C12",
        "1997-08-25/C12#2",
        "1981-01-16",
    ]
    first, _, certified, twin, last = sales
    assert (first.grantee, first.sale_price, first.qualification) == ("ADAMS, DORSET W", Decimal(0), "1A")
    assert (certified.instrument_number, certified.book, twin.grantee) == ("C12", "2270", "FARMER, MARK & ADAMS,DORSET")
    assert (last.sale_date, last.book, last.page, last.sale_price) == (date(1981, 1, 16), None, None, Decimal(150000))
    assert first.labels["book"] == first.labels["page"] == "Book & Page"
    (parcel,) = of_kind(read(CARD), Property)
    assert parcel.others["Ownership History"] == [{"Owner": "METZ, DON & PIKE, A W"}]
    assert "Sale Price" not in parcel.others


def test_what_is_no_date_no_price_or_no_deed_is_kept_as_it_is_shown() -> None:
    odd = CARD.replace(b"  2278/0025", b"22780025").replace(b"09/29/1997", b"Fall 1997").replace(b"$900<", b"TBD<")
    (parcel,) = of_kind(read(odd), Property)
    assert [row for row in parcel.others["Ownership History"] if "Sale Price" in row] == [
        {
            "Owner": "ADAMS, HELGE",
            "Sale Price": "$150,000",
            "Book & Page": "22780025",
            "Instrument": "1A",
            "Sale Date": "Fall 1997",
        }
    ]
    (undated,) = [sale for sale in of_kind(read(odd), Sale) if sale.transfer.startswith("undated")]
    assert shown_of(undated.unread) == {"sale_date": "Fall 1997"}
    (kept,) = parcel.others["Assessment (CurrentValueAsmt)"]
    assert (kept["Land"], of_kind(read(odd), Assessment)[0].assessed_value) == ("TBD", None)


def test_the_owner_of_record_bought_it_where_the_history_is_not_shown() -> None:
    begin, end = CARD.index(b'<table id="MainContent_grdSales"'), CARD.index(b"<!-- buildings -->")
    (sale,) = of_kind(read(CARD[:begin] + CARD[end:]), Sale)
    assert (sale.transfer, sale.grantee) == ("2017-07-25/4299-0778", "ADAMS, DORSET W")
    assert sale.labels["grantee"] == "Owner"
    other = CARD.replace(b'lblPrice">$0', b'lblPrice">$5')
    (parcel,) = of_kind(read(other), Property)
    assert (len(of_kind(read(other), Sale)), parcel.others["Sale Price"]) == (5, "$5")


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (rb"lblPid", "lacks: the parcel's number (PID)"),
        (rb"lblLocation", "lacks: Location"),
        (rb"Owner", "lacks: Owner"),
        (rb"lblUseCode,LndAcres,Use Code,Size (Acres)", "lacks: Land"),
        (rb"grdCurrentValueAppr,grdCurrentValueAsmt,grdHistoryValuesAppr,lblGenA", "lacks: Current Value"),
        (rb"grdSales,lblSaleDate", "lacks: Ownership History"),
        (rb"_lblHeading", "lacks: Building Information"),
        (rb"Valuation Year", "Appraisal "),
        (rb"Total</th>", "Appraisal "),
        (rb"Sale Date</th>", "Ownership History "),
    ],
)
def test_a_card_without_what_each_has_is_a_changed_layout_that_says_what_is_missing(gone: bytes, said: str) -> None:
    body = CARD
    for name in gone.split(b","):
        assert name in body
        body = body.replace(name, b"Renamed" + (b"</th>" if name.endswith(b"</th>") else b""))
    body = body.replace(b">Renamed<", b">Something<") if b"Owner" in gone else body
    with pytest.raises(ParseError) as changed:
        read(body)
    assert said in str(changed.value)


def test_what_is_no_place_of_a_property_is_withheld_with_the_reason() -> None:
    (card,) = of_kind(read(CARD.replace(b">28 ACORN HILL RD</span></dd>", b">NOT AVAILABLE</span></dd>")), Property)
    assert (card.situs_address, shown_of(card.unread)["situs_address"]) == (None, "NOT AVAILABLE")


def test_a_grid_that_no_field_is_read_from_is_kept_whatever_its_rows_are() -> None:
    odd = CARD.replace(b"<td>FPL1</td>", b"<td>FPL1</td><td>X</td>").replace(
        b"<tr><td>Stories:</td>", b"<tr><td>Style:</td><td>Cape</td></tr><tr><td>Stories:</td>"
    )
    (parcel,) = of_kind(read(odd), Property)
    assert parcel.others["Extra Features"][0]["column 6"] == "1"
    assert parcel.others["Building 1 : Section 1"]["Building Attributes"]["Style"] == "Family Duplex, Cape"


def test_a_field_whose_id_is_renamed_is_found_by_its_label() -> None:
    body = CARD.replace(b"lblLocation", b"lblWhere").replace(b"lblZone", b"lblZ").replace(b"lblAddr1", b"lblAddress")
    (parcel,) = of_kind(read(body), Property)
    assert (parcel.situs_address, parcel.zoning) == ("28 ACORN HILL RD", "RD")
    assert (parcel.mailing_address, parcel.others["Address"]) == (None, "135 SPRING DR, APT 2, ADA, ME 04001")


@pytest.mark.parametrize("body", [b"", b"<html></html>", vision.ERROR, b"\xff\xfe\x00<", b"{}", b"<table><tr><td>"])
def test_a_page_that_is_no_card_says_so(body: bytes) -> None:
    with pytest.raises(ParseError, match=r"card|page"):
        read(body)


@pytest.mark.parametrize(("cells", "number"), [(b"<td>1A</td><td>1B</td>", 7), (b"", 5)])
def test_a_row_with_more_or_fewer_cells_than_its_header_is_a_changed_layout(cells: bytes, number: int) -> None:
    with pytest.raises(ParseError, match=f"Ownership History has {number} cells"):
        read(CARD.replace(b"<td>1A</td>", cells, 1))


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_whatever_the_assessor_knows_is_read_from_the_card_in_every_look(number: int) -> None:
    parcel = vision._parcel(number, Random(number))
    read_as = {}
    for record in read(card_of(parcel)).records:
        document = record.to_document()
        for name in ("_id", "provenance", "labels", "situs_parts"):
            document.pop(name, None)
        for name, value in document.items():
            document[name] = value.to_decimal() if hasattr(value, "to_decimal") else value
        if "owner_names" in document:
            document["owner_names"] = list(document["owner_names"])
        read_as[record.key] = document
    assert read_as == {key: document for _, key, document in truth_of(parcel, "us-me-ada")}


@settings(max_examples=60)
@given(st.binary(max_size=60), st.integers(0, len(CARD)), st.integers(0, 400))
def test_a_damaged_card_is_read_or_refused_and_never_a_fault(inserted: bytes, at: int, cut: int) -> None:
    try:
        found = read(CARD[:at] + inserted + CARD[at + cut :])
    except ParseError:
        return
    assert found.records or found.rejects


def test_what_is_staged_of_a_card_makes_the_same_records() -> None:
    for record in read(CARD).records:
        again = read_card(vgsi.parse_staged(record.raw), ADA, SEEN)
        assert record.to_document() in [each.to_document() for each in again.records]
        assert len(record.raw) < len(CARD)
    with pytest.raises(ParseError, match="staged"):
        vgsi.parse_staged(b"<html>")


async def test_lists_lead_to_streets_and_to_parcels() -> None:
    async with VisionTown(60) as town:
        assert vgsi.parse_streets(town.well(f"{vision.PLACE}Streets.aspx?Letter=E").body) == ["ELM CT", "ELM ST"]
        assert vgsi.parse_streets(town.well(f"{vision.PLACE}Streets.aspx?Letter=Q").body) == []
        assert "" in vgsi.parse_streets(town.well(f"{vision.PLACE}Streets.aspx?Letter=1").body)
        pids = vgsi.parse_street(town.well(f"{vision.PLACE}Streets.aspx?Name=ELM+ST").body)
        assert pids == [str(parcel.pid) for parcel in town.parcels.values() if parcel.street == "ELM ST"]
        assert pids
    for parse in (vgsi.parse_streets, vgsi.parse_street):
        with pytest.raises(ParseError, match="list"):
            parse(b"<html><body>Welcome</body></html>")
        with pytest.raises(ParseError, match="1 link"):
            parse(b"<ul id='list'><li><a href='Road.aspx?Id=1'>ELM</a></li></ul>")
    with pytest.raises(ParseError, match="'x'"):
        vgsi.parse_street(b"<ul id='list'><li><a href='Parcel.aspx?pid=x'>1 ELM</a></li></ul>")


def test_an_answer_of_a_search_is_a_list_of_parcels_or_a_changed_layout() -> None:
    rows = [{"id": "7", "value": "1 ELM ST"}, {"id": 8, "value": None}]
    assert vgsi.parse_suggestions(json.dumps({"d": rows}).encode()) == [("7", "1 ELM ST"), ("8", "")]
    assert vgsi.parse_suggestions(json.dumps({"d": {"records": rows[:1]}}).encode()) == [("7", "1 ELM ST")]
    assert vgsi.parse_suggestions(b'{"d":[]}') == []
    for body in (b"<html>", b"[]", b'{"d":null}', b'{"d":[{"id":"x"}]}', b'{"d":[1]}', b"\xff", b"[" * 100_000):
        with pytest.raises(ParseError):
            vgsi.parse_suggestions(body)


@pytest.mark.parametrize(
    ("given", "asked", "known", "kept"),
    [
        ("12 Elm Street, Ada ME", "12 ELM", ["12 ELM ST", "12 ELM CT", "112 ELM ST"], ["12 ELM ST"]),
        ("12 Elm Rd", "12 ELM", ["12 ELM ST", "12 ELMWOOD RD"], ["12 ELM ST"]),
        ("12 elm", "12 ELM", ["12 ELM ST", "12 ELM ST #2"], ["12 ELM ST", "12 ELM ST #2"]),
        ("Elm Ct.", "ELM", ["1 ELM CT", "2 ELM ST"], ["1 ELM CT"]),
        ("5 St John's Avenue", "5 ST JOHN'S", ["5 ST JOHN'S AVE"], ["5 ST JOHN'S AVE"]),
        ("7 Court St", "7 COURT", ["7 COURT ST"], ["7 COURT ST"]),
        ("9 Avenue A", "9 AVENUE A", ["9 AVENUE A", "9 AVENUE B"], ["9 AVENUE A"]),
        ("1 Oak St", "1 OAK", ["1 ELM ST"], []),
        ("3 Pré Rd", "3 PRÉ", ["3 PRÉ RD"], ["3 PRÉ RD"]),
    ],
)
def test_an_address_is_found_however_its_street_is_spelt(
    given: str, asked: str, known: list[str], kept: list[str]
) -> None:
    query = AddressQuery.of(given)
    assert query.asked == asked
    assert [address for address, is_it in zip(known, query.matches(known), strict=True) if is_it] == kept

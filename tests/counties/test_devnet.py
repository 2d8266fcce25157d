"""Pages of DEVNET wEdge: parcels in each look, results of searches; and pages that are none of these."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import parse_staged, records_of
from harvester.spiders.counties.devnet import parser as devnet
from harvester.spiders.counties.saved import read_saved
from tests.sandbox import county
from tests.sandbox.county import County
from tests.sandbox.county_devnet import page_of, truth

PAGE = (Path(__file__).parent / "pages" / "devnet_bordered.html").read_bytes()
URL = "https://kaneil.devnetwedge.com/parcel/view/0620328021/2024"
KANE = Source("us-il-kane", "17089")
SEEN = Provenance(URL, datetime(2026, 1, 31, tzinfo=UTC), "devnet")


def read(body: bytes, url: str = URL) -> list[CountyRecord]:
    page = devnet.read_parcel(body, url)
    assert page
    found = records_of(page, KANE, SEEN)
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], records: list[CountyRecord]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def test_a_page_is_read_with_the_sources_own_labels_and_nothing_of_it_is_dropped() -> None:
    (parcel,) = of_kind(Property, read(PAGE))
    assert parcel.key == "us-il-kane 06-20-328-021"
    assert parcel.owner_names == ("SMITH, JOHN & EVA",)
    assert parcel.mailing_address == "PO BOX 7, AURORA, IL 60507"
    assert parcel.situs_address == "1220 OAK ST AURORA, IL 60505"
    assert (parcel.use_code, parcel.acres, parcel.tax_year) == ("0040 - Improved Lots", 0.25, 2023)
    assert parcel.labels["parcel_id"] == "Parcel Number"
    assert parcel.labels["owner_names"] == "Property Information: Owner Name & Address"
    others = parcel.others
    assert others["Property Information: Tax Code"] == "AU005 -"
    assert others["Property Information: Tax Rate"] == others["Property Information: Total Tax"] == "Unavailable"
    assert others["Property Information: Sale Status"] == "None"
    assert others["Assessments: Township Assessor: Total"] == "65,000"
    assert others["Exemptions"][0]["Granted Amount"] == "6,000"
    assert others["Sales History"][0]["Sale Type"] == "Warranty Deed"


def test_the_boards_value_and_the_equalized_one_are_two_assessments_of_a_year() -> None:
    board, equalized = sorted(of_kind(Assessment, read(PAGE)), key=lambda each: -len(each.roll))
    assert (equalized.roll, equalized.assessed_value, equalized.taxable_value) == (
        "2023",
        Decimal(66660),
        Decimal(60000),
    )
    assert (board.roll, board.assessed_value) == ("2023-board", Decimal(66000))
    assert board.labels == {"assessed_value": "Assessments: Board of Review: Total"}


def test_lines_of_the_history_are_sales_and_the_bill_says_what_is_unpaid() -> None:
    last, first = of_kind(Sale, read(PAGE))
    assert (last.transfer, last.sale_price, last.sale_year) == ("2019-04-05/2019K012345", Decimal(180000), 2019)
    assert (last.grantor, last.grantee, last.labels["grantor"]) == (
        "DOE, JANE",
        "SMITH, JOHN",
        "Sales History: Sold By",
    )
    assert (first.sale_date, first.sale_price, first.grantor) == (date(2004, 2, 1), Decimal(0), None)
    (bill,) = of_kind(TaxBill, read(PAGE))
    assert (bill.bill, bill.billed, bill.paid, bill.due) == ("2022", Decimal("5100.2"), Decimal(5000), Decimal("100.2"))


def test_payments_in_rows_that_open_are_parts_of_their_years_bill() -> None:
    parcel = next(each for each in County(9).parcels if each.sold)
    (bill,) = of_kind(TaxBill, read(page_of(parcel, 2)))
    assert (bill.bill, bill.paid, bill.due, bill.billed) == ("2025", bill.paid, Decimal(0), None)
    (part,) = bill.installments
    assert (part.number, part.due_date, part.billed, part.due) == (1, date(2025, 8, 18), bill.paid, Decimal(0))


@pytest.mark.parametrize(
    ("renamed", "said"),
    [
        (b"Parcel Number", "Renamed, Site Address"),
        (b"Site Address", contract.CALLED[contract.SITUS]),
        (b"Owner Name &amp; Address", contract.CALLED[contract.OWNER]),
    ],
)
def test_a_page_without_what_each_has_is_a_changed_layout_that_says_what_is_missing(renamed: bytes, said: str) -> None:
    with pytest.raises(ParseError) as changed:
        read_saved("devnet", PAGE.replace(renamed, b"Renamed"), KANE, SEEN)
    assert said in str(changed.value)


@pytest.mark.parametrize("body", [b"", b"  \n", b"<html></html>", b"\xff\xfe\x00<", b"{}", b"<h3>Search Results</h3>"])
def test_a_page_that_speaks_of_no_parcel_is_none(body: bytes) -> None:
    assert devnet.read_parcel(body, URL) is None


def test_where_no_label_says_the_year_a_heading_or_the_address_does() -> None:
    without = PAGE.replace(b"Tax Year</div>", b"Roll</div>")
    (parcel,) = of_kind(Property, read(without))
    assert (parcel.tax_year, parcel.labels["tax_year"]) == (2023, "heading")
    neither = without.replace(b"Assessments : 2023", b"Values")
    assert of_kind(Property, read(neither))[0].tax_year == 2024
    assert of_kind(Assessment, read(neither, "https://x.example/parcel/view/7"))[-1].roll.startswith("undated")


def test_a_label_without_a_value_does_not_take_the_next_ones() -> None:
    lone = PAGE.replace(b'<div class="inner-value">0040 - Improved Lots</div>', b"")
    (parcel,) = of_kind(Property, read(lone))
    assert (parcel.use_code, parcel.others["Property Information: Tax Code"]) == (None, "AU005 -")


def test_a_search_leads_to_the_parcels_that_it_lists_or_says_that_there_is_none() -> None:
    links = (
        b"<h3>Search Results</h3><a href='/parcel/view/0A.7/2025'>1</a><a href='/x'>2</a><a href='/Parcel/View/8'>3</a>"
    )
    assert devnet.read_search(links + links) == ["0A.7", "8"]
    assert devnet.read_search(b"<p>No Results Found</p>") == []
    with pytest.raises(ParseError, match="parcel"):
        devnet.read_search(b"<p>Welcome</p>")
    assert devnet.viewed("https://x.example/parcel/view/06%2F7/2024?a=1") == "06/7"
    assert devnet.viewed("https://x.example/search/quick") == ""
    assert devnet.view_of("06-20-328 021") == "0620328021"


@settings(max_examples=40)
@given(st.integers(0, 10**5))
def test_whatever_the_assessor_knows_is_read_in_every_look(number: int) -> None:
    made = County(0)
    parcel = county._parcel(number, Random(number))
    for look in range(3):
        made.parcels = [*(parcel._replace(parcel_id=f"-{at}") for at in range(look)), parcel]
        known = {key: of for kind in truth(made, KANE.jurisdiction).values() for key, of in kind.items()}
        known = {key: of for key, of in known.items() if of["parcel_id"] == parcel.parcel_id}
        found = {record.key: record.to_document() for record in read(page_of(parcel, look), "/parcel/view/1/2025")}
        assert found.keys() == known.keys()
        for key, of in known.items():
            of.pop("flood_zone", None)
            shown = {name: value for name, value in found[key].items() if name in of}
            assert {name: _plain(value) for name, value in shown.items()} == of


def _plain(value: Any) -> Any:
    value = value.to_decimal() if hasattr(value, "to_decimal") else value
    return list(value) if isinstance(value, tuple) else value


def test_a_row_with_more_or_fewer_cells_than_its_header_is_a_changed_layout() -> None:
    with pytest.raises(ParseError, match="Sales History has 10 cells"):
        devnet.read_parcel(PAGE.replace(b"<td>2019K012345</td>", b"<td>2019K012345</td><td>x</td>"), URL)
    wide = devnet.read_parcel(PAGE.replace(b"<td>2004</td><td></td>", b"<td colspan='2'>2004</td>"), URL)
    assert wide
    said = devnet.read_parcel(
        PAGE.replace(b"<tr><td>2022</td>", b"<tr><td colspan='4'>Note</td></tr><tr><td>2022</td>"), URL
    )
    assert said
    (bill,) = of_kind(TaxBill, records_of(said, KANE, SEEN).records)
    assert bill.labels["paid"] == "Payment History: Note: Total Paid"


@settings(max_examples=60)
@given(st.binary(max_size=60), st.integers(0, len(PAGE)), st.integers(0, 400))
def test_a_damaged_page_is_read_or_refused_and_never_a_fault(inserted: bytes, at: int, cut: int) -> None:
    try:
        page = devnet.read_parcel(PAGE[:at] + inserted + PAGE[at + cut :], URL)
        found = records_of(page, KANE, SEEN) if page else None
    except ParseError:
        return
    assert found is None or found.records or found.rejects


def test_what_is_staged_makes_the_same_records() -> None:
    for record in read(PAGE):
        assert record in parse_staged(record.raw, KANE, SEEN).records


def test_an_address_that_stands_below_the_owner_and_beside_a_label_of_its_own_is_whole() -> None:
    label = '<div class="inner-label">Mailing Address</div><div class="inner-value">PO BOX 7<br>AURORA, IL 60507</div>'
    page = PAGE.replace(b'<div class="inner-label">Acres', label.encode() + b'</td><td><div class="inner-label">Acres')
    assert page != PAGE
    (parcel,) = of_kind(Property, read(page))
    assert parcel.mailing_address == "PO BOX 7, AURORA, IL 60507"

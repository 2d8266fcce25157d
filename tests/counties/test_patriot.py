"""Pages of Patriot Properties WebPro: cards of parcels, results of searches; and pages that are none of these."""

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
from harvester.items.property import Assessment, CountyRecord, Property, Sale
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import parse_staged, records_of
from harvester.spiders.counties.patriot import parser as patriot
from harvester.spiders.counties.saved import read_saved
from tests.sandbox import county
from tests.sandbox.county import County
from tests.sandbox.county_patriot import FIRST, TIMED_OUT, card_of, truth

CARD = (Path(__file__).parent / "pages" / "patriot_card.html").read_bytes()
BEVERLY = Source("us-ma-beverly", "2500905595")
SEEN = Provenance("http://beverly.example/summary-bottom.asp", datetime(2026, 1, 31, tzinfo=UTC), "patriot")


def read(body: bytes) -> list[CountyRecord]:
    card = patriot.read_card(body)
    assert card
    found = records_of(card, BEVERLY, SEEN)
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], records: list[CountyRecord]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def test_a_card_is_read_with_the_sources_own_labels_and_nothing_of_it_is_dropped() -> None:
    (parcel,) = of_kind(Property, read(CARD))
    assert parcel.key == "us-ma-beverly 01234"
    assert parcel.owner_names == ("DOE JOHN", "DOE JANE")
    assert parcel.mailing_address == "PO BOX 7, BEVERLY, MA 01915"
    assert (parcel.situs_address, parcel.zoning, parcel.tax_year) == ("28 OAK ST", "R10", 2024)
    assert (parcel.use_description, parcel.year_built, parcel.acres) == ("One Fam Res", 1920, 0.5)
    assert parcel.alt_parcel_ids == {"Parcel: Parcel ID": "12-0034-0", "Parcel: Old Parcel ID": "12-34"}
    assert parcel.labels["year_built"] == "Narrative Description: built about"
    assert parcel.labels["parcel_id"] == "Property Account Number"
    others = parcel.others
    assert others["Current Property Assessment: Sewer"] == "Town"
    assert parcel.labels["acres"] == "Current Property Assessment: Land Area"
    assert others["Current Property Assessment: Xtra Features Value"] == "2,400"
    assert others["Narrative Description: Narrative Description"].endswith("2 bath(s).")


def test_values_and_the_last_sale_are_records_of_their_own() -> None:
    (value,) = of_kind(Assessment, read(CARD))
    assert (value.roll, value.total_value, value.land_value) == ("2024", Decimal(432500), Decimal(180000))
    assert (value.improvement_value, value.labels["improvement_value"]) == (
        Decimal(250100),
        "Current Property Assessment: Building Value",
    )
    (sale,) = of_kind(Sale, read(CARD))
    assert (sale.sale_date, sale.sale_price, sale.grantor) == (date(2019, 4, 5), Decimal(350000), "ROE RICHARD")
    assert (sale.transfer, sale.instrument_number) == ("2019-04-05/37421-12", "37421-12")


@pytest.mark.parametrize(
    ("renamed", "said"),
    [("Location", contract.CALLED[contract.SITUS]), ("Owner", contract.CALLED[contract.OWNER])],
)
def test_a_card_without_what_each_has_is_a_changed_layout_that_says_what_is_missing(renamed: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        read_saved("patriot", CARD.replace(renamed.encode(), b"Renamed"), BEVERLY, SEEN)


@pytest.mark.parametrize("body", [b"", b"<html></html>", b"\xff\xfe\x00<", b"{}", TIMED_OUT.encode()])
def test_a_page_that_is_no_card_says_so(body: bytes) -> None:
    with pytest.raises(ParseError, match="label"):
        patriot.read_card(body)


def test_a_card_without_any_number_is_that_of_no_parcel() -> None:
    assert patriot.read_card(card_of(None, "7").encode()) is None


def test_a_search_leads_to_the_parcels_that_it_lists_or_says_that_there_is_none() -> None:
    row = "<tr><td><a href='summary.asp?accountnumber={}'>1</a></td><td> {}  OAK  ST</td><td>DOE</td></tr>"
    listed = f"<table>{row.format(7, 1)}{row.format(8, 3)}{row.format(7, 1)}</table><a href='landing.asp?ANUM=9'>9</a>"
    assert patriot.read_results(listed.encode()) == ([("7", "1 OAK ST"), ("8", "3 OAK ST"), ("9", "")], 1)
    pages = "<a href='SearchResults.asp?page=1'>Prev</a> <a href='SearchResults.asp?page=12'>12</a>"
    assert patriot.read_results((listed + pages).encode()).last == 12
    assert patriot.read_results(b"<p>No results found!</p>").parcels == []
    with pytest.raises(ParseError, match="parcel"):
        patriot.read_results(b"<p>Welcome</p>")


@settings(max_examples=40)
@given(st.integers(0, 10**5))
def test_whatever_the_assessor_knows_is_read_from_its_card(number: int) -> None:
    made = County(0)
    made.parcels = [county._parcel(number, Random(number))]
    known = {key: of for kind in truth(made, BEVERLY.jurisdiction).values() for key, of in kind.items()}
    found = {record.key: record.to_document() for record in read(card_of(made.parcels[0], str(FIRST)).encode())}
    assert found.keys() == known.keys()
    for key, of in known.items():
        of.pop("flood_zone", None)
        assert {name: _plain(found[key].get(name)) for name in of} == of


def _plain(value: Any) -> Any:
    value = value.to_decimal() if hasattr(value, "to_decimal") else value
    return list(value) if isinstance(value, tuple) else value


@settings(max_examples=60)
@given(st.binary(max_size=60), st.integers(0, len(CARD)), st.integers(0, 400))
def test_a_damaged_card_is_read_or_refused_and_never_a_fault(inserted: bytes, at: int, cut: int) -> None:
    try:
        card = patriot.read_card(CARD[:at] + inserted + CARD[at + cut :])
        found = records_of(card, BEVERLY, SEEN) if card else None
    except ParseError:
        return
    assert found is None or found.records or found.rejects


def test_what_is_staged_makes_the_same_records() -> None:
    for record in read(CARD):
        assert record in parse_staged(record.raw, BEVERLY, SEEN).records

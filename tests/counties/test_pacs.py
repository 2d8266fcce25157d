"""Pages of Harris PACS: properties of Texas and Washington, search forms and results; and pages that are none."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.pages import shown_of_all
from harvester.parsers.counties.sections import parse_staged, records_of
from harvester.spiders.counties.pacs import parser as pacs
from harvester.spiders.counties.pacs.parser import Hit
from harvester.spiders.counties.saved import read_saved
from tests.sandbox import county
from tests.sandbox.county import County
from tests.sandbox.county_pacs import Known, page_of, truth

PAGE = (Path(__file__).parent / "pages" / "pacs_property.html").read_bytes()
URL = "https://propaccess.trueautomation.com/clientdb/Property.aspx?cid=61&prop_id=104106283"
CHEROKEE = Source("us-tx-cherokee", "48073")
SEEN = Provenance(URL, datetime(2026, 1, 31, tzinfo=UTC), "pacs")
FORM = b"""<form action="PropertySearch.aspx?cid=61" method="post"><input type="hidden" name="__VIEWSTATE" value="dD==">
<input name="propertySearchOptions:searchText" id="propertySearchOptions_searchText">
<input type="submit" name="propertySearchOptions:search" value="Search"><input type="submit" name="go" value="Go">
<select name="propertySearchOptions:taxyear"><option>2026</option><option selected>2025</option></select></form>"""
RESULTS = b"""<h3 id="propertySearchResults_pageHeading">Property Search Results &gt; 1 - 2 of 3 for Year 2025.</h3>
<table id="propertySearchResults_resultsTable"><tr class="tableHeader"><td></td><td>Property ID</td>
<td>Geographic ID</td><td>Property Address</td><td>Owner Name</td><td colspan="2">Details</td></tr>
<tr><td><input type="checkbox"></td><td>58808</td><td>0001-02</td><td>100 PINE RD<br>LANGLEY</td><td>DOE JANE</td>
<td><a href="Property.aspx?cid=61&amp;prop_id=58808&amp;year=2025">View Details</a></td>
<td><a href="Map.aspx">Map</a></td></tr>
<tr><td></td><td>58809</td><td></td><td></td><td>DOE JOHN</td><td><span prop_id="58809">View</span></td><td></td></tr>
<tr><td colspan="7" class="paging">1 <a href="SearchResults.aspx?rtype=address&amp;page=2">2</a></td></tr></table>"""
FOUND = "https://propaccess.trueautomation.com/clientdb/SearchResults.aspx?cid=61"


def read(body: bytes, url: str = URL) -> list[CountyRecord]:
    page = pacs.read_property(body, url)
    assert page
    found = records_of(page, CHEROKEE, SEEN)
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], records: list[CountyRecord]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def test_a_property_is_read_with_the_sources_own_labels_and_nothing_of_it_is_dropped() -> None:
    (parcel,) = of_kind(Property, read(PAGE))
    assert parcel.key == "us-tx-cherokee 104106283"
    assert parcel.alt_parcel_ids == {"Property: Geographic ID": "00012-00030-00700-000000"}
    assert parcel.situs_address == "1220 CR 4103 JACKSONVILLE, TX 75766"
    assert parcel.legal_description == "AB 12 J DOE, BLOCK 3, TRACT 7, ACRES 12.5"
    assert (parcel.use_code, parcel.use_description, parcel.neighborhood) == ("D1", "QUALIFIED AG LAND", "RURAL NORTH")
    assert (parcel.acres, parcel.year_built, parcel.living_area_sqft, parcel.tax_year) == (12.5, 1975, 1500.0, 2024)
    assert (parcel.labels["parcel_id"], parcel.labels["acres"]) == ("Property ID", "Land: Acres")
    others = parcel.others
    assert others["Owner: Exemptions"] == "HS, OTHER"
    assert others["Values: Agricultural Market Valuation"] == "$61,200"
    assert others["Values: Agricultural Market Valuation, Ag / Timber Use Value"] == "$1,150"
    assert others["Values: Land Homesite Value"] == "$6,500"
    assert others["Taxing Jurisdiction: Taxes w/o Exemptions"] == "$568.27"
    assert others["Taxing Jurisdiction"][1]["Estimated Tax"] == "$438.21"
    assert others["Land"][1]["Prod. Value"] == "$1,150"
    assert others["Deed History"][2]["Description"] == "CONVERSION"


def test_values_of_washington_are_read_by_their_own_labels() -> None:
    body = PAGE.replace(b"Legal Description:", b"Abbreviated Legal Description:")
    body = body.replace(b"(=) Appraised Value:", b"(=) Total Appraised Value:")
    body = body.replace(b"(=) Assessed Value:", b"(=) Taxable Value:")
    body = body.replace(b"<th>Ag Valuation</th>", b"<th>Current Use</th>").replace(
        b"<th>Appraised</th>", b"<th>Total Appraised</th>"
    )
    body = body.replace(b"<th>Assessed</th>", b"<th>Taxable Value</th>")
    records = read(body)
    (parcel,) = of_kind(Property, records)
    assert parcel.legal_description == "AB 12 J DOE, BLOCK 3, TRACT 7, ACRES 12.5"
    values = {
        each.roll: (each.appraised_value, each.taxable_value, each.ag_value) for each in of_kind(Assessment, records)
    }
    assert values == {
        "2024": (Decimal(105040), Decimal(101000), Decimal(1150)),
        "2023": (Decimal(96100), Decimal(96100), Decimal(1100)),
    }


def test_rows_above_their_header_and_cells_without_end_are_a_changed_layout() -> None:
    before, header, after = PAGE.partition(b'<tr class="tableDataHeader"><th>Entity')
    labels, end, rows = after.partition(b"</tr>")
    row, _, others = rows.partition(b"</tr>")
    with pytest.raises(ParseError, match="Taxing Jurisdiction"):
        read(before + row + end + header + labels + end + others)
    with pytest.raises(ParseError, match="1000 columns"):
        read(before + header + labels + end + row.replace(b"<td>", b'<td colspan="999999999">', 1) + end + others)


def test_each_owner_has_a_block_and_the_mailing_address_is_that_of_the_first() -> None:
    (parcel,) = of_kind(Property, read(PAGE))
    assert parcel.owner_names == ("SMITH JOHN & EVA", "DOE JANE")
    assert parcel.mailing_address == "PO BOX 7, JACKSONVILLE, TX 75766-0007"
    assert parcel.others["Owner 2: Mailing Address"] == "1 ELM ST TYLER, TX 75701"


def test_values_are_those_of_the_year_that_is_shown_and_the_history_has_the_years_before() -> None:
    now, before = of_kind(Assessment, read(PAGE))
    assert (now.roll, now.market_value, now.appraised_value) == ("2024", Decimal(165090), Decimal(105040))
    assert (now.assessed_value, now.market_land_value, now.ag_value) == (Decimal(101000), Decimal(67700), Decimal(1150))
    assert now.labels["market_value"] == "Values: Market Value"
    assert (before.roll, before.assessed_value, before.improvement_value) == ("2023", Decimal(96100), Decimal(90000))


def test_deeds_are_sales_without_a_price_and_estimated_taxes_are_no_bills() -> None:
    records = read(PAGE)
    last, first, undated = of_kind(Sale, records)
    assert (last.sale_date, last.instrument_number, last.grantor) == (date(2019, 4, 5), "2019-1234", "DOE JAMES")
    assert (last.deed_type, last.sale_price) == ("WD", None)
    assert (first.transfer, first.book, first.page) == ("1998-02-01/1204-77", "1204", "77")
    assert (undated.transfer, undated.deed_type, undated.grantee) == ("undated", "Conv", "ROE RICHARD")
    assert of_kind(TaxBill, records) == []


@pytest.mark.parametrize(
    ("renamed", "said"),
    [
        (b"Property ID:", "Renamed, Legal Description"),
        (b"Address:", contract.CALLED[contract.SITUS]),
        (b"<td>104106283</td>", "lacks: Property ID"),
        (b"<th>HS Cap</th>", "Roll Value History has 7 cells"),
    ],
)
def test_a_page_without_what_each_has_is_a_changed_layout_that_says_what_is_missing(renamed: bytes, said: str) -> None:
    body = PAGE.replace(renamed, b"Renamed:" if renamed.endswith(b":") else b"")
    with pytest.raises(ParseError) as changed:
        read_saved("pacs", body, CHEROKEE, SEEN)
    assert said in str(changed.value)


def test_two_owners_whose_names_have_another_label_do_not_share_an_address() -> None:
    (parcel,) = of_kind(Property, read(PAGE.replace(b"Name:", b"Title Holder:")))
    assert parcel.mailing_address == "PO BOX 7, JACKSONVILLE, TX 75766-0007"


@pytest.mark.parametrize("body", [b"", b" \n", b"<html></html>", b"\xff\xfe\x00<", FORM, RESULTS, b"{}"])
def test_a_page_that_speaks_of_no_property_is_none(body: bytes) -> None:
    assert pacs.read_property(body, URL) is None
    assert pacs.is_search(body) is (body == FORM)


def test_where_no_heading_says_the_year_the_address_does() -> None:
    without = PAGE.replace(b"for Year 2024", b"")
    (parcel,) = of_kind(Property, read(without, f"{URL}&year=2022"))
    assert (parcel.tax_year, parcel.labels["tax_year"]) == (2022, "address")
    assert of_kind(Assessment, read(without))[0].roll == "undated"


def test_the_form_is_sent_back_with_all_it_holds_and_the_button_of_its_spelling() -> None:
    action, body = pacs.read_search(FORM, f"{URL}&x=1", "1220 CR 4103")
    assert action == "https://propaccess.trueautomation.com/clientdb/PropertySearch.aspx?cid=61"
    options = "propertySearchOptions"
    assert parse_qs(body) == {
        "__VIEWSTATE": ["dD=="],
        f"{options}:searchText": ["1220 CR 4103"],
        f"{options}:search": ["Search"],
        f"{options}:taxyear": ["2025"],
    }
    assert f"{options}%24search=Search" in pacs.read_search(FORM.replace(b"Options:", b"Options$"), URL, "1")[1]
    for gone in (b"__VIEWSTATE", b":searchText"):
        with pytest.raises(ParseError, match="search form"):
            pacs.read_search(FORM.replace(gone, b"x"), URL, "1")


def test_results_have_the_number_of_each_property_what_it_was_found_by_and_the_next_page() -> None:
    results = pacs.read_results(RESULTS, FOUND)
    jane = Hit("58808", ("58808", "0001-02"), "DOE JANE", "100 PINE RD LANGLEY")
    assert results.hits == (jane, Hit("58809", ("58809", ""), "DOE JOHN", ""))
    assert results.next_url == FOUND.partition("?")[0] + "?rtype=address&page=2"
    last = RESULTS.replace(b"1 - 2 of 3", b"3 - 3 of 3")
    assert pacs.read_results(last, results.next_url).next_url == ""
    assert pacs.read_results(b"<html><body>None found</body></html>", FOUND).hits == ()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b"propertySearchResults_resultsTable", b"x", "propertySearchResults_resultsTable"),
        (b"prop_id=", b"id=", "property"),
        (b"Owner Name", b"Who", "lack: Property ID, Owner Name or Property Address"),
        (b"<td>0001-02</td>", b"", "6 cells"),
        (b"SearchResults.aspx", b"Results.aspx", "1 - 2 of 3"),
    ],
)
def test_results_that_are_not_as_known_are_no_results_without_parcels(before: bytes, after: bytes, said: str) -> None:
    changed = RESULTS.replace(before, after).replace(b"span " + after, b"span ")
    with pytest.raises(ParseError) as refused:
        pacs.read_results(changed, FOUND)
    assert said in str(refused.value)


def test_a_page_says_how_many_results_there_are_by_digits_and_not_by_commas_alone() -> None:
    shown = shown_of_all("Results 1 - 25 of 1,204 are shown")
    assert shown
    assert shown.groups() == ("1", "25", "1,204")
    for text in ("Smith, - , of ,", "1 - , of ,x", f"1 - 2 of {'9' * 5_000}"):
        assert shown_of_all(text) is None


def test_a_number_with_leading_zeros_or_too_many_digits_is_a_geographic_one() -> None:
    assert pacs.is_property_id("104106283")
    for number in ("0104106283", "1041062830", "R12345", "0", "12-3", "१२"):
        assert not pacs.is_property_id(number)


@settings(max_examples=40)
@given(st.integers(0, 10**5), st.booleans())
def test_whatever_the_assessor_knows_is_read(number: int, washington: bool) -> None:
    made = County(0)
    made.parcels = [county._parcel(number, Random(number))]
    page = page_of(Known("10001", "0001 A-7", made.parcels[0]), washington=washington)
    found = {record.key: record.to_document() for record in read(page.encode())}
    known = {key: of for kind in truth(made, CHEROKEE.jurisdiction).values() for key, of in kind.items()}
    assert found.keys() == known.keys()
    assert list(found["us-tx-cherokee 10001"]["alt_parcel_ids"].values()) == ["0001 A-7"]
    for key, of in known.items():
        of.pop("flood_zone", None)
        assert {name: _plain(value) for name, value in found[key].items() if name in of} == of


def _plain(value: Any) -> Any:
    value = value.to_decimal() if hasattr(value, "to_decimal") else value
    return list(value) if isinstance(value, tuple) else value


@settings(max_examples=60)
@given(st.binary(max_size=60), st.integers(0, len(PAGE)), st.integers(0, 400))
def test_a_damaged_page_is_read_or_refused_and_never_a_fault(inserted: bytes, at: int, cut: int) -> None:
    try:
        page = pacs.read_property(PAGE[:at] + inserted + PAGE[at + cut :], URL)
        found = records_of(page, CHEROKEE, SEEN) if page else None
    except ParseError:
        return
    assert found is None or found.records or found.rejects


@settings(max_examples=40)
@given(st.binary(max_size=40), st.integers(0, len(RESULTS)), st.integers(0, 200))
def test_damaged_results_and_forms_are_read_or_refused(inserted: bytes, at: int, cut: int) -> None:
    for body in (RESULTS, FORM):
        damaged = body[:at] + inserted + body[at + cut :]
        for reader in (lambda it: pacs.read_results(it, FOUND), lambda it: pacs.read_search(it, FOUND, "1")):
            try:
                reader(damaged)
            except ParseError:
                continue


def test_what_is_staged_makes_the_same_records() -> None:
    for record in read(PAGE):
        assert record in parse_staged(record.raw, CHEROKEE, SEEN).records

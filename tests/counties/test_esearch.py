"""Pages of BIS eSearch: parcels, taxes that are due, searches; and pages that are none of these."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, parse_staged, records_of
from harvester.spiders.counties.esearch import parser as esearch
from harvester.spiders.counties.saved import read_saved
from tests.sandbox import county
from tests.sandbox.county import County
from tests.sandbox.county_esearch import page_of, taxes_of, truth

PAGE = (Path(__file__).parent / "pages" / "esearch_parcel.html").read_bytes()
MOORE = Source("us-tx-moore", "48341")
SEEN = Provenance("https://esearch.moore.example/Property/View/13572", datetime(2026, 1, 31, tzinfo=UTC), "esearch")
HEAD = "<tr><th>Year</th><th>Base Tax</th><th>Base Taxes Paid</th><th>Attorney Fees</th><th>Amount Due</th></tr>"
DUE = f"<table>{HEAD}<tr><td>2025</td><td>$3,316.80</td><td>$0.00</td><td>$789.40</td><td>$4,736.38</td></tr></table>"


def read(body: bytes, number: str = "13572", taxes: str = "") -> list[CountyRecord]:
    page = esearch.read_parcel(body, number)
    assert page
    due = esearch.read_taxes(taxes.encode()) if taxes else None
    found = records_of(replace(page, sections=[*page.sections, *([due] if due else [])]), MOORE, SEEN)
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], records: list[CountyRecord]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


ROLL = "<tr><th>Year</th><th>Improvements</th><th>Land Market</th><th>Appraised</th></tr>"
LATER = """<html><body><div class="panel panel-primary"><div class="panel-heading">Property Details</div>
<table class="table">
<tr><th colspan="3">Account</th></tr>
<tr><th>Property ID:</th><td>R77</td><td><strong>Geographic ID: </strong>1-2-3</td></tr>
<tr><th colspan="3">Location</th></tr><tr><th>Situs Address:</th><td colspan="2">7 ELM ST</td></tr>
<tr><th colspan="3">Owner <span class="pull-right"></span></th></tr>
<tr><th>Name:</th><td colspan="2">DOE JANE</td></tr><tr><th>Mailing Address:</th><td colspan="2">PO BOX 7</td></tr>
<tr><th>Exemptions:</th><td colspan="2">HS - Homestead<br>
<small>For privacy reasons not all exemptions are shown online.</small></td></tr></table></div>
<div class="panel panel-primary"><div class="panel-heading">Property Values</div><table class="table">
<tr><th>Market Value:</th><td class="table-number">$7,000 (=)</td></tr>
<tr><th>Assessed Value:</th><td class="table-number">$6,000</td></tr></table></div>
<div class="panel panel-primary"><div class="panel-heading">Property Land</div><table class="table">
<tr><th>Type</th><th>Acreage</th></tr><tr><td>A1</td><td data-acres="0.1894">0.19</td></tr></table></div>
<div class="panel panel-primary"><div class="panel-heading">Property Roll Value History</div><table class="table">%s%s
</table></div></body></html>"""


def later(*years: tuple[int, str]) -> list[CountyRecord]:
    rows = "".join(f"<tr><td>{year}</td><td>{said}</td><td>{said}</td><td>{said}</td></tr>" for year, said in years)
    return read((LATER % (ROLL, rows)).encode(), "R77")


def test_values_are_of_the_latest_year_that_has_any() -> None:
    records = later((2026, "N/A"), (2025, "$3,500"))
    assert of_kind(Property, records)[0].tax_year == 2025
    assert [(each.tax_year, each.market_value) for each in of_kind(Assessment, records)] == [(2025, 7000)]
    assert of_kind(Property, later((2026, "N/A"), (2025, "-")))[0].tax_year == 2026


def test_acres_are_those_that_were_rounded_for_people() -> None:
    assert of_kind(Property, later((2025, "$1")))[0].acres == 0.1894
    other = LATER.replace('data-acres="0.1894"', 'data-acres="7"') % (
        ROLL,
        "<tr><td>2025</td><td>1</td><td>1</td><td>1</td></tr>",
    )
    assert of_kind(Property, read(other.encode(), "R77"))[0].acres == 0.19, "an attribute that says something else"


def test_a_notice_is_no_part_of_the_value_above_it() -> None:
    others = of_kind(Property, later((2025, "$1")))[0].others
    assert others["Property Details: Owner: Exemptions"] == "HS - Homestead"
    assert "privacy" in others["Property Details: Owner: Exemptions (notice)"]


def test_a_page_is_read_with_the_sources_own_labels_and_nothing_of_it_is_dropped() -> None:
    (parcel,) = of_kind(Property, read(PAGE))
    assert parcel.key == "us-tx-moore 13572"
    assert (parcel.owner_names, parcel.mailing_address) == (("SMITH, JOHN & EVA",), "PO BOX 7, DUMAS, TX 79029")
    assert parcel.situs_address == "121 OAK AVE, DUMAS TX 79029"
    assert (parcel.use_code, parcel.zoning, parcel.subdivision) == ("A1", "SF-1", "1210 - OAK PARK ADDN")
    assert (parcel.tax_year, parcel.year_built, parcel.living_area_sqft) == (2025, 1978, 1847)
    assert parcel.acres == 0.251, "of all land together"
    assert parcel.alt_parcel_ids == {"Property Details: Account: Geographic ID": "01-1210-0040"}
    assert parcel.labels["owner_names"] == "Property Details: Owner: Name"
    assert parcel.labels["acres"] == "Property Land: Acreage"
    others = parcel.others
    assert others["Property Details: Owner: Exemptions"] == "HS - HOMESTEAD"
    assert others["Property Values: HS Cap Loss"] == "$5,500"
    assert others["Property Taxing Jurisdiction"][0]["Estimated Tax"] == "$822.50"
    assert others["Property Improvement - Building"][1]["Description"] == "ATTACHED GARAGE"
    assert others["Property Improvement - Building (2)"][0]["SQFT"] == "900.00"
    assert others["Property Land"][1]["Sqft"] == "2,221.56"


def test_years_are_assessments_and_a_year_without_values_is_none() -> None:
    now, before = of_kind(Assessment, read(PAGE))
    assert (now.roll, now.market_value, now.appraised_value) == ("2025", Decimal(170000), Decimal(170000))
    assert (now.assessed_value, now.market_land_value) == (Decimal(164500), Decimal(20000))
    assert now.labels["assessed_value"] == "Property Values: Assessed Value"
    assert (before.roll, before.assessed_value, before.ag_value) == ("2024", Decimal(149000), Decimal(0))


def test_deeds_are_sales_also_two_of_one_day_without_a_number() -> None:
    last, before, *two = of_kind(Sale, read(PAGE))
    assert (last.transfer, last.deed_type, last.instrument_number) == ("2019-04-05/201904", "WD", "201904")
    assert (last.grantor, last.grantee, last.book, last.page) == ("DOE, JANE", "SMITH, JOHN & EVA", "512", "77")
    assert before.transfer == "2004-02-01/301-12"
    assert [(each.transfer, each.grantor) for each in two] == [
        ("1999-03-09", "ROE, EVE"),
        ("1999-03-09#2", "ROE, A E"),
    ]
    assert {each.sale_date for each in two} == {date(1999, 3, 9)}


def test_taxes_that_are_due_are_bills() -> None:
    records = read(PAGE, taxes=DUE)
    (bill,) = of_kind(TaxBill, records)
    assert (bill.bill, bill.billed, bill.paid, bill.due) == ("2025", Decimal("3316.8"), Decimal(0), Decimal("4736.38"))
    assert bill.labels["due"] == "Taxes due: Amount Due"
    (parcel,) = of_kind(Property, records)
    assert parcel.others["Taxes due"][0]["Attorney Fees"] == "$789.40"


@pytest.mark.parametrize("body", [f"<table>{HEAD}</table>", "<p>There are no taxes due for this property.</p>"])
def test_where_nothing_is_due_there_is_no_bill(body: str) -> None:
    assert esearch.read_taxes(body.encode()) is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<table><tr><th>Year</th><th>Sum</th></tr></table>", "lack: Year or Amount Due"),
        ("<p>Welcome</p>", "'Welcome'"),
        (DUE.replace("<td>$0.00</td>", ""), "Taxes due has 4 cells"),
    ],
)
def test_what_says_nothing_of_taxes_is_a_changed_layout(body: str, said: str) -> None:
    with pytest.raises(ParseError) as changed:
        esearch.read_taxes(body.encode())
    assert said in str(changed.value)


@pytest.mark.parametrize(
    ("renamed", "said"),
    [
        ({b"Property ID:</th>": b"Key:</th>"}, "Key, Geographic ID"),
        ({b"Situs Address": b"Where"}, contract.CALLED[contract.SITUS]),
        ({b"Name:": b"Holder:", b"Owner:": b"Of:"}, contract.CALLED[contract.OWNER]),
        ({b"For Year": b"As of", b"<th>Year</th>": b"<th>When</th>"}, "lacks: Year"),
        ({b"<td>RL</td>": b"<td>RL</td><td>x</td>"}, "Property Land has 9 cells"),
    ],
)
def test_a_page_without_what_each_has_is_a_changed_layout_that_says_what_is_missing(
    renamed: dict[bytes, bytes], said: str
) -> None:
    body = PAGE
    for before, after in renamed.items():
        assert before in body
        body = body.replace(before, after)
    with pytest.raises(ParseError) as changed:
        read_saved("esearch", body, MOORE, SEEN, "13572")
    assert said in str(changed.value)


@pytest.mark.parametrize("body", [b"", b" \n", b"<html></html>", b"{}", b"<div class='panel'><p>News</p></div>"])
def test_a_page_that_speaks_of_no_parcel_is_none(body: bytes) -> None:
    assert esearch.read_parcel(body, "1") is None


def test_of_several_numbers_that_is_taken_which_was_asked_for() -> None:
    two = PAGE.replace(b"<tr><th>Type:</th>", b"<tr><th>Quick Ref ID:</th><td>R135</td></tr><tr><th>Type:</th>")
    assert _shown(two, "r135") == ("R135", "Quick Ref ID")
    assert _shown(two, "13572") == ("13572", "Property ID")
    assert _shown(two, "7") == ("13572", "Property ID"), "which the spider sees to be another parcel's"


def _shown(body: bytes, asked: str) -> tuple[str, str]:
    page = esearch.read_parcel(body, asked)
    assert isinstance(page, ParcelPage)
    return page.parcel_id, page.id_label


def test_where_no_heading_says_the_year_the_history_does_and_where_none_names_the_owner_its_labels_do() -> None:
    without = PAGE.replace(b"For Year 2025", b"")
    page = esearch.read_parcel(without, "13572")
    assert page
    assert (page.tax_year, page.year_label) == (2025, "Property Roll Value History: Year")
    (parcel,) = of_kind(Property, read(PAGE.replace(b'<tr class="info"><th colspan="4">Owner</th></tr>', b"")))
    assert parcel.owner_names == ("SMITH, JOHN & EVA",)


def test_what_a_search_says_is_read_or_refused() -> None:
    assert esearch.read_session_token(b'{"searchSessionToken":"a<b"}') == "a<b"
    assert esearch.read_search_token(b'<meta name="search-token" content="a&lt;b&amp;/+=">') == "a<b&/+="
    found = esearch.read_results(b'{"resultsList":[{"propertyId":7,"x":1},{"propertyId":"R8 "}],"totalResults":9}')
    assert found == (("7", "R8"), 9)
    assert esearch.read_results(b'{"resultsList":null,"totalResults":0}') == ((), 0)
    for parse, body, said in (
        (esearch.read_session_token, b"{}", "`searchSessionToken`"),
        (esearch.read_search_token, b"<meta name='x' content='y'>", "lacks: search-token"),
        (esearch.read_results, b'{"totalResults":1}', "`resultsList`"),
        (esearch.read_results, b'{"resultsList":[{}],"totalResults":1}', "`propertyId`"),
        (esearch.read_results, b"<html>", "search"),
        (esearch.read_results, b'{"x":' + b"[" * 100_000, "search"),
    ):
        with pytest.raises(ParseError, match=said):
            parse(body)


def test_what_is_looked_for_is_written_as_the_search_wants_it() -> None:
    assert esearch.keywords({"StreetNumber": "12", "StreetName": "OLD POST"}) == 'StreetNumber:12 StreetName:"OLD POST"'
    assert esearch.keywords({"StreetNumber": "", "OwnerName": '"A" B'}) == 'OwnerName:"A  B"'


@settings(max_examples=40)
@given(st.integers(0, 10**5))
def test_whatever_the_district_knows_is_read(number: int) -> None:
    made = County(0)
    parcel = county._parcel(number, Random(number))
    made.parcels = [parcel]
    known = {key: of for kind in truth(made, MOORE.jurisdiction).values() for key, of in kind.items()}
    records = read(page_of(parcel).encode(), parcel.parcel_id, taxes_of(parcel))
    found = {record.key: record.to_document() for record in records}
    assert found.keys() == known.keys()
    for key, of in known.items():
        of.pop("flood_zone", None)
        shown = {name: value for name, value in found[key].items() if name in of}
        assert {name: _plain(value) for name, value in shown.items()} == of


def _plain(value: Any) -> Any:
    value = value.to_decimal() if hasattr(value, "to_decimal") else value
    return list(value) if isinstance(value, tuple) else value


@settings(max_examples=60)
@given(st.binary(max_size=60), st.integers(0, len(PAGE)), st.integers(0, 400))
def test_a_damaged_page_is_read_or_refused_and_never_a_fault(inserted: bytes, at: int, cut: int) -> None:
    try:
        page = esearch.read_parcel(PAGE[:at] + inserted + PAGE[at + cut :], "13572")
        found = records_of(page, MOORE, SEEN) if page else None
    except ParseError:
        return
    assert found is None or found.records or found.rejects


def test_what_is_staged_makes_the_same_records() -> None:
    for record in read(PAGE, taxes=DUE):
        assert record in parse_staged(record.raw, MOORE, SEEN).records

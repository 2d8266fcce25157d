"""Pages of Tyler EagleWeb: accounts of assessors and treasurers, results of searches; and what comes in their place."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.exceptions import PageFailed, ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill
from harvester.outcomes import Outcome
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, joined, parse_staged, records_of, signature
from harvester.spiders.counties.eagleweb import parser as eagleweb
from harvester.spiders.counties.saved import read_saved
from tests.sandbox import county
from tests.sandbox.county import Document
from tests.sandbox.county_eagleweb import (
    accounts,
    assessors_page,
    assessors_truth,
    treasurers_pages,
    treasurers_truth,
)

PAGES = Path(__file__).parent / "pages"
ASSESSOR, TREASURER, TRANSACTIONS = (
    (PAGES / f"eagleweb_{name}.html").read_bytes() for name in ("assessor", "treasurer", "transactions")
)
ROOT = "https://county.example/assessor/"
SOURCE = Source("us-az-made-up", "04001")
SEEN = Provenance(ROOT, datetime(2026, 1, 31, tzinfo=UTC), "eagleweb")


def page_of(body: bytes, transactions: bytes = b"") -> ParcelPage:
    page = eagleweb.read_account(body)
    assert page
    return joined(page, [eagleweb.read_transactions(transactions, page.parcel_id)]) if transactions else page


def read(body: bytes, transactions: bytes = b"") -> list[CountyRecord]:
    found = records_of(page_of(body, transactions), SOURCE, SEEN)
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], records: list[CountyRecord]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def test_an_assessors_account_is_read_with_the_sources_own_labels_and_nothing_of_it_is_dropped() -> None:
    (parcel,) = of_kind(Property, read(ASSESSOR))
    assert parcel.key == "us-az-made-up R0026183"
    assert (parcel.owner_names, parcel.mailing_address) == (
        ("DOE JOHN & JANE",),
        "PO BOX 265, SNOWFLAKE, AZ 85937",
    )
    assert parcel.situs_address == "12 W ELM ST SNOWFLAKE"
    assert parcel.legal_description == "Subdivision: ELM PARK Lot: 12 Block: 3 S: 10 T: 12N R: 21E"
    assert (parcel.use_code, parcel.tax_year) == ("02.R", 2024)
    assert parcel.alt_parcel_ids == {"Location: Parcel Number": "203-10-005B"}
    assert parcel.labels["parcel_id"] == "Account"
    assert parcel.labels["owner_names"] == "Owner Information: Owner Name"
    others = parcel.others
    assert others["Location: Tax Area"] == "0550 - SNOWFLAKE"
    assert others["Assessment History: Non-School Assessed"] == "$3,075"
    assert others["Assessment History: Actual (2023)"] == "$41,000"
    assert others["Assessment History: Mill Levy"] == "87.7750"
    assert others["Assessment History"][0]["Type"] == "Vacant Land"
    assert others["Transfers"][1]["Doc Description"] == "QUIT CLAIM DEED"


def test_values_are_of_the_year_beside_their_label_and_an_estimate_is_no_bill() -> None:
    records = read(ASSESSOR)
    (values,) = of_kind(Assessment, records)
    assert (values.roll, values.market_value) == ("2024", Decimal(45900))
    sale, undated = of_kind(Sale, records)
    assert (sale.transfer, sale.sale_date, sale.sale_price) == ("2019-04-05/2019-001234", date(2019, 4, 5), 180000)
    assert (undated.transfer, undated.sale_date, undated.deed_type) == ("undated", None, "QUIT CLAIM DEED")
    (bill,) = of_kind(TaxBill, records)
    assert (bill.bill, bill.billed, bill.labels["billed"]) == ("2023", Decimal("260.1"), "Tax History: Taxes")


def test_a_treasurers_account_has_its_owners_values_of_no_year_and_a_bill_of_each_year() -> None:
    records = read(TREASURER, TRANSACTIONS)
    (parcel,) = of_kind(Property, records)
    assert parcel.key == "us-az-made-up R0006013"
    assert parcel.owner_names == ("SMITH JOHN ET AL", "SMITH EVA")
    assert (parcel.mailing_address, parcel.situs_address) == ("PO BOX 7, BOULDER, CO 80306", "1220 OAK ST BOULDER")
    assert parcel.legal_description == "LOT 5 BLK 2 OAK PARK"
    others = parcel.others
    assert others["Account Value: Mill Levy"] == "87.7750000"
    assert others["Account Value: Area Id"] == "0010 - 001"
    assert others["Account Value: Exemption: Senior"] == "$280.72"
    assert others["Inquiry: Total Due"] == "$1,896.94"
    assert others["Account Value"][0] == {"Type": "Single Fam.Res.-Land", "Actual": "95,000", "Assessed": "6,800"}
    assert len(others["Tax Transaction Detail: Detail"]) == 5
    (values,) = of_kind(Assessment, records)
    assert (values.roll, values.tax_year) == ("undated", None)
    assert (values.market_value, values.assessed_value) == (Decimal(300000), Decimal(21470))
    paid, due = of_kind(TaxBill, records)
    assert (paid.bill, paid.billed, paid.paid, paid.due) == ("2023", Decimal(1800), Decimal(1800), None)
    assert (due.bill, due.billed, due.paid, due.due) == ("2024", Decimal("1884.44"), None, Decimal("1896.94"))
    assert due.labels == {
        "due": "Tax Transaction Detail: Summary: Total Due",
        "billed": "Tax Transaction Detail: Detail: Amount",
    }


BOLD = """<div id="middle"><h1>Account:&nbsp;R7</h1><table class="accountSummary"><tbody>
<tr valign="top"><th><a href="#">Location</a></th><th>Owner Information</th><th colSpan="1">Assessment History</th></tr>
<tr valign="top"><td><table width="100%"><tr style=""><td><strong>Parcel Number</strong> 1437-2</td></tr>
<tr style=""><td><strong>Situs Address</strong> 7 ELM ST</td></tr></table></td>
<td><table><tr><td><b>Owner Name</b> DOE JANE</td></tr><tr><td><b>In Care Of Name</b> EVA ROE</td></tr>
<tr><td><b>Owner Address</b> PO BOX 7 <br>ADA, CO 80999</td></tr></table></td>
<td><table width=100%><tr><td align="left"><b>Actual Value</b> (2020)</td><td align="right">$70</td></tr>
<tr><td align="left"><b>Assessed</b></td><td align="right">$20</td></tr></table>
<table width=100%><caption><b>Tax Area:</b> 010&nbsp; <b>Mill Levy</b>: 51.6</caption><tr><th align=left>Type</th>
<th>Actual</th><th>Assessed</th><th>Acres</th></tr><tr><td>Residential</td><td>$40</td><td>$10</td><td>0.250</td></tr>
<tr><td>Commercial</td><td>$30</td><td>$10</td><td></td></tr></table></td></tr>
<tr valign="top"><th colSpan="3"><a href="#">Transfers</a></th></tr><tr valign="top"><td colSpan="3">
<table width="100%"><tr><td align="center"><b>Sale Date</b></td><td align="right"><b>Sale Price</b></td>
<td align="center"><b>Doc Description</b></td></tr>
<tr><td><a href="#">02/15/2008</a></td><td><a href="#">$0</a></td><td><a href="#">WARRANTY DEED</a></td></tr>
<tr><td></td><td><a href="#">$0</a></td><td><a href="#">WDT</a></td></tr>
<tr><td></td><td></td><td><a href="#">QUIT CLAIM DEED</a></td></tr></table></td></tr></tbody></table></div>"""


def test_transfers_below_a_header_in_bold_are_sales_each_whatever_the_price_and_without_a_date() -> None:
    records = read(BOLD.encode())
    sales = [(each.transfer, each.sale_date, each.sale_price, each.deed_type) for each in of_kind(Sale, records)]
    assert sales == [
        ("2008-02-15", date(2008, 2, 15), 0, "WARRANTY DEED"),
        ("undated", None, 0, "WDT"),
        ("undated#2", None, None, "QUIT CLAIM DEED"),
    ]
    assert not any(each.unread for each in records)


def test_acres_are_those_of_all_types_and_who_takes_the_mail_begins_its_address() -> None:
    (parcel,) = of_kind(Property, read(BOLD.encode()))
    assert parcel.acres == 0.25
    assert parcel.owner_names == ("DOE JANE",)
    assert parcel.mailing_address == "C/O EVA ROE, PO BOX 7, ADA, CO 80999"
    assert parcel.labels["mailing_address"].startswith("Owner Information: In Care Of Name + Owner Information: ")


def test_what_a_page_looks_like_has_nothing_of_the_account_in_it() -> None:
    one = signature(page_of(ASSESSOR))
    other = signature(page_of(ASSESSOR.replace(b"R0026183", b"R7").replace(b"0550", b"0660").replace(b"87.77", b"9")))
    assert one == other
    one = signature(page_of(TREASURER, TRANSACTIONS))
    assert one == signature(page_of(TREASURER.replace(b"R0006013", b"R7"), TRANSACTIONS.replace(b"R0006013", b"R7")))


@pytest.mark.parametrize(
    ("body", "renamed", "said"),
    [
        (ASSESSOR, b"Owner Name", contract.CALLED[contract.OWNER]),
        (ASSESSOR, b"Account: R", "lacks: Account"),
        (TREASURER, b"Owners", contract.CALLED[contract.OWNER]),
        (TREASURER, b"Account&nbsp;Id", "lacks: Account Id"),
    ],
)
def test_a_page_without_what_each_has_is_a_changed_layout_that_says_what_is_missing(
    body: bytes, renamed: bytes, said: str
) -> None:
    with pytest.raises(ParseError) as changed:
        read_saved("eagleweb", body.replace(renamed, b"Renamed"), SOURCE, SEEN)
    assert said in str(changed.value)


def test_rows_that_do_not_fit_their_header_and_missing_transactions_are_a_changed_layout() -> None:
    with pytest.raises(ParseError, match="Transfers has 5 cells"):
        eagleweb.read_account(ASSESSOR.replace(b"<td>2019-001234</td>", b"<td>2019-001234</td><td>x</td>"))
    with pytest.raises(ParseError, match="class account"):
        eagleweb.read_transactions(b"<h2>Summary</h2><table><tr><td>2024</td></tr></table>", "R1")


def test_the_login_page_in_place_of_another_is_a_session_that_has_ended() -> None:
    login = b"<form action='../web/loginPOST.jsp' method='post'><input type='submit' value='Login'></form>"
    readers = (
        eagleweb.read_account,
        lambda body: eagleweb.read_transactions(body, "R1"),
        lambda body: eagleweb.read_results(body, ROOT),
    )
    for reader in readers:
        with pytest.raises(PageFailed) as failed:
            reader(login)
        assert failed.value.outcome is Outcome.SESSION_EXPIRED


@pytest.mark.parametrize("body", [b"", b" \n", b"<html></html>", b"\xff\xfe\x00<", b"{}", b"<h1>Account: R1</h1>"])
def test_a_page_that_speaks_of_no_account_is_none(body: bytes) -> None:
    assert eagleweb.read_account(body) is None


def test_a_search_leads_to_the_accounts_that_it_lists_and_says_how_many_there_are() -> None:
    links = (
        b"<a href='account.jsp?accountNum=R1'>R1</a><a href='account.jsp?account=R2&action=tx'>R2</a><a href='x'>3</a>"
    )
    assert eagleweb.read_results(links + links, ROOT) == (["R1", "R2"], 2)
    assert eagleweb.read_results(links + b"<p>Showing 1,234 results</p>", ROOT).number == 1234
    assert eagleweb.read_results(links + b"<p>Showing 1-2 of 130 on 65 pages", ROOT).number == 130
    sorted_by = b"<p>Sorted by owner's name, results in groups of 25, and 99 of , on demand</p>"
    assert eagleweb.read_results(links + sorted_by, ROOT).number == 2, "a comma is no number"
    for none in (b"No results found", b"No accounts found."):
        assert eagleweb.read_results(b"<p>%s</p>" % none, ROOT) == ([], 0)
    assert eagleweb.read_results(b"", f"{ROOT}taxweb/account.jsp?accountNum=R7") == (["R7"], 1)
    with pytest.raises(ParseError, match="account"):
        eagleweb.read_results(b"<p>Welcome</p>", ROOT)


def test_the_page_of_an_account_is_where_the_software_of_its_site_has_it() -> None:
    assert eagleweb.account_url(ROOT, "R 1/2") == f"{ROOT}taxweb/account.jsp?accountNum=R+1%2F2"
    root = "https://county.example:8443/Treasurer/"
    assert eagleweb.account_url(root, "R1") == f"{root}treasurerweb/account.jsp?account=R1"
    assert eagleweb.account_url(root, "R1", of_transactions=True).endswith("account.jsp?account=R1&action=tx")


@settings(max_examples=30)
@given(st.integers(0, 10**5))
def test_whatever_the_county_knows_is_read_in_both_looks(number: int) -> None:
    made = accounts(0)
    parcel = county._parcel(number, Random(number))._replace(parcel_id="R0000001")
    made.parcels = [parcel]
    check(read(assessors_page(parcel)), assessors_truth(made, SOURCE.jurisdiction))
    check(read(*treasurers_pages(parcel)), treasurers_truth(made, SOURCE.jurisdiction))


def check(records: list[CountyRecord], truth: dict[str, dict[str, Document]]) -> None:
    known = {key: of for kind in truth.values() for key, of in kind.items()}
    found = {record.key: record.to_document() for record in records}
    for key, of in known.items():
        of.pop("flood_zone", None)
        shown = {name: value for name, value in found.get(key, {}).items() if name in of}
        assert {name: _plain(value) for name, value in shown.items()} == of
    assert len(records) == sum(map(len, truth.values()))


def _plain(value: Any) -> Any:
    value = value.to_decimal() if hasattr(value, "to_decimal") else value
    return list(value) if isinstance(value, tuple) else value


@settings(max_examples=60)
@given(
    st.sampled_from([ASSESSOR, TREASURER, TRANSACTIONS]),
    st.binary(max_size=60),
    st.integers(0, 3000),
    st.integers(0, 400),
)
def test_a_damaged_page_is_read_or_refused_and_never_a_fault(body: bytes, inserted: bytes, at: int, cut: int) -> None:
    try:
        damaged = body[:at] + inserted + body[at + cut :]
        page = eagleweb.read_account(damaged)
        page = page or (eagleweb.read_transactions(damaged, "R1") if body is TRANSACTIONS else None)
        eagleweb.read_results(damaged, ROOT)
        found = records_of(page, SOURCE, SEEN) if page else None
    except (ParseError, PageFailed):
        return
    assert found is None or found.records or found.rejects


def test_what_is_staged_makes_the_same_records() -> None:
    for record in read(ASSESSOR) + read(TREASURER, TRANSACTIONS):
        assert record in parse_staged(record.raw, SOURCE, SEEN).records

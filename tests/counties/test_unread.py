"""What a source shows and cannot be read stays in the record, with the reason: it is never absent in silence."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest

from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, Section, records_of
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.arcgis import parser as arcgis
from tests.counties.unread import shown_of

KENT = Source("us-mi-kent", "26081")
SEEN = Provenance("https://gis.example/query", datetime(2026, 1, 31, tzinfo=UTC), "test")
HEADER = ["Sale Date", "Price", "Instrument No."]


def of_row(**attributes: Any) -> PageRows:
    body = json.dumps({"features": [{"attributes": {"PIN": "7", **attributes}}]}).encode()
    return arcgis.parse_page(body, KENT, SEEN)


def of_page(*sections: Section) -> PageRows:
    return records_of(ParcelPage("7", 0, [Section("Parcel", [("Address", ["1 ELM ST"])]), *sections]), KENT, SEEN)


def of_kind(found: PageRows, kind: type[CountyRecord]) -> list[Any]:
    return [record for record in found.records if isinstance(record, kind)]


@pytest.mark.parametrize(
    ("shown", "named"),
    [("02/30/2020", "day"), ("13/45/2020", "form"), ("see deed", "form"), ("5/2019", "month"), (43560, "date")],
)
def test_a_sale_whose_date_cannot_be_read_keeps_what_is_shown_and_why(shown: Any, named: str) -> None:
    """`named`: what the reason names."""
    (sale,) = of_kind(of_row(SALE_DATE=shown, SALE_PRICE=5000), Sale)
    assert (sale.sale_date, sale.sale_price) == (None, 5000)
    assert shown_of(sale.unread) == {"sale_date": str(shown)}
    assert named in sale.unread["sale_date"]
    assert sale.labels["sale_date"] == "SALE_DATE"
    (sale,) = of_kind(of_page(Section("Sales", [], HEADER, [[str(shown), "$0", ""]])), Sale)
    assert sale.unread["sale_date"].startswith(f"{shown}: ")
    assert sale.sale_price == 0


def test_sales_whose_dates_cannot_be_read_are_told_apart_by_what_is_shown() -> None:
    rows = [["02/30/2020", "$5", ""], ["02/31/2020", "$5", ""], ["N/A", "$5", ""]]
    sales = of_kind(of_page(Section("Sales", [], HEADER, rows)), Sale)
    assert [sale.transfer for sale in sales] == ["undated-02-30-2020", "undated-02-31-2020", "undated"]


def test_a_date_without_a_day_is_a_sale_of_its_year() -> None:
    (sale,) = of_kind(of_row(SALE_DATE="1/2019", SALE_PRICE=5), Sale)
    assert (sale.sale_year, sale.transfer) == (2019, "undated-1-2019")


def test_a_sale_is_not_left_out_because_its_price_is_0() -> None:
    rows = [["5-Sep-17", "$0", ""], ["", "$0", "123"], ["04-MAY-12", "", ""], ["", "$0", ""]]
    sales = of_kind(of_page(Section("Sales", [], HEADER, rows)), Sale)
    assert [(sale.sale_date, sale.sale_price, sale.transfer) for sale in sales] == [
        (date(2017, 9, 5), 0, "2017-09-05"),
        (None, 0, "undated/123"),
        (date(2012, 5, 4), None, "2012-05-04"),
    ]


def test_another_column_is_not_asked_where_the_first_cannot_be_read() -> None:
    (sale,) = of_kind(of_row(SALE_DATE="02/30/2020", TRANSFERDATE="2001-01-01", SALE_PRICE=5), Sale)
    assert sale.sale_date is None


def test_an_amount_that_cannot_be_read_is_told_beside_those_that_can() -> None:
    (values,) = of_kind(of_row(TAXYEAR=2025, MARKET_VALUE="see note", LAND_VALUE=5), Assessment)
    assert (values.market_value, values.land_value) == (None, 5)
    assert shown_of(values.unread) == {"market_value": "see note"}


def test_an_amount_that_cannot_be_read_is_told_with_the_property_where_no_other_makes_a_record() -> None:
    found = of_row(TAXYEAR=2025, MARKET_VALUE="see note", ACRES="1 acre or so")
    assert of_kind(found, Assessment) == []
    unread = shown_of(of_kind(found, Property)[0].unread)
    assert (unread["market_value of 2025"], unread["acres"]) == ("see note", "1 acre or so")
    rows = [["2024", "$5"], ["2023", "Pending"], ["2022", "N/A"]]
    found = of_page(Section("Value History", [], ["Year", "Total"], rows))
    assert [each.tax_year for each in of_kind(found, Assessment)] == [2024]
    assert shown_of(of_kind(found, Property)[0].unread)["total_value of 2023"] == "Pending"


def test_a_value_of_0_gives_way_to_one_that_says_more() -> None:
    (values,) = of_kind(of_row(MARKET_VALUE=0, FMV=7000), Assessment)
    assert (values.market_value, values.labels["market_value"]) == (7000, "FMV")
    (values,) = of_kind(of_row(MARKET_VALUE=0, FMV=0), Assessment)
    assert values.market_value == 0
    (parcel,) = of_kind(of_row(ACRES=0, DEEDACRES=None, TOTALACRES="1.59 AC"), Property)
    assert parcel.acres == 1.59


def test_an_owner_is_never_a_number_a_notice_or_an_agent() -> None:
    (parcel,) = of_kind(of_row(OWNER1="DOE JOHN", OWNER2="C/O ROE EVA", MAILADDR="PO BOX 7"), Property)
    assert (parcel.owner_names, parcel.mailing_address) == (("DOE JOHN",), "C/O ROE EVA, PO BOX 7")
    assert parcel.labels["mailing_address"] == "OWNER2 + MAILADDR"
    for shown in ("49301", "LOGIN TO VIEW", "CONFIDENTIAL"):
        (parcel,) = of_kind(of_row(OWNER=shown), Property)
        assert (parcel.owner_names, shown_of(parcel.unread)["owner_names"]) == ((), shown)


def test_an_amount_or_a_day_of_a_bill_that_cannot_be_read_is_kept_with_its_reason() -> None:
    header = ["Tax Year", "Installment", "Due Date", "Total Billed", "Total Paid"]
    rows = [["2024", "1st", "02/30/2025", "$50.00", "see office"], ["2024", "2nd", "07/15/2025", "$50.00", "$0.00"]]
    pairs = [("Tax Year", ["2023"]), ("Total Billed", ["$90.00"]), ("Total Paid", ["by credit"])]
    found = of_page(Section("Taxes", pairs), Section("Tax Payments", [], header, rows))
    before, now = of_kind(found, TaxBill)
    assert (before.bill, before.billed, before.paid) == ("2023", 90, None)
    assert shown_of(before.unread) == {"paid": "by credit"}
    first, second = now.installments
    assert (first.due_date, first.billed, first.paid) == (None, 50, None)
    assert (second.due_date, second.paid) == (date(2025, 7, 15), 0)
    assert shown_of(now.unread) == {"installments.1.due_date": "02/30/2025", "installments.1.paid": "see office"}


def test_a_notice_in_place_of_an_address_is_none() -> None:
    found = of_row(OWNER="DOE JOHN", MAIL_ADDR="CONFIDENTIAL", SITE_ADDR="NOT AVAILABLE")
    (parcel,) = of_kind(found, Property)
    assert (parcel.mailing_address, parcel.situs_address) == (None, None)
    unread = shown_of(parcel.unread)
    assert (unread["mailing_address"], unread["situs_address"]) == ("CONFIDENTIAL", "NOT AVAILABLE")
    (parcel,) = of_kind(of_row(OWNER="DOE JOHN", MAIL_ADDR="CONFIDENTIAL WAY 7", SITE_ADDR="1 PRIVATE RD"), Property)
    assert (parcel.mailing_address, parcel.situs_address) == ("CONFIDENTIAL WAY 7", "1 PRIVATE RD")

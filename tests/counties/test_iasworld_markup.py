"""Datalets of more counties: their tables and labels as public readers name them, values made up."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from harvester.items import Provenance
from harvester.items.property import Assessment, Property, Sale
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.saved import read_saved

URL = "https://county.example/datalets/datalet.aspx?mode=profileall"
SEEN = Provenance(URL, datetime(2026, 1, 31, tzinfo=UTC), "test")


def pairs(name: str, *rows: tuple[str, str]) -> str:
    lines = (
        f'<tr><td class="DataletSideHeading">{a}</td><td class="DataletData">{b or "&nbsp;"}</td></tr>' for a, b in rows
    )
    return f'<table id="{name}">{"".join(lines)}</table>'


def grid(name: str, header: Iterable[str], *rows: Iterable[str]) -> str:
    head = "".join(f'<td class="DataletTopHeading">{label}</td>' for label in header)
    lines = ("".join(f'<td class="DataletData">{cell}</td>' for cell in row) for row in rows)
    return f'<table id="{name}"><tr>{head}</tr>{"".join(f"<tr>{line}</tr>" for line in lines)}</table>'


def found(*tables: str) -> PageRows:
    """The records of a page whose form is of 2026."""
    top = '<table><tr><td class="DataletHeaderTop">PARID: 7</td></tr></table><input name="hdTaxYear" value="2026">'
    body = f"<html><body>{top}{''.join(tables)}</body></html>"
    return read_saved("iasworld", body.encode(), Source("us-xx-made-up", "26001"), SEEN)


def of_kind(rows: PageRows, kind: type) -> list[Any]:
    return [record for record in rows.records if isinstance(record, kind)]


LOT = pairs("Parcel", ("Property Location", "1 ELM ST"))
OWNER = pairs("Owner", ("Owner", "DOE JOHN"))


@pytest.mark.parametrize(
    ("owner", "mailing"),
    [
        (
            [
                ("Name(s)", "DOE JOHN"),
                ("Name(s)", "ROE JANE"),
                ("Mailing Address", "12 OAK RD"),
                ("Care Of", ""),
                ("Mailing Address", ""),
                ("Mailing Address", "ABINGTON PA 19001"),
            ],
            "12 OAK RD, ABINGTON PA 19001",
        ),
        (
            [
                ("Owner", "DOE JOHN"),
                ("Owner 2", "ROE JANE"),
                ("Mailing Address", "12 OAK RD"),
                ("City, State, Zip", "KNOXVILLE, TN 37901"),
            ],
            "12 OAK RD, KNOXVILLE, TN 37901",
        ),
        (
            [
                ("Owner", "DOE JOHN"),
                ("", "ROE JANE"),
                ("Address", "PO BOX 45"),
                ("City", "ATLANTA"),
                ("State", "GA"),
                ("Zip Code", "30301"),
            ],
            "PO BOX 45, ATLANTA, GA 30301",
        ),
        (
            [
                ("Owner 1", "DOE JOHN"),
                ("Owner 2", "ROE JANE"),
                ("Address", "12 OAK RD"),
                ("", "APT 3"),
                ("City State Zip", "OXFORD OH 45056"),
            ],
            "12 OAK RD, APT 3, OXFORD OH 45056",
        ),
    ],
)
def test_what_stands_below_an_owners_address_is_its_city(owner: list[tuple[str, str]], mailing: str) -> None:
    (parcel,) = of_kind(
        found(LOT, pairs("Owner", *owner), grid("Values", ["Tax Year", "Total"], ["2025", "9,000"])), Property
    )
    assert (parcel.owner_names, parcel.mailing_address) == (("DOE JOHN", "ROE JANE"), mailing)


def test_a_city_in_a_table_of_owners_with_the_propertys_address_is_nobodys() -> None:
    rows = [("Owner", "DOE JOHN"), ("Property Address", "1 ELM ST"), ("City", "ADA"), ("Mailing Address", "PO BOX 45")]
    (parcel,) = of_kind(found(pairs("Owner", *rows)), Property)
    assert (parcel.situs_address, parcel.mailing_address) == ("1 ELM ST", "PO BOX 45")


def test_owners_above_an_address_with_a_zip_code_of_its_own_are_owners() -> None:
    rows = [("Owners", "DOE JOHN"), ("", "ROE JANE"), ("Address", "PO BOX 45"), ("City", "ATLANTA"), ("State", "GA")]
    (parcel,) = of_kind(found(LOT, pairs("Owner Mailing Address", *rows, ("Zip Code", "30301"))), Property)
    assert (parcel.owner_names, parcel.mailing_address) == (("DOE JOHN", "ROE JANE"), "PO BOX 45, ATLANTA, GA 30301")


def test_parts_of_a_value_in_rows_are_on_the_bases_above_them() -> None:
    rows = (["Land", "7,000", "20,000"], ["Building", "35,000", "100,000"], ["Total", "42,000", "120,000"])
    rows_found = found(LOT, OWNER, grid("Summary - Values", ["", "35% Values", "100% Values"], *rows))
    (value,) = of_kind(rows_found, Assessment)
    assert (value.market_value, value.market_land_value, value.market_improvement_value) == (120000, 20000, 100000)
    assert (value.assessed_value, value.assessed_land_value, value.assessed_improvement_value) == (42000, 7000, 35000)


@pytest.mark.parametrize(
    ("parts", "land", "improvements"),
    [
        ((["Land", "7,000", "20,000"], ["Land", "1,000", "3,000"], ["Building", "34,000", "97,000"]), None, 97000),
        ((["Land", "7,000", "20,000"], ["Building", "35,000", "60,000"], ["Improvements", "1", "2"]), 20000, None),
        ((["Land", "7,000", "20,000"], ["Building", "0", "0"], ["Improvements", "1", "2"]), 20000, 2),
        ((["Land", "7,000", "20,000"], ["Total", "7,000", "20,000"], ["Building", "1", "2"]), None, None),
    ],
)
def test_one_of_several_rows_of_a_part_is_not_its_value(
    parts: tuple[list[str], ...], land: int | None, improvements: int | None
) -> None:
    rows = (*parts, ["Total", "42,000", "120,000"])
    (value,) = of_kind(
        found(LOT, OWNER, grid("Summary - Values", ["", "35% Values", "100% Values"], *rows)), Assessment
    )
    assert (value.market_land_value, value.market_improvement_value) == (land, improvements)


@pytest.mark.parametrize(
    ("shown", "land", "improvements"),
    [
        ([("Land", "1,000"), ("Building", "35,000"), ("Improvements", "7,000")], 1000, None),
        ([("Land", "1,000"), ("Land", "9"), ("Building", "35,000")], None, 35000),
        ([("Land", "1,000"), ("Building", "35,000"), ("Improvements", "0")], 1000, 35000),
        ([("Land", "1,000"), ("Building", "35,000"), ("Improvements", "35,000")], 1000, 35000),
    ],
)
def test_of_two_amounts_of_one_meaning_in_a_section_neither_is_taken(
    shown: list[tuple[str, str]], land: int | None, improvements: int | None
) -> None:
    title, parts = "Market Value", [*shown, ("Total", "43,000")]
    beside = pairs(title, ("Tax Year", "2025"), *parts)
    above = grid(title, ["Tax Year", *(label for label, _ in parts)], ["2025", *(amount for _, amount in parts)])
    for section in (beside, above):
        (value,) = of_kind(found(LOT, OWNER, section), Assessment)
        assert (value.tax_year, value.market_value) == (2025, 43000)
        assert (value.market_land_value, value.market_improvement_value) == (land, improvements)
        withheld = {name for name in value.unread if name.startswith("market")}
        assert len(withheld) == (land, improvements).count(None)


def test_a_lone_line_of_values_without_a_year_is_that_of_the_page() -> None:
    of_now = grid(
        "Current Assessment", ["Appraised Value", "Assessed Value", "Restrict Code"], ["153,210", "9,000", ""]
    )
    several = grid(
        "Assessment History", ["Appraised Value", "Assessed Value", "Reason"], ["1", "2", "A"], ["3", "4", "B"]
    )
    (value,) = of_kind(found(LOT, OWNER, of_now, several), Assessment)
    assert (value.tax_year, value.appraised_value, value.assessed_value) == (2026, 153210, 9000)


def test_values_below_a_title_with_a_year_are_those_of_that_year() -> None:
    old, new = (
        pairs(f"{year} Values", ("Land", land), ("Building", "2,000"), ("Total", total))
        for year, land, total in (("2024", "1,000", "3,000"), ("2025", "4,000", "6,000"))
    )
    for sections in ((old, new), (new, old)):
        rows = found(LOT, OWNER, *sections)
        shown = {each.roll: (each.land_value, each.total_value) for each in of_kind(rows, Assessment)}
        assert shown == {"2024": (1000, 3000), "2025": (4000, 6000)}
        assert of_kind(rows, Property)[0].tax_year == 2025


def test_values_of_the_year_before_are_not_those_of_the_page() -> None:
    before = pairs("Prior Year Values", ("Land", "1,000"), ("Total", "3,000"))
    (now,) = of_kind(found(LOT, OWNER, before, pairs("Values", ("Total", "6,000"))), Assessment)
    assert (now.roll, now.total_value, now.land_value) == ("2026", 6000, None)


def test_of_two_amounts_of_one_meaning_in_two_sections_neither_is_taken() -> None:
    sections = (pairs("Values", ("Total", "6,000"), ("Land", "9")), pairs("Summary of Value", ("Total", "5,000")))
    (value,) = of_kind(found(LOT, OWNER, *sections), Assessment)
    assert (value.total_value, value.land_value) == (None, 9)
    assert value.unread["total_value"].startswith("6000 and 5000")


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (["", "35%", "100%"], (["Land", "7,000", "20,000"], ["Improvements", "35,000", "100,000"], ["CAUV", "0", "0"])),
        (["", "Assessed", "Market"], (["Land", "7,000", "20,000"], ["Building", "35,000", "100,000"])),
    ],
)
def test_bases_above_parts_are_told_by_their_names_alone(header: list[str], rows: tuple[list[str], ...]) -> None:
    (value,) = of_kind(found(LOT, OWNER, grid("Values", header, *rows, ["Total", "42,000", "120,000"])), Assessment)
    assert (value.market_value, value.market_land_value, value.market_improvement_value) == (120000, 20000, 100000)
    assert (value.assessed_value, value.assessed_land_value, value.assessed_improvement_value) == (42000, 7000, 35000)


def test_rows_that_are_a_basis_each_are_read_on_it() -> None:
    parts = ["Land", "Improvement", "Total"]
    market, assessed = ["20,000", "100,000", "120,000"], ["7,000", "35,000", "42,000"]
    of_page = grid("Values", ["", *parts], ["Appraised", *market], ["Assessed (35%)", *assessed])
    of_year = grid("Values", ["Year", "Type", *parts], ["2025", "100%", *market], ["2025", "Assessed Value", *assessed])
    for table, year in ((of_page, 2026), (of_year, 2025)):
        (value,) = of_kind(found(LOT, OWNER, table), Assessment)
        assert (value.tax_year, value.market_value, value.assessed_value) == (year, 120000, 42000)
        assert (value.market_land_value, value.assessed_improvement_value) == (20000, 35000)


def test_a_sum_below_years_is_no_assessment() -> None:
    header = ["Year", "Land", "Total"]
    table = grid("Values", header, ["2025", "1,000", "3,000"], ["2024", "1,000", "2,000"], ["Total", "2,000", "5,000"])
    assert [each.roll for each in of_kind(found(LOT, OWNER, table), Assessment)] == ["2025", "2024"]


def test_the_total_of_a_year_goes_before_the_classes_that_it_sums_up() -> None:
    header = ["Year", "Class", "Land", "Total"]
    classes = (["2025", "G1", "1,000", "3,000"], ["2025", "G4", "200", "200"], ["2024", "G1", "900", "900"])
    shown = of_kind(
        found(LOT, OWNER, grid("Values", header, *classes, ["2025", "Total", "1,200", "3,200"])), Assessment
    )
    assert [(each.roll, each.land_value, each.total_value) for each in shown] == [
        ("2024", 900, 900),
        ("2025", 1200, 3200),
    ]


def test_a_lone_line_with_a_sum_is_of_the_year_in_its_title() -> None:
    tables = (
        grid(f"{year} Appraised Value", ["Class", "Land", "Total"], ["R", "1,000", "3,000"]) for year in (2025, 2024)
    )
    rows = found(LOT, OWNER, *tables)
    assert [(each.roll, each.market_land_value) for each in of_kind(rows, Assessment)] == [
        ("2025", 1000),
        ("2024", 1000),
    ]
    assert of_kind(rows, Property)[0].tax_year == 2025


@pytest.mark.parametrize("title", ["Comparable Sales", "Sales in the Area", "Nearby Transfers"])
def test_sales_of_other_parcels_are_none_of_this_one(title: str) -> None:
    header = ["Parcel", "Sale Date", "Sale Price"]
    assert not of_kind(found(LOT, OWNER, grid(title, header, ["8", "05/15/2012", "310,000"])), Sale)


@pytest.mark.parametrize("note", ["No Sales", "-- No data to display --"])
def test_a_note_that_there_are_no_sales_is_no_sale(note: str) -> None:
    assert not of_kind(found(LOT, OWNER, grid("Sales", ["Sale Date", "Sale Price", "Buyer"], [note, "", ""])), Sale)


def test_the_address_of_owners_in_rows_is_that_of_the_first() -> None:
    header = ["Owner", "Percent", "Address", "City", "State", "Zip"]
    rows = (["DOE JOHN", "50", "12 OAK RD", "ATLANTA", "GA", "30301"], ["ROE JANE", "50", "9 ELM", "MACON", "GA", "3"])
    (parcel,) = of_kind(found(LOT, grid("Owners", header, *rows)), Property)
    assert parcel.owner_names == ("DOE JOHN", "ROE JANE")
    assert parcel.mailing_address == "12 OAK RD, ATLANTA, GA 30301"


def test_a_table_of_the_mailing_address_is_read() -> None:
    mail = grid(
        "Mailing", ["Name", "Mailing Address", "City, State, Zip"], ["DOE JOHN", "PO BOX 45", "DAYTON, OH 45402"]
    )
    (parcel,) = of_kind(found(LOT, grid("Owner", ["Name"], ["DOE JOHN"]), mail), Property)
    assert (parcel.owner_names, parcel.mailing_address) == (("DOE JOHN",), "PO BOX 45, DAYTON, OH 45402")


def test_book_and_page_of_a_sale_stand_in_one_column() -> None:
    header = ["Sale Date", "Sale Price", "Book and Page"]
    (sale,) = of_kind(found(LOT, OWNER, grid("Sales History", header, ["05/15/2012", "$1", "5838-02263"])), Sale)
    assert (sale.book, sale.page) == ("5838", "02263")


def test_what_a_cell_hides_is_no_part_of_what_it_says() -> None:
    hidden = 'DOE JOHN<span style="display: none">SEE FILE 9</span>'
    (parcel,) = of_kind(found(LOT, pairs("Owner", ("Owner", hidden))), Property)
    assert parcel.owner_names == ("DOE JOHN",)


def test_the_year_is_that_of_the_values_where_each_has_one_and_else_that_of_the_form() -> None:
    dated = grid("Values", ["Tax Year", "Land", "Building", "Total"], ["2025", "1,000", "2,000", "3,000"])
    (parcel,) = of_kind(found(LOT, OWNER, dated), Property)
    assert parcel.tax_year == 2025
    (parcel,) = of_kind(found(LOT, OWNER, dated, pairs("Current Value", ("Total Market Value", "$4,000"))), Property)
    assert parcel.tax_year == 2026


def test_old_and_new_owners_of_a_sale_are_its_parties() -> None:
    header = ["Sale Date", "Sale Price", "New Owner", "Old Owner", "Instr. No."]
    (sale,) = of_kind(
        found(LOT, OWNER, grid("Sales", header, ["05/15/2012", "310,000", "DOE JOHN", "ROE RICHARD", "11234567"])), Sale
    )
    assert (sale.sale_date, sale.grantee, sale.grantor) == (date(2012, 5, 15), "DOE JOHN", "ROE RICHARD")
    assert sale.instrument_number == "11234567"

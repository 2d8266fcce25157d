"""Pages of iasWorld: three layouts of datalets, forms, results, and what comes in place of them."""

from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.exceptions import PageFailed, ParseError, UsageError
from harvester.items import Provenance, Record
from harvester.items.property import Assessment, Installment, Property, Sale, TaxBill
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, Section, joined, parse_staged, records_of
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.iasworld.parser import IasWorldResults
from harvester.spiders.counties.iasworld.spider import IasworldSpider

PAGES = Path(__file__).parent / "pages"
SEEN = Provenance("https://county.example/PT/", datetime(2026, 1, 31, tzinfo=UTC), "iasworld")
OHIO = Source("us-oh-made-up", "39001")
ENTRIES = """
[us-oh-open]
hosts = ["a.example"]
[us-oh-open.property]
name = "Open County"
fips = "39001"
platform = "iasworld"
base_url = "https://a.example/PT/"
disclaimer = "accepted by A. Person on 2026-01-31"
[us-oh-closed]
hosts = ["b.example"]
[us-oh-closed.property]
name = "Closed County"
fips = "39003"
platform = "iasworld"
base_url = "https://b.example/"
[us-oh-shared.property]
name = "Shared County"
fips = "39005"
platform = "iasworld"
base_url = "https://c.example/"
disclaimer = "accepted by A. Person on 2026-01-31"
"""
URL = "https://county.example/PT/Datalets/Datalet.aspx?sIndex=0&idx=1"
SEARCH_URL = "https://county.example/PT/search/commonsearch.aspx?mode=parid"
FORM = (
    '<form id="other" action="x"><input name="q"></form><form name="frmMain" method="post"'
    ' action="./commonsearch.aspx?mode=parid"><input type="hidden" name="__VIEWSTATE" value="a+/="><input type="hidden"'
    ' name="hdAction" value=""><input type="hidden" name="PageNum" value="1"><input name="{field}"><select'
    ' name="selPageSize"><option>5</option><option selected>2</option></select><input type="submit" name="btSearch"'
    ' value="Search"><input type="submit" name="btClear" value="Clear">'
    '<input type="checkbox" name="a"><input type="radio" name="b" value="2" checked><textarea'
    ' name="c">x</textarea><input name="d" disabled>{inner}</form>'
)
ROW = (
    "<tr class='SearchResults' onclick=\"javascript:selectSearchRow('../Datalets/Datalet.aspx?sIndex=0&amp;idx={n}')\">"
    '<td>ROE</td><td><input type="hidden" value="025:{parcel}:{year}"><div>x</div></td></tr>'
)


def saved(name: str) -> PageRows:
    datalet = iasworld.read_datalet((PAGES / f"iasworld_{name}.html").read_bytes(), URL)
    return records_of(datalet, OHIO, SEEN)


def of_kind(found: PageRows, kind: type[Record]) -> list[Any]:
    return [record for record in found.records if isinstance(record, kind)]


def test_a_page_of_the_classic_layout_is_read_with_its_own_labels() -> None:
    """Owners and legal lines go on below a blank label; money stands in a grid, taxes in a line of each year."""
    found = saved("franklin")
    (parcel,) = of_kind(found, Property)
    assert parcel.owner_names == ("DOE JANE", "DOE JOHN A")
    assert parcel.mailing_address == "PO BOX 1, COLUMBUS OH 43215"
    assert parcel.labels["mailing_address"] == "Owner: Owner Mailing / + Owner: Contact Address"
    assert (parcel.situs_address, parcel.legal_description) == ("12 ELM ST", "ELM ADDITION LOT 7")
    assert (parcel.use_code, parcel.tax_year, parcel.gis_acres) == ("R - Residential", 2025, 0.18)
    assert parcel.others["2025 Tax Status: Land Use"] == "510 - ONE-FAMILY DWLG"
    assert parcel.others["2025 Auditor"][0]["column 1"] == "Base"
    (value,) = of_kind(found, Assessment)
    assert (value.roll, value.total_value, value.land_value) == ("2025", Decimal(250_000), Decimal(50_000))
    assert value.market_value is None  # the site does not say on what basis it is
    (sale,) = of_kind(found, Sale)
    assert (sale.sale_date, sale.sale_price, sale.deed_type) == (date(2020, 1, 1), Decimal(500_000), "WD")
    bills = {bill.bill: bill for bill in of_kind(found, TaxBill)}
    assert (bills["2023"].billed, bills["2023"].paid) == (Decimal("4000.00"), Decimal("2000.00"))
    assert bills["2024"].labels["billed"] == "Annual Taxes: Net Annual Tax"
    assert bills["2024"].key == "us-oh-made-up 2024 010-000123-00"


def test_a_page_of_the_split_layout_has_a_bill_of_two_halves_and_its_pdf() -> None:
    found = saved("clermont")
    (parcel,) = of_kind(found, Property)
    assert parcel.owner_names == ("ROE RICHARD", "ROE MARY")
    assert parcel.mailing_address == "PO BOX 9, BATAVIA OH 45103"
    assert (parcel.situs_address, parcel.acres) == ("55 MAIN ST", 1.5)
    assert parcel.others["Homestead Credits: Homestead"] == "NO"
    (bill,) = of_kind(found, TaxBill)
    assert (bill.billed, bill.due, bill.delinquent) == (Decimal(2010), Decimal(1010), Decimal(10))
    assert bill.installments == (
        Installment(number=1, billed=Decimal(1000), due=Decimal(0)),
        Installment(number=2, billed=Decimal(1000), due=Decimal(1000)),
    )
    assert bill.pdf_url == "https://county.example/PT/Reports/TaxBill.pdf?pin=413105B012."
    assert str(bill.to_document()["installments"][0]["billed"]) == "1000.00"  # a decimal, as outside of it


def test_a_page_of_the_detailed_layout_names_the_basis_of_its_values_and_payments_are_never_negative() -> None:
    found = saved("butler")
    (parcel,) = of_kind(found, Property)
    assert parcel.parcel_id == "L9NE4C 20 2       0310"
    assert (parcel.owner_names, parcel.tax_year) == (("MÜLLER HANS",), 2024)
    (value,) = of_kind(found, Assessment)
    assert (value.market_value, value.assessed_value) == (Decimal(200_000), Decimal(70_000))
    assert (value.assessed_land_value, value.labels["assessed_land_value"]) == (14_000, "Current Value: Land (35%)")
    assert [str(sale.sale_date) for sale in of_kind(found, Sale)] == ["2017-09-05", "1999-03-01"]
    (bill,) = of_kind(found, TaxBill)
    assert (bill.billed, bill.paid, bill.tax_year) == (Decimal("2401.00"), Decimal("1200.50"), 2024)


@pytest.mark.parametrize("name", ["franklin", "clermont", "butler"])
def test_what_is_staged_makes_the_same_records_again(name: str) -> None:
    found = saved(name)
    for record in found.records:
        assert record in parse_staged(record.raw, OHIO, SEEN).records
    with pytest.raises(ParseError, match="staged"):
        parse_staged(b"[]", OHIO, SEEN)


def test_the_datalets_of_the_side_menu_are_found_but_the_one_that_is_shown() -> None:
    tabs = iasworld.read_first((PAGES / "iasworld_franklin.html").read_bytes(), URL).tabs
    assert [tab.mode for tab in tabs] == ["sales_all", "tax_all_ank"]
    assert tabs[0].url == "https://county.example/PT/Datalets/Datalet.aspx?mode=sales_all&sIndex=0&idx=1&LMparent=20"


def test_what_several_datalets_say_is_one_parcel() -> None:
    """Sections that each of them shows count once, and a year that two speak of is one assessment."""
    pairs = [("Address", ["1 ELM"])]
    first = ParcelPage("7", 2025, [Section("Parcel", pairs), Section("Appraised Value", [("Total", ["$10"])])])
    grid = Section("Assessed Value", header=["Tax Year", "Total"], rows=[["2025", "4"], ["2024", "3"]])
    whole = joined(first, [ParcelPage("7", 2025, [Section("Parcel", pairs), grid], "https://x.example/b.pdf")])
    assert [section.title for section in whole.sections] == ["Parcel", "Appraised Value", "Assessed Value"]
    found = records_of(whole, OHIO, SEEN)
    values = {value.roll: (value.market_value, value.assessed_value) for value in of_kind(found, Assessment)}
    assert values == {"2025": (10, 4), "2024": (None, 3)}


def test_sales_of_one_day_are_told_apart_and_a_line_that_is_no_sale_stays_with_the_property() -> None:
    header = ["Date", "Price", "Instrument No."]
    lines = [["01-JAN-2020", "$5", ""], ["01-JAN-2020", "$7", ""], ["01-JAN-2020", "$7", ""], ["", "$0", ""]]
    recent = Section("Most Recent Transfer", [("Transfer Date", ["JAN-02-2020"]), ("Transfer Price", ["$9"])])
    deed = Section("Transfers", [], header, [["02-JAN-2020", "$9", "77"]])
    sections = [Section("Parcel", [("Address", ["1 ELM"])]), Section("Sales", [], header, lines), recent, deed]
    found = records_of(ParcelPage("7", 0, sections), OHIO, SEEN)
    sales = {sale.transfer: sale.sale_price for sale in of_kind(found, Sale)}
    assert sales == {"2020-01-01": 5, "2020-01-01#2": 7, "2020-01-02/77": 9}
    assert of_kind(found, Property)[0].others["Sales"][3] == {"Price": "$0"}


def test_payments_of_a_year_add_up_and_other_lines_of_it_are_not_mistaken_for_the_bill() -> None:
    header = ["Tax Year", "Installment", "Due Date", "Billed", "Paid"]
    halves = Section("Tax Bill", [], header, [["2024", "1st", "02/10/2025", "5", "5"], ["2024", "2", "", "6", ""]])
    payments = Section("Tax Payments", [], ["Tax Year", "Payment"], [["2024", "-2.50"], ["2024", "-2.50"]])
    fees = Section("Tax Detail", [], ["Tax Year", "Balance"], [["2024", "1"], ["2024", "2"]])
    parcel = Section("Parcel", [("Address", ["1 ELM"])])
    found = records_of(ParcelPage("7", 2025, [parcel, halves, payments, fees]), OHIO, SEEN)
    (bill,) = of_kind(found, TaxBill)
    assert (bill.billed, bill.paid, bill.due) == (None, Decimal("5.00"), None)
    first, second = bill.installments
    assert (first.number, first.due_date, first.paid) == (1, date(2025, 2, 10), 5)
    assert (second.number, second.due_date, second.billed, second.paid) == (2, None, 6, None)
    assert of_kind(found, Property)[0].others["Tax Detail"][1] == {"Tax Year": "2024", "Balance": "2"}
    estimate = Section("Estimated Taxes", [("Tax Year", ["2025"]), ("Total Tax", ["9"])])
    assert not of_kind(records_of(ParcelPage("7", 0, [parcel, estimate]), OHIO, SEEN), TaxBill)


def test_a_parcel_that_nothing_describes_is_a_changed_layout_with_the_labels_there_are() -> None:
    for sections, label in (([Section("Grundstück", [("Lage", ["Elm 1"])])], "'Grundstück: Lage'"), ([], "")):
        with pytest.raises(ParseError) as refused:
            records_of(ParcelPage("7", 0, sections), OHIO, SEEN)
        for named in (label, contract.CALLED[contract.OWNER], contract.CALLED[contract.SITUS]):
            assert named in str(refused.value)
    with pytest.raises(ParseError, match="no banner PARID"):
        iasworld.read_datalet(b"<table id='Parcel'><tr><td class='DataletSideHeading'>Owner</td></tr></table>", URL)
    hidden = iasworld.read_datalet(b'<p>x</p><input type="hidden" name="hdPin" value=" 7  A ">', URL)
    assert hidden.parcel_id == "7  A"


def test_an_address_of_somebody_else_is_not_taken_for_that_of_the_parcel() -> None:
    sections = [
        Section("Agent", [("Name", ["LAW LLP"]), ("Address", ["9 FAR RD"])]),
        Section("Owner", [("Name", ["ROE"])]),
    ]
    (parcel,) = of_kind(records_of(ParcelPage("7", 0, sections), OHIO, SEEN), Property)
    assert (parcel.owner_names, parcel.situs_address) == (("ROE",), None)
    assert parcel.others == {"Agent: Name": "LAW LLP", "Agent: Address": "9 FAR RD"}


def test_a_form_goes_back_with_every_field_that_it_holds_and_one_button() -> None:
    page = FORM.format(field="inpParid", inner="").encode()
    form, names = iasworld.read_search(page, SEARCH_URL, ["parcel"])
    assert form.action == "https://county.example/PT/search/commonsearch.aspx?mode=parid"
    assert names == ["inpParid"]
    posted = dict(parse_qsl(iasworld.search_body(form, {"inpParid": "A01  7"}), keep_blank_values=True))
    assert posted == {
        "__VIEWSTATE": "a+/=",
        "PageNum": "1",
        "selPageSize": "2",
        "b": "2",
        "c": "x",
        "inpParid": "A01  7",
        "btSearch": "Search",
        "hdAction": "Search",
    }
    renamed = FORM.format(field="inpOwner1", inner="").encode()
    assert iasworld.read_search(renamed, SEARCH_URL, ["owner"])[1] == ["inpOwner1"]
    with pytest.raises(ParseError, match="inpParid"):
        iasworld.read_search(renamed, SEARCH_URL, ["parcel"])
    with pytest.raises(ParseError, match="page"):
        iasworld.read_search(b"", SEARCH_URL, ["parcel"])


def test_results_are_rows_with_pages_or_lead_to_the_only_one() -> None:
    rows = "".join(ROW.format(n=n, parcel=f"0{n}  A", year=2025) for n in (1, 2))
    table = f'<table id="searchResults"><tr><th>Owner</th><th>Parcel</th></tr>{rows}</table>'
    body = FORM.format(field="inpParid", inner=table)
    found = iasworld.read_answer(body.encode(), SEARCH_URL)
    assert isinstance(found, IasWorldResults)
    assert [(row.jurisdiction, row.parcel_id, row.tax_year) for row in found.rows] == [
        ("025", "01  A", 2025),
        ("025", "02  A", 2025),
    ]
    assert found.rows[1].url == "https://county.example/PT/Datalets/Datalet.aspx?sIndex=0&idx=2"
    assert found.goes_on  # the page is full
    assert found.form
    assert dict(parse_qsl(iasworld.search_body(found.form, {"inpParid": "0"}, 2)))["PageNum"] == "2"
    for shown, goes_on in (("Displaying 1 - 2 of 2", False), ("Displaying 1 - 2 of 1,200", True)):
        counted = iasworld.read_answer(f"{body}<p>{shown}</p>".encode(), SEARCH_URL)
        assert isinstance(counted, IasWorldResults)
        assert counted.goes_on == goes_on
    moved = b"<html><h2>Object moved to <a href='../Datalets/Datalet.aspx?sIndex=0&amp;idx=1'>here</a></h2></html>"
    assert iasworld.read_answer(moved, SEARCH_URL) == URL
    only = iasworld.read_answer((PAGES / "iasworld_butler.html").read_bytes(), URL)
    assert isinstance(only, iasworld.First)
    for changed in (b"<html><p>Hello</p></html>", b"<table id='searchResults'></table>"):
        with pytest.raises(ParseError, match="searchResults"):
            iasworld.read_answer(changed, SEARCH_URL)
    no_token = table.replace("025:", "").replace(":2025", "").encode()
    with pytest.raises(ParseError, match="JUR:PARID:YEAR"):
        iasworld.read_answer(no_token, SEARCH_URL)


def test_maintenance_counts_when_it_can_be_seen_and_a_disclaimer_is_no_datalet() -> None:
    page = (PAGES / "iasworld_butler.html").read_text()
    shown = page.replace('style="display: none"', "").encode()
    with pytest.raises(PageFailed) as maintenance:
        iasworld.read_datalet(shown, URL)
    assert maintenance.value.outcome == "maintenance"
    assert "currently unavailable" in str(maintenance.value)
    with pytest.raises(PageFailed) as expired:
        iasworld.read_datalet(b'<form><input type="submit" name="btAgree" value="Agree"></form>', URL)
    assert expired.value.outcome == "session_expired"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"all": "yes"}, "-a all=yes"),
        ({"parcels": "1", "owner": "ROE"}, "parcels or owner"),
        ({"owner": "--"}, "owner: '--'"),
        ({"site": "us-oh-closed", "parcels": "1"}, "https://b.example/search/Disclaimer"),
        ({"site": "us-oh-shared", "parcels": "1"}, 'hosts = ["c.example"]'),
    ],
)
def test_what_cannot_be_asked_of_a_site_is_refused(
    given: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "oh.toml").write_text(ENTRIES)
    monkeypatch.setenv("HARVESTER_SITES_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        IasworldSpider.parse_arguments({"site": "us-oh-open", **given})
    assert said in str(refused.value)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]), min_size=1, max_size=20)
WORDS = st.lists(TEXT, min_size=1, max_size=3).map(" ".join)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Parcel", "Owner", "Sales", "Current Value", "Taxes Due", "Land", "Zoo"]),
            st.lists(st.tuples(st.one_of(WORDS, st.sampled_from(["Owner 1", "Address", "Total", "Date"])), WORDS)),
        ),
        max_size=4,
    )
)
def test_whatever_a_datalet_says_is_in_a_record_or_is_a_changed_layout(
    sections: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    tables = "".join(
        f'<table id="{title}">'
        + "".join(
            f'<tr><td class="DataletSideHeading">{escape(label)}</td><td class="DataletData">{escape(value)}</td></tr>'
            for label, value in rows
        )
        + "</table>"
        for title, rows in sections
    )
    page = f'<html><td class="DataletHeaderTop">PARID: 0 7</td>{tables}<p></p></html>'.encode()
    try:
        datalet = iasworld.read_datalet(page, URL)
        found = records_of(datalet, OHIO, SEEN)
    except ParseError:
        return
    said = str([record.to_document() for record in found.records])
    for section in datalet.sections:
        for label, lines in section.pairs:
            assert not lines or f"{section.title}: {label}" in said or repr(f"{section.title}: {label}")[1:-1] in said
    for record in found.records:
        assert record in parse_staged(record.raw, OHIO, SEEN).records


@settings(max_examples=100)
@given(st.binary(max_size=400), st.sampled_from([b"", b"<td class=DataletHeaderTop>PARID: 1</td><table id=x>"]))
def test_bytes_of_any_kind_are_a_page_or_a_failure_that_has_an_outcome(body: bytes, before: bytes) -> None:
    for read in (iasworld.read_datalet, iasworld.read_answer):
        with suppress(ParseError, PageFailed):
            read(before + body, URL)

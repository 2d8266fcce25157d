"""Reports of Beacon and qPublic in the markup of counties that show owners, values and taxes each in their own way."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import records_of
from harvester.spiders.counties.beacon import parser as beacon

URL = "https://qpublic.schneidercorp.com/Application.aspx?AppID=1&LayerID=2&PageTypeID=4&PageID=3&KeyValue=110020030000"
SOURCE = Source("us-hi-made-up", "15000")
SEEN = Provenance(URL, datetime(2026, 1, 31, tzinfo=UTC), "beacon")


def module(number: int, title: str, inner: str) -> str:
    named = f"ctlBodyPane_ctl{number:02}"
    return (
        f'<section id="{named}_mSection" class="avoid-page-break"><header id="{named}_divHeader" class="module-header">'
        f'<a href="#" id="{named}_btnHeaderToggle" class="toggle-collapse"><span id="{named}_btnToggleVis"'
        f' class="toggle-collapse-icon icon"></span>\n<div id="{named}_lblName" class="title" role="heading">{title}'
        f'</div>\n</a></header><div class="module-content">\n{inner}\n</div></section>\n'
    )


def summary(*rows: tuple[str, str]) -> str:
    lines = "".join(
        f'<tr><th scope="row"><strong>{label}</strong></th><td><div id="ctlBodyPane_ctl00_ctl01_dynamicSummaryData_'
        f'rptrDynamicColumns_ctl{at:02}_pnlSingleValue"><span>{said}</span></div></td></tr>'
        for at, (label, said) in enumerate(rows)
    )
    return (
        '<div class="block-row"><div class="two-column-blocks">'
        f'<table class="tabular-data-two-column" role="presentation"><tbody>{lines}</tbody></table></div></div>'
    )


def table(header: list[str], *rows: list[str]) -> str:
    head = "".join(f'<th data-hide="footable-small" scope="col">{label}</th>' for label in header)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{said}</td>" for said in row[1:]) + "</tr>" for row in rows
    )
    return (
        f'<table class="tabular-data footable"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        '<caption class="sr-only">Table</caption></table>'
    )


PARCEL = (("Parcel Number", "110020030000"), ("Location Address", "12 OHIA ST <br> WAIMEA HI 96799 "))
ALL_OWNERS = (
    '<span id="ctlBodyPane_ctl01_ctl01_lblOtherNames"><strong>Owner Names</strong><br>'
    "MUSTER,ROLF K TR &nbsp; &nbsp;Fee Owner, Tenants in Common<br>SPECIMEN,IDA    Fee Owner<br>"
    "DOE,MAX    Lessee</span>"
)


def report(*modules: tuple[str, str], parcel: tuple[tuple[str, str], ...] = PARCEL) -> bytes:
    shown = [("Parcel Information", summary(*parcel)), *modules]
    inner = "".join(module(at, title, inner) for at, (title, inner) in enumerate(shown))
    head = "<head><title>\nqPublic - Made Up County, HI - Report: 110020030000\n</title></head>"
    return f'<html>{head}<body id="appBody"><main id="maincontent">{inner}</main></body></html>'.encode()


def read(body: bytes) -> list[CountyRecord]:
    page = beacon.read_report(body, "110020030000", URL)
    assert page
    found = records_of(page, SOURCE, SEEN)
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], body: bytes) -> list[Any]:
    return [record for record in read(body) if isinstance(record, kind)]


def parcel(body: bytes) -> Property:
    (found,) = of_kind(Property, body)
    assert isinstance(found, Property)
    return found


# Owners ---------------------------------------------------------------------------------------------------------


def test_all_owners_of_one_element_are_read_without_the_kinds_of_their_ownership() -> None:
    found = parcel(report(("Owner Information", f'<div class="block-row">{ALL_OWNERS}</div>')))
    assert found.owner_names == ("MUSTER,ROLF K TR", "SPECIMEN,IDA", "DOE,MAX")


def test_a_text_behind_a_name_that_is_no_kind_of_owner_stays_with_the_name() -> None:
    master = ALL_OWNERS.replace("Fee Owner, Tenants in Common", "CONDO MASTER")
    assert parcel(report(("Owner Information", master))).owner_names[0] == "MUSTER,ROLF K TR CONDO MASTER"


def test_who_gets_the_mail_is_no_owner_and_its_address_is_the_mailing_address() -> None:
    mail = (
        '<div id="ctlBodyPane_ctl01_ctl01_divMailingAddress" class="two-column-blocks"><strong>Mailing Address</strong>'
        '<br><a id="ctlBodyPane_ctl01_ctl01_lnkOwnerName1_lnkSearch" title="Click to search" href="#">MUSTER,ROLF K TR'
        '</a><span id="ctlBodyPane_ctl01_ctl01_lblOwnerName2"></span><span id="ctlBodyPane_ctl01_ctl01_lblAddress">'
        "<br>ROLF MUSTER ETAL<br>PO BOX 7<br>HILO HI 96799 0007</span></div>"
    )
    found = parcel(report(("Owner Information", f'<div class="block-row">{ALL_OWNERS}{mail}</div>')))
    assert found.owner_names == ("MUSTER,ROLF K TR", "SPECIMEN,IDA", "DOE,MAX")
    assert found.mailing_address == "ROLF MUSTER ETAL, PO BOX 7, HILO HI 96799 0007"
    assert found.others["Owner Information: Mailing Address (name)"] == "MUSTER,ROLF K TR"


@pytest.mark.parametrize("header", ["Owner Name", "Name"])
def test_owners_of_a_table_are_read_where_no_other_element_names_them(header: str) -> None:
    owners = table(
        [header, "Owner Type", "Owner Address"],
        ["MUSTER,ROLF ", "Fee Owner", "1 KOA RD, HILO HI 96799"],
        ["SPECIMEN,IDA", "Fee Owner", " "],
    )
    found = parcel(report(("Owner Information", f'<div style="display: none;">{owners}</div>')))
    assert (found.owner_names, found.mailing_address) == (("MUSTER,ROLF", "SPECIMEN,IDA"), "1 KOA RD, HILO HI 96799")


@pytest.mark.parametrize("title", ["Owner", "Owners", "Ownership", "Current Owner Information"])
def test_plain_lines_below_the_title_of_owners_are_names_above_an_address(title: str) -> None:
    lines = "<span>MUSTER ROLF</span><br>\n<span>SPECIMEN IDA</span><br>\n<span>12 OAK ST</span><br>"
    lines += "<span>ADA, GA 30799</span><br>Homestead: Yes<br><a href='#'>Show all owners</a>"
    found = parcel(report((title, f'<div class="block-row"><div class="four-column-blocks">{lines}</div></div>')))
    assert (found.owner_names, found.mailing_address) == (("MUSTER ROLF", "SPECIMEN IDA"), "12 OAK ST, ADA, GA 30799")


@pytest.mark.parametrize(
    "notice", ["This Owners information is password protected.", "Owner information is not available online"]
)
@pytest.mark.parametrize("tag", ["span", 'span id="ctlBodyPane_ctl01_ctl01_lblSuppressed"'])
def test_a_notice_in_place_of_owners_is_the_reason_why_there_are_none(notice: str, tag: str) -> None:
    found = parcel(report(("Owners", f"<div><{tag}>{notice}</span></div>")))
    assert found.owner_names == ()
    assert notice in found.unread["owner_names"]


def test_owners_that_ids_call_primary_and_other_ones_are_read_with_the_address_of_the_first() -> None:
    def owner(kind: str, at: int, name: str, address: str) -> str:
        named = f"ctlBodyPane_ctl03_ctl01_lst{kind}Owner_ctl{at:02}_spr{kind}Owner"
        return (
            f'<div><span id="{named}Label_lblSuppressed">{name}</span>'
            f'<span id="{named}Address_lblSuppressed"><br>{address}</span></div>'
        )

    inner = owner("Primary", 0, "MUSTER ROLF", "12 OAK ST<br>ADA FL 32799")
    inner += owner("NonPrimary", 0, "SPECIMEN IDA", "PO BOX 9<br>ADA FL 32799")
    found = parcel(report(("Owner Information", f"<strong>Primary Owner</strong><br>{inner}")))
    assert found.owner_names == ("MUSTER ROLF", "SPECIMEN IDA")
    assert found.mailing_address == "12 OAK ST, ADA FL 32799"


def test_a_deed_holder_owns_and_an_address_for_mail_goes_before_the_owners_own() -> None:
    def holder(heading: str, named: str, *lines: str) -> str:
        ids = (f"lbl{named}_lnkSearch", "lnkAddress1", "lblAddress3")
        inner = "<br>".join(
            f'<span id="ctlBodyPane_ctl01_ctl01_lstX_ctl01_{each}">{line}</span>'
            for each, line in zip(ids, lines, strict=False)
        )
        return f'<div class="three-column-blocks"><strong>{heading}</strong><br>{inner}</div>'

    inner = holder("Deed Holder", "DeedName", "SPECIMEN VERA", "219 OAK ST", "ADA IA 52099")
    inner += holder("Contract Holder", "DeedName", "DOE MAX")
    inner += holder("Mailing Address", "OwnerName", "SPECIMEN VERA", "PO BOX 9", "ADA IA 52099")
    found = parcel(report(("Owners - Auditor's Office", inner)))
    assert (found.owner_names, found.mailing_address) == (("SPECIMEN VERA",), "PO BOX 9, ADA IA 52099")
    without = inner.replace("219 OAK ST", "").replace("<strong>Mailing Address", "<strong>Tax Bill To")
    assert parcel(report(("Owners", without))).mailing_address == "ADA IA 52099"


def test_names_that_other_ids_tell_are_a_changed_layout() -> None:
    with pytest.raises(ParseError, match="module Owners"):
        read(report(("Owners", '<span id="ctlBodyPane_ctl01_ctl01_lblWho">MUSTER ROLF</span>')))


def test_a_note_beside_a_value_is_no_part_of_it() -> None:
    said = 'RESIDENTIAL <span class="important-note">(Note: not for zoning (see the map).)</span>'
    found = parcel(report(("Owner", ALL_OWNERS), parcel=(*PARCEL, ("Tax Classification", said))))
    assert found.use_code == "RESIDENTIAL"


# Values ---------------------------------------------------------------------------------------------------------

COLUMNS = [
    *("Year", "Property<br> Class", "Market <br>Land<br> Value", "Assessed<br> Land<br> Value"),
    *("Assessed<br> Building<br> Value", "Total <br>Assessed <br>Value", "Total <br>Net Taxable<br> Value"),
]


def test_a_footnote_below_a_value_is_no_part_of_it() -> None:
    note = "*The Description above is not to be used on legal documents."
    body = report(("Owner", ALL_OWNERS), parcel=(*PARCEL, ("Brief Tax Description*", "LOT 7"), ("", note)))
    assert parcel(body).legal_description == "LOT 7"


def test_the_address_below_an_owner_behind_a_taxpayer_is_the_owners() -> None:
    owners = (
        "<div><strong>Primary Taxpayer</strong><br><span>ROE BANK</span></div><div><strong>Fee Owner</strong><br>"
        '<span id="a_sprFeeOwnerName1_lblSearch">DOE JANE</span><br><span id="a_lblAddress1">22 LAKE RD</span><br>'
        '<span id="a_lblCityStZip">BRAINERD MN 56401</span></div>'
    )
    found = parcel(report(("Owner", owners)))
    assert (found.owner_names, found.mailing_address) == (("DOE JANE",), "22 LAKE RD, BRAINERD MN 56401")


def test_dwellings_are_what_is_improved_where_there_are_no_other_buildings() -> None:
    def worth(building: str, dwelling: str) -> Any:
        amounts = ["$40,000", building, dwelling, "$240,000"]
        names = ["Assessed Land Value", "Assessed Building Value", "Assessed Dwelling Value", "Gross Assessed Value"]
        rows = ([name, amount] for name, amount in zip(names, amounts, strict=True))
        (value,) = of_kind(Assessment, report(("Owner", ALL_OWNERS), ("Valuation", table(["", "2025"], *rows))))
        return value

    assert worth("$0", "$200,000").assessed_improvement_value == 200000
    assert worth("$200,000", "$0").assessed_improvement_value == 200000
    rows = [["Dwelling Value", "$20,000"], ["Ag Building Value", "$5,000"], ["Total Assessed Value", "$26,000"]]
    (value,) = of_kind(Assessment, report(("Owner", ALL_OWNERS), ("Valuation", table(["", "2025"], *rows))))
    assert (value.assessed_value, value.improvement_value) == (26000, None)
    both = worth("$50,000", "$150,000")
    assert both.assessed_improvement_value is None
    assert both.unread["assessed_improvement_value"].startswith("50000 and 150000")


def values_of(*rows: list[str]) -> bytes:
    history = f'<div style="display:none">{table(COLUMNS, *rows)}</div>'
    return report(("Owner Information", ALL_OWNERS), ("Assessment Information", table(COLUMNS, rows[0]) + history))


def test_years_downwards_are_assessments_also_where_a_hidden_table_has_the_newest_again() -> None:
    body = values_of(
        ["2026", "RESIDENTIAL", "$400", "$300", "$50", "$350", "$310"],
        ["2025", "RESIDENTIAL", "$390", "$290", "$50", "$340", "$0"],
    )
    now, before = of_kind(Assessment, body)
    assert (now.roll, now.market_land_value, now.assessed_land_value) == ("2026", Decimal(400), Decimal(300))
    assert (now.assessed_improvement_value, now.assessed_value, now.taxable_value) == (50, 350, 310)
    assert (before.roll, before.assessed_value, before.taxable_value, before.unread) == ("2025", 340, 0, {})
    assert parcel(body).tax_year == 2026


def test_amounts_of_a_year_that_rows_contradict_are_withheld_with_both() -> None:
    body = values_of(
        ["2025", "RESIDENTIAL", "$400", "$300", "$50", "$350", "$310"],
        ["2025", "COMMERCIAL", "$400", "$100", "$0", "$100", "$100"],
        ["2024", "RESIDENTIAL", "$400", "$300", "$50", "$350", "$310"],
    )
    now, before = of_kind(Assessment, body)
    assert (now.assessed_value, now.taxable_value, now.market_land_value) == (None, None, 400)
    assert now.unread["assessed_value"].startswith("350 and 100: ")
    assert before.assessed_value == 350


def test_a_year_without_amounts_is_not_the_year_of_the_parcel() -> None:
    body = values_of(["2026", "RESIDENTIAL", *["N/A"] * 5], ["2025", "RESIDENTIAL", "$4", "$3", "$1", "$4", "$4"])
    assert parcel(body).tax_year == 2025
    assert [each.roll for each in of_kind(Assessment, body)] == ["2025"]


def test_values_of_a_building_are_no_values_of_the_parcel() -> None:
    building = summary(("Building Number", "1"), ("Year Built", "1927"), ("Building Value", "$503,000"))
    body = report(("Owner Information", ALL_OWNERS), ("Improvement Information", building))
    assert of_kind(Assessment, body) == []
    assert parcel(body).year_built == 1927
    assert parcel(body).others["Improvement Information: Building Value"] == "$503,000"


def test_years_above_stand_behind_a_column_of_signs_as_well() -> None:
    rows = [
        ("", "Land Value", "$10", "$9"),
        ("+", "Building Value", "$20", "$19"),
        ("=", "Assessed Value", "$30", "$28"),
    ]
    lines = "".join("<tr>" + "".join(f"<td>{said}</td>" for said in row) + "</tr>" for row in rows)
    head = "<thead><tr><td></td><td></td><th>2025</th><th>2024 Certified</th></tr></thead>"
    body = report(("Owner", ALL_OWNERS), ("Valuation", f"<table>{head}<tbody>{lines}</tbody></table>"))
    now, before = of_kind(Assessment, body)
    assert (now.roll, now.land_value, now.improvement_value, now.assessed_value) == ("2025", 10, 20, 30)
    assert (before.roll, before.assessed_value) == ("2024", 28)


@pytest.mark.parametrize(
    ("label", "said", "acres", "is_unread"),
    [
        ("Land Area", "8.921 Acres", 8.921, False),
        ("Land Area", "10816 Square Feet", None, False),
        ("Land Area", "10816", None, False),
        ("Land Area (acres)", "3.4860", 3.486, False),
        ("Lot Size", "1.5 AC", 1.5, False),
        ("Gross Acres", "2 RODS", None, True),
    ],
)
def test_a_size_is_in_acres_only_if_its_label_or_its_unit_says_so(
    label: str, said: str, acres: float | None, is_unread: bool
) -> None:
    found = parcel(report(("Owner", ALL_OWNERS), parcel=(*PARCEL, (label, said))))
    assert (found.acres, "acres" in found.unread) == (acres, is_unread)


# Sales and taxes ------------------------------------------------------------------------------------------------


def test_sales_without_a_price_and_several_of_one_day_are_sales_each() -> None:
    sales = table(
        [
            "Sale Date",
            "Sale Amount",
            "Instrument #",
            "Instrument Type",
            "Date of Recording",
            "Document Type",
            "Book/Page",
        ],
        ["07/08/2025", "$295,000", "", "FEE CONVEYANCE", "07/11/2025", "Deed", ""],
        ["02/25/2025", "", "A1", "FEE CONVEYANCE", "04/25/2025", "", ""],
        ["02/25/2025", "$0", "A2", "LEASE", "04/26/2025", "", "41/7"],
    )
    last, first, second = of_kind(Sale, report(("Owner", ALL_OWNERS), ("Sales Information", sales)))
    assert (last.sale_date, last.sale_price, last.deed_type) == (date(2025, 7, 8), Decimal(295000), "FEE CONVEYANCE")
    assert (last.recording_date, last.instrument_number, last.book) == (date(2025, 7, 11), None, None)
    assert [(each.sale_price, each.instrument_number) for each in (first, second)] == [(None, "A1"), (0, "A2")]
    assert (second.deed_type, second.book, second.page) == ("LEASE", "41", "7")


def test_bills_are_read_from_a_table_whose_last_column_has_no_label_and_whose_rows_open() -> None:
    head = "".join(
        f'<th scope="col">{each}</th>' for each in ("Year", "Tax", "Payments <br>and Credits", "Amount <br> Due")
    )
    details = "<table><tr><th>Tax Period</th><th>Tax</th></tr><tr><td>2025-1</td><td>$1.00</td></tr></table>"
    row = (
        '<tr><td scope="row"><div><a id="btndiv2025" href="#"><span id="x_lblYearExpand">2025</span></a></div></td>'
        "<td>$300.10</td><td>($200.00)</td><td>$100.10</td><td>\n</td></tr>"
        f'<tr id="tr2025" style="display: none;"><td> </td><td colspan="100%">{details}</td></tr>'
    )
    inner = (
        f'<table class="tabular-data"><thead><tr>{head}<td scope="col"> </td></tr></thead><tbody>{row}</tbody></table>'
    )
    (bill,) = of_kind(TaxBill, report(("Owner", ALL_OWNERS), ("Historical Tax Information", inner)))
    assert (bill.bill, bill.billed, bill.paid, bill.due) == ("2025", Decimal("300.1"), Decimal(200), Decimal("100.1"))

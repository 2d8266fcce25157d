"""Pages of DEVNET wEdge in the markup of counties that show owners, bills and deeds each in their own way."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale, TaxBill
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.names import LineKind, line_kinds
from harvester.parsers.counties.sections import records_of
from harvester.spiders.counties.devnet import parser as devnet

URL = "https://madeup.devnetwedge.com/parcel/view/5408656100000/2025"
SOURCE = Source("us-pa-made-up", "42099")
SEEN = Provenance(URL, datetime(2026, 1, 31, tzinfo=UTC), "devnet")


def read(body: str) -> list[CountyRecord]:
    page = devnet.read_parcel(f"<!DOCTYPE html><html><body>{body}</body></html>".encode(), URL)
    assert page
    found = records_of(page, SOURCE, SEEN)
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], body: str) -> list[Any]:
    return [record for record in read(body) if isinstance(record, kind)]


def parcel(body: str) -> Property:
    (found,) = of_kind(Property, body)
    assert isinstance(found, Property)
    return found


def panel(title: str, inner: str) -> str:
    return (
        f'<div class="panel panel-default"><div class="panel-heading">{title}</div>'
        f'<div class="panel-body">{inner}</div></div>'
    )


def side(label: str, said: str, wide: int = 5) -> str:
    if wide == 5:
        return f'<div class="row"><div class="col-sm-5">{label}</div><div class="col-sm-7">{said}</div></div>'
    return (
        f'<div class="row"><div class="col-sm-4"><div class="inner-label">{label}</div></div>'
        f'<div class="col-sm-8">{said}</div></div>'
    )


OVERVIEW = panel(
    "Property Information",
    side("Property ID", "540-86561-0-0000") + side("Tax Year", "2025") + side("Site Address", "1021 SAMPLE RD"),
)


def related(*rows: tuple[str, str]) -> str:
    """The names beside a parcel: a blank label goes on with the lines of the one before."""
    inner = "".join(side(label, said, 4) for label, said in rows)
    return OVERVIEW + panel("Related Names", f'<div style="border: 1px solid #ddd">{inner}</div>')


@pytest.mark.parametrize(
    "rows",
    [
        [("Parcel Owner", "SPECIMEN IDA B"), ("", "1021 SAMPLE RD,"), ("", "ADA, PA, 17699")],
        [("Parcel Owner", "SPECIMEN IDA B<br>1021 SAMPLE RD,<br>ADA, PA, 17699,")],
        [("Owner", "SPECIMEN IDA B<br>1021 SAMPLE RD<br>ADA, PA 17699")],
    ],
)
def test_address_lines_below_an_owner_are_the_mailing_address(rows: list[tuple[str, str]]) -> None:
    found = parcel(related(*rows))
    assert found.owner_names == ("SPECIMEN IDA B",)
    assert found.mailing_address in ("1021 SAMPLE RD, ADA, PA, 17699", "1021 SAMPLE RD, ADA, PA 17699")


def test_a_net_assessed_value_is_read_where_no_other_is_shown() -> None:
    value = panel("Assessment", side("Net Assessed Value", "$210,300"))
    body = related(("Owner", "SPECIMEN IDA")) + value
    assert [value.assessed_value for value in of_kind(Assessment, body)] == [210300]


def test_several_owners_above_one_address_are_owners_each() -> None:
    found = parcel(related(("Owner Name & Address", "MUSTER ROLF &amp;<br>SPECIMEN IDA<br>PO BOX 7<br>ADA, PA 17699")))
    assert found.owner_names == ("MUSTER ROLF &", "SPECIMEN IDA")
    assert found.mailing_address == "PO BOX 7, ADA, PA 17699"


def test_owners_in_rows_of_their_own_are_owners_each() -> None:
    found = parcel(related(("OWNER", "MUSTER ROLF"), ("OWNER", "SPECIMEN IDA<br>9 OAK ST<br>ADA, PA 17699")))
    assert (found.owner_names, found.mailing_address) == (("MUSTER ROLF", "SPECIMEN IDA"), "9 OAK ST, ADA, PA 17699")


def test_an_address_of_its_own_is_not_mixed_with_that_among_the_owners() -> None:
    found = parcel(
        related(
            ("Owner Name & Address", "MUSTER ROLF<br>PO BOX 7<br>ADA, PA, 17699"),
            ("Mailing Address", "PO BOX 7<br>ADA, PA 17699"),
        )
    )
    assert (found.owner_names, found.mailing_address) == (("MUSTER ROLF",), "PO BOX 7, ADA, PA 17699")


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (["DOE JOHN", "100 N BROADWAY", "ADA, PA, 17699"], [LineKind.NAME, LineKind.MAILING, LineKind.MAILING]),
        (["DOE JOHN", "100 ACRE WOOD LLC", "ADA, PA 17699"], [LineKind.NAME, LineKind.NAME, LineKind.MAILING]),
        (
            ["DOE JOHN", "1200 MAIN STREET PARTNERSHIP", "ADA, PA 17699"],
            [LineKind.NAME, LineKind.NAME, LineKind.MAILING],
        ),
        (["DOE JOHN", "12 OAK ST,"], [LineKind.NAME, LineKind.MAILING]),
        (["100 N BROADWAY", "ADA, PA 17699"], [LineKind.NAME, LineKind.MAILING]),
    ],
)
def test_a_house_above_its_city_is_no_owner(lines: list[str], kinds: list[LineKind]) -> None:
    assert line_kinds(lines) == kinds


@pytest.mark.parametrize(
    ("lines", "names", "mailing"),
    [
        ("DOE JANE<br>55 RUE DE LYON<br>PARIS 75012", ("DOE JANE",), "55 RUE DE LYON, PARIS 75012"),
        ("DOE JANE<br>DOE JOHN<br>7 ELM<br>OXFORD", ("DOE JANE", "DOE JOHN"), "7 ELM, OXFORD"),
        ("DOE JANE<br>21 OAK HOLDINGS LLC", ("DOE JANE", "21 OAK HOLDINGS LLC"), None),
    ],
)
def test_an_address_that_nothing_else_tells_begins_with_its_house(
    lines: str, names: tuple[str, ...], mailing: str | None
) -> None:
    found = parcel(OVERVIEW + panel("Related Names", side("Owner Name &amp; Address", lines)))
    assert (found.owner_names, found.mailing_address) == (names, mailing)


def test_what_a_page_shows_again_for_narrow_screens_is_there_once() -> None:
    owner = side("Owner Name", "DOE JANE")
    assert parcel(OVERVIEW + panel("Related Names", owner + owner)).owner_names == ("DOE JANE",)


def test_what_a_page_hides_of_another_year_is_no_second_owner() -> None:
    other = f'<div style="display:none">{side("Owner Name", "ROE RICHARD")}</div>'
    assert parcel(OVERVIEW + panel("Related Names", other + side("Owner Name", "DOE JANE"))).owner_names == (
        "DOE JANE",
    )


def flex(label: str, said: str) -> str:
    named = f'<div class="inner-label md:w-5/12">{label}</div>'
    return f'<div class="md:flex">{named}<div class="md:w-7/12">{said}</div></div>'


def table(header: list[str], *rows: list[str]) -> str:
    head = "".join(f"<th>{label}</th>" for label in header)
    body = "".join("<tr>" + "".join(f"<td>{said}</td>" for said in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


NEWER = (
    '<div id="property-page"><div id="Overview1"><h2>Overview</h2>'
    + flex("Parcel Number", "140613") + flex("Tax Year", "<span>2025</span>")
    + flex("Physical Address", "1709 SAMPLE LN<br>ADA, NC 28099") + flex("Assessed Value", "104,200")
    + flex("Deeded Acres", "0.41") + '</div><div id="Names1"><h2>Related Names</h2>' + flex("OWNER", "MUSTER ULF")
    + "</div>"
)  # fmt: skip


def test_a_page_of_the_newer_look_is_read_with_its_value() -> None:
    found = parcel(NEWER)
    assert (found.parcel_id, found.situs_address, found.acres) == ("140613", "1709 SAMPLE LN ADA, NC 28099", 0.41)
    assert (found.owner_names, found.tax_year) == (("MUSTER ULF",), 2025)
    (value,) = of_kind(Assessment, NEWER)
    assert (value.roll, value.assessed_value) == ("2025", 104200)


def test_a_table_whose_labels_stand_at_its_side_is_no_table_with_a_header() -> None:
    rows = "".join(
        f"<tr><th>{label}</th><td>{said}</td></tr>"
        for label, said in (("Tax Billed", "$900.00"), ("Interest Billed", "$10.00"), ("Total Billed", "$910.00"))
    )
    paid = table(["Tax Year", "Total Due", "Total Paid", "Amount Unpaid"], ["2025", "$910.00", "$500.00", "$410.00"])
    body = f"{NEWER}<h2>Billing</h2><table><tbody>{rows}</tbody></table><h2>Payment History</h2>{paid}"
    (bill,) = of_kind(TaxBill, body)
    assert (bill.bill, bill.billed, bill.paid, bill.due) == ("2025", Decimal(910), Decimal(500), Decimal(410))


def test_book_and_page_of_a_deed_stand_in_one_column() -> None:
    transfers = table(
        ["Book &amp; Page", "Sale Type", "Sale Date", "Sold By", "Sold To", "Price"],
        ["5012 1717", "WARRANTY DEED", "6/1/2020", "DOE MAX", "MUSTER ULF", "$190,000"],
        ["2415/0101", "", "1/25/1995", "", "DOE MAX", "$0"],
    )
    last, first = of_kind(Sale, f"{NEWER}<h2>Transfer History</h2>{transfers}")
    assert (last.transfer, last.sale_price, last.grantor) == ("2020-06-01/5012-1717", 190000, "DOE MAX")
    assert (first.book, first.page, first.sale_price) == ("2415", "0101", 0)


def test_a_row_is_sure_in_tables_that_become_records_and_kept_in_others() -> None:
    odd = table(["Kind", "Size", "Year"], ["Shed", "10", "1999", "x"], ["Deck", "12"])
    assert parcel(f"{NEWER}<h2>Outbuildings</h2>{odd}").others["Outbuildings"] == [
        {"Kind": "Shed", "Size": "10", "Year": "1999 x"},
        {"Kind": "Deck", "Size": "12"},
    ]
    with pytest.raises(ParseError, match="Sales History has 2 cells"):
        read(f"{NEWER}<h2>Sales History</h2>{table(['Sale Date', 'Price', 'Type'], ['1/1/2020', '$1'])}")


def rows_of(header: list[str], *rows: list[str]) -> str:
    head = "".join(f"<th>{label}</th>" for label in header)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def test_owners_in_a_table_are_owners_and_the_address_is_that_of_the_first() -> None:
    header = ["Name", "Address", "City, State Zip"]
    owners = rows_of(header, ["DOE JOHN", "12 OAK RD", "ADA, NV 89406"], ["ROE EVA", "PO BOX 7", "BAY, NV 89407"])
    found = parcel(OVERVIEW + "<h3>Current Owner(s)</h3>" + owners)
    assert (found.owner_names, found.mailing_address) == (("DOE JOHN", "ROE EVA"), "12 OAK RD, ADA, NV 89406")
    named = side("Owner", "SPECIMEN IDA B")
    assert parcel(OVERVIEW + panel("Names", named) + "<h3>Owners</h3>" + owners).owner_names == ("SPECIMEN IDA B",)


def test_of_names_with_their_roles_only_owners_are_owners() -> None:
    header = ["Relationship", "Name", "Address"]
    names = rows_of(header, ["Tax Bill", "ROE BANK", "9 PLZ"], ["Parcel Owner", "DOE JOHN", "12 OAK RD"])
    found = parcel(OVERVIEW + "<h3>Related Names</h3>" + names)
    assert (found.owner_names, found.mailing_address) == (("DOE JOHN",), "12 OAK RD")


def test_former_owners_in_a_table_are_none() -> None:
    header = ["Name", "Address"]
    with pytest.raises(ParseError):
        records_of(
            devnet.read_parcel(
                f"<html><body>{OVERVIEW}<h3>Owner History</h3>{rows_of(header, ['ROE EVA', 'PO BOX 7'])}".encode(), URL
            )
            or pytest.fail("it is a page of a parcel"),
            SOURCE._replace(platform="devnet"),
            SEEN,
        )

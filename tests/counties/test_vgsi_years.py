"""Cards of VGSI that disagree with themselves, or that show less or more than most."""

from datetime import UTC, datetime
from typing import Any

import pytest

from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.vgsi import parser as vgsi
from harvester.spiders.counties.vgsi.records import read_card
from tests.counties.unread import shown_of

SOURCE = Source("us-nh-made-up", "3300900001")
SEEN = Provenance("https://gis.vgsi.com/madeupnh/Parcel.aspx?pid=691", datetime(2026, 1, 31, tzinfo=UTC), "vgsi")


def span(name: str, *lines: str) -> str:
    return f'<span id="MainContent_lbl{name}">{"<br>".join(lines)}</span>'


def row(label: str, name: str, *lines: str) -> str:
    return f'<tr><td class="plabel" title="">{label}</td><td class="data" title="">{span(name, *lines)}</td></tr>'


def grid(name: str, caption: str, header: str, *rows: str) -> str:
    head = "".join(f'<th scope="col">{each}</th>' for each in header.split("|"))
    lines = "".join(
        '<tr class="RowStyle">' + "".join(f'<td align="right">{each}</td>' for each in said.split("|")) + "</tr>"
        for said in rows
    )
    return (
        f'<table class="GridViewStyle" rules="all" id="MainContent_grd{name}"><caption>\n {caption}\n </caption>'
        f'<tbody><tr class="HeaderStyle">{head}</tr>{lines}</tbody></table>'
    )


VALUES = "Valuation Year|Improvements|Land|Total"
SALES = "Owner|Sale Price|Certificate|Book &amp; Page|Instrument|Sale Date"
BUILDING = (
    '<table><tr><td class="plabel"> Year Built: </td><td class="data"><span id="MainContent_ctl01_lblYearBuilt">1804'
    '</span></td></tr><tr><td class="plabel"> Living Area: </td><td class="data"><span'
    ' id="MainContent_ctl01_lblBldArea">5,135</span></td></tr></table>'
)


def card(
    *,
    current: tuple[str, ...] = ("2021|$50|$20|$70",),
    history: tuple[str, ...] = (),
    sales: tuple[str, ...] = (),
    owner: tuple[str, ...] = ("MUSTER, ROLF",),
    co_owner: tuple[str, ...] = (),
    size: str = "1.59 AC",
    columns: str = VALUES,
    building: str = BUILDING,
) -> bytes:
    terms = "".join(
        f'<dl class="dl-horizontal"><dt>{label}</dt><dd>\n {span(name, said)}</dd></dl>'
        for label, name, said in (
            ("Location", "Location", "31 SAMPLE RD"),
            ("Mblu", "Mblu", "201/ 727/ / / "),
            ("Acct#", "AcctNum", " 484"),
            ("Owner", "GenOwner", *owner[:1]),
            ("PID", "Pid", "691"),
            ("Building Count", "BldCount", "1" if building else "0"),
        )
    )
    record = row("Owner", "Owner", *owner) + row("Co-Owner", "CoOwner", *co_owner)
    record += row("Address", "Addr1", "31 SAMPLE RD", "ADA, NH 03799") + row("Sale Date", "SaleDate", "")
    land = row("Use Code", "UseCode", "1090") + row("Size (Acres)", "LndAcres", size)
    return f"""<html><body><form id="form1"><div>{terms}</div>
{grid("CurrentValueAppr", "Appraisal", columns, *current)}<table>{record}</table>
{grid("Sales", "Ownership History", SALES, *sales)}{building}<table>{land}</table>
{grid("HistoryValuesAppr", "Appraisal", columns, *history) if history else ""}</form></body></html>""".encode()


def read(body: bytes) -> PageRows:
    found = read_card(vgsi.parse_card(body), SOURCE, SEEN)
    assert not found.rejects
    return found


def of_kind(kind: type[CountyRecord], body: bytes) -> list[Any]:
    return [record for record in read(body).records if isinstance(record, kind)]


def parcel(body: bytes) -> Property:
    (found,) = of_kind(Property, body)
    assert isinstance(found, Property)
    return found


def test_the_year_of_a_parcel_is_the_newest_of_its_values_also_where_another_is_called_current() -> None:
    body = card(current=("2016|$0|$202|$202",), history=("2019|$0|$202|$202", "2018|$0|$202|$202"))
    assert (parcel(body).tax_year, parcel(body).labels["tax_year"]) == (2019, "Valuation Year")
    assert parcel(card()).tax_year == 2021


def test_values_of_a_year_that_the_history_contradicts_are_withheld_with_both() -> None:
    body = card(current=("2021|$548|$270|$818",), history=("2022|$548|$270|$818", "2021|$532|$270|$802"))
    found = {record.tax_year: record for record in of_kind(Assessment, body)}
    assert (found[2022].market_value, found[2022].unread) == (818, {})
    assert (found[2021].market_value, found[2021].market_improvement_value) == (None, None)
    assert found[2021].market_land_value == 270
    assert found[2021].unread["market_value"].startswith("818 and 802: ")
    assert parcel(body).tax_year == 2022


def test_a_year_without_amounts_is_not_the_newest() -> None:
    assert parcel(card(current=("2022|||", "2021|$1|$2|$3"))).tax_year == 2021


def test_a_sale_whose_date_or_price_cannot_be_read_keeps_its_text_and_the_reason() -> None:
    sales = of_kind(
        Sale,
        card(
            sales=(
                "MUSTER, ROLF|$0|&nbsp;|2942/0246|1A|10/13/2018",
                "DOE, EVA|$5|&nbsp;|2068/0581|1G|Fall 1997",
                "ROE, MAX|see deed|&nbsp;|2058/0285|1A|06/01/2014",
                "WU, ANN|$0|&nbsp;|1999/12|1A|&nbsp;",
                "OLD, BO|$0|&nbsp;| /0|1H|&nbsp;",
            )
        ),
    )
    assert [sale.transfer for sale in sales] == [
        "2018-10-13/2942-0246",
        "undated-Fall-1997/2068-0581",
        "2014-06-01/2058-0285",
        "undated/1999-12",
    ]
    assert shown_of(sales[1].unread) == {"sale_date": "Fall 1997"}
    assert shown_of(sales[2].unread) == {"sale_price": "see deed"}
    assert (sales[3].sale_date, sales[3].sale_price, sales[3].unread) == (None, 0, {})


@pytest.mark.parametrize(
    ("owner", "co_owner", "names", "mailing"),
    [
        (["A, ROLF"], ["B, EVA"], ("A, ROLF", "B, EVA"), "31 SAMPLE RD, ADA, NH 03799"),
        (["A, ROLF"], ["C/O ACME TAX"], ("A, ROLF",), "C/O ACME TAX, 31 SAMPLE RD, ADA, NH 03799"),
        (["A, ROLF", "B, EVA"], [], ("A, ROLF", "B, EVA"), "31 SAMPLE RD, ADA, NH 03799"),
    ],
)
def test_an_agent_beside_the_owners_is_the_first_line_of_their_address(
    owner: list[str], co_owner: list[str], names: tuple[str, ...], mailing: str
) -> None:
    found = parcel(card(owner=tuple(owner), co_owner=tuple(co_owner)))
    assert (found.owner_names, found.mailing_address) == (names, mailing)


def test_a_notice_in_place_of_the_owner_is_the_reason_why_there_is_none() -> None:
    found = parcel(card(owner=("CONFIDENTIAL",)))
    assert (found.owner_names, shown_of(found.unread)["owner_names"]) == ((), "CONFIDENTIAL")


@pytest.mark.parametrize(
    ("size", "acres", "unread"),
    [("1.59 AC", 1.59, False), ("1 1/2", 1.5, False), ("0", None, False), ("12,000 SF", None, True)],
)
def test_a_size_is_read_with_its_unit(size: str, acres: float | None, unread: bool) -> None:
    found = parcel(card(size=size))
    assert (found.acres, "acres" in found.unread) == (acres, unread)


def test_a_building_that_is_alone_needs_no_heading_and_land_has_no_living_area() -> None:
    assert (parcel(card()).year_built, parcel(card()).living_area_sqft) == (1804, 5135)
    land = parcel(card(building=BUILDING.replace("1804", "").replace("5,135", "0")))
    assert (land.year_built, land.living_area_sqft) == (None, None)


def test_values_of_buildings_are_those_of_improvements_where_no_column_has_these() -> None:
    columns = "Valuation Year|Building|Extra Features|Outbuildings|Land|Total"
    (value,) = of_kind(Assessment, card(columns=columns, current=("2021|$50|$1|$2|$20|$73",)))
    assert (value.market_improvement_value, value.market_land_value, value.market_value) == (50, 20, 73)


def test_a_card_without_years_shows_what_the_parcel_and_its_land_are_worth_now() -> None:
    sums = span("GenAssessment", "$264,200") + span("LndAsmt", "$40,300")
    body = card(current=()).replace(b"</form>", f"{sums}</form>".encode())
    (value,) = of_kind(Assessment, body)
    assert (value.roll, value.assessed_value, value.assessed_land_value) == ("undated", 264200, 40300)

"""A county's wording is a line of TOML: of its platform, its jurisdiction, or its own entry."""

import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import READ_FIELDS, Assessment, Property, Sale
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import ParcelPage, Section, records_of
from harvester.parsers.counties.synonyms import CANONICAL, synonyms_of
from harvester.sites.property import IGNORED, PropertyRecords
from harvester.spiders.counties.arcgis import parser as arcgis
from harvester.spiders.counties.iasworld import parser as iasworld
from harvester.spiders.counties.saved import read_saved
from tests.counties.saved_pages import PAGES
from tests.counties.unread import shown_of

SEEN = Provenance("https://county.example/", datetime(2026, 1, 31, tzinfo=UTC), "test")
OWNER = Section("Owner", [("Owner", ["DOE JOHN"])])


def source(*lines: tuple[str, str], jurisdiction: str = "us-xx-made-up") -> Source:
    return Source(jurisdiction, "26001", "", "iasworld", lines)


def parcel_of(of: Source, *sections: Section) -> Property:
    (parcel,) = (
        each for each in records_of(ParcelPage("7", 0, list(sections)), of, SEEN).records if isinstance(each, Property)
    )
    return parcel


def test_what_is_shipped_names_fields_that_there_are() -> None:
    shipped = tomllib.loads(files("harvester.parsers.counties").joinpath("synonyms.toml").read_text("utf-8"))
    assert {field for lines in shipped.values() for field in lines.values()} <= CANONICAL.keys()
    assert CANONICAL.keys() == {*READ_FIELDS, IGNORED}


def test_a_line_of_an_entry_names_a_label_and_one_with_a_title_goes_before() -> None:
    page = (OWNER, Section("Parcel", [("Where", ["1 ELM ST"])]), Section("Old", [("Where", ["2 OAK ST"])]))
    assert parcel_of(source(("Parcel: Where", "situs_address")), *page).situs_address == "1 ELM ST"
    assert (
        parcel_of(source(("where", "legal_description"), ("Old: Where", "situs_address")), *page).situs_address
        == "2 OAK ST"
    )


def test_columns_above_lines_and_those_of_tables_have_synonyms_as_well() -> None:
    sales = Section("Sales", [], ["Closed", "For"], [["5-Sep-17", "$700"]])
    lines = (("Sales: Closed", "sale_date"), ("Sales: For", "sale_price"))
    found = records_of(ParcelPage("7", 0, [OWNER, sales]), source(*lines), SEEN).records
    (sale,) = (each for each in found if isinstance(each, Sale))
    assert (sale.sale_date, sale.sale_price) == (date(2017, 9, 5), Decimal(700))
    row = b'{"features": [{"attributes": {"PIN": "7", "TITULAR": "DOE JOHN"}}]}'
    (parcel,) = arcgis.parse_page(row, source(("TITULAR", "owner_names")), SEEN).records
    assert isinstance(parcel, Property)
    assert parcel.owner_names == ("DOE JOHN",)


def test_a_label_that_is_ignored_is_not_counted_and_stays_with_the_property() -> None:
    page = ParcelPage("7", 0, [OWNER, Section("Parcel", [("Plat Bk", ["7"]), ("Flood", ["AE"])])])
    found = records_of(page, source(("Plat Bk", IGNORED)), SEEN)
    assert list(found.unread) == ["Parcel: Flood"]
    assert isinstance(found.records[0], Property)
    assert found.records[0].others == {"Parcel: Plat Bk": "7", "Parcel: Flood": "AE"}


def test_an_entry_that_names_no_field_is_refused() -> None:
    entry: dict[str, Any] = {"name": "A", "fips": "26001", "platform": "iasworld", "base_url": "https://a.example/"}
    assert PropertyRecords(**entry, labels={"Site Loc.": "situs_address"}).labels == {"Site Loc.": "situs_address"}
    with pytest.raises(ValidationError, match=r"'Site Loc.'.*'situs_adress'.*situs_address"):
        PropertyRecords(**entry, labels={"Site Loc.": "situs_adress"})


def test_lines_of_an_entry_go_before_those_of_its_jurisdiction_and_these_before_the_platforms() -> None:
    assert synonyms_of("iasworld", "us-oh-franklin").meaning("Calculated Acres") == "ACRES"
    assert synonyms_of("iasworld", "us-oh-lake").meaning("Calculated Acres") is None
    own = (("Calculated Acres", "gis_acres"),)
    assert synonyms_of("iasworld", "us-oh-franklin", own).meaning("Calculated Acres") == CANONICAL["gis_acres"]


# The wording of counties on iasWorld -------------------------------------------------------------------------------

DATALET = """<table><tr class="DataletHeaderTop"><td class="DataletHeaderTop">PARID: 7</td></tr>
<tr><td class="DataletHeaderBottom">DOE JOHN</td><td class="DataletHeaderBottom">{situs}</td></tr>
</table>{tables}<input type="hidden" name="hdTaxYear" value="2026">"""


def side(title: str, **cells: str) -> str:
    rows = "".join(
        f'<tr><td class="DataletSideHeading">{label.replace("_", " ")}</td><td class="DataletData">{text}</td></tr>'
        for label, text in cells.items()
    )
    return f'<table id="{title}">{rows}</table>'


def top(title: str, header: str, *rows: str) -> str:
    def line(kind: str, cells: str) -> str:
        return "<tr>" + "".join(f'<td class="{kind}">{text}</td>' for text in cells.split("|")) + "</tr>"

    lines = "".join(line("DataletData", row) for row in rows)
    return f'<table id="{title}">{line("DataletTopHeading", header)}{lines}</table>'


def read(
    *tables: str, jurisdiction: str, situs: str = "", url: str = "https://county.example/Datalet.aspx"
) -> list[Any]:
    page = iasworld.read_datalet(DATALET.format(situs=situs, tables="".join(tables)).encode(), url)
    return list(records_of(page, source(jurisdiction=jurisdiction), SEEN).records)


def test_owners_in_columns_and_the_address_in_the_banner_are_read() -> None:
    owners = top(
        "Most Current Owner",
        "Current Owner|Co-Owner|Care Of|Mailing Address",
        "DOE JOHN|ROE EVA||9 OAK ST ADA MI 49301",
    )
    (parcel,) = read(owners, jurisdiction="us-ga-chatham", situs="1 ELM ST")
    assert parcel.owner_names == ("DOE JOHN", "ROE EVA")
    assert (parcel.situs_address, parcel.mailing_address) == ("1 ELM ST", "9 OAK ST ADA MI 49301")
    (parcel,) = read(owners, side("Parcel", Situs="2 FIR ST"), jurisdiction="us-ga-chatham", situs="1 ELM ST")
    assert parcel.situs_address == "2 FIR ST"


def test_a_code_is_no_address() -> None:
    def parcel(location: str, jurisdiction: str) -> Any:
        return read(side("Parcel", Location=location), side("Owner", Owner="DOE JOHN"), jurisdiction=jurisdiction)[0]

    assert parcel("302 ELM CIRCLE", "us-ga-clayton").situs_address == "302 ELM CIRCLE"
    other = parcel("6 - NEIGHBORHOOD OR SPOT", "us-oh-elsewhere")
    assert (other.situs_address, shown_of(other.unread)["situs_address"]) == (None, "6 - NEIGHBORHOOD OR SPOT")


def test_the_history_of_owners_is_one_of_sales_and_no_owner_of_today() -> None:
    history = top(
        "Owner History",
        "Owner|Book|Page|Sale Date|Sale Price",
        "DOE JOHN|4567|0123|04-MAY-12|$350,000",
        "POE|1|2|01-JUN-98|$180,000",
    )
    values = top(
        "Original Current Year Assessment", "Type|Assessment Value|Assessment Date", "Original|$312,400|01-JAN-26"
    )
    first = side("Parcel", Site_Location="1 ELM ST", Property_Type="01 - Taxable"), side("Owner", Name="DOE JOHN")
    parcel, *others = read(*first, history, values, jurisdiction="us-pa-delaware")
    assert (parcel.owner_names, parcel.situs_address, parcel.use_code) == (("DOE JOHN",), "1 ELM ST", "01 - Taxable")
    sales = [
        (each.sale_date, each.sale_price, each.book, each.page, each.grantee)
        for each in others
        if isinstance(each, Sale)
    ]
    assert sales == [
        (date(2012, 5, 4), Decimal(350_000), "4567", "0123", "DOE JOHN"),
        (date(1998, 6, 1), Decimal(180_000), "1", "2", "POE"),
    ]
    (worth,) = (each for each in others if isinstance(each, Assessment))
    assert (worth.tax_year, worth.total_value) == (2026, Decimal(312_400))


def test_city_and_zip_beside_one_label_are_two_fields_of_the_property_and_a_line_of_its_mail() -> None:
    place = {"City, State, Zip": "NORTH ADA OH 44699-9732"}
    parcel, *_ = read(
        side("Parcel", Address="1 ELM ST", **place), side("Owner", Owner="DOE JOHN"), jurisdiction="us-oh-stark"
    )
    assert (parcel.situs_city, parcel.situs_zip) == ("NORTH ADA", "44699-9732")
    mail = {"Name(s)": "DOE JOHN", "Mailing Address": "9 OAK ST", "City, State, Zip Code": "EASTON, PA, 18042-0000"}
    parcel, *_ = read(
        side("Parcel", Property_Location="1 ELM ST"),
        side("Parcel Mailing Address", **mail),
        jurisdiction="us-pa-northampton",
    )
    assert (parcel.owner_names, parcel.mailing_address) == (("DOE JOHN",), "9 OAK ST, EASTON, PA, 18042-0000")


def test_the_year_is_that_of_the_titles_or_of_the_address_before_that_of_the_form() -> None:
    parts = side("Parcel", Situs="1 ELM ST"), side("2025 Tax Status", Property_Class="R", Land_Use="510 - ONE-FAM")
    parcel, *_ = read(*parts, jurisdiction="us-oh-franklin")
    assert (parcel.tax_year, parcel.use_code) == (2025, "510 - ONE-FAM")
    parcel, *_ = read(
        parts[0], jurisdiction="us-oh-franklin", url="https://county.example/Datalet.aspx?mode=x&taxyr=2023"
    )
    assert parcel.tax_year == 2023
    parcel, *_ = read(parts[0], jurisdiction="us-oh-franklin")
    assert parcel.tax_year == 2026


RENAMED: dict[str, tuple[str, str, dict[str, tuple[str, str]]]] = {
    "devnet": (
        "devnet_bordered.html",
        "https://county.example/parcel/view/1",
        {">Parcel Number<": (">Folder<", "parcel_id"), ">Site Address<": (">Where<", "situs_address")}
        | {"Owner Name &amp; Address": ("Holder", "owner_names")},
    ),
    "esearch": (
        "esearch_parcel.html",
        "https://county.example/Property/View/1",
        {"Property ID:": ("Folder:", "parcel_id"), "Situs Address:": ("Where:", "situs_address")}
        | {">Name:<": (">Holder:<", "owner_names")},
    ),
    "pacs": (
        "pacs_property.html",
        "https://county.example/Property.aspx?prop_id=1",
        {"Property ID:": ("Folder:", "parcel_id"), "<td>Address:": ("<td>Where:", "situs_address")},
    ),
    "patriot": (
        "patriot_card.html",
        "https://town.example/summary-bottom.asp",
        {"Property Account Number": ("Folder", "parcel_id"), ">Location<": (">Where<", "situs_address")}
        | {">Owner<": (">Holder<", "owner_names")},
    ),
    "eagleweb": (
        "eagleweb_assessor.html",
        "https://county.example/taxweb/account.jsp?accountNum=R1",
        {">Owner Name<": (">Whose<", "owner_names"), ">Situs Address<": (">Where<", "situs_address")},
    ),
    "beacon": (
        "beacon_bay.html",
        "https://beacon.example/Application.aspx?KeyValue=1",
        {">Parcel ID<": (">Folder<", "parcel_id"), ">Location Address<": (">Where<", "situs_address")},
    ),
}
"""Platform -> a page, its address, and the labels that a county calls otherwise, with the field that each is."""


@pytest.mark.parametrize("platform", RENAMED)
def test_a_countys_own_word_for_what_each_page_has_is_a_line_of_its_entry(platform: str) -> None:
    file, url, words = RENAMED[platform]
    page, seen = (PAGES / file).read_bytes(), Provenance(url, datetime(2026, 1, 31, tzinfo=UTC), "test")
    (known, *_) = read_saved(platform, page, Source("us-xx-made-up", "26001"), seen).records
    for before, (after, _) in words.items():
        assert before.encode() in page
        page = page.replace(before.encode(), after.encode())
    with pytest.raises(ParseError):
        read_saved(platform, page, Source("us-xx-made-up", "26001"), seen)
    lines = tuple((after.strip("<td>:"), field) for after, field in words.values())
    (found, *_) = read_saved(platform, page, Source("us-xx-made-up", "26001", labels=lines), seen).records
    for name in ("parcel_id", "owner_names", "situs_address", "mailing_address"):
        assert getattr(found, name) == getattr(known, name), name

"""Cards of WebPro in real markup: labels that share a cell with their values, and parcels with several cards."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.sections import records_of
from harvester.spiders.counties.patriot import parser as patriot

SOURCE = Source("us-ma-made-up", "2500900001")
SEEN = Provenance("https://made-up.patriotproperties.com/summary-bottom.asp", datetime(2026, 1, 31, tzinfo=UTC), "x")


def shared(label: str, value: str) -> str:
    """A label and its value in one cell, as the first rows of a card have it."""
    return (
        f'<td width="30%"><font face="Arial" size="2"><b>{label} </font><font face="Arial" color="#0000FF" size="2">'
        f"&nbsp;{value}</font></b></td>"
    )


def pair(label: str, value: str) -> str:
    return (
        f'<td width="14%" align="right"><font face="Arial"><font size="2"><b>{label}</b></font></font></td>\n'
        f'<td width="36%" align="left"><font face="Arial"><b><font color="#0000FF" size="2">&nbsp;{value}  </font></b>'
        "</font></td>"
    )


def title(text: str) -> str:
    return (
        f'<tr><td width="100%"><font face="Arial"><p align="center"><b><font size="2">{text}</font></b></p></td></tr>'
    )


def boxed(*rows: str) -> str:
    """A table in the cell of a table, as each part of a card is."""
    inner = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<tr><td><font face="Arial"><div align="center"></font><table border="1"><tr><td><font face="Arial"></font>'
        f'<table border="0">{inner}</table><font face="Arial"></font></td></tr></table></div></td></tr>'
    )


def card(*, cards: str = "Card 1 of 1", values: str = "", narrative: str = "", legal: str = "") -> bytes:
    values = values or boxed(
        '<td>&nbsp;</td><td>&nbsp;</td><td colspan=2 align="center"><u><b>Card 1 Value</b></u></td>',
        pair("Year", "2026") + pair("Building\n   Value", "811,300"),
        pair("&nbsp;", "&nbsp;") + pair("Xtra Features\n  Value", "1,500"),
        pair("Land\n   Area", "0.290 acres") + pair("Land\n   Value", "1,190,400"),
        pair("&nbsp;", "&nbsp;") + pair("Total\n   Value", "2,003,200"),
    )
    narrative = narrative or (
        'This property contains <font color="blue">0.290 acres </font> of land mainly classified as <font color="blue">'
        'ONE FAM </font> with a(n) <font color="blue">OLD STYLE </font> style building, built about <font>1900</font>'
    )
    sale = boxed(
        pair("Sale Date", "11/30/2023") + pair("Legal\n   Reference", "41882-279"),
        pair("Sale\n  Price", "3,010,000") + pair("Grantor(Seller)", "DOE MAX,"),
    )
    mail = boxed(
        pair("Owner", "MUSTER ROLF") + pair("City", "ADAVILLE"),
        pair("", "SPECIMEN IDA") + pair("State", "MA"),
        pair("Address", "9 OTHER RD") + pair("Zip", "01999-0007"),
        pair("", "SUITE 4") + pair("Zoning", "SR"),
    )
    assessed = title("Current\n\tProperty Assessment")
    return f"""<!doctype html public "-//w3c//dtd html 4.0 transitional//en">
<html><head><title></title><base target="Bottom"></head><body bgcolor="white">
<table width="100%"><tr><td><p align="left"></p></td><td width="40%"><p align="center">{cards}</p></td></tr></table>
</head><body bgcolor="#FFFFFF"><form name="FCenter"><div align="center"></font>
<table border="1" width="100%"><tr>{shared("Location", "5  SAMPLE VIEW")}{shared("Property Account Number", "7411")}
{shared("Parcel ID", "112 14 0")}</tr></table>
<table border="0" width="100%"><tr>{shared("Old Parcel ID", "--F   10")}</tr>
<td width="100%"><p align="center"><b>Current Property Mailing Address</b></p></td></tr>
{mail}{title("Current Property Sales Information")}{sale}{assessed}{values}
{title("Narrative Description")}{boxed(f"<td><font><strong>{narrative}</strong></font></td>")}
{title("Legal Description")}{boxed(f"<td><font><strong>{legal}</strong></font></td>")}
</table></div></form></body></html>""".encode()


def read(body: bytes) -> list[CountyRecord]:
    page = patriot.read_card(body)
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


def test_labels_that_share_a_cell_with_their_values_are_read_beside_those_that_do_not() -> None:
    found = parcel(card(legal="LOT 7 PLAN 12"))
    assert (found.parcel_id, found.situs_address, found.zoning) == ("7411", "5 SAMPLE VIEW", "SR")
    assert found.alt_parcel_ids == {"Parcel: Parcel ID": "112 14 0", "Parcel: Old Parcel ID": "--F   10"}
    assert (found.acres, found.tax_year, found.year_built, found.use_description) == (0.29, 2026, 1900, "ONE FAM")
    assert found.legal_description == "LOT 7 PLAN 12"


def test_a_blank_label_goes_on_with_what_stands_above_it_in_its_column() -> None:
    found = parcel(card())
    assert found.owner_names == ("MUSTER ROLF", "SPECIMEN IDA")
    assert found.mailing_address == "9 OTHER RD, SUITE 4, ADAVILLE, MA 01999-0007"


def test_values_and_the_sale_of_a_card_in_real_markup() -> None:
    (value,) = of_kind(Assessment, card())
    assert (value.roll, value.total_value, value.land_value) == ("2026", 2003200, 1190400)
    assert value.improvement_value == 811300
    (sale,) = of_kind(Sale, card())
    assert (sale.sale_date, sale.sale_price, sale.grantor) == (date(2023, 11, 30), Decimal(3010000), "DOE MAX,")
    assert sale.instrument_number == "41882-279"


def several(columns: str, *, parcels: bool) -> bytes:
    """A card of a parcel with three: each amount once for the card and, maybe, once for the parcel."""

    def amount(label: str, of_card: str, of_parcel: str) -> str:
        beside = pair(label, of_parcel) if columns == "labelled" else f"<td colspan=2>&nbsp;{of_parcel}</td>"
        return pair(label, of_card) + (beside if parcels else "")

    head = "<td>&nbsp;</td><td>&nbsp;</td><td colspan=2><u><b>Card 1 Value</b></u></td>"
    head += "<td colspan=2><u><b>Total Parcel Value</b></u></td>" if parcels else ""
    values = boxed(
        head,
        pair("Year", "2026") + amount("Building Value", "100,000", "310,000"),
        pair("Land Area", "2 acres") + amount("Land Value", "50,000", "60,000"),
        pair("&nbsp;", "&nbsp;") + amount("Total Value", "150,000", "370,000"),
    )
    return card(cards="Card 1 of 3", values=values)


@pytest.mark.parametrize("columns", ["labelled", "plain"])
def test_values_of_a_parcel_with_several_cards_are_those_of_the_parcel(columns: str) -> None:
    body = several(columns, parcels=True)
    (value,) = of_kind(Assessment, body)
    assert (value.total_value, value.land_value, value.improvement_value) == (370000, 60000, 310000)
    others = parcel(body).others
    assert others["Current Property Assessment: Card 1 Value: Total Value"] == "150,000"


def test_values_of_one_card_of_several_are_withheld_where_those_of_the_parcel_are_not_shown() -> None:
    body = several("plain", parcels=False)
    assert [value for value in of_kind(Assessment, body) if value.total_value or value.land_value] == []
    assert re.search(r"150,000.* card 1 of 3", str([record.unread for record in read(body)]))


def test_land_without_a_building_and_a_flat_without_land_are_read() -> None:
    land = "This property contains 1.200 acres of land mainly classified as VACANT LAND."
    assert parcel(card(narrative=land)).use_description == "VACANT LAND"
    flat = "This property contains 0 - of land mainly classified as CONDO with a(n) FLAT style building, built about 0"
    found = parcel(card(narrative=flat))
    assert (found.use_description, found.year_built) == ("CONDO", None)


def test_a_card_without_a_parcel_is_none_and_one_without_its_account_is_a_changed_layout() -> None:
    blank = card()
    for shown in (b"5  SAMPLE VIEW", b"7411", b"112 14 0", b"MUSTER ROLF", b"SPECIMEN IDA"):
        blank = blank.replace(shown, b"")
    assert patriot.read_card(blank) is None
    none = card().replace(b"Property Account Number", b"Folder").replace(b"Parcel ID", b"Lot")
    with pytest.raises(ParseError, match="lacks: Property Account Number"):
        patriot.read_card(none)


def test_a_parcel_whose_card_shows_no_account_goes_by_its_number_on_the_map() -> None:
    for page in (card().replace(b"7411", b""), card().replace(b"Property Account Number", b"Folder")):
        found = patriot.read_card(page)
        assert found is not None
        assert (found.parcel_id, found.id_label) == ("112 14 0", "Parcel ID")


@pytest.mark.parametrize(("shown", "is_known"), [("8", True), ("0", False), ("25-084", False)])
def test_a_town_whose_cards_do_not_show_the_account_is_told_from_another_parcels_card(
    shown: str, is_known: bool
) -> None:
    assert ("shows none" not in patriot.why_other("7", shown)) == is_known
    assert shown in patriot.why_other("7", shown)


def test_blanks_that_keep_words_together_stand_in_labels_too() -> None:
    page = patriot.read_card(card().replace(b"Property Account Number", b"Property&nbsp;Account&nbsp;Number"))
    assert page is not None
    assert (page.parcel_id, page.id_label) == ("7411", "Property Account Number")

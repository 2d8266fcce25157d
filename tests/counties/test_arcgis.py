"""Layers of ArcGIS: what they say of themselves, their rows, and how they refuse."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.exceptions import ParseError
from harvester.items import Provenance, Record
from harvester.items.property import Assessment, Property, Sale
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.table import MOST_ROWS, PageRows
from harvester.spiders.counties.arcgis import parser as arcgis

PAGES = Path(__file__).parent / "pages"
SEEN = Provenance("https://gis.example/query", datetime(2026, 1, 31, tzinfo=UTC), "arcgis")
KENT = Source("us-mi-kent", "26081", "PNUM")
DATES = ("SALE_DATE", "RECORDED_DATE")


def page(*rows: dict[str, Any], **more: Any) -> bytes:
    names = dict.fromkeys(name for row in rows for name in row)
    fields = [{"name": name, "type": f"esriFieldType{'Date' if name in DATES else 'String'}"} for name in names]
    return json.dumps({"fields": fields, "features": [{"attributes": row} for row in rows], **more}).encode()


def read(*rows: dict[str, Any], column: str = "", **more: Any) -> PageRows:
    return arcgis.parse_page(page(*rows, **more), Source("us-mi-kent", "26081", column), SEEN)


def of_kind(found: PageRows, kind: type[Record]) -> list[Any]:
    return [record for record in found.records if isinstance(record, kind)]


def test_a_real_page_is_read_with_the_sources_own_labels_and_nothing_of_it_is_dropped() -> None:
    found = arcgis.parse_page((PAGES / "arcgis_kent_page.json").read_bytes(), KENT, SEEN)
    assert (found.number, found.without_id, found.rejects) == (3, 0, [])
    first = of_kind(found, Property)[0]
    assert first.key == "us-mi-kent 41-01-06-100-009"
    assert first.parcel_id_normalized == "410106100009"
    assert first.owner_names == ("NIECE JERMEY J & SARAH R",)
    assert (first.situs_address, first.situs_city) == ("4660 22 MILE RD NW", "GRANT")
    assert first.alt_parcel_ids == {"PPN": "410106100009"}
    assert first.labels["situs_address"] == "PROPERTYADDRESS"
    assert first.others["PROPADDRESSSTATE_ZIPCODE"] == "MI49327     "
    value = of_kind(found, Assessment)[0]
    assert (value.assessed_value, value.taxable_value) == (Decimal(56100), Decimal(55270))
    assert value.labels == {"assessed_value": "SEVTRIBUNAL1", "taxable_value": "TAXABLETRIBUNAL1"}  # by their aliases
    assert (value.roll, value.tax_year, value.currency) == ("undated", None, "USD")
    row = json.loads((PAGES / "arcgis_kent_page.json").read_bytes())["features"][0]["attributes"]
    blank = {name for name, shown in row.items() if isinstance(shown, str) and not shown.strip()}
    told = {name for record in found.records[:2] for label in record.labels.values() for name in label.split(" + ")}
    assert told | first.others.keys() | first.alt_parcel_ids.keys() | blank == row.keys()


def test_a_real_layer_of_an_old_server_says_that_it_gives_no_pages() -> None:
    layer = arcgis.parse_layer((PAGES / "arcgis_kent_layer.json").read_bytes())
    assert (layer.object_id, layer.most_rows, layer.by_offset) == ("OBJECTID", 1000, False)
    assert layer.columns[0].is_number


@pytest.mark.parametrize(
    "body", [b"<html>", b"{}", b'{"fields":[]}', b'{"fields":[{"name":"A"}],"capabilities":"Map"}']
)
def test_what_is_no_layer_or_cannot_be_asked_is_a_changed_layout(body: bytes) -> None:
    with pytest.raises(ParseError):
        arcgis.parse_layer(body)


def test_a_page_without_the_parcels_number_is_a_changed_layout_and_no_page_of_empty_fields() -> None:
    row = {"OWNER": "SMITH", "APN": "1"}
    with pytest.raises(ParseError, match=r"'PIN'.*OWNER, APN"):
        read(row, column="PIN")
    with pytest.raises(ParseError, match="entry"):
        read({"OWNER": "SMITH"})
    with pytest.raises(ParseError, match="'PIN'"):
        arcgis.parse_page(
            json.dumps({"fields": [{"name": "X"}], "features": []}).encode(), KENT._replace(parcel_id_field="PIN"), SEEN
        )
    assert of_kind(read(row), Property)[0].parcel_id == "1"
    assert of_kind(read({"GIS.Parcels.Pin": "1"}, column="pin"), Property)[0].parcel_id == "1"


def test_rows_without_a_number_are_counted_and_are_no_parcels() -> None:
    found = read({"PIN": "1"}, {"PIN": " "}, {"PIN": None})
    assert (found.number, found.without_id, found.parcel_ids) == (3, 2, {"1"})
    assert len(found.records) == 1


def test_a_number_of_two_columns_is_written_with_a_blank_between_them() -> None:
    found = read({"SWIS": "0101", "PRINT_KEY": "1.-2-3"}, column="SWIS + PRINT_KEY")
    assert of_kind(found, Property)[0].key == "us-mi-kent 0101 1.-2-3"


def test_sales_and_lines_with_numbers_keep_their_order_and_stay_apart() -> None:
    row = {
        "APN": "1",
        "OWNER2": "B",
        "OWNER1": "A",
        "MAIL_ADDR1": "C/O X",
        "MAIL_ADDR2": "PO BOX 1",
        "MAIL_CITY": "ADA",
        "MAIL_STATE": "MI",
        "MAIL_ZIP": "49301",
        "SALE_DATE": 1554440400000,
        "SALE_PRICE": "$250,000",
        "RECORDED_DATE": 1554699600000,
        "SALE2_PRC": 0,
        "SALE2_YR": 2001,
        "OR_BOOK2": "12",
        "OR_PAGE2": "34",
    }
    found = read(row)
    (property_,) = of_kind(found, Property)
    assert property_.owner_names == ("A", "B")
    assert property_.mailing_address == "C/O X, PO BOX 1, ADA, MI 49301"
    assert property_.labels["mailing_address"] == "MAIL_ADDR1 + MAIL_ADDR2 + MAIL_CITY + MAIL_STATE + MAIL_ZIP"
    assert property_.others == {}
    last, before = of_kind(found, Sale)
    assert (str(last.sale_date), str(last.recording_date), last.sale_price) == ("2019-04-05", "2019-04-08", 250000)
    assert last.key == "us-mi-kent 2019-04-05 1"
    assert (before.sale_year, before.sale_price, before.transfer) == (2001, 0, "2001/12-34")
    assert before.labels["book"] == "OR_BOOK2"


def test_the_number_of_a_deed_or_the_book_of_a_map_makes_no_sale() -> None:
    row = {"APN": "1-2-3", "BOOK": "1", "PAGE": "2", "DOC_NUM": "77", "SALE_PRICE": 0, "LASTEDIT_DATE": "2020-01-01"}
    found = read(row)
    assert of_kind(found, Sale) == []
    assert of_kind(found, Property)[0].others == {name: value for name, value in row.items() if name != "APN"}


def test_an_old_server_that_sends_no_utf_8_is_read() -> None:
    body = '{"features":[{"attributes":{"PIN":"1","OWNER":"MÜLLER"}}]}'.encode("cp1252")
    (record,) = arcgis.parse_page(body, KENT._replace(parcel_id_field="PIN"), SEEN).records
    assert isinstance(record, Property)
    assert record.owner_names == ("MÜLLER",)
    assert arcgis.parse_page(record.raw, KENT._replace(parcel_id_field="PIN"), SEEN).records == [record]


def test_what_cannot_be_read_is_kept_as_it_came_and_makes_no_record() -> None:
    row = {"APN": "1", "SALE_PRICE": 0, "MARKET_VALUE": "see note", "YEAR_BUILT": 0, "BIG": 2**70, "$a.b": {"c\0": []}}
    found = read(row)
    (property_,) = of_kind(found, Property)
    assert len(found.records) == 1
    assert property_.year_built is None
    kept = {name: value for name, value in row.items() if name != "APN"}
    assert property_.others == kept | {"BIG": str(2**70), "$a.b": {"c ": []}}


def test_a_row_that_can_be_no_record_is_rejected_and_costs_no_page() -> None:
    found = arcgis.parse_page(page({"PIN": "1"}, {"PIN": "2"}), Source("two words", "26081"), SEEN)
    assert [(reject.kind, reject.key) for reject in found.rejects] == [("property", "1"), ("property", "2")]
    assert found.number == 2
    assert found.records == []


def test_a_server_that_promises_pages_and_gives_none_is_understood() -> None:
    refusal = {
        "error": {"code": 400, "message": "Unable to perform query.", "details": ["Pagination is not supported."]}
    }
    assert arcgis.cannot_page(json.dumps(refusal).encode())
    refusal["error"]["details"] = ["Invalid column"]
    assert not arcgis.cannot_page(json.dumps(refusal).encode())
    assert not arcgis.cannot_page(b"<html>")


def test_counts_and_ids_are_read_also_of_servers_that_know_no_counts() -> None:
    assert arcgis.parse_count(b'{"count":42}') == 42
    assert arcgis.parse_count(b'{"objectIds":[3,1,2]}') is None
    assert arcgis.parse_ids(b'{"objectIdFieldName":"F","objectIds":[3,1]}') == ([1, 3], False)
    assert arcgis.parse_ids(b'{"objectIds":null}') == ([], False)
    assert arcgis.parse_ids(b'{"objectIds":[1],"exceededTransferLimit":true}') == ([1], True)
    for body in (b"{}", b'{"count":"x"}', b"[]"):
        with pytest.raises(ParseError):
            arcgis.parse_count(body)
        with pytest.raises(ParseError):
            arcgis.parse_ids(body)


def test_a_number_of_rows_that_no_table_has_is_refused_before_each_page_becomes_an_item() -> None:
    assert arcgis.parse_count(b'{"count":%d}' % MOST_ROWS) == MOST_ROWS
    for body in (b'{"count":%d}' % (MOST_ROWS + 1), b'{"count":-1}', b'{"count":1%b}' % (b"0" * 30)):
        with pytest.raises(ParseError, match="number of parcels"):
            arcgis.parse_count(body)


NAMES = st.sampled_from(
    [
        "PIN",
        "APN",
        "OWNER1",
        "OWNER_NAME",
        "SALE_DATE",
        "SALE1_PRICE",
        "MARKETVAL",
        "TAX_YEAR",
        "LANDVAL",
        "ACRES",
        "X Y",
    ]
) | st.text(min_size=1, max_size=12)
SHOWN = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.integers(-(10**14), 10**14),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["2019-01-01", "$1,000", "  padded  ", "0001", "01/02/2003"]),
)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(NAMES, SHOWN, max_size=8), min_size=1, max_size=4))
def test_any_page_is_read_and_each_record_comes_back_from_what_is_staged_of_it(rows: list[dict[str, Any]]) -> None:
    found = read(*({"KEY": number, **row} for number, row in enumerate(rows)), column="KEY")
    assert found.number == len(rows)
    assert found.parcel_ids == set(map(str, range(len(rows))))
    for record in found.records:
        again = arcgis.parse_page(record.raw, Source("us-mi-kent", "26081", "KEY"), SEEN)
        assert record.to_document() in [each.to_document() for each in again.records if each.KIND == record.KIND]


def test_an_odd_value_costs_itself_and_not_its_page() -> None:
    """Servers of ArcGIS write NaN where a number is none."""
    found = read({"PNUM": "1", "ACRES": float("nan"), "OWNER": "A\ud83d"}, {"PNUM": "2", "ACRES": 5.0}, column="PNUM")
    assert (found.number, found.rejects) == (2, [])
    first, second = of_kind(found, Property)
    assert (first.parcel_id, second.parcel_id) == ("1", "2")
    assert "NaN" not in str(first.to_document())

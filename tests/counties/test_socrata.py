"""Datasets of Socrata: their columns, their rows, and stages of a roll."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.exceptions import ParseError
from harvester.items.property import Assessment, Property
from harvester.parsers.counties.columns import Source
from harvester.spiders.counties.socrata import parser as socrata
from tests.counties.test_arcgis import PAGES, SEEN, of_kind

COOK = Source("us-il-cook", "17031", "pin")


def test_each_year_and_each_stage_of_a_roll_is_an_assessment() -> None:
    found = socrata.parse_page((PAGES / "socrata_cook_values.json").read_bytes(), b"", COOK, SEEN)
    rolls = {value.roll: value for value in of_kind(found, Assessment)}
    assert rolls.keys() == {"2021-mailed", "2021-certified", "2021-board", "2022-mailed"}
    assert rolls["2021-certified"].assessed_value == Decimal("375870.5")
    assert rolls["2021-certified"].assessed_improvement_value == Decimal("300000.5")
    assert rolls["2021-board"].assessed_value == 0
    assert (rolls["2022-mailed"].tax_year, rolls["2022-mailed"].stage) == (2022, "mailed")
    assert rolls["2022-mailed"].key == "us-il-cook 2022-mailed 01011000040000"
    older, newer = of_kind(found, Property)
    assert newer.replaces(older)
    assert not older.replaces(newer)


def test_a_row_that_lacks_a_column_is_read_like_the_others_of_its_table() -> None:
    """A staged row, too: the next likely column is not taken for the one that has no value in it."""
    fields = b'["pin","owner_name","owner","market_value","situs_address","address",":id"]'
    body = b'[{"pin":"1","owner":"OTHER","address":"PO BOX"},{"pin":"2","owner_name":"A"}]'
    found = socrata.parse_page(body, fields, COOK, SEEN)
    first = found.records[0]
    assert isinstance(first, Property)
    assert (first.owner_names, first.situs_address) == ((), None)
    assert first.others == {"owner": "OTHER", "address": "PO BOX"}
    assert socrata.parse_staged(first.raw, COOK, SEEN).records == [first]
    assert socrata.parse_page(b"[]", fields, COOK, SEEN).records == []


def test_a_dataset_without_the_parcels_number_is_a_changed_layout() -> None:
    with pytest.raises(ParseError, match="'pin'"):
        socrata.parse_page(b'[{"parcel":"1"}]', b"", COOK, SEEN)
    with pytest.raises(ParseError, match="'pin'"):
        socrata.parse_page(b"[]", b'["parcel"]', COOK, SEEN)
    for body in (b'{"error":true}', b"<html>", b'["a"]'):
        with pytest.raises(ParseError):
            socrata.parse_page(body, b"", COOK, SEEN)


def test_columns_and_counts_are_read() -> None:
    view = {
        "columns": [
            {"fieldName": "pin", "name": "PIN", "dataTypeName": "text"},
            {"name": "x"},
            {"fieldName": "n", "name": "N", "dataTypeName": "number"},
        ]
    }
    text, number = socrata.parse_dataset(json.dumps(view).encode())
    assert (text.name, text.is_number, number.is_number) == ("pin", False, True)
    assert socrata.parse_count(b'[{"count":"1204"}]') == 1204
    assert socrata.parse_count(b'[{"count_1":12}]') == 12
    with pytest.raises(ParseError, match="number of parcels"):
        socrata.parse_count(b'[{"count":"99999999999999"}]')
    for body in (b"[]", b"{}", b'[{"count":"x"}]', b'[{"count":"%b"}]' % (b"9" * 5_000)):
        with pytest.raises(ParseError):
            socrata.parse_count(body)
    with pytest.raises(ParseError):
        socrata.parse_dataset(b"[]")


ROWS = st.lists(
    st.dictionaries(
        st.sampled_from(["owner", "owner_name_2", "sale_date", "sale_price", "year", "land_value", "board_tot", "zz"]),
        st.one_of(st.text(max_size=12), st.integers(), st.sampled_from(["2019-01-01T00:00:00.000", "$1", "2021"])),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=50)
@given(ROWS)
def test_any_page_is_read_and_each_record_comes_back_from_what_is_staged_of_it(rows: list[dict[str, Any]]) -> None:
    body = json.dumps([{"pin": f"0{number}", **row} for number, row in enumerate(rows)]).encode()
    found = socrata.parse_page(body, b"", COOK, SEEN)
    assert found.parcel_ids == {f"0{number}" for number in range(len(rows))}
    for record in found.records:
        again = socrata.parse_staged(record.raw, COOK, SEEN)
        assert record in again.records

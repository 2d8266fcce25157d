"""Addresses of properties, as shown and taken apart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.items.property import Property
from harvester.parsers.counties.addresses import _usaddress, parts_of
from tests.counties.test_arcgis import of_kind, read


def test_an_address_is_kept_as_shown_where_nothing_takes_it_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harvester.parsers.counties.addresses._usaddress", lambda: None)
    (property_,) = of_kind(read({"PIN": "1", "SITUS_ADDR": "4660 22 MILE RD NW"}), Property)
    assert property_.situs_address == "4660 22 MILE RD NW"
    assert property_.situs_parts == {}


def test_an_address_is_taken_apart_where_that_is_clear() -> None:
    pytest.importorskip("usaddress")
    (property_,) = of_kind(read({"PIN": "1", "SITUS_ADDR": "4660 22 MILE RD NW   "}), Property)
    assert property_.situs_parts == {
        "AddressNumber": "4660",
        "StreetName": "22 MILE",
        "StreetNamePostType": "RD",
        "StreetNamePostDirectional": "NW",
    }
    assert property_.to_document()["situs_parts"]["StreetName"] == "22 MILE"
    assert parts_of("PO BOX 12") == {}


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_no_address_breaks_it(address: str) -> None:
    pytest.importorskip("usaddress")
    assert all(isinstance(part, str) for part in parts_of(address).values())
    assert _usaddress()

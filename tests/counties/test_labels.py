"""Columns as published tables of parcels name them: names of real layers and data sets, values made up."""

from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest

from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale
from harvester.parsers.counties import arcgis, socrata
from harvester.parsers.counties.table import Rows, Source

SEEN = Provenance("https://gis.example/query", datetime(2026, 1, 31, tzinfo=UTC), "test")
DATES = ("SALEDATE", "DEED_DATE")


def layer(jurisdiction: str, key: str, **attributes: Any) -> list[CountyRecord]:
    """The records of a row of a layer, with the columns that it describes."""
    kinds = {str: "String", int: "Integer", float: "Double", type(None): "String"}
    fields = [
        {"name": name, "alias": name, "type": f"esriFieldType{'Date' if name in DATES else kinds[type(value)]}"}
        for name, value in attributes.items()
    ]
    body = msgspec.json.encode({"fields": fields, "features": [{"attributes": attributes}]})
    return checked(arcgis.parse_page(body, Source(jurisdiction, "37001", key), SEEN))


def checked(found: Rows) -> list[CountyRecord]:
    assert not found.rejects
    return found.records


def of_kind(kind: type[CountyRecord], records: list[CountyRecord]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def test_a_layer_with_the_owner_of_today_and_of_january_is_read_with_that_of_today() -> None:
    row = {
        "PIN": "3599",
        "PID": "1991",
        "WHOLE_ADDRESS": "7 ELM ST",
        "ZIP": "28099",
        "JAN1_NAME1": "ROE EVA",
        "CURR_NAME1": "DOE JOHN",
        "CURR_NAME2": "DOE JANE",
        "CURR_ADDR1": "PO BOX 7",
        "CURR_ADDR2": None,
        "CURR_CITY": "ADA",
        "CURR_STATE": "NC",
        "CURR_ZIPCODE": "280990917",
        "FMV_TOTAL": 30.0,
        "FMV_LAND": 10.0,
        "FMV_IMPRV": 20.0,
        "TOTVAL": 9.0,
        "SALEDATE": 1739404800000,
        "SALESAMT": 5.0,
        "SQFT": 1717.0,
        "YEARBLT": 1998,
        "property_use": "RESIDENTIAL",
        "CALCAC": 0.4117,
        "DEEDAC": 0.41,
        "LEGDESC_1": "L 17",
        "DEED_BOOK": "5517",
        "DEED_PAGE": "0117",
    }
    records = layer("us-nc-gaston", "PID", **row)
    (parcel,), (values,), (sale,) = (of_kind(kind, records) for kind in (Property, Assessment, Sale))
    assert parcel.owner_names == ("DOE JOHN", "DOE JANE")
    assert parcel.mailing_address == "PO BOX 7, ADA, NC 280990917"
    assert (parcel.situs_address, parcel.situs_zip, parcel.legal_description) == ("7 ELM ST", "28099", "L 17")
    assert (parcel.acres, parcel.gis_acres, parcel.year_built, parcel.living_area_sqft) == (0.41, 0.4117, 1998, 1717)
    shown = (values.market_value, values.market_land_value, values.market_improvement_value, values.total_value)
    assert shown == (30, 10, 20, 9)
    assert (sale.sale_date, sale.sale_price, sale.transfer) == (date(2025, 2, 13), 5, "2025-02-13/5517-0117")
    (parcel,) = of_kind(Property, layer("us-nc-other", "PID", **row))
    assert parcel.living_area_sqft is None, "elsewhere it may be the size of the lot"


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (
            {"PIN": "1", "OWNNAME": "DOE JOHN", "OWN2": "ROE EVA", "TAXADD1": "PO BOX 7", "PROP_ADDRESS": "7 ELM ST"},
            {"owner_names": ("DOE JOHN", "ROE EVA"), "situs_address": "7 ELM ST"},
        ),
        (
            {"PIN14": "1", "AcctName1": "DOE JOHN", "MailAddr1": "PO BOX 7", "MailCity": "ADA", "PropAddr": "7 ELM ST"},
            {"owner_names": ("DOE JOHN",), "mailing_address": "PO BOX 7, ADA", "situs_address": "7 ELM ST"},
        ),
        (
            {"PIN": "1", "HouseNumber": "7", "SDIR": "N", "STREET": "ELM", "STYPE": "ST", "OWNER": "DOE JOHN"},
            {"situs_address": "7 N ELM ST"},
        ),
        (
            {
                "PIN": "1",
                "PSTLADDRESS": "PO BOX 7",
                "PSTLCITY": "ADA",
                "PSTLZIP5": "49301",
                "CITY": "IDA",
                "ZIP": "49302",
            },
            {"mailing_address": "PO BOX 7, ADA, 49301", "situs_city": "IDA", "situs_zip": "49302"},
        ),
        (
            {"PIN": "1", "MAILADDR": "PO BOX 7", "CITY": "ADA", "STATE": "MI", "ZIP": "49301"},
            {"mailing_address": "PO BOX 7", "situs_city": None, "situs_zip": None},
        ),
        (
            {
                "PIN": "1",
                "OWNER_NAM1": "DOE JOHN",
                "OWNER_ADDR": "PO BOX 7",
                "OWNER_STAT": "GA",
                "SITUS_ADDR": "7 ELM ST",
            },
            {"owner_names": ("DOE JOHN",), "mailing_address": "PO BOX 7, GA", "situs_address": "7 ELM ST"},
        ),
        (
            {
                "PARCELID": "1",
                "OWNERNME1": "DOE JOHN",
                "SITEADRESS": "7 ELM ST",
                "PSTLADRESS": "PO BOX 7",
                "DEEDACRES": 2,
            },
            {"owner_names": ("DOE JOHN",), "mailing_address": "PO BOX 7", "situs_address": "7 ELM ST", "acres": 2},
        ),
    ],
)
def test_columns_of_public_layers_are_read(row: dict[str, Any], wanted: dict[str, Any]) -> None:
    (parcel,) = of_kind(Property, layer("us-mi-kent", next(iter(row)), **row))
    assert {name: getattr(parcel, name) for name in wanted} == wanted


def test_values_of_the_current_stage_come_before_those_that_are_final_later() -> None:
    row = {
        "parid": "1000010010",
        "year": "2027",
        "owner": "DOE JOHN",
        "housenum_lo": "7",
        "street_name": "ELM STREET",
        "aptno": "5A",
        "zip_code": "10001",
        "curmkttot": "900",
        "curmktland": "100",
        "curacttot": "405",
        "curactland": "45",
        "curtxbtot": "400",
        "finmkttot": "0",
        "finmktland": "0",
        "pymkttot": "800",
        "bldg_class": "R4",
        "yrbuilt": "1931",
    }
    found = socrata.parse_page(msgspec.json.encode([row]), b"", Source("us-ny-new-york", "36061", "parid"), SEEN)
    (parcel,), (values,) = (of_kind(kind, checked(found)) for kind in (Property, Assessment))
    assert (parcel.situs_address, parcel.situs_zip) == ("7 ELM STREET 5A", "10001")
    assert (parcel.use_code, parcel.year_built, parcel.tax_year) == ("R4", 1931, 2027)
    assert (values.market_value, values.market_land_value, values.assessed_value) == (900, 100, 405)
    assert (values.assessed_land_value, values.taxable_value) == (45, 400)


def test_a_roll_that_names_its_area_and_its_sale_in_its_own_words_is_read() -> None:
    row = {
        "parcel_number": "9917",
        "closed_roll_year": "2024",
        "use_code": "MRES",
        "use_definition": "Multi-Family",
        "assessor_neighborhood": "Sample Heights",
        "assessor_neighborhood_district": "3",
        "property_area": "1417.0",
        "current_sales_date": "2017-08-28T00:00:00.000",
        "assessed_land_value": "7.0",
        "lot_area": "0.0",
    }
    source = Source("us-ca-san-francisco", "06075", "parcel_number")
    records = checked(socrata.parse_page(msgspec.json.encode([row]), b"", source, SEEN))
    (parcel,), (sale,) = (of_kind(kind, records) for kind in (Property, Sale))
    assert (parcel.use_description, parcel.neighborhood) == ("Multi-Family", "Sample Heights")
    assert (parcel.living_area_sqft, sale.sale_date) == (1417, date(2017, 8, 28))

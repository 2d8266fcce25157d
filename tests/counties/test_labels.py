"""Columns as published tables of parcels name them: names of real layers and data sets, values made up."""

from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest

from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property, Sale
from harvester.parsers.counties import labels
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.table import PageRows
from harvester.spiders.counties.arcgis import parser as arcgis
from harvester.spiders.counties.socrata import parser as socrata
from tests.counties.unread import shown_of

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


def checked(found: PageRows) -> list[CountyRecord]:
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
            {"mailing_address": "PO BOX 7, ADA, MI 49301", "situs_city": None, "situs_zip": None},
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


PUBLIC: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a town of the northeast, with the owner's place in columns without a word of whose it is": (
        {
            "PAMS_PIN": "1",
            "PROP_LOC": "7 ELM ST",
            "ST_ADDRESS": "PO BOX 7",
            "CITY_STATE": "ADA, NJ",
            "ZIP_CODE": "07000",
        },
        {
            "situs_address": "7 ELM ST",
            "mailing_address": "PO BOX 7, ADA, NJ 07000",
            "situs_city": None,
            "situs_zip": None,
        },
    ),
    "a state that shows its parcels' places by names and numbers": (
        {"PARCEL_ID_NR": "1", "SITUS_ADDRESS": "7 ELM ST", "SITUS_CITY_NM": "ADA", "SITUS_ZIP_NR": "98000"},
        {"situs_address": "7 ELM ST", "situs_city": "ADA", "situs_zip": "98000"},
    ),
    "a state whose addresses have a place in them already": (
        {"Prop_ID": "1", "OWNER_NAME": "DOE JANE", "NAME_CARE": "ROE EVA", "MAIL_ADDR": "PO BOX 7, ADA, TX 75001"}
        | {
            "MAIL_CITY": "ADA",
            "MAIL_ZIP": "75001",
            "SITUS_ADDR": "7 ELM ST",
            "LEGAL_AREA": 1.5,
            "LGL_AREA_UNIT": "Acres",
        }
        | {"GIS_AREA": 2.5, "GIS_AREA_UNIT": "SQFT"},
        {"mailing_address": "C/O ROE EVA, PO BOX 7, ADA, TX 75001", "acres": 1.5, "gis_acres": None},
    ),
    "a state with the parts of an address, and values of its own name": (
        {
            "state_pin": "1",
            "anumber": 7,
            "st_pre_dir": "N",
            "st_name": "ELM",
            "st_pos_typ": "ST",
            "own_add_l1": "PO BOX 7",
        }
        | {
            "own_add_l2": "ADA MN 55001",
            "acres_deed": 1.5,
            "plat_name": "OAKS",
            "abb_legal": "LOT 7",
            "fin_sq_ft": 1500,
        },
        {
            "situs_address": "7 N ELM ST",
            "mailing_address": "PO BOX 7, ADA MN 55001",
            "acres": 1.5,
            "subdivision": "OAKS",
        }
        | {"legal_description": "LOT 7", "living_area_sqft": 1500},
    ),
    "names cut at the tenth character": (
        {"PARCELID": "1", "SITEADDRES": "7 ELM DR", "LIVING_ARE": "1500", "SUBDIVISIO": "OAKS", "PROPERTY_A": "x"},
        {"situs_address": "7 ELM DR", "living_area_sqft": 1500, "subdivision": "OAKS", "mailing_address": None},
    ),
    "a second owner by another name, and one who is there twice": (
        {"PARCELID": "1", "OWNERNME1": "DOE JAMES", "OWN1": "DOE JAMES", "OWN2": "& DOE JANE"},
        {"owner_names": ("DOE JAMES", "DOE JANE")},
    ),
    "a second owner whose column begins otherwise than the first one's": (
        {
            "SSL": "1",
            "OWNERNAME": "DOE JANE",
            "OWNNAME2": "DOE JOHN",
            "ADDRESS1": "PO BOX 7",
            "CITYSTZIP": "ADA DC 20001",
        }
        | {"PREMISEADD": "7 ELM ST NW"},
        {"owner_names": ("DOE JANE", "DOE JOHN"), "mailing_address": "PO BOX 7, ADA DC 20001"}
        | {"situs_address": "7 ELM ST NW"},
    ),
    "a roll with names and addresses in parts": (
        {"print_key_code": "1", "primary_owner_first_name": "JANE", "primary_owner_last_name": "DOE"}
        | {"additional_owner_1_first": "JOHN", "additional_owner_1_last_name": "DOE", "mailing_address_number": "9"}
        | {"mailing_address_street": "OAK", "mailing_address_suff": "AVE", "mailing_address_city": "IDA"}
        | {"mailing_address_state": "NY", "mailing_address_zip": "12001", "parcel_address_number": "7"}
        | {"parcel_address_street": "ELM", "parcel_address_suff": "ST"},
        {"owner_names": ("JANE DOE", "JOHN DOE"), "mailing_address": "9 OAK AVE, IDA, NY 12001"}
        | {"situs_address": "7 ELM ST"},
    ),
    "a roll with a post office box": (
        {"print_key_code": "1", "primary_owner_last_name": "DOE LLC", "mailing_address_po_box": "77"}
        | {"mailing_address_city": "IDA", "mailing_address_state": "NY", "parcel_address_street": "ELM"},
        {"owner_names": ("DOE LLC",), "mailing_address": "PO BOX 77, IDA, NY", "situs_address": None},
    ),
    "a mailing address that begins with the owner": (
        {"sbl": "1", "owner1": "DOE JANE", "mail1": "DOE JANE", "mail2": "9 OAK AVE", "mail3": "IDA NY 12001"}
        | {"address": "7 ELM ST", "city": "IDA", "state": "NY"},
        {"mailing_address": "9 OAK AVE, IDA NY 12001", "situs_address": "7 ELM ST"},
    ),
    "columns named by words and by the fields of two other tables": (
        {"account_id_mdp_field_acctid": "1", "mdp_street_address_mdp_field_address": "7 ELM ST"}
        | {"mdp_street_address_city_mdp_field_city": "ADA", "mdp_street_address_zip_code_mdp_field_zipcode": "21000"}
        | {"legal_description_line_1_mdp_field_legal1_sdat_field_17": "LOT 7"}
        | {"c_a_m_a_system_data_year_built_yyyy_mdp_field_yearblt_sdat_field_235": "1980"},
        {"situs_address": "7 ELM ST", "situs_city": "ADA", "situs_zip": "21000", "legal_description": "LOT 7"}
        | {"year_built": 1980},
    ),
    "a class of use in words": (
        {"PARCELID": "1", "property_use": "RESIDENTIAL 1 FAMILY"},
        {"use_code": None, "use_description": "RESIDENTIAL 1 FAMILY"},
    ),
    "a class of use by its code and words": (
        {"PARCELID": "1", "property_use": "R - Residential", "neighborhood": "7"},
        {"use_code": "R - Residential", "use_description": None},
    ),
    "a class of use by a code of words cut short": (
        {"PARCELID": "1", "propertyclass": "SNGL-FAM-RES"},
        {"use_code": "SNGL-FAM-RES", "use_description": None},
    ),
    "a location where nothing else says where the parcel is": (
        {"Parcel_ID": "1", "Location": "7 ELM ST", "Mailing_Address": "PO BOX 7", "ayb": 1980, "State_Use": "101"},
        {"situs_address": "7 ELM ST", "mailing_address": "PO BOX 7", "year_built": 1980, "use_code": "101"},
    ),
}


@pytest.mark.parametrize("kind", PUBLIC)
def test_layers_are_read_by_the_words_that_their_columns_are_made_of(kind: str) -> None:
    row, wanted = PUBLIC[kind]
    (parcel,) = of_kind(Property, layer("us-mi-kent", next(iter(row)), **row))
    assert {name: getattr(parcel, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"SITUS_ADDR": ", TX"}, ", TX"),
        ({"SITUS_ADDR": "TX 75001-1234"}, "TX 75001-1234"),
        ({"OWNER": "DOE JANE", "ADDRESS": "7 ELM ST", "STATE": "MI"}, "7 ELM ST"),
    ],
)
def test_an_address_that_may_not_be_the_propertys_is_withheld_with_a_reason(row: dict[str, Any], shown: str) -> None:
    (parcel,) = of_kind(Property, layer("us-mi-kent", "PIN", PIN="1", **row))
    assert (parcel.situs_address, parcel.mailing_address) == (None, None)
    assert shown_of(parcel.unread)["situs_address"] == shown


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"emv_land": 4, "emv_bldg": 6, "emv_total": 10}, "market_value=10 land=4 improvement=6"),
        ({"TOTAL_MKT_VALUE": 10, "LAND_MKT_VALUE": 4}, "market_value=10 land=4"),
        ({"APPRAISED_TOTAL_VALUE": 10, "APPRAISED_LAND_VALUE": 4}, "appraised_value=10 land=4"),
        ({"TOTAPR1": 10, "CNTTXBLVAL": 3}, "appraised_value=10 taxable_value=3"),
        ({"AVLAND": 4, "AVIMPROVE": 6, "AVTOTAL": 10}, "assessed_value=10 land=4 improvement=6"),
        ({"TotAssess": 10, "LandAssess": 4, "ImprAssess": 6}, "assessed_value=10 land=4 improvement=6"),
        ({"VALUE_LAND": 4, "VALUE_BLDG": 6}, "land=4 improvement=6"),
        ({"TotalBuildingValue": 6, "TotalLandValue": 4, "TotalValue": 10}, "total_value=10 land=4 improvement=6"),
        ({"NFMLNDVL": 4, "NFMIMPVL": 6, "NFMTTLVL": 10}, "total_value=10 land=4 improvement=6"),
        ({"REAL_FLV": 10, "LAND_LV": 4, "IMPRV_LV": 6}, "total_value=10 land=4 improvement=6"),
        ({"LAST_YR_TX": 10, "PAGE": 7, "LANDAREA": 5, "LAND_ACRES": 6}, ""),
    ],
)
def test_values_are_of_the_basis_that_their_columns_name(row: dict[str, Any], wanted: str) -> None:
    found = of_kind(Assessment, layer("us-mi-kent", "PIN", PIN="1", **row))
    said = {name: getattr(each, name) for each in found for name in each.labels}
    parts = {"land_value": "land", "improvement_value": "improvement"}
    shown = {next((part for end, part in parts.items() if name.endswith(end)), name): said[name] for name in said}
    assert shown == {name: int(value) for name, value in (each.split("=") for each in wanted.split())}


def test_the_columns_of_one_sale_may_have_its_number_or_none() -> None:
    row = {"TRADATE": "20190405", "CONSIDR1": 200, "GRNTNAM1": "ROE EVA", "DR1LIBER": "100", "DR1FOLIO": "7"}
    (sale,) = of_kind(Sale, layer("us-md-made-up", "ACCTID", ACCTID="1", **row))
    assert (sale.transfer, sale.sale_price, sale.grantor) == ("2019-04-05/100-7", 200, "ROE EVA")
    two = {"SALEDATE": "2019-04-05", "SALEPRICE": 200, "SALEDATE1": "2010-01-02", "SALEPRICE1": 100}
    sales = of_kind(Sale, layer("us-md-made-up", "ACCTID", ACCTID="1", **two))
    assert {each.transfer: each.sale_price for each in sales} == {"2019-04-05": 200, "2010-01-02": 100}


def test_sales_in_segments_are_sales_each_and_an_empty_segment_is_none() -> None:
    first, second = "sales_segment_1", "sales_segment_2"
    row = {
        f"{first}_transfer_date_yyyy_mm_dd_mdp_field_tradate_sdat_field_89": "2019.04.05",
        f"{first}_consideration_mdp_field_considr1_sdat_field_90": "200",
        f"{first}_grantor_deed_reference_1_liber_mdp_field_gr1libr1_sdat_field_82": "100",
        f"{first}_grantor_deed_reference_1_folio_mdp_field_gr1folo1_sdat_field_83": "7",
        f"{second}_transfer_date_yyyy_mm_dd_sdat_field_109": "2010.01.02",
        f"{second}_consideration_sdat_field_110": "100",
        "sales_segment_3_transfer_date_yyyy_mm_dd_sdat_field_129": "0000.00.00",
        "sales_segment_3_consideration_sdat_field_130": "0",
    }
    sales = of_kind(Sale, layer("us-md-made-up", "acctid", acctid="1", **row))
    assert {each.transfer: each.sale_price for each in sales} == {"2019-04-05/100-7": 200, "2010-01-02": 100}


def test_no_label_means_two_things() -> None:
    of: dict[str, set[str]] = {}
    tables = {**labels.PROPERTY, **labels.ASSESSMENT, **labels.SALE, "owners": (*labels.OWNERS, *labels.MORE_OWNERS)}
    tables |= {"situs": (*labels.SITUS, *labels.LOCATION), "mailing": labels.MAILING, "care of": labels.CARE_OF}
    tables |= {
        "legal": labels.LEGAL,
        "city": labels.MAILING_CITY,
        "state": labels.MAILING_STATE,
        "zip": labels.MAILING_ZIP,
    }
    tables |= {f"part {number}": part for number, part in enumerate(labels.SITUS_PARTS)} | {
        "box": labels.MAILING_BOX,
        "id": labels.OTHER_IDS,
    }
    for name, found in tables.items():
        for label in found:
            of.setdefault(label, set()).add(name)
    assert {label: names for label, names in of.items() if len(names) > 1} == {}


ROES = ("ROE JOHN", "ROE JANE")
OWNER_IN_PARTS = {"OWN_ADRNO": "12", "OWN_ADRSTR": "OAK", "OWN_ADRSUF": "RD", "OWN_CITY": "ATLANTA", "OWN_STATE": "GA"}
BARE = {"CITY": "ATLANTA", "STATE": "GA", "ZIP": "30301"}
COUNTIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "what is true, and of today": (
        {"TRUE_OWNER1": "ROE JOHN", "TRUE_OWNER2": "ROE JANE", "TRUE_SITE_ADDR": "1 ELM ST", "TRUE_SITE_CITY": "MIAMI"}
        | {"TRUE_MAILING_ADDR1": "12 OAK RD", "TRUE_MAILING_CITY": "ATLANTA", "TRUE_MAILING_ZIP_CODE": "30301"},
        {"owner_names": ROES, "situs_address": "1 ELM ST", "situs_city": "MIAMI"}
        | {"mailing_address": "12 OAK RD, ATLANTA, 30301"},
    ),
    "a mailing address with its place beside a bare one": (
        {"OWNERNME1": "ROE JOHN", "PSTLADRESS": "12 OAK RD ATLANTA GA 30301", "SITEADRESS": "1 ELM ST"}
        | {"PLACENAME": "CITY OF ADA", "ZIPCODE": "53202", "STATE": "WI"},
        {"mailing_address": "12 OAK RD ATLANTA GA 30301", "situs_address": "1 ELM ST", "situs_zip": "53202"},
    ),
    "a bare address and lines of mail": (
        {"owner1": "ROE JOHN", "mail2": "12 OAK RD", "mail4": "ATLANTA GA 30301", "address": "1 ELM ST"}
        | {"city": "BUFFALO", "state": "NY", "zip_code_5_digit": "14202"},
        {"mailing_address": "12 OAK RD, ATLANTA GA 30301", "situs_address": "1 ELM ST"}
        | {"situs_city": "BUFFALO", "situs_zip": "14202"},
    ),
    "names and lines that say nothing of an owner": (
        {"NAME1": "ROE JOHN", "NAME2": "ROE JANE", "SITUS": "1 ELM ST", "ADD1": "PO BOX 45", "ADD2": None}
        | BARE
        | {"CITY_SITUS": "ORLANDO", "ZIP_SITUS": "32806"},
        {"owner_names": ROES, "situs_address": "1 ELM ST", "mailing_address": "PO BOX 45, ATLANTA, GA 30301"}
        | {"situs_city": "ORLANDO", "situs_zip": "32806"},
    ),
    "lines of an owner that end with his address": (
        {"OwnerLine1": "ROE JOHN", "OwnerLine2": "ROE JANE", "OwnerLine3": "12 OAK RD", "OwnerCity": "ATLANTA"}
        | {"OwnerState": "GA", "OwnerZip": "30301", "SiteStreetAddress": "1 ELM ST"},
        {"owner_names": ROES, "situs_address": "1 ELM ST", "mailing_address": "12 OAK RD, ATLANTA, GA 30301"},
    ),
    "a bare address beside the parts of the property's": (
        {"NAME_LINE_1": "ROE JOHN", "NAME_LINE_2": "ROE JANE", "ADDRESS_LINE_1": "12 OAK RD"}
        | BARE
        | {"SITUS_STREET_NUMBER": "1", "SITUS_STREET_NAME": "ELM", "SITUS_STREET_TYPE": "ST"},
        {"owner_names": ROES, "situs_address": "1 ELM ST", "mailing_address": "12 OAK RD, ATLANTA, GA 30301"},
    ),
    "both addresses in parts": (
        {"OWNER": "ROE JOHN", "OWNER_EXT": "ROE JANE"}
        | OWNER_IN_PARTS
        | {"PAR_ADRNO": "1", "PAR_ADRPREDIR": "N", "PAR_ADRSTR": "ELM", "PAR_ADRSUF": "ST"},
        {"owner_names": ROES, "situs_address": "1 N ELM ST", "mailing_address": "12 OAK RD, ATLANTA, GA"},
    ),
    "a house number beside a street": (
        {"PROPERTYHOUSENUM": "436", "PROPERTYADDRESS": "GRANT ST", "PROPERTYZIP": "15219"},
        {"situs_address": "436 GRANT ST", "situs_zip": "15219"},
    ),
    "no house number beside a whole address": (
        {"HOUSE_NUMBER": "436", "PROPERTYADDRESS": "436 GRANT ST"},
        {"situs_address": "436 GRANT ST"},
    ),
    "a street below who takes the mail": (
        {"owner_1": "ROE JOHN", "mailing_address_1": "C/O DOE", "mailing_address_2": None}
        | {"mailing_street": "12 OAK RD", "mailing_city_state": "ATLANTA GA", "mailing_zip": "30301"},
        {"owner_names": ("ROE JOHN",), "mailing_address": "C/O DOE, 12 OAK RD, ATLANTA GA, 30301"},
    ),
    "a bare city and ZIP code beside the property's city": (
        {"OWNER": "ROE JOHN", "Property_City": "BIRMINGHAM", "CITY": "ATLANTA", "ZIP": "30301"},
        {"situs_city": "BIRMINGHAM", "situs_zip": None, "mailing_address": None},
    ),
    "a street alone": (
        {"owner_1": "ROE JOHN", "mailing_address_1": None, "mailing_street": "12 OAK RD", "mailing_zip": "30301"},
        {"mailing_address": "12 OAK RD, 30301"},
    ),
    "lines of an address whose last one is a city": (
        {"OWNER": "ROE JOHN", "ADDR1": "12 OAK RD", "ADDR2": "ATLANTA GA 30301-1234", "SITE_ADDRESS": "1 ELM ST"},
        {"situs_address": "1 ELM ST", "mailing_address": "12 OAK RD, ATLANTA GA 30301-1234"},
    ),
}
"""What a table has -> its columns, as a real table names them, and what is to be read."""


@pytest.mark.parametrize("kind", COUNTIES)
def test_whose_an_address_is_follows_from_the_columns_beside_it(kind: str) -> None:
    row, expected = COUNTIES[kind]
    parcel = of_kind(Property, layer("us-nc-gaston", "", PARCELID="7", **row))[0]
    assert {field: getattr(parcel, field) for field in expected} == expected


def test_land_and_building_are_amounts_only_together_and_beside_a_sum() -> None:
    together = {"LAND": 50000, "BLDG": 150000, "JUST": 202000}
    (value,) = of_kind(Assessment, layer("us-nc-gaston", "", PARCELID="7", **together))
    assert (value.land_value, value.improvement_value, value.market_value) == (50000, 150000, 202000)
    for others in ({"LAND": 50000}, {"LAND": 3, "BLDG": 1}, {"LAND": "A", "BLDG": "2", "JUST": 202000}):
        values = of_kind(Assessment, layer("us-nc-gaston", "", PARCELID="7", **others))
        assert [(value.land_value, value.improvement_value) for value in values] in ([], [(None, None)])


def test_values_of_today_are_told_from_those_of_before() -> None:
    row = {
        "LAND_VAL_CUR": 5,
        "BUILDING_VAL_CUR": 6,
        "TOTAL_VAL_CUR": 11,
        "TOTAL_VAL_PRI": 9,
        "ASSESSMENT_YEAR_CUR": 2025,
    }
    (value,) = of_kind(Assessment, layer("us-nc-gaston", "", PARCELID="7", **row))
    assert (value.tax_year, value.land_value, value.improvement_value, value.total_value) == (2025, 5, 6, 11)


def test_a_bare_price_is_that_of_the_sale_with_its_number() -> None:
    row = {"DOS_1": "20200131", "PRICE_1": 5, "DOS_2": "20100131", "PRICE_2": 4, "PRICE_3": 3}
    sales = of_kind(Sale, layer("us-nc-gaston", "", PARCELID="7", **row))
    assert [(sale.sale_date, sale.sale_price) for sale in sales] == [(date(2020, 1, 31), 5), (date(2010, 1, 31), 4)]

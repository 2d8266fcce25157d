"""An ok page never yields a hollow record: what a parcel must have is there, or the record says why it is not."""

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from harvester.exceptions import ParseError
from harvester.items import Provenance
from harvester.items.property import Assessment, CountyRecord, Property
from harvester.parsers.counties import contract
from harvester.parsers.counties.columns import Source
from harvester.parsers.counties.guesses import guess
from harvester.parsers.counties.sections import ParcelPage, Section, parse_staged, records_of
from harvester.parsers.counties.table import PageRows
from harvester.platforms import Platform
from harvester.spiders.counties.arcgis import parser as arcgis
from tests.counties.unread import shown_of

SEEN = Provenance("https://county.example/", datetime(2026, 1, 31, tzinfo=UTC), "test")
OWNER = Section("Owner", [("Owner", ["DOE JOHN"])])
SITUS = Section("Parcel", [("Situs Address", ["1 ELM ST"])])
VALUES = Section("2025 Values", [("Total Value", ["$5,000"])])


def of_page(*sections: Section, platform: str = "iasworld") -> PageRows:
    return records_of(ParcelPage("7", 0, list(sections)), Source("us-xx-made-up", "26001", platform=platform), SEEN)


def of_row(**attributes: Any) -> PageRows:
    body = json.dumps({"features": [{"attributes": {"PIN": "7", **attributes}}]}).encode()
    found = arcgis.parse_page(body, Source("us-xx-made-up", "26001"), SEEN)
    contract.check(found, "arcgis")
    return found


def parcel_of(found: PageRows) -> Property:
    return next(record for record in found.records if isinstance(record, Property))


def refusal(*sections: Section, platform: str = "iasworld") -> str:
    with pytest.raises(ParseError) as refused:
        of_page(*sections, platform=platform)
    return str(refused.value)


def test_every_platform_has_a_contract() -> None:
    assert contract.CONTRACTS.keys() == set(get_args(Platform))


def test_a_whole_parcel_has_nothing_to_explain() -> None:
    assert parcel_of(of_page(OWNER, SITUS, VALUES)).unread == {}


@pytest.mark.parametrize(
    ("sections", "part", "label"),
    [
        (
            (SITUS, VALUES, Section("Names", [("Vested Owner", ["ROE EVA"])])),
            contract.CALLED[contract.OWNER],
            "Names: Vested Owner",
        ),
        (
            (SITUS, VALUES, Section("Names", [("Titleholder", ["ROE EVA"])])),
            contract.CALLED[contract.OWNER],
            "Names: Titleholder",
        ),
        (
            (OWNER, VALUES, Section("Parcel", [("Premise Loc.", ["9 OAK ST"])])),
            contract.CALLED[contract.SITUS],
            "Parcel: Premise Loc.",
        ),
        (
            (OWNER, SITUS, Section("Worth", [("Just Value (2025)", ["$9,000"])])),
            contract.CALLED[contract.VALUE],
            "Worth: Just Value (2025)",
        ),
        (
            (OWNER, SITUS, Section("Worth", [], ["Item", "Market Worth"], [["Land", "$9,000"]])),
            contract.CALLED[contract.VALUE],
            "Worth: Market Worth",
        ),
        (
            (OWNER, SITUS, Section("2025 Values", [], ["", "Dirt", "All"], [["Worth", "$1,000", "$9,000"]])),
            contract.CALLED[contract.VALUE],
            "2025 Values: Dirt",
        ),
    ],
)
def test_a_page_that_shows_what_nobody_reads_is_refused_by_the_label(
    sections: tuple[Section, ...], part: str, label: str
) -> None:
    said = refusal(*sections)
    assert part in said
    assert repr(label) in said


@pytest.mark.parametrize(
    "section",
    [
        Section("Parcel", [("Owner Occupied", ["Yes indeed"])]),
        Section("Parcel", [("Prior Owner", ["ROE EVA"])]),
        Section("Subdivision", [("Name", ["OAK HILLS"])]),
        Section("Assessor", [("Name", ["ROE EVA"]), ("Address", ["9 FAR RD"])]),
    ],
)
def test_a_label_of_something_else_refuses_no_page(section: Section) -> None:
    assert parcel_of(of_page(SITUS, VALUES, section)).unread == {"owner_names": contract.NOTHING}


@pytest.mark.parametrize("section", [Section("Parcel", [("Zoning", ["R1"])]), Section("Legal", [("Legal", ["LOT 7"])])])
def test_a_page_without_owner_and_address_is_no_record(section: Section) -> None:
    for said in (refusal(section), refusal(section, VALUES)):
        for part in (contract.OWNER, contract.SITUS):
            assert contract.CALLED[part] in said


def test_an_empty_shell_is_no_record() -> None:
    empty = [Section("Owner", [("Owner", [])]), Section("Parcel", [("Situs Address", ["-"])])]
    assert contract.CALLED[contract.VALUE] in refusal(*empty)
    assert parcel_of(of_page(*empty, VALUES)).unread == {
        "owner_names": f"nothing beside 'Owner': {contract.NONE}",
        "situs_address": f"nothing beside 'Situs Address': {contract.NONE}",
    }


def test_a_part_that_each_page_of_a_platform_shows_is_missed() -> None:
    assert contract.CALLED[contract.VALUE] in refusal(OWNER, SITUS, platform="patriot")
    assert parcel_of(of_page(OWNER, SITUS, platform="iasworld")).unread == {"values": contract.NOTHING}
    assert contract.CALLED[contract.OWNER] in refusal(SITUS, VALUES, platform="pacs")


def test_a_notice_in_place_of_an_owner_is_kept_back_and_no_other_layout() -> None:
    parcel = parcel_of(of_page(Section("Owner", [("Owner", ["CONFIDENTIAL"])])))
    assert parcel.owner_names == ()
    assert shown_of(parcel.unread)["owner_names"] == "CONFIDENTIAL"
    assert parcel.labels["owner_names"] == "Owner: Owner"


def test_values_without_a_year_say_so() -> None:
    found = of_page(OWNER, SITUS, Section("Values", [("Total Value", ["$5,000"])]))
    (values,) = (record for record in found.records if isinstance(record, Assessment))
    assert values.unread == {"tax_year": contract.UNDATED_VALUE}


@pytest.mark.parametrize(
    "section",
    [
        Section("Assessment History", [("Levy Rate", ["$1,200"]), ("Notice", ["12345"])]),
        Section("Assessment Appeals", [("Settled", ["$9,000"])]),
    ],
)
def test_an_amount_of_something_else_is_no_value_of_the_parcel(section: Section) -> None:
    assert parcel_of(of_page(OWNER, SITUS, section)).unread == {"values": contract.NOTHING}


def test_a_row_of_a_table_says_why_it_lacks_what_nobody_reads() -> None:
    parcel = parcel_of(of_row(VESTED_OWNER="ROE EVA", SITEADDRESS="1 ELM ST", TOTALVALUE=None))
    assert parcel.unread == {
        "owner_names": f"'VESTED_OWNER': {contract.UNREAD}",
        "values": f"nothing beside 'TOTALVALUE': {contract.NONE}",
    }


@pytest.mark.parametrize(
    ("shown", "lacks"),
    [
        ("P.O. BOX 7", "box"),
        ("UNASSIGNED", "address"),
        ("NO ADDRESS ASSIGNED", "address"),
        ("SITUS NOT AVAILABLE", "address"),
        ("NJ 07101", "street"),
        ("0", "address"),
        ("RR 2 BOX 15", ""),
        ("OAK ST", ""),
        ("NO 7 PROPERTY ROAD", ""),
        ("VACANT LAND", ""),
    ],
)
def test_what_is_no_place_of_a_property_is_withheld_with_the_reason(shown: str, lacks: str) -> None:
    """`lacks`: what the reason names."""
    parcel = parcel_of(of_row(OWNERNAME="ROE EVA", SITEADDRESS=shown, TOTALVALUE=5000))
    assert shown_of(parcel.unread) == ({"situs_address": shown} if lacks else {})
    assert lacks in parcel.unread.get("situs_address", "").removeprefix(shown)
    assert parcel.situs_address == (None if lacks else shown)


def test_a_table_without_a_column_of_owner_address_or_value_is_refused() -> None:
    with pytest.raises(ParseError) as refused:
        of_row(SHAPE_AREA=7.5)
    assert [part for part, called in contract.CALLED.items() if called not in str(refused.value)] == []


def test_labels_that_nobody_reads_are_counted_once_a_page_with_a_value() -> None:
    more = Section("Land", [("Flood Zone", ["AE"])], ["Line", "Front Feet"], [["1", "50"], ["2", "60"]])
    unread = of_page(OWNER, SITUS, VALUES, more).unread
    assert {label: tuple(said) for label, said in unread.items()} == {
        "Land: Flood Zone": (1, "AE"),
        "Land: Line": (1, "2"),
        "Land: Front Feet": (1, "60"),
    }


def test_what_is_staged_comes_back_with_the_same_reasons() -> None:
    found = of_page(OWNER, Section("Parcel", [("Zoning", ["R1"])]))
    source = Source("us-xx-made-up", "26001", platform="iasworld")
    again: list[CountyRecord] = parse_staged(found.records[0].raw, source, SEEN).records
    assert again == found.records


@pytest.mark.parametrize(
    ("label", "value", "field"),
    [
        ("Owner: Vested In", "ROE EVA", ""),
        ("Current Owners", "ROE EVA & SAM", "owner_names"),
        ("OwnerNm1", "ROE EVA", "owner_names"),
        ("Owner Mailing Address", "PO BOX 7", "mailing_address"),
        ("Owner City", "ANN ARBOR", ""),
        ("Mailing: Name", "ROE EVA", "owner_names"),
        ("Property Location", "9 OAK ST", "situs_address"),
        ("Property Location", "TOWN OF ADA", ""),
        ("Street Name", "9 OAK ST", ""),
        ("Location", "6 - NEIGHBORHOOD OR SPOT", ""),
        ("Total Assessment", "$9,000", "assessed_value"),
        ("Assessment Year", "2025", "tax_year"),
        ("Special Assessment", "$9,000", ""),
        ("Land Sq Ft", "9,000", ""),
        ("Deeded Ac", "1.59", "acres"),
        ("Transfer Date", "04-MAY-12", "sale_date"),
    ],
)
def test_a_guess_needs_the_words_of_a_field_and_a_value_of_its_kind(label: str, value: str, field: str) -> None:
    assert guess(label, value) == field

"""Lines of owners: a name is never an address, an agent, a number or a notice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.parsers.counties.names import LineKind, line_kinds

NAME, MAILING, NOTICE = LineKind.NAME, LineKind.MAILING, LineKind.NOTICE


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (["DOE JOHN & EVA"], [NAME]),
        (["DOE JOHN", "ROE EVA"], [NAME, NAME]),
        (["DOE JOHN", "C/O ACME SERVICES"], [NAME, MAILING]),
        (["DOE JOHN", "% ROE EVA"], [NAME, MAILING]),
        (["DOE JOHN", "ATTN: TAX DEPT", "PO BOX 7", "ADA, MI 49301"], [NAME, MAILING, MAILING, MAILING]),
        (["DOE JOHN", "12 OAK ST APT 4", "ADA MI 49301-1234"], [NAME, MAILING, MAILING]),
        (["DOE JOHN", "12 OAK ST", "ADA", "49301"], [NAME, MAILING, MAILING, MAILING]),
        (["DOE JOHN", "C/O EVA ROE", "ACME HOLDINGS INC", "12 OAK ST"], [NAME, MAILING, MAILING, MAILING]),
        (["DOE JOHN", "C/O EVA ROE", "WU LLC"], [NAME, MAILING, NAME]),
        (["12 OAK STREET LLC"], [NAME]),
        (["100 ACRE WOOD, LLC"], [NAME]),
        (["DOE JOHN", "4 SEASONS TRUST"], [NAME, NAME]),
        (["49301"], [NOTICE]),
        (["CONFIDENTIAL"], [NOTICE]),
        (["This Owners information is password protected."], [NOTICE]),
        (["PLEASE LOGIN TO VIEW"], [NOTICE]),
        (["*** NAME WITHHELD ***"], [NOTICE]),
        (["Owner information not available online"], [NOTICE]),
        (["CONFIDENTIAL DATA SERVICES INC"], [NAME]),
        (["PO BOX 7", "ADA, MI 49301"], [MAILING, MAILING]),
        (["DOE JOHN", "42 RUE DE RIVOLI", "75001 PARIS", "FRANCE"], [NAME, MAILING, MAILING, MAILING]),
        (["DOE JOHN", "APARTADO 12", "SAN JOSE COSTA RICA"], [NAME, MAILING, MAILING]),
        (["DOE JOHN", "PSC 4 BOX 12", "APO AE 09021"], [NAME, MAILING, MAILING]),
        (["DOE JOHN", "N6789 COUNTY ROAD Q", "ADA WI 54001"], [NAME, MAILING, MAILING]),
        (["DOE JOHN", "W168N8936 APPLETON AVE", "ADA WI 53051"], [NAME, MAILING, MAILING]),
        (["DOE JOHN", "ONE EXECUTIVE PLAZA", "ADA MI 49301"], [NAME, MAILING, MAILING]),
        (["DOE JOHN", "HIGHWAY 61 S", "ADA MS 39000"], [NAME, MAILING, MAILING]),
        (["DOE JOHN 1/2", "ROE EVA 50%", "ADA MI 49301"], [NAME, NAME, MAILING]),
        (["DOE JOHN", "7 OAKS LLC", "ADA MI 49301"], [NAME, NAME, MAILING]),
        (["POBOX HOLDINGS LLC"], [NAME]),
        (["NAME WITHHELD BY OWNER"], [NOTICE]),
        (["RESTRICTED DATA"], [NOTICE]),
        (["US", "ATTNEAVE JOHN", "CARE OFFERINGS LLC"], [NAME, NAME, NAME]),
    ],
)
def test_each_line_is_what_its_form_and_its_place_say(lines: list[str], kinds: list[LineKind]) -> None:
    assert line_kinds(lines) == kinds


@given(st.lists(st.text(min_size=1), max_size=8))
def test_any_lines_have_a_kind_each_and_a_name_has_a_letter(lines: list[str]) -> None:
    kinds = line_kinds(lines)
    assert len(kinds) == len(lines)
    assert all(any(map(str.isalpha, line)) for line, kind in zip(lines, kinds, strict=True) if kind is NAME)


@pytest.mark.parametrize(
    "shown",
    [
        "[REDACTED]",
        "*** CONFIDENTIAL ***",
        "PROTECTED",
        "NAME WITHHELD PER FS 119.07",
        "EXEMPT FROM PUBLIC DISCLOSURE",
        "PUBLIC RECORDS EXEMPT",
        "- NAME NOT SHOWN -",
        "INFORMATION NOT PUBLIC",
        "NO OWNER",
        "XXXXXXXX",
        "TBD",
        "OWNER",
    ],
)
def test_a_notice_is_no_name(shown: str) -> None:
    assert line_kinds([shown]) == [LineKind.NOTICE]


@pytest.mark.parametrize(
    "shown",
    [
        "PUBLIC STORAGE",
        "PRIVATE ROAD LLC",
        "PROTECTED SERIES 7 LLC",
        "NOT FOR PROFIT HOUSING INC",
        "NO NAME RANCH",
        "CONFIDENTIAL TRUST LLC",
        "UNKNOWN HEIRS OF JANE DOE",
        "THE RECORD",
        "DATA SYSTEMS INC",
    ],
)
def test_a_name_with_the_words_of_a_notice_is_a_name(shown: str) -> None:
    assert line_kinds([shown]) == [LineKind.NAME]

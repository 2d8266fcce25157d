"""Values of counties: what is read of them is exact, and what cannot be read is nothing rather than something wrong."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.items.property import normalized
from harvester.parsers.counties import values
from harvester.parsers.counties.html import lines_of, read_page

ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.decimals(), st.text(), st.lists(st.text(), max_size=2), st.floats()
)


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        ("  A01 00000  0001   ", "A01 00000  0001"),
        ("001", "001"),
        (Decimal("4.10106100009E11"), "410106100009"),
        (Decimal("410106100009.0"), "410106100009"),
        (Decimal("101.50"), "101.50"),
        (7, "7"),
        ("NULL", "NULL"),  # a family's name
        ("<Null>", None),
        (" ", None),
        ("a\x00b\t", "a b"),
        (True, None),
        ({"type": "Point"}, None),
    ],
)
def test_text_loses_the_blanks_around_it_and_nothing_else(shown: Any, read: str | None) -> None:
    assert values.text(shown) == read


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        ("$742,900", "742900"),
        ("742900.10", "742900.10"),
        (Decimal("1234.5600000000001"), "1234.5600"),
        ("(1,234.50)", "-1234.50"),
        ("-$12", "-12"),
        ("$-12", "-12"),
        (0, "0"),
        ("1.234,50", None),
        ("12 acres", None),
        ("1E+15", None),
        (10**15, None),
        ("-", None),
        ("", None),
        (None, None),
    ],
)
def test_money_is_exact_or_nothing(shown: Any, read: str | None) -> None:
    found = values.money(shown)
    assert (found if found is None else str(found)) == read


@pytest.mark.parametrize(
    ("shown", "read"),
    [
        ("2019-04-05T00:00:00.000", "2019-04-05"),
        ("4/5/2019", "2019-04-05"),
        ("04/05/2019 12:00:00 AM", "2019-04-05"),
        ("05-SEP-2017", "2017-09-05"),
        ("SEP-05-2017", "2017-09-05"),
        ("20190405", "2019-04-05"),
        (20190405, "2019-04-05"),
        (1554440400000, "2019-04-05"),
        (-86_400_000, "1969-12-31"),
        ("4/5/19", None),
        ("2019-13-05", None),
        ("12/30/1899", None),  # an empty date of a spreadsheet
        ("00000000", None),
        (10**30, None),
        (None, None),
    ],
)
def test_dates_of_all_forms_are_days_or_nothing(shown: Any, read: str | None) -> None:
    found = values.iso_date(shown)
    assert (found and found.isoformat()) == read


@given(st.dates(date(1601, 1, 1), date(2199, 12, 31)), st.sampled_from(["%Y-%m-%d", "%m/%d/%Y", "%Y%m%d", "%d-%b-%Y"]))
def test_every_day_is_read_as_it_was_written(day: date, form: str) -> None:
    if day != date(1899, 12, 30):
        assert values.iso_date(day.strftime(form)) == day


@given(st.decimals(-(10**12), 10**12, places=2))
def test_money_that_was_written_with_signs_comes_back(amount: Decimal) -> None:
    assert values.money(f"${amount:,}" if amount >= 0 else f"(${-amount:,})") == amount
    assert values.money(str(amount)) == amount


@pytest.mark.parametrize(
    ("shown", "year"),
    [
        ("2023 (Payable 2024)", 2023),
        ("Tax Year (2024 - 2025)", 2024),
        ("2024-2025", 2024),
        ("0301 (1)", None),
        ("2024 Main St", None),
    ],
)
def test_a_roll_is_of_the_year_that_it_is_named_by_first(shown: str, year: int | None) -> None:
    assert values.year(shown) == year


def test_lines_of_a_cell_are_those_that_people_see() -> None:
    cell = read_page(b"<td>1 ELM<br>ADA <i>MI</i><div>US<p>A</p> B</div>C<!-- no --></td>")
    assert lines_of(cell) == ["1 ELM", "ADA MI", "US", "A", "B", "C"]


@given(ANYTHING)
def test_no_value_breaks_a_reader(value: Any) -> None:
    for read in (values.text, values.money, values.whole, values.year, values.real, values.iso_date):
        read(value)
    values.iso_date(value, is_epoch=True)


def test_a_number_is_normalized_for_joins_and_keeps_its_leading_zeros() -> None:
    assert normalized("053008-400010-0000") == normalized("0530084000100000") == "0530084000100000"
    assert normalized("a01 00000.0001") == "A01000000001"

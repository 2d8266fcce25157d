"""Values of counties: what is read of them is exact, and what cannot be read is nothing rather than something wrong."""

from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
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
        ("1,234.50-", "-1234.50"),
        ("($1,234)", "-1234"),
        ("$(1,234)", "-1234"),
        ("\u2212$12", "-12"),
        ("$\xa01,234", "1234"),
        ("1.234,50", None),
        ("12,34", None),
        ("(12", None),
        ("(-12)", None),
        ("--12", None),
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
        ("4/5/19", "2019-04-05"),
        ("5-Sep-17", "2017-09-05"),
        ("04-MAY-12", "2012-05-04"),
        ("5-Sep-98", "1998-09-05"),
        ("Jan 5, 2019", "2019-01-05"),
        ("January 5th, 2019", "2019-01-05"),
        ("Sept. 5, 2019", "2019-09-05"),
        ("5 September 2019", "2019-09-05"),
        ("Sat, Jan 05 2019 10:30 AM", "2019-01-05"),
        ("Sat Jan 05 00:00:00 MST 2019", "2019-01-05"),
        ("05JAN2019", "2019-01-05"),
        ("2019/1/5", "2019-01-05"),
        ("01052019", "2019-01-05"),
        (1052019, "2019-01-05"),
        ("04\u201105\u20112019", "2019-04-05"),
        ("April\xa05,\xa02019", "2019-04-05"),
        ("05-FEZ-2019", None),
        ("Marbles 5, 2019", None),
        ("13/05/2019", None),
        ("5.4.2019", None),  # who knows which is the month
        ("4/5/2019 or later", None),
        ("02/30/2020", None),
        (1998, None),  # a year, and no number of milliseconds
        (43560, None),
        ("00/00/0000", None),
        ("0000-00-00", None),
        ("2019-13-05", None),
        ("12/30/1899", None),  # an empty date of a spreadsheet
        ("00000000", None),
        ("0", None),
        ("1900-01-01T00:00:00.000", None),  # an empty date of a database
        ("05/SEP/2017", "2017-09-05"),
        ("2017-Sep-05", "2017-09-05"),
        (10**30, None),
        (None, None),
    ],
)
def test_dates_of_all_forms_are_days_or_nothing(shown: Any, read: str | None) -> None:
    found = values.iso_date(shown)
    assert (found and found.isoformat()) == read


_FORMS = ["%Y-%m-%d", "%m/%d/%Y", "%Y%m%d", "%d-%b-%Y", "%B %d, %Y", "%b. %d, %Y", "%d %B %Y", "%m%d%Y", "%a %b %d %Y"]


@given(st.dates(date(1601, 1, 1), date(2199, 12, 31)), st.sampled_from(_FORMS))
def test_every_day_is_read_as_it_was_written(day: date, form: str) -> None:
    if day not in (date(1899, 12, 30), date(1900, 1, 1)):
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


@given(st.dates(date(1950, 1, 1), date.today()), st.sampled_from(["%m/%d/%y", "%d-%b-%y", "%b %d, %y", "%m-%d-%y"]))
def test_a_year_of_two_digits_is_never_one_of_another_century(day: date, form: str) -> None:
    read = values.iso_date(day.strftime(form))
    assert read == day


def test_a_year_of_two_digits_that_may_be_of_either_century_is_not_read() -> None:
    soon = (date.today().year + 3) % 100
    with pytest.raises(values.Unreadable, match="either century"):
        values.read_date(f"5/1/{soon:02}")


@pytest.mark.parametrize(
    "shown", ["2019-01", "1/2019", "January 2019", "2019", "0/0/2019", "07/00/2019", "2019/00/00", "00/2019"]
)
def test_what_names_no_day_is_a_year_and_no_date(shown: str) -> None:
    with pytest.raises(values.Unreadable, match="no day"):
        values.read_date(shown)
    assert values.year(shown) == 2019


@pytest.mark.parametrize(
    "shown", [None, "", " \xa0", "-", "--", "\u2014", "N/A", "n.a.", "$-", "$ -", "None", "<Null>", "Unknown"]
)
def test_what_stands_for_no_value_is_none_and_is_not_called_unreadable(shown: str | None) -> None:
    for read in (values.read_date, values.read_money, values.read_year, values.read_acres, values.read_square_feet):
        assert read(shown) is None


@pytest.mark.parametrize("shown", ["see deed", "12 acres", "50%", "1.2M", "1,23", "(5", "1 2", True, [], {}])
def test_an_amount_that_is_shown_and_has_no_certain_meaning_is_never_none_or_0(shown: Any) -> None:
    with pytest.raises(values.Unreadable):
        values.read_money(shown)


@pytest.mark.parametrize(
    ("shown", "acres"),
    [
        ("1.59 AC", 1.59),
        ("0.290 acres", 0.29),
        ("35.17A", 35.17),
        ("1 1/2", 1.5),
        ("1-1/2 acres", 1.5),
        ("3/4 Ac.", 0.75),
        ("2\u00bd", 2.5),
        ("1,204.5", 1204.5),
        ("5.00 AC +/-", 5.0),
        (".5", 0.5),
        (Decimal("0.25"), 0.25),
        (0, None),
        ("0.00", None),
    ],
)
def test_acres_are_read_in_the_forms_that_pages_use(shown: Any, acres: float | None) -> None:
    assert values.read_acres(shown) == acres


@pytest.mark.parametrize("shown", ["12,345 sq ft", "12,345 SF", "12345 square feet", "12,345 sqft."])
def test_a_size_is_only_read_in_the_unit_of_its_field(shown: str) -> None:
    assert values.read_square_feet(shown) == 12345
    with pytest.raises(values.Unreadable, match="acres"):
        values.read_acres(shown)


READERS = (values.read_date, values.read_money, values.read_year, values.read_acres, values.read_square_feet)


@given(ANYTHING, st.sampled_from(READERS))
def test_a_value_is_read_is_none_or_is_unreadable_and_never_a_fault(shown: Any, read: Callable[[Any], Any]) -> None:
    with suppress(values.Unreadable):
        read(shown)


@pytest.mark.parametrize(
    ("shown", "read"), [("0000", None), ("00-000", None), ("-", None), ("0117", "0117"), ("0", None)]
)
def test_a_reference_of_zeros_is_none(shown: str, read: str | None) -> None:
    assert values.reference(shown) == read


@pytest.mark.parametrize(
    ("shown", "year"),
    [
        ("2024 Final", 2024),
        ("2024 payable 2025", 2024),
        ("FY 2024", 2024),
        ("2023-24", 2023),
        ("1999-00", 1999),
        ("1910/1985", None),  # two years of two buildings
        ("2024 est", None),
    ],
)
def test_a_roll_is_of_its_first_year_and_two_years_that_do_not_follow_are_none(shown: str, year: int | None) -> None:
    assert values.year(shown) == year


def test_a_sale_of_a_day_to_come_is_not_believed() -> None:
    soon, later = date.today() + timedelta(days=7), date.today() + timedelta(days=400)
    assert values.read_past_date(f"{soon:%m/%d/%Y}") == soon
    with pytest.raises(values.Unreadable, match="to come"):
        values.read_past_date(f"{later:%m/%d/%Y}")
    assert values.read_date(f"{later:%m/%d/%Y}") == later

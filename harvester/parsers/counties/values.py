"""Values as counties write them: text with padding, numbers as text, money with signs, dates in a dozen ways."""

import re
from calendar import month_abbr
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

MOST_MONEY = Decimal(10) ** 15
"""What is more is no money of a parcel."""
MOST_DIGITS = 40
"""Of a number that is written without exponent."""
PLACES = 4
"""Behind the point, of money: what computers add to a value beyond them is no money."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_DATE = date(1899, 12, 30)
"""What an empty date of a spreadsheet becomes."""
_FIRST_YEAR, _LAST_YEAR = 1600, 2200
_MONTHS = {name.upper(): number for number, name in enumerate(month_abbr)}
_control = re.compile(r"[\x00-\x1f\x7f]+")
_number = re.compile(
    r"(?P<sign>\(?-?)\s*(?:\$\s*)?(?P<digits>-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|-?\.\d+)\s*\)?", re.A
).fullmatch
_iso = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ].*)?", re.A).fullmatch
_american = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})(?: .*)?", re.A).fullmatch
_day_month = re.compile(r"(\d{1,2})-([A-Za-z]{3})[a-z]*-(\d{4})", re.A).fullmatch
_month_day = re.compile(r"([A-Za-z]{3})[a-z]*-(\d{1,2})-(\d{4})", re.A).fullmatch
_roll_year = re.compile(
    r"(?:tax year\s*)?\(?(\d{4})(?:\s*[-–]\s*\d{4})?\)?(?:\s*\(.*\))?", re.IGNORECASE | re.ASCII
).fullmatch
_digits = re.compile(r"(\d{4})(\d{2})(\d{2})", re.A).fullmatch


def text(value: Any) -> str | None:
    """Without the blanks around it; those in it stay. None when nothing is left, and for what is no single value."""
    if isinstance(value, Decimal):
        value = plain(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    found = str(value).strip()
    if not found.isprintable():
        found = _control.sub(" ", found).strip()
    return None if found == "<Null>" else found or None


def plain(value: Decimal) -> str:
    """A number without exponent: a parcel's number may come as 4.10106100009E11, and as 410106100009.0."""
    if not value.is_finite() or abs(value.adjusted()) >= MOST_DIGITS:
        return str(value)
    return str(int(value)) if value == value.to_integral_value() else format(value, "f")


def number(value: Any) -> Decimal | None:
    """Of a number, or of text like `$1,234.50`, `(1,234)` and `-12`; None of all else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        value = Decimal(str(value))
    if isinstance(value, str):
        shown = _number(value.strip())
        if not shown:
            return None
        found = Decimal(shown["digits"].replace(",", ""))
        return -abs(found) if shown["sign"] else found
    return value if isinstance(value, Decimal) and value.is_finite() else None


def money(value: Any) -> Decimal | None:
    """Exact, with at most PLACES behind the point. None when it is none."""
    found = number(value)
    if found is None or abs(found) >= MOST_MONEY:
        return None
    return round(found, PLACES) if -int(found.as_tuple().exponent) > PLACES else Decimal(format(found, "f"))


def whole(value: Any) -> int | None:
    """A number that has nothing behind its point."""
    found = number(value)
    return int(found) if found is not None and abs(found) < 10**18 and found == int(found) else None


def year(value: Any) -> int | None:
    """Of four digits, of what begins with a date, or of a roll: `2024 (payable 2025)`, `Tax Year (2024 - 2025)`."""
    found = whole(value)
    if found is None and isinstance(value, str) and (roll := _roll_year(value.strip())):
        found = int(roll[1])
    if found is None:
        day = iso_date(value) if isinstance(value, str) else None
        return day.year if day else None
    return found if _FIRST_YEAR <= found < _LAST_YEAR else None


def real(value: Any) -> float | None:
    """A measure, that is never negative."""
    found = number(value)
    return float(found) if found is not None and 0 <= found < 10**15 else None


def iso_date(value: Any, *, is_epoch: bool = False) -> date | None:
    """Of text, or of a number: its eight digits are a year, a month and a day; any other one is milliseconds since
    1970 in UTC, and so is each when `is_epoch`."""
    if isinstance(value, str):
        return _of_text(value.strip())
    found = whole(value)
    if found is None:
        return None
    if not is_epoch and _digits(str(found)):
        return _of_text(str(found))
    try:
        return _usable((_EPOCH + timedelta(milliseconds=found)).date())
    except OverflowError:
        return None


def _of_text(shown: str) -> date | None:
    if found := _iso(shown) or _digits(shown):
        return _day(found[1], found[2], found[3])
    if found := _american(shown):
        return _day(found[3], found[1], found[2])
    if found := _day_month(shown):
        return _day(found[3], str(_MONTHS.get(found[2].upper(), 0)), found[1])
    if found := _month_day(shown):
        return _day(found[3], str(_MONTHS.get(found[1].upper(), 0)), found[2])
    return None


def _day(of_year: str, month: str, day: str) -> date | None:
    try:
        return _usable(date(int(of_year), int(month), int(day)))
    except ValueError:
        return None


def _usable(day: date) -> date | None:
    return day if _FIRST_YEAR <= day.year < _LAST_YEAR and day != _NO_DATE else None

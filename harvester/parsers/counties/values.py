"""Reads values as counties write them: padded text, numbers as text, money with signs, dates in a dozen forms.

The functions `read_...` return None if the source shows no value (a blank, `N/A`, a dash), and raise Unreadable if the
value has no certain meaning. The functions without that prefix return None in both cases.
"""

import re
from calendar import month_abbr, month_name
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

MOST_MONEY = Decimal(10) ** 15
"""Dollars. Larger numbers are not amounts for a parcel."""
MOST_DIGITS = 40
"""Maximum number of digits of a number that is written without exponent."""
PLACES = 4
"""Maximum number of decimal places of money: further ones are rounding errors of computers."""
MAX_SHOWN = 60
"""Maximum number of characters of an unreadable value that are saved."""
AMBIGUOUS_YEARS = 15
"""Years. A two-digit year up to this far ahead may mean either century, a later one means the last century."""
MAX_AHEAD = timedelta(days=31)
"""Maximum time between the report of an announced sale and its date."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_DATES = (date(1899, 12, 30), date(1900, 1, 1))
"""The dates that an empty date of a spreadsheet or a database becomes."""
_FIRST_YEAR, _LAST_YEAR = 1600, 2200
_MIN_EPOCH, _MAX_NEGATIVE = 10**11, -(10**7)
"""Limits between which a number is a date only if the column declares so: it may be seconds or a spreadsheet's day."""
_MONTHS = {name.upper(): number for names in (month_abbr, month_name) for number, name in enumerate(names) if name}
_MONTHS["SEPT"] = 9
_control = re.compile(r"[\x00-\x1f\x7f]+")
_UNSEEN = dict.fromkeys([0xAD, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF]) | {0xA0: " "}
"""Invisible characters, and the no-break space."""
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"), "-")
_is_nothing = re.compile(
    r"[-$.,/\s()]*|<null>|n/?a|n\.a\.|null|none|not available|not applicable|unknown", re.IGNORECASE
).fullmatch
_is_no_date = re.compile(r"(?:0{1,4}[-/.]){2}0{1,4}(?:[ T].*)?|0{1,8}").fullmatch
_is_zeros = re.compile(r"[0\s/-]+").fullmatch
_is_no_text = re.compile(r"-+|n/a|<null>", re.IGNORECASE).fullmatch
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_number = re.compile(
    rf"(?P<before>[-+]?\s*\$?\s*[-+]?)\s*(?P<digits>{_DIGITS})\s*(?P<after>-?)(?:\s*USD)?", re.A
).fullmatch
_in_brackets = re.compile(r"(\$?)\s*\(\s*(\$?[^()]*)\)").fullmatch
_measure = re.compile(
    rf"(?P<number>{_DIGITS})?(?:(?:(?<=\d)[\s-]+|^)(?P<over>\d{{1,3}})/(?P<under>\d{{1,3}}))?\s*(?P<unit>[^\W\d_].*)?",
    re.A,
).fullmatch
_VULGAR = {"\u00bc": " 1/4", "\u00bd": " 1/2", "\u00be": " 3/4", "\u2153": " 1/3", "\u2154": " 2/3"}
_about = re.compile(r"\s*(?:±|\+\s*/\s*-|m/l|more or less)\s*$", re.IGNORECASE)
_TIME = r"(?:(?:,?\s+|T)\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:[AP]\.?M\.?)?\s*(?:Z|[A-Z]{2,4}|[+-]\d{2}:?\d{2})?)?"
_YEAR = r"(\d{4}|'?\d{2})"
_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\.?,?\s+)?"
_FORMS: tuple[tuple[Callable[[str], re.Match[str] | None], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.ASCII).fullmatch, order)
    for pattern, order in (
        (rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_TIME}", "ymd"),
        (rf"(\d{{1,2}})[/-](\d{{1,2}})[/-]{_YEAR}{_TIME}", "mdy"),
        (rf"{_WEEKDAY}(\d{{1,2}})(?:st|nd|rd|th)?[\s/-]+(?:of\s+)?([a-z]{{3,9}})\.?,?[\s/-]+{_YEAR}{_TIME}", "dmy"),
        (rf"(\d{{4}})[\s/-]([a-z]{{3,9}})[\s/-](\d{{1,2}}){_TIME}", "ymd"),
        (rf"(\d{{1,2}})([a-z]{{3}})(\d{{4}}){_TIME}", "dmy"),
        (rf"{_WEEKDAY}([a-z]{{3,9}})\.?[\s-]+(\d{{1,2}})(?:st|nd|rd|th)?(?:,\s*|[\s-]+){_YEAR}{_TIME}", "mdy"),
        (rf"{_WEEKDAY}([a-z]{{3}}) (\d{{1,2}}) \d\d:\d\d:\d\d [A-Z]{{2,4}} (\d{{4}})", "mdy"),  # as Java shows a date
    )
)
_of_month = re.compile(
    r"(?:(\d{1,2}|[a-z]{3,9})\.?,?[\s/-]+(\d{4})|(\d{4})[/-](\d{1,2}))", re.IGNORECASE | re.ASCII
).fullmatch
_without_day = re.compile(
    r"\d{1,2}[/-]0{1,2}[/-](\d{4})|(\d{4})[/-]\d{1,2}[/-]0{1,2}|0{1,2}[/-](\d{4})", re.ASCII
).fullmatch
_STAGE = r"(?:\s+(?:final|certified|working|preliminary|tentative|proposed|real|roll|values?|payable \d{4}))*"
_roll_year = re.compile(
    rf"(?:(?:tax|fiscal|roll) year\s*|fy\s*)?\(?(\d{{4}})(?:\s*[-/]\s*(\d{{4}}|\d{{2}}))?\)?{_STAGE}(?:\s*\(.*\))?",
    re.IGNORECASE | re.ASCII,
).fullmatch
_Read = TypeVar("_Read")
_eight = re.compile(r"(\d{4})(\d{2})(\d{2})", re.A).fullmatch


class Unreadable(ValueError):
    """Raised by the functions `read_...` for a value without a certain meaning; the message has the reason."""


def text(value: Any) -> str | None:
    """Returns the text without surrounding blanks; inner ones are preserved.

    None for an empty text, a dash or `n/a`, and for values other than text or numbers.
    """
    if isinstance(value, Decimal):
        value = plain(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    found = str(value).strip()
    if not found.isprintable():
        found = _control.sub(" ", found.translate(_UNSEEN)).strip()
    return None if _is_no_text(found.translate(_DASHES)) else found or None


def reference(value: Any) -> str | None:
    """Returns the text of a book, a page or a document's number.

    Returns None for zeros only: they mean a missing number.
    """
    found = text(value)
    return None if found and _is_zeros(found) else found


def plain(value: Decimal) -> str:
    """Returns a number without exponent: a parcel's number may arrive as 4.10106100009E11, or as 410106100009.0."""
    if not value.is_finite() or abs(value.adjusted()) >= MOST_DIGITS:
        return str(value)
    return str(int(value)) if value == value.to_integral_value() else format(value, "f")


def is_nothing(value: Any) -> bool:
    """Returns True for a placeholder of a missing number or date: a blank, a dash, `N/A`."""
    return value is None or (isinstance(value, str) and _is_nothing(_tidy(value)) is not None)


def why_unread(value: Any, error: Unreadable) -> str:
    """Returns a value with the reason why it was not read."""
    shown = _tidy(str(value))
    return f"{shown[:MAX_SHOWN]}{'...' if len(shown) > MAX_SHOWN else ''}: {error}"


# Numbers ------------------------------------------------------------------------------------------------------


def read_number(value: Any) -> Decimal | None:
    """Reads a number, or text like `$1,234.50`, `(1,234)`, `-12` and `12-`."""
    if isinstance(value, str):
        shown = _tidy(value)
        if _is_nothing(shown):
            return None
        if (found := _signed(shown)) is not None:
            return found
    elif value is None:
        return None
    elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        found = value if isinstance(value, Decimal) else Decimal(str(value))
        if found.is_finite():
            return found
    raise Unreadable("it is no number")


def number(value: Any) -> Decimal | None:
    """Reads a number like read_number."""
    return _or_none(read_number, value)


def read_money(value: Any) -> Decimal | None:
    """Reads an amount, exact, with at most PLACES decimal places."""
    found = read_number(value)
    if found is None:
        return None
    if abs(found) >= MOST_MONEY:
        raise Unreadable("it is too much for an amount")
    return round(found, PLACES) if -int(found.as_tuple().exponent) > PLACES else Decimal(format(found, "f"))


def money(value: Any) -> Decimal | None:
    """Reads an amount like read_money."""
    return _or_none(read_money, value)


def whole(value: Any) -> int | None:
    """Reads a whole number."""
    found = number(value)
    return int(found) if found is not None and abs(found) < 10**18 and found == int(found) else None


def real(value: Any) -> float | None:
    """Reads a measure, which is never negative."""
    return _or_none(_read_real, value)


def read_acres(value: Any) -> float | None:
    """Reads a size in acres: a number or a fraction, each with or without the unit. 0 means unknown."""
    return _read_measure(value, "AC A ACRE ACRES ACREAGE", "acres")


def read_square_feet(value: Any) -> float | None:
    """Reads a size in square feet like read_acres."""
    return _read_measure(value, "SF SQFT SQFEET SQUAREFEET SQUAREFOOT FT2 SQFTS", "square feet")


# Dates --------------------------------------------------------------------------------------------------------


def read_year(value: Any) -> int | None:
    """Reads a year: four digits, a text with a date, or a roll: `2024 (payable 2025)`, `Tax Year (2024 - 2025)`."""
    if is_nothing(value) or (found := whole(value)) == 0:
        return None
    if found is None and isinstance(value, str):
        shown = _tidy(value)
        if (roll := _roll_year(shown)) and (not roll[2] or (int(roll[1]) + 1) % 100 == int(roll[2]) % 100):
            found = int(roll[1])
        elif bare := _without_day(shown):
            found = int(bare[1] or bare[2] or bare[3])
        elif (month := _of_month(shown)) and _month_number(month[1] or month[4]):
            found = int(month[2] or month[3])
        elif day := iso_date(shown):
            found = day.year
    if found is None or not _FIRST_YEAR <= found < _LAST_YEAR:
        raise Unreadable("it is no year")
    return found


def year(value: Any) -> int | None:
    """Reads a year like read_year."""
    return _or_none(read_year, value)


def read_date(value: Any, *, is_epoch: bool = False) -> date | None:
    """Reads a date from text or a number.

    Eight digits are year, month and day; other numbers, or all with `is_epoch`, are milliseconds since 1970 in UTC.

    A two-digit year is never later than the current one. Text without a day is unreadable.
    """
    if is_nothing(value):
        return None
    if isinstance(value, str):
        shown = _tidy(value)
        return None if _is_no_date(shown) else _usable(_of_text(shown))
    found = whole(value)
    if found is None:
        raise Unreadable("it is no date")
    if found == 0:
        return None
    if not is_epoch and 10**6 < found < 10**8:
        return _usable(_of_text(str(found).zfill(8)))
    if not is_epoch and _MAX_NEGATIVE < found < _MIN_EPOCH:
        raise Unreadable("it is a year, and names no day" if _FIRST_YEAR <= found < _LAST_YEAR else "it is no date")
    try:
        return _usable((_EPOCH + timedelta(milliseconds=found)).date())
    except OverflowError:
        raise Unreadable("it is no date") from None


def read_past_date(value: Any, *, is_epoch: bool = False) -> date | None:
    """Reads a date like read_date. A date later than MAX_AHEAD from today is unreadable."""
    found = read_date(value, is_epoch=is_epoch)
    if found and found > date.today() + MAX_AHEAD:
        raise Unreadable("it is a day to come")
    return found


def iso_date(value: Any, *, is_epoch: bool = False) -> date | None:
    """Reads a date like read_date."""
    try:
        return read_date(value, is_epoch=is_epoch)
    except Unreadable:
        return None


def _of_text(shown: str) -> date:
    if found := _eight(shown):
        if int(found[1]) >= _FIRST_YEAR:
            return _day(found[1], found[2], found[3])
        return _day(shown[4:], shown[:2], shown[2:4])
    if _without_day(shown):
        raise Unreadable("it names no day")
    for form, order in _FORMS:
        if found := form(shown):
            said = dict(zip(order, found.groups(), strict=True))
            if month := _month_number(said["m"]):
                return _day(said["y"], str(month), said["d"])
    if (month_of := _of_month(shown)) and _month_number(month_of[1] or month_of[4]):
        raise Unreadable("it names a month, and no day")
    if re.fullmatch(r"\d{4}", shown):
        raise Unreadable("it is a year, and names no day")
    if re.fullmatch(r"\d{5,}", shown):
        raise Unreadable("it is a number, and no date")
    raise Unreadable("it is no date in a form that is known")


def _month_number(shown: str | None) -> int:
    """Returns the number of a month from its name or digits; 0 if invalid."""
    if shown and shown.isdecimal():
        return int(shown) if 1 <= int(shown) <= 12 else 0
    return _MONTHS.get((shown or "").upper(), 0)


def _day(of_year: str, month: str, day: str) -> date:
    digits = of_year.lstrip("'")
    full = int(digits) if len(digits) == 4 else _full_year(int(digits))
    try:
        return date(full, int(month), int(day))
    except ValueError:
        raise Unreadable("there is no such day") from None


def _full_year(two_digits: int) -> int:
    """Returns the full year for two digits. Raises Unreadable when both centuries are likely."""
    now = date.today().year
    this_century = now - now % 100 + two_digits
    if this_century <= now:
        return this_century
    if this_century <= now + AMBIGUOUS_YEARS:
        raise Unreadable("its year has two digits and may be of either century")
    return this_century - 100


def _usable(day: date) -> date | None:
    if day in _NO_DATES or day.year == 1:
        return None
    if not _FIRST_YEAR <= day.year < _LAST_YEAR:
        raise Unreadable("its year is none of a record")
    return day


# Text of numbers ----------------------------------------------------------------------------------------------


def _tidy(shown: str) -> str:
    """Returns text in one line, with one kind of blank and one kind of dash."""
    return " ".join(shown.translate(_DASHES).split())


def _signed(shown: str) -> Decimal | None:
    is_negative = False
    if brackets := _in_brackets(shown):
        shown, is_negative = brackets[1] + brackets[2].strip(), True
    found = _number(shown)
    signs = f"{found['before']}{found['after']}".count("-") if found else 0
    if not found or signs > 1 or (is_negative and signs):
        return None
    amount = Decimal(found["digits"].replace(",", ""))
    return -amount if signs or is_negative else amount


def _read_real(value: Any) -> float | None:
    found = read_number(value)
    if found is not None and not 0 <= found < 10**15:
        raise Unreadable("it is no measure")
    return None if found is None else float(found)


def _read_measure(value: Any, units: str, called: str) -> float | None:
    if is_nothing(value):
        return None
    if not isinstance(value, str):
        return _read_real(value) or None
    shown = _about.sub("", "".join(_VULGAR.get(each, each) for each in _tidy(value))).strip()
    found = _measure(shown)
    if not found or not (found["number"] or found["over"]):
        raise Unreadable("it is no measure")
    unit = re.sub(r"[^A-Z0-9]", "", _about.sub("", found["unit"] or "").upper())
    if unit and unit not in units.split():
        raise Unreadable(f"it is not said in {called}")
    whole_part = _read_real(found["number"]) or 0.0
    if found["over"]:
        if int(found["under"]) == 0 or not whole_part.is_integer():
            raise Unreadable("it is no measure")
        whole_part += float(Fraction(int(found["over"]), int(found["under"])))
    return whole_part or None


def _or_none(read: Callable[[Any], _Read | None], value: Any) -> _Read | None:
    try:
        return read(value)
    except Unreadable:
        return None

"""Reads the dates of feeds: a point in time in UTC, or the reason why a date cannot be read. Pure.

A wrong date is worse than a missing one. A time without a zone, a zone with several meanings, and an ambiguous order of
day and month are refused, and the reason quotes the text.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

MAX_AHEAD = timedelta(days=366)
"""Maximum time between the visit and a future date, such as the date of an event. Later dates are placeholders."""
MIN_YEAR, MAX_YEAR = 1900, 2200
MAX_CHARS = 100
"""Maximum number of characters of a date. A longer text is refused."""

_MONTHS = (
    # English, German, French, Spanish, Italian, Portuguese, Dutch, Greek, Russian: prefixes that mean one month only.
    "jan gen ene янв ιαν",
    "feb fev fév fe\u0301v феб φεβ",
    "mar mär maa mrt märz мар μαρ μάρ",
    "apr abr avr апр απρ",
    "may mai mag mei mayo май мая μαι μάι μαϊ",
    "jun juin giu июн ιουν ιούν",
    "jul juil lug июл ιουλ ιούλ",
    "aug ago aoû aou авг αυγ αύγ",
    "sep set сен σεπ",
    "oct okt ott out окт οκτ",
    "nov ноя νοε",
    "dec dez dic déc дек δεκ",
)
_MONTH_STARTS = {start: number for number, starts in enumerate(_MONTHS, 1) for start in starts.split()}
_ZONES_H = {
    "z": 0,
    "gmt": 0,
    "utc": 0,
    "ut": 0,
    "wet": 0,
    "west": 1,
    "cet": 1,
    "cest": 2,
    "met": 1,
    "mest": 2,
    "eet": 2,
    "eest": 3,
    "msk": 3,
    "jst": 9,
    "kst": 9,
    "aest": 10,
    "aedt": 11,
    "acst": 9.5,
    "acdt": 10.5,
    "awst": 8,
    "nzst": 12,
    "nzdt": 13,
    "est": -5,
    "edt": -4,
    "cst": -6,
    "cdt": -5,
    "mst": -7,
    "mdt": -6,
    "pst": -8,
    "pdt": -7,
    "akst": -9,
    "akdt": -8,
    "hst": -10,
    "bst": 1,
}
"""Zones of RFC 822, and others with a single usual meaning in feeds. IST (India, Israel, Ireland) is left out."""

_ZONE = r"(?:(?:gmt|utc)\s*)?(?P<sign>[+-])(?P<zh>\d{1,2}):?(?P<zm>\d{2})(?:\s*\([^()]*\))?|(?P<zone>[^\W\d_]{1,5})"
_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,12}))?)?(?:\s*(?P<half>[ap])\.?m\.?)?"
    rf"(?:\s*(?:{_ZONE}))?"
)
_WORD = r"[^\W\d_]+"
_DAY = rf"(?:{_WORD}\.?,?\s+|{_WORD}\.?,)?"
_FLAGS = re.IGNORECASE
_rfc = re.compile(
    rf"{_DAY}(?P<day>\d{{1,2}})(?:\.|\s|-|de\b)+(?P<month>{_WORD})\.?(?:\s|-|,|de\b)+(?P<year>\d{{4}}|\d\d)"
    rf"(?:,?\s+(?:{_TIME}))?",
    _FLAGS,
).fullmatch
_american = re.compile(
    rf"{_DAY}(?P<month>{_WORD})\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})(?:,?\s+(?:{_TIME}))?",
    _FLAGS,
).fullmatch
_asctime = re.compile(
    rf"{_WORD}\s+(?P<month>{_WORD})\s+(?P<day>\d{{1,2}})\s+(?P<hour>\d{{2}}):(?P<minute>\d{{2}}):(?P<second>\d{{2}})"
    rf"(?:\s+(?:{_ZONE}))?\s+(?P<year>\d{{4}})",
    _FLAGS,
).fullmatch
_iso = re.compile(
    rf"(?P<year>\d{{4}})[-/](?P<month>\d{{1,2}})[-/](?P<day>\d{{1,2}})(?:[T\s]\s*(?:{_TIME}))?", _FLAGS
).fullmatch
_east_asian = re.compile(
    rf"(?P<year>\d{{4}})\s*[年년]\s*(?P<month>\d{{1,2}})\s*[月월]\s*(?P<day>\d{{1,2}})\s*[日일](?:\s+(?:{_TIME}))?",
    _FLAGS,
).fullmatch
_month_only = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d{2}))?").fullmatch


class Date(NamedTuple):
    """The result of reading a date."""

    at: datetime | None
    """In UTC; None if the date cannot be read for certain."""
    problem: str = ""
    """Reason why the date is missing, quoting the text; empty if there is a date, or if the text was empty."""


def read_date(text: str, seen_at: datetime | None = None) -> Date:
    """Reads the forms of RFC 822 and W3C, and other forms found in feeds.

    `seen_at` is the time of the fetch.
    """
    given = " ".join(text.split())
    if not given:
        return Date(None)
    try:
        if len(given) > MAX_CHARS:
            raise _Unread("it is too long for a date")
        at = _read(given)
        if not MIN_YEAR <= at.year <= MAX_YEAR or at.timestamp() == 0:
            raise _Unread("it stands for no date")
        if seen_at is not None and at > seen_at + MAX_AHEAD:
            raise _Unread("it lies more than a year in the future")
    except (ValueError, OverflowError) as error:
        said = str(error) if isinstance(error, _Unread) else "there is no such date"
        return Date(None, f"{given[:MAX_CHARS]!r}: {said}")
    return Date(at)


class _Unread(ValueError):
    """The reason why a text is not a date. Raised by `_read`, caught by `read_date`."""


def _read(text: str) -> datetime:
    found = next(filter(None, (form(text) for form in (_rfc, _iso, _american, _asctime, _east_asian))), None)
    if found is None:
        if short := _month_only(text):
            return datetime(int(short["year"]), int(short["month"] or 1), 1, tzinfo=UTC)
        raise _Unread("it is in no form of a date that can be read for certain")
    parts = found.groupdict()
    year, month, day = int(parts["year"]), _month(parts["month"]), int(parts["day"])
    if len(parts["year"]) == 2:  # RFC 2822, section 4.3
        year += 2000 if year < 50 else 1900
    if parts["hour"] is None:
        return datetime(year, month, day, tzinfo=UTC)
    hour, minute, second = int(parts["hour"]), int(parts["minute"]), int(parts["second"] or 0)
    if parts.get("half"):
        if not 1 <= hour <= 12:
            raise _Unread(f"it names the hour {hour} of half a day")
        hour = hour % 12 + (12 if parts["half"].lower() == "p" else 0)
    if second == 60:  # a leap second
        second = 59
    next_day = (hour, minute, second) == (24, 0, 0)
    micros = int((parts.get("fraction") or "0")[:6].ljust(6, "0"))
    local = datetime(year, month, day, 0 if next_day else hour, minute, second, micros, _zone(parts))
    return (local + timedelta(days=next_day)).astimezone(UTC)


def _month(text: str) -> int:
    if text.isdecimal():
        return int(text)
    name = text.lower()
    for length in range(min(len(name), 4), 2, -1):
        if number := _MONTH_STARTS.get(name[:length]):
            return number
    raise _Unread(f"its month {text!r} is none that is known")


def _zone(parts: dict[str, str | None]) -> timezone:
    if parts["sign"]:
        hours, minutes = int(parts["zh"] or 0), int(parts["zm"] or 0)
        if hours > 14 or minutes > 59:
            raise _Unread("it names a time zone that is none")
        return timezone((1 if parts["sign"] == "+" else -1) * timedelta(hours=hours, minutes=minutes))
    if not parts["zone"]:
        raise _Unread("it names no time zone")
    hours_of = _ZONES_H.get(parts["zone"].lower())
    if hours_of is None:
        raise _Unread(f"its time zone {parts['zone']} is none that is known")
    return timezone(timedelta(hours=hours_of))

"""Durations as people write them: 30s, 5m, 1h, 2d, 1w."""

import re

from harvester.exceptions import UsageError

_UNIT_S = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_duration = re.compile(r"([0-9]{1,8})([smhdw])").fullmatch

SHORTEST_S, LONGEST_S = 30, 52 * _UNIT_S["w"]


def read_duration(text: str) -> int:
    """Returns the seconds of a duration from 30 s to 52 weeks. Raises UsageError."""
    if not (found := _duration(text)):
        raise UsageError(f"{text!r} is no duration: a whole number and s, m, h, d or w, such as 30s, 5m, 1h, 2d or 1w")
    seconds = int(found[1]) * _UNIT_S[found[2]]
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UsageError(f"{text} is too {'short' if seconds < SHORTEST_S else 'long'}: from 30s to 52w can be kept")
    return seconds


def duration_text(seconds: int) -> str:
    """Returns the text for `read_duration`, in the largest unit with a whole number: 5400 -> "90m"."""
    unit, size = next((unit, size) for unit, size in _UNIT_S.items() if not seconds % size)
    return f"{seconds // size}{unit}"


def roughly(seconds: float) -> str:
    """Returns a rounded duration for a sentence: 45 -> "45 s", 5000 -> "83 min", 12345 -> "3.4 h", 200000 -> "2.3
    days"."""
    for size, unit, least in ((86_400, "days", 1.5), (3_600, "h", 1.5), (60, "min", 1.5)):
        if seconds >= least * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 99.5 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def number_text(number: float) -> str:
    """Returns the number as policies write it: at most six decimals and no exponent, because no policy reads one."""
    return f"{number:.6f}".rstrip("0").rstrip(".")

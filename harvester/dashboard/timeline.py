"""Posts or sales over time as bars, without absurd dates."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Self

_DAYS_UNTIL = 62
_WEEKS_UNTIL = 2 * 366
_MONTHS_UNTIL = 20 * 366
"""Maximum number of days for bars of a day, a week or a month; longer spans have bars of a year."""

_TAIL = 0.01
"""Share of the counts at each end that may be outliers."""


@dataclass(frozen=True)
class Timeline:
    """Bars without gaps, oldest first."""

    unit: str
    """`day`, `week`, `month` or `year`."""
    bars: list[tuple[date, int]]
    """First day of the bar, and its count."""
    left_out: int
    """Number of outliers far before or after all others."""
    earliest: date | None
    latest: date | None
    """First and last day, including outliers."""

    @classmethod
    def of(cls, days: Mapping[date, int]) -> Self:
        """Returns the timeline of the counts by day."""
        if not days:
            return cls("day", [], 0, None, None)
        first, last = _usual(days)
        shown = {day: count for day, count in days.items() if first <= day <= last}
        span = (max(shown) - min(shown)).days
        spans = {"day": _DAYS_UNTIL, "week": _WEEKS_UNTIL, "month": _MONTHS_UNTIL}
        unit = next((unit for unit, days_until in spans.items() if span <= days_until), "year")
        counts: Counter[date] = Counter()
        for day, count in shown.items():
            counts[_start(day, unit)] += count
        start, last = min(counts), max(counts)
        bars = [(start, counts[start])]
        while start < last:  # no day comes after 9999-12-31, which many registers use for an unknown one
            start = _next(start, unit)
            bars.append((start, counts[start]))
        return cls(unit, bars, sum(days.values()) - sum(shown.values()), min(days), max(days))

    @property
    def most(self) -> int:
        return max((count for _, count in self.bars), default=0)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Returns up to five labels below the bars: (position from 0 to 1, text)."""
        count = len(self.bars)
        wanted = sorted({round(i * (count - 1) / 4) for i in range(5)}) if count else []
        pattern = {"month": "%b %Y", "year": "%Y"}.get(self.unit, "%d %b %Y")
        return [((index + 0.5) / count, f"{self.bars[index][0]:{pattern}}") for index in wanted]


def _usual(days: Mapping[date, int]) -> tuple[date, date]:
    """Returns the first and last day of the time with nearly all counts, with a margin as long as that time."""
    total, seen = sum(days.values()), 0
    inner = []
    for day in sorted(days):
        before, seen = seen, seen + days[day]
        if seen > _TAIL * total and before < (1 - _TAIL) * total:
            inner.append(day)
    margin = (inner[-1] - inner[0]) + timedelta(days=30)
    first = inner[0] - margin if inner[0] - date.min > margin else date.min
    last = inner[-1] + margin if date.max - inner[-1] > margin else date.max
    return first, last


def _start(day: date, unit: str) -> date:
    if unit == "day":
        return day
    if unit == "year":
        return day.replace(month=1, day=1)
    return day - timedelta(days=day.weekday()) if unit == "week" else day.replace(day=1)


def _next(start: date, unit: str) -> date:
    if unit == "year":
        return start.replace(year=start.year + 1)
    if unit == "month":
        return (start + timedelta(days=32)).replace(day=1)
    return start + timedelta(days=7 if unit == "week" else 1)

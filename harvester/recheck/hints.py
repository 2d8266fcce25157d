"""The hints of a feed about the next visit. A hint delays a visit, and never hastens one. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

MOST_S = 86_400
"""Seconds that a site may delay a visit, at most. A feed that asks for a year is usually misconfigured."""
_HOURS = 24 * 8
"""Hours to search for a time that is not skipped."""


class Hints(msgspec.Struct, frozen=True, omit_defaults=True):
    """The hints in a feed and in the headers of the response."""

    interval_s: int = 0
    """The longest of RSS's `ttl`, `max-age`, and the product of `sy:updatePeriod` and `sy:updateFrequency`."""
    skip_hours: tuple[int, ...] = ()
    """Hours of the day without visits, in GMT."""
    skip_days: tuple[int, ...] = ()
    """Days of the week without visits, in GMT; 0 is Monday."""


def not_before(hints: Hints, now: datetime) -> datetime | None:
    """Returns the earliest time for a visit; None without a useful hint. `now` is in UTC."""
    at = now + timedelta(seconds=min(hints.interval_s, MOST_S))
    wanted = at if hints.interval_s > 0 else None
    if not _is_skipped(hints, at):
        return wanted
    hour = at.replace(minute=0, second=0, microsecond=0)
    later: Iterable[datetime] = (hour + timedelta(hours=number) for number in range(1, _HOURS))
    return next((each for each in later if not _is_skipped(hints, each)), wanted)  # `wanted` if all hours are skipped


def _is_skipped(hints: Hints, at: datetime) -> bool:
    return at.hour in hints.skip_hours or at.weekday() in hints.skip_days

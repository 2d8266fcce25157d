"""What a feed says of when to look again: a hint puts a look off, and brings none forward. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

MOST_S = 86_400
"""A site may put a look off by so much; a feed that says a year is usually one that nobody has looked through."""
_HOURS = 24 * 8
"""In which a time must come that is not skipped."""


class Hints(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a feed, and the headers it came with, say."""

    interval_s: int = 0
    """The longest of RSS's `ttl`, `max-age`, and what `sy:updatePeriod` and `sy:updateFrequency` make."""
    skip_hours: tuple[int, ...] = ()
    """Of the day, GMT, in which nobody should look."""
    skip_days: tuple[int, ...] = ()
    """Of the week, GMT; 0 is Monday."""


def not_before(hints: Hints, now: datetime) -> datetime | None:
    """Until when no look is wanted; None when there is no hint of use. `now` in UTC."""
    at = now + timedelta(seconds=min(hints.interval_s, MOST_S))
    wanted = at if hints.interval_s > 0 else None
    if not _is_skipped(hints, at):
        return wanted
    hour = at.replace(minute=0, second=0, microsecond=0)
    later: Iterable[datetime] = (hour + timedelta(hours=number) for number in range(1, _HOURS))
    return next((each for each in later if not _is_skipped(hints, each)), wanted)  # else no hour is left


def _is_skipped(hints: Hints, at: datetime) -> bool:
    return at.hour in hints.skip_hours or at.weekday() in hints.skip_days

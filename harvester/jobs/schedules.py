"""Schedules: computes their times, and the missed times that are made up for. Pure.

cronsim reads the cron expressions. It handles the days when the clocks change like Debian's cron. An expression
that begins both minute and hour with something other than `*` means times of day: a time that the clocks skip is
run right after the gap, and a time that comes twice is run once. Any other expression means a rhythm of elapsed
time.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from msgspec import Struct
from msgspec.structs import replace

from harvester.exceptions import UsageError
from harvester.recheck.durations import duration_text, read_duration
from harvester.validation import did_you_mean
from harvester.wire import OnTheWire

GRACE = timedelta(minutes=5)
"""Maximum delay of a time that is still started without being made up for."""
MOST_CAUGHT_UP = 100
"""Maximum number of times that are made up for, the latest ones. Also the limit of the queue."""
_LOOK_BACK = tuple(timedelta(days=days) for days in (1 / 24, 1, 32, 366, 1830))
"""Periods to search for missed times. The search stops at the first one with enough times."""
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}").fullmatch


class Overlap(StrEnum):
    """The policy for a time when the job of the time before is not finished."""

    SKIP = "skip"
    """Starts nothing."""
    QUEUE = "queue"
    """Starts a job when the other has ended."""
    JOIN = "join"
    """Adds the new items to the running job."""


class CatchUp(StrEnum):
    """The policy for times that passed without a worker, or that are later than GRACE."""

    NONE = "none"
    ONCE = "once"
    """Starts the last of the missed times."""
    ALL = "all"
    """Starts the last MOST_CAUGHT_UP times, the oldest first."""


class Schedule(Struct, OnTheWire, frozen=True, kw_only=True):
    """A schedule as MongoDB stores it. Unknown values are absent there. Times are in UTC."""

    id: str
    """The name of the schedule."""
    spider: str
    arguments: dict[str, str] = {}
    """The arguments as typed."""
    job: str = ""
    """The job with the items for each new job. Empty: the items that the arguments name."""
    cron: str = ""
    """A cron expression of five fields."""
    every_s: int | None = None
    """Seconds between two times, counted from the creation. Replaces `cron`."""
    zone: str = "UTC"
    """The time zone of the cron expression."""
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.ONCE
    priority: int = 0
    """The priority of the schedule's jobs."""
    paused: bool = False
    created_at: datetime
    next_at: datetime
    """The first time that was not handled yet."""
    queue: tuple[datetime, ...] = ()
    """The times that still have to start, the oldest first."""
    begun_at: datetime | None = None
    """The time that started last."""
    last_job: str = ""
    """The job that this time started."""
    said: str = ""
    """The last time that did not start, with the reason."""

    @property
    def when(self) -> str:
        """The times in words."""
        if self.every_s:
            return f"every {duration_text(self.every_s)}"
        return f"cron {self.cron} ({self.zone})"


def read_name(name: str) -> str:
    """Returns the name. Raises UsageError for an invalid one."""
    if not _is_name(name):
        raise UsageError(f"{name!r} is no name of a schedule: give up to 100 letters, digits, '.', '_' and '-'.")
    return name


def read_cron(text: str) -> str:
    """Returns the expression with five fields. Raises UsageError for one that is invalid or has no time."""
    expression = _NICKNAMES.get(text.strip().lower(), " ".join(text.split()))
    if len(expression.split(" ")) != 5:
        raise UsageError(
            f"--cron: {text!r} is no cron expression: five fields, minute hour day month weekday, as 30 2 * * *"
        )
    try:
        next(CronSim(expression, datetime(2026, 1, 1)))
    except CronSimError as error:
        raise UsageError(f"--cron: {text!r} is no cron expression: {error}.") from None
    except StopIteration:
        raise UsageError(f"--cron: {text!r} names no time that ever comes.") from None
    return expression


def read_every(text: str) -> int:
    """Returns the seconds of a duration. Raises UsageError."""
    try:
        return read_duration(text)
    except UsageError as error:
        raise UsageError(f"--every: {error}.") from None


def read_zone(name: str) -> str:
    """Returns the name. Raises UsageError for an unknown time zone."""
    zones = available_timezones()
    if name not in zones:
        raise UsageError(
            f"--zone: there is no time zone {name!r}{did_you_mean(name, zones) or '.'} Give one like Europe/Berlin."
        )
    return name


def times_after(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    """Yields the schedule's times after `after`, in order."""
    if schedule.every_s:
        step = timedelta(seconds=schedule.every_s)
        at = schedule.created_at + step * ((after - schedule.created_at) // step + 1)
        while True:
            yield at
            at += step
    for local in CronSim(schedule.cron, after.astimezone(ZoneInfo(schedule.zone))):
        at = local.astimezone(UTC)
        if at > after:  # skips the second of two times in the skipped hour, and the repeated hour
            after = at
            yield at


def times_until(schedule: Schedule, until: datetime) -> list[datetime]:
    """Returns the times from `next_at` to `until`, in order: at most the last MOST_CAUGHT_UP."""
    times: list[datetime] = []
    for back in _LOOK_BACK:
        since = max(until - back, schedule.next_at - timedelta(seconds=1))
        times = list(takewhile(lambda at: at <= until, times_after(schedule, since)))
        if len(times) >= MOST_CAUGHT_UP or since < schedule.next_at:
            break
    return [at for at in times if at >= schedule.next_at][-MOST_CAUGHT_UP:]


def looked_at(schedule: Schedule, now: datetime) -> Schedule:
    """Returns the schedule after the times until now were handled: the times to start are in its queue."""
    times = times_until(schedule, now)
    if not times:
        return schedule
    match schedule.catch_up:
        case CatchUp.ALL:
            begun = times
        case CatchUp.ONCE:
            begun = times[-1:]
        case CatchUp.NONE:
            begun = [at for at in times[-1:] if now - at <= GRACE]
    return replace(
        schedule,
        next_at=next(times_after(schedule, now)),
        queue=(*schedule.queue, *begun)[:MOST_CAUGHT_UP],
        said=schedule.said if begun else f"{times[-1]:%Y-%m-%d %H:%M:%S} UTC was passed over: it was too late",
    )

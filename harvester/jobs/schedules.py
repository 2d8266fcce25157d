"""Schedules: at which times something is begun, and what is made up for. Pure: a schedule and the time in, times out.

Cron expressions are read by cronsim, which does what Debian's cron does on days when the clocks change. An expression
whose minute and hour both begin with something else than `*` means times of day: one that the clocks skip is run right
after the gap, and one that comes twice is run once. Any other means a rhythm, which goes by time that passes.
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
"""How late a time may be begun that is not made up for."""
MOST_CAUGHT_UP = 100
"""Times that are made up for, the latest, and that wait for those before."""
_LOOK_BACK = tuple(timedelta(days=days) for days in (1 / 24, 1, 32, 366, 1830))
"""How far is looked back for times that were missed: only as far as it takes to find enough."""
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
    """What becomes of a time at which the job of the time before is not finished."""

    SKIP = "skip"
    """Nothing is begun."""
    QUEUE = "queue"
    """It is begun when that job has ended."""
    JOIN = "join"
    """That job gets the items that it does not have."""


class CatchUp(StrEnum):
    """What becomes of times that passed while no worker was there, or that are later than GRACE."""

    NONE = "none"
    ONCE = "once"
    """The last of them is begun."""
    ALL = "all"
    """The last MOST_CAUGHT_UP are begun, the oldest first."""


class Schedule(Struct, OnTheWire, frozen=True, kw_only=True):
    """As MongoDB holds it. What is not known is absent there. Times in UTC."""

    id: str
    """Its name."""
    spider: str
    arguments: dict[str, str] = {}
    """As typed."""
    job: str = ""
    """Whose items each job gets; empty: those that the arguments name."""
    cron: str = ""
    """An expression of five fields."""
    every_s: int | None = None
    """In place of it: seconds from one time to the next, counted from its creation."""
    zone: str = "UTC"
    """In which the expression is meant."""
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.ONCE
    priority: int = 0
    """Of its jobs."""
    paused: bool = False
    created_at: datetime
    next_at: datetime
    """The first time that was not looked at yet."""
    queue: tuple[datetime, ...] = ()
    """Times that are to be begun, the oldest first."""
    begun_at: datetime | None = None
    """The time that was begun last."""
    last_job: str = ""
    """Its job."""
    said: str = ""
    """What became of the last time that was not begun, and why."""

    @property
    def when(self) -> str:
        """For people."""
        if self.every_s:
            return f"every {duration_text(self.every_s)}"
        return f"cron {self.cron} ({self.zone})"


def read_name(name: str) -> str:
    """Raises UsageError."""
    if not _is_name(name):
        raise UsageError(f"{name!r} is no name of a schedule: give up to 100 letters, digits, '.', '_' and '-'.")
    return name


def read_cron(text: str) -> str:
    """The expression, as five fields. Raises UsageError for one that cannot be read, or names no time."""
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
    """Seconds. Raises UsageError."""
    try:
        return read_duration(text)
    except UsageError as error:
        raise UsageError(f"--every: {error}.") from None


def read_zone(name: str) -> str:
    """Raises UsageError for a time zone that is none."""
    zones = available_timezones()
    if name not in zones:
        raise UsageError(
            f"--zone: there is no time zone {name!r}{did_you_mean(name, zones) or '.'} Give one like Europe/Berlin."
        )
    return name


def times_after(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    """Those that come later, in order."""
    if schedule.every_s:
        step = timedelta(seconds=schedule.every_s)
        at = schedule.created_at + step * ((after - schedule.created_at) // step + 1)
        while True:
            yield at
            at += step
    for local in CronSim(schedule.cron, after.astimezone(ZoneInfo(schedule.zone))):
        at = local.astimezone(UTC)
        if at > after:  # else two times of the hour that is skipped, or it is the hour that comes twice
            after = at
            yield at


def times_until(schedule: Schedule, until: datetime) -> list[datetime]:
    """Those from `next_at` on, in order: of many the last MOST_CAUGHT_UP."""
    times: list[datetime] = []
    for back in _LOOK_BACK:
        since = max(until - back, schedule.next_at - timedelta(seconds=1))
        times = list(takewhile(lambda at: at <= until, times_after(schedule, since)))
        if len(times) >= MOST_CAUGHT_UP or since < schedule.next_at:
            break
    return [at for at in times if at >= schedule.next_at][-MOST_CAUGHT_UP:]


def looked_at(schedule: Schedule, now: datetime) -> Schedule:
    """The same when the times until now are looked at: those that are to be begun are in its queue."""
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

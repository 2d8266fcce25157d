"""Times of schedules, in zones whose clocks change, and what is made up for."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from harvester.exceptions import UsageError
from harvester.jobs import schedules
from harvester.jobs.schedules import (
    GRACE,
    MOST_CAUGHT_UP,
    CatchUp,
    Schedule,
    looked_at,
    read_cron,
    read_every,
    read_name,
    read_zone,
    times_after,
    times_until,
)

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
SPRING, AUTUMN = datetime(2026, 3, 29), datetime(2026, 10, 25)
"""Days on which clocks change in Berlin: 2:00 is followed by 3:00, and 3:00 by 2:00."""
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def schedule(cron: str = "", zone: str = "UTC", **fields: Any) -> Schedule:
    return Schedule(id="s", spider="x", cron=cron, zone=zone, **({"created_at": NOON, "next_at": NOON} | fields))


def on(day: datetime, cron: str, zone: str = BERLIN) -> list[str]:
    """At which times of a day it is, as the clocks show, with the offset from UTC where a time comes twice."""
    begin, end = (each.replace(tzinfo=ZoneInfo(zone)) for each in (day, day + timedelta(days=1)))
    times = times_after(schedule(cron, zone), begin.astimezone(UTC) - timedelta(seconds=1))
    local = [at.astimezone(ZoneInfo(zone)) for at in islice(times, 200) if at < end]
    return [f"{at:%H:%M}" + ("" if at.dst() else " winter") for at in local]


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("30 2 * * *", ["03:00"]),
        ("0,30 2 * * *", ["03:00"]),
        ("30 1,2,3 * * *", ["01:30 winter", "03:00", "03:30"]),
        ("0 3 * * *", ["03:00"]),
        ("15 0-4 * * *", ["00:15 winter", "01:15 winter", "03:00", "03:15", "04:15"]),
        ("*/30 1-3 * * *", ["01:00 winter", "01:30 winter", "03:00", "03:30"]),
        ("*/15 2 * * *", []),
    ],
)
def test_a_time_of_day_that_the_clocks_skip_is_run_right_after_and_a_rhythm_goes_on(
    cron: str, expected: list[str]
) -> None:
    assert on(SPRING, cron) == expected


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("30 2 * * *", ["02:30"]),
        ("0,30 2 * * *", ["02:00", "02:30"]),
        ("30 1,2,3 * * *", ["01:30", "02:30", "03:30 winter"]),
        ("*/30 2 * * *", ["02:00", "02:30", "02:00 winter", "02:30 winter"]),
        ("0 3 * * *", ["03:00 winter"]),
    ],
)
def test_a_time_of_day_that_comes_twice_is_run_once_and_a_rhythm_in_both_hours(cron: str, expected: list[str]) -> None:
    assert on(AUTUMN, cron) == expected


@pytest.mark.parametrize(("day", "hours"), [(SPRING, 23), (AUTUMN, 25), (datetime(2026, 6, 1), 24)])
def test_each_hour_is_each_hour_that_passes(day: datetime, hours: int) -> None:
    assert len(on(day, "15 * * * *")) == hours


@pytest.mark.parametrize("cron", ["30 1 * * *", "*/7 * * * *", "0,59 1-2 * * *", "15 1 * * 0", "@hourly"])
@pytest.mark.parametrize("day", [datetime(2026, 3, 8), datetime(2026, 11, 1)])
def test_times_only_ever_come_later_whenever_one_begins_to_look(cron: str, day: datetime) -> None:
    """Also when it is looked in the hour that comes twice, for the second time."""
    looked = schedule(read_cron(cron), NEW_YORK)
    begin = day.replace(tzinfo=ZoneInfo(NEW_YORK)).astimezone(UTC)
    all_times = list(islice(times_after(looked, begin), 400))
    assert all_times == sorted({*all_times})
    for minutes in range(0, 300, 13):
        after = begin + timedelta(minutes=minutes)
        assert next(times_after(looked, after)) == next(at for at in all_times if at > after)


def test_an_interval_goes_by_time_that_passes_and_counts_from_the_beginning() -> None:
    every = schedule(every_s=read_every("6h"))
    assert list(islice(times_after(every, NOON + timedelta(hours=13)), 2)) == [
        NOON + timedelta(hours=18),
        NOON + timedelta(hours=24),
    ]
    assert next(times_after(every, NOON)) == NOON + timedelta(hours=6)


@pytest.mark.parametrize("cron", ["* * * * *", "*/5 * * * *", "0 * * * *", "0 3 * * 1", "0 0 29 2 *"])
def test_of_times_that_were_missed_the_last_are_found_however_long_ago_it_was(cron: str) -> None:
    since = NOON - timedelta(days=400)
    missed = schedule(cron, next_at=next(times_after(schedule(cron), since)))
    times = times_until(missed, NOON)
    expected = [at for at in _all_times(cron, since) if at <= NOON][-MOST_CAUGHT_UP:]
    assert times == expected


def _all_times(cron: str, since: datetime) -> list[datetime]:
    if cron in ("* * * * *", "*/5 * * * *"):
        since = NOON - timedelta(days=2)
    found: list[datetime] = []
    for at in times_after(schedule(cron), since):
        if at > NOON:
            return found
        found.append(at)
    return found


@pytest.mark.parametrize(
    ("catch_up", "late", "expected"),
    [
        (CatchUp.NONE, timedelta(minutes=1), [0]),
        (CatchUp.NONE, GRACE + timedelta(seconds=1), []),
        (CatchUp.NONE, timedelta(hours=3, minutes=1), [3]),
        (CatchUp.ONCE, timedelta(minutes=50), [0]),
        (CatchUp.ONCE, timedelta(hours=3, minutes=50), [3]),
        (CatchUp.ALL, timedelta(hours=3, minutes=50), [0, 1, 2, 3]),
    ],
)
def test_what_was_missed_is_made_up_for_as_the_schedule_says(
    catch_up: CatchUp, late: timedelta, expected: list[int]
) -> None:
    hourly = schedule("0 * * * *", catch_up=catch_up)
    now = NOON + late
    after = looked_at(hourly, now)
    assert after.queue == tuple(NOON + timedelta(hours=hours) for hours in expected)
    assert after.next_at == next(times_after(hourly, now)) > now
    assert bool(after.said) is not bool(expected)
    assert looked_at(after, now) == after


def test_before_its_time_nothing_is_begun() -> None:
    hourly = schedule("0 * * * *")
    assert looked_at(hourly, NOON - timedelta(seconds=1)) is hourly


def test_times_that_wait_are_bounded() -> None:
    minutely = schedule("* * * * *", catch_up=CatchUp.ALL)
    for hours in range(1, 4):
        minutely = replace(looked_at(minutely, NOON + timedelta(hours=hours)))
    assert len(minutely.queue) == MOST_CAUGHT_UP
    assert minutely.queue[0] == NOON


@pytest.mark.parametrize(("nickname", "cron"), schedules._NICKNAMES.items())
def test_a_nickname_is_an_expression(nickname: str, cron: str) -> None:
    assert read_cron(f" {nickname.upper()} ") == cron


@pytest.mark.parametrize(
    ("read", "text", "named"),
    [
        (read_cron, "* * * *", "five fields"),
        (read_cron, "0 0 * * * *", "five fields"),
        (read_cron, "61 * * * *", "minute"),
        (read_cron, "0 0 31 2 *", "day-of-month"),
        (read_cron, "@reboot", "five fields"),
        (read_every, "10s", "short"),
        (read_every, "often", "duration"),
        (read_zone, "Europe/Berln", "Europe/Berlin"),
        (read_zone, "../etc/passwd", "zone"),
        (read_name, "a b", "name"),
        (read_name, "", "name"),
    ],
)
def test_what_cannot_be_read_is_named(read: Any, text: str, named: str) -> None:
    with pytest.raises(UsageError, match=named) as refused:
        read(text)
    assert text in str(refused.value)

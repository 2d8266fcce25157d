"""Looks at the times of a cron expression."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from harvester.recheck import Look
from harvester.recheck.cron import Cron


def at(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("expression", "zone", "last", "next_one"),
    [
        ("*/5 * * * *", "UTC", "2026-11-22T10:04:59.9", "2026-11-22T10:05"),
        ("*/5 * * * *", "UTC", "2026-11-22T10:05", "2026-11-22T10:10"),
        ("*/5 * * * *", "UTC", "2026-11-22T10:05:00.3", "2026-11-22T10:10"),
        ("0 7 * * mon-fri", "Europe/Berlin", "2026-11-20T07:00:03", "2026-11-23T07:00"),
        ("0 7 * * *", "Europe/Berlin", "2026-10-24T07:00:03", "2026-10-25T07:00"),
        ("0 7 * * *", "America/New_York", "2026-03-07T07:00:03", "2026-03-08T07:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T02:30:03", "2026-03-29T03:00"),
        ("0 0 29 2 *", "UTC", "2026-11-22T10:00", "2028-02-29T00:00"),
    ],
)
def test_the_next_look_is_at_the_next_time_of_that_zone(expression: str, zone: str, last: str, next_one: str) -> None:
    assert Cron(expression, zone).due("a", [Look(at(last, zone), 0)], 0).at == at(next_one, zone)


def test_an_hour_that_comes_twice_has_one_look_at_a_fixed_time() -> None:
    policy, first = Cron("30 2 * * *", "Europe/Berlin"), at("2026-10-25T02:30", "Europe/Berlin")
    assert policy.after(first - 86_400) == first
    assert policy.after(first) == at("2026-10-26T02:30", "Europe/Berlin")


def test_what_was_never_looked_at_waits_for_its_time() -> None:
    assert Cron("0 7 * * *").due("a", [], at("2026-11-22T10:00", "UTC")).at == at("2026-11-23T07:00", "UTC")


def test_times_that_were_missed_are_made_good_by_one_look() -> None:
    policy, now = Cron("0 * * * *"), at("2026-11-22T10:20", "UTC")
    missed = policy.due("a", [Look(at("2026-11-20T10:00", "UTC"), 0)], now)
    assert missed.at < now
    assert policy.due("a", [Look(now, 0)], now).at == at("2026-11-22T11:00", "UTC")

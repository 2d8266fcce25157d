"""Quotas are exact across processes and runs, against a real MongoDB and a clock that is turned."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.database import Database

from harvester.politeness.quotas import Quota, Quotas, midnight_after
from tests.forking import fork
from tests.hashtags.taking import at_once
from tests.root import ROOT

NOON = datetime(2026, 11, 25, 20, tzinfo=UTC)
"""In California."""
WEEK = timedelta(days=7)


class Turned:
    """A clock."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


def hashtag(name: str) -> Quota:
    return Quota("instagram hashtags x", 3, name, WEEK.total_seconds())


SEARCHES = Quota("youtube searches x", 3, zone="America/Los_Angeles")


async def test_a_hashtag_counts_once_in_seven_days_which_roll_along(mongodb_uri: str, mongodb: Database[Any]) -> None:
    clock = Turned()
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
        quotas = Quotas(client[mongodb.name]["quotas"], at_once, clock)
        for name in ("a", "b", "a", "$c", "a", "b"):
            assert await quotas.take(hashtag(name)) is None
            clock.now += timedelta(hours=1)
        assert await quotas.take(hashtag("d")) == NOON + WEEK
        assert await quotas.take(hashtag("$c")) is None
        clock.now = NOON + WEEK
        assert await quotas.take(hashtag("d")) is None  # the first is over
        assert await quotas.take(hashtag("a")) == NOON + WEEK + timedelta(hours=1)  # and counts anew
        assert await quotas.exhaust(hashtag("d")) == clock.now + timedelta(days=1)  # others use the same account
        clock.now += timedelta(hours=2)
        assert await quotas.take(hashtag("a")) == NOON + WEEK + timedelta(days=1)
        assert await quotas.take(hashtag("d")) is None
        clock.now += timedelta(days=1)
        assert await quotas.take(hashtag("a")) is None


async def test_a_day_ends_at_midnight_of_the_quotas_zone(mongodb_uri: str, mongodb: Database[Any]) -> None:
    clock = Turned()
    midnight = datetime(2026, 11, 26, 8, tzinfo=UTC)
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
        quotas = Quotas(client[mongodb.name]["quotas"], at_once, clock)
        assert [await quotas.take(SEARCHES) for _ in range(5)] == [None, None, None, midnight, midnight]
        clock.now = midnight - timedelta(milliseconds=1)
        assert await quotas.take(SEARCHES) == midnight
        clock.now = midnight
        assert await quotas.take(SEARCHES) is None
        assert await quotas.exhaust(SEARCHES) == midnight + timedelta(days=1)
        assert await quotas.take(SEARCHES) == midnight + timedelta(days=1)
        clock.now += timedelta(days=1)
        assert await quotas.take(SEARCHES) is None


def test_days_on_which_clocks_change_are_as_long_as_they_are() -> None:
    zone = "America/Los_Angeles"
    spring, autumn = datetime(2026, 3, 8, 8, tzinfo=UTC), datetime(2026, 11, 1, 7, tzinfo=UTC)
    assert midnight_after(spring, zone) - spring == timedelta(hours=23)
    assert midnight_after(autumn, zone) - autumn == timedelta(hours=25)
    assert midnight_after(NOON, "UTC") == datetime(2026, 11, 26, tzinfo=UTC)


async def test_processes_that_take_at_once_take_no_more_than_there_is(
    mongodb_uri: str, mongodb: Database[Any], tmp_path: Path
) -> None:
    env = {"PYTHONPATH": str(ROOT), "PATH": ""}
    processes = [
        await fork("tests.hashtags.taking", mongodb_uri, mongodb.name, str(number), cwd=tmp_path, env=env)
        for number in range(4)
    ]
    said = [(await process.communicate())[0].decode().split() for process in processes]
    taken = Counter(name for words in said for name in words[:-1])
    assert len(taken) == 30
    assert len(mongodb["quotas"].find_one({"_id": "of tags"})["uses"]) == 30  # type: ignore[index]
    assert sum(int(words[-1]) for words in said) == 100

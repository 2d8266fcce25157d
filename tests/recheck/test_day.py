"""The looks that come."""

from bisect import bisect_left
from itertools import pairwise, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.recheck import HISTORY, DayItem, Planned, coming_looks, kept, next_slot, read_policy
from tests.recheck.histories import DAY, NOW, history


def coming_day(items: list[DayItem], a_day: float = float("inf")) -> list[Planned]:
    return list(takewhile(lambda look: look.at < NOW + DAY, coming_looks(items, NOW, a_day)))


def watched(policy: str, number: int, found: int = 1) -> list[DayItem]:
    return [DayItem(f"item {n}", read_policy(policy), history([found] * 9)) for n in range(number)]


def most_in_a_minute(times: list[float]) -> int:
    return max(bisect_left(times, at + 60) - number for number, at in enumerate(times))


def test_the_day_says_what_is_looked_at_when_and_why() -> None:
    items = [
        DayItem("feed", read_policy("every 6h"), history([1, 2])),
        DayItem("page", read_policy("cron 0 12 * * *"), []),
        DayItem("new", read_policy("budget 400 a day"), []),
        DayItem("late", read_policy("every 1w"), history([1]), due_at=NOW - 9),
        DayItem("far", read_policy("every 1w"), history([1]), due_at=NOW + 3 * DAY),
    ]
    day = coming_day(items)
    assert [look.at for look in day] == sorted(look.at for look in day)
    assert sorted(look.key for look in day) == ["feed"] * 4 + ["late", "new", "page"]
    assert {look.why for look in day if look.key == "feed"} == {"every 6h"}
    assert [look.key for look in day if look.at == NOW] == ["late", "new"]


def test_no_minute_holds_more_than_its_share_and_one() -> None:
    """Two thousand new items are a backlog of as many looks."""
    items = [item._replace(looks=[]) for item in watched("budget 1500 a day", 2000)]
    times = [look.at for look in coming_day(items, 1500)]
    assert len(times) == 1501
    assert most_in_a_minute(times) <= 1500 / 1440 + 1


@pytest.mark.parametrize("policy", ["every 5h", "adaptive 2 to 5 a day", "budget 900 a day 5h to 1d apart"])
def test_looks_of_an_item_are_never_nearer_than_half_their_even_distance(policy: str) -> None:
    by_key: dict[str, list[float]] = {}
    for look in coming_day(watched(policy, 200), 900):
        by_key.setdefault(look.key, []).append(look.at)
    for times in by_key.values():
        assert all(after - before >= DAY / len(times) / 2 for before, after in pairwise(times))


@settings(max_examples=10)
@given(st.integers(0, 99))
def test_a_new_item_moves_no_other(number: int) -> None:
    items = watched("every 2h", 30)
    before = coming_day(items)
    new = items[0]._replace(key=f"new {number}")
    assert [look for look in coming_day([*items, new]) if look.key != new.key] == before


def test_a_look_that_costs_less_leaves_the_next_slot_nearer() -> None:
    assert next_slot(NOW, 1440) == NOW + 60


@given(st.lists(st.none() | st.integers(0, 3), max_size=80))
def test_the_history_keeps_the_last_looks_that_did_not_fail_and_the_last_one(found: list[int | None]) -> None:
    looks = history(found, 0.1)
    left = kept(looks)
    assert kept(left) == left
    assert left[-1:] == looks[-1:]
    assert [look for look in left if not look.failed] == [look for look in looks if not look.failed][-HISTORY:]
    for policy in ("every 1h", "adaptive", "budget 400 a day"):
        assert read_policy(policy).due("a", left, NOW) == read_policy(policy).due("a", looks, NOW)

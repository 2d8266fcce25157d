"""Budgets of looks: slots spread evenly over the day."""

from datetime import UTC, datetime, timedelta
from math import ceil

import pytest

from harvester.jobs.budgets import MINUTES, DailyBudget

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("looks", [1, 7, 96, 1000, 1439, 1440, 1441, 2000, 50_000])
def test_a_day_has_as_many_slots_as_its_budget_and_no_minute_more_than_its_share_of_them(looks: int) -> None:
    budget, seen = DailyBudget("job", looks), set[str]()
    for minute in range(MINUTES):
        slots = set(budget.slots(MIDNIGHT + timedelta(minutes=minute, seconds=59)))
        assert slots == set(budget.slots(MIDNIGHT + timedelta(minutes=minute)))
        assert len(slots) <= ceil(looks / MINUTES)
        assert len(slots & seen) <= 1  # one that is longer than a minute
        seen |= slots
    assert len(seen) == looks
    assert not seen.intersection(budget.slots(MIDNIGHT + timedelta(days=1)))


@pytest.mark.parametrize("looks", [1, 7, 96, 1000, 1439, 1440, 1441, 2000, 50_000])
def test_the_next_slots_come_when_it_is_said(looks: int) -> None:
    budget = DailyBudget("job", looks)
    for minute in (0, 1, 59, 719, 1438, 1439):
        at = MIDNIGHT + timedelta(minutes=minute, seconds=17)
        then = budget.next_at(at)
        assert then > at
        assert not set(budget.slots(then)) & set(budget.slots(at))
        assert set(budget.slots(then - timedelta(seconds=1))) == set(budget.slots(at))


def test_no_two_budgets_share_a_slot() -> None:
    budgets = [DailyBudget("job a", 10), DailyBudget("job b", 10), DailyBudget("job a", 11), DailyBudget("site a", 10)]
    slots = [slot for budget in budgets for slot in budget.slots(MIDNIGHT)]
    assert len({*slots}) == len(slots) == len(budgets)

"""How often something new comes."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.recheck import Look
from harvester.recheck.rates import cost_of, rate_of
from tests.recheck.histories import DAY, NOW, changes, history


def test_without_looks_one_a_day_is_supposed() -> None:
    assert rate_of([]) == rate_of(history([400])) == rate_of(history([None, None])) == 1.0


def test_things_over_days_are_the_rate() -> None:
    assert rate_of(history([7] + [3] * 30)) == pytest.approx(3, rel=0.1)
    assert rate_of(history([7] + [3] * 30, days=0.1)) == pytest.approx(30, rel=0.2)
    assert rate_of(history([7] + [0] * 30, days=3)) < 0.05


def test_older_looks_count_less() -> None:
    assert rate_of(history([0] * 16 + [4] * 15)) > 2.5
    assert rate_of(history([4] * 16 + [0] * 15)) < 1.5


@given(st.lists(st.integers(0, 20), min_size=2, max_size=25), st.lists(st.integers(0, 24), max_size=5))
def test_looks_that_failed_enter_no_estimate(found: list[int], failures: list[int]) -> None:
    looks = history(found)
    with_failures = sorted(
        [*looks, *(Look(NOW - DAY * (day + 0.5), None) for day in failures)], key=lambda look: look.at
    )
    assert rate_of([*with_failures, Look(NOW + DAY, None)]) == rate_of(looks)


@given(st.lists(st.booleans(), max_size=40), st.floats(0, 40))
def test_the_rate_of_changes_stays_within_bounds(changed: list[bool], days: float) -> None:
    assert 1e-5 < rate_of(changes(changed, days)) <= 1e4


@pytest.mark.parametrize(("rate", "within"), [(0.1, 0.5), (0.7, 0.25), (2.0, 0.25)])
def test_the_rate_of_changes_is_right_though_most_changes_are_not_seen(rate: float, within: float) -> None:
    """Looks at irregular distances of a day on average: changes over days would give at most 0.34 of a rate of two."""
    random, estimates = Random(7), []
    for _ in range(150):
        looks, at = [Look(0, None, False)], 0.0
        for _ in range(30):
            days = random.uniform(0.1, 1.9)
            at += days * DAY
            looks.append(Look(at, None, random.random() > 2.718281828 ** (-rate * days)))
        estimates.append(rate_of(looks))
    assert sum(estimates) / len(estimates) == pytest.approx(rate, rel=within)


def test_a_look_that_is_answered_without_a_body_makes_the_next_one_cheaper() -> None:
    assert cost_of([]) == 1.0
    assert cost_of(history([1, 1, None])) == 1.0
    assert cost_of(history([0] * 31, cost=0.1)) == pytest.approx(0.1, abs=0.03)

"""Items whose looks find something are looked at more often."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.recheck.adaptive import Adaptive, grade_of
from tests.recheck.histories import DAY, NOW, history

USUAL = Adaptive()


def interval(found: Sequence[int | None], policy: Adaptive = USUAL) -> float:
    """Days until the next look."""
    return (policy.due("a", history(found), NOW).at - NOW) / DAY


def test_the_rate_goes_from_once_in_two_weeks_to_three_times_in_two_days() -> None:
    assert interval([0] * 31) == pytest.approx(1 / 0.07, rel=0.06)
    assert interval([1] * 31) == pytest.approx(1 / 1.75, rel=0.06)


def test_bounds_and_multiplier_are_kept() -> None:
    assert interval([0] * 31, Adaptive(1, 24)) == pytest.approx(1, rel=0.06)
    assert interval([9] * 31, Adaptive(1, 24)) == pytest.approx(1 / 24, rel=0.06)
    assert interval([9] * 31, Adaptive(1, 24, 0.5)) == pytest.approx(1 / 12, rel=0.06)


def test_an_idle_item_that_wakes_climbs_at_once() -> None:
    idle, *waking = (interval([0] * 30 + [5] * looks) for looks in range(5))
    assert waking[0] < idle / 6
    assert all(after < before for before, after in pairwise(waking))
    assert waking[3] < 1 / 1.3


@given(st.integers(0, 31))
def test_a_busy_item_that_falls_silent_sinks_as_fast_as_one_climbs(looks: int) -> None:
    climbed = grade_of(history([0] * 60 + [4] * looks))
    sunk = grade_of(history([4] * 60 + [0] * looks))
    assert sunk == pytest.approx(1 - climbed, abs=1e-4)


def test_looks_that_failed_change_no_rate() -> None:
    assert interval([0, 1, None, 0, None, None, 1, 0]) == pytest.approx(interval([0, 1, 0, 1, 0]))


def test_what_the_first_look_found_tells_of_no_rate() -> None:
    assert interval([400]) == interval([0])


def test_items_that_find_alike_do_not_stay_together() -> None:
    dues = {Adaptive().due(key, history([1, 1, 1]), NOW).at for key in "abcdefgh"}
    assert len(dues) == 8
    assert max(dues) - min(dues) < 0.1 * DAY / 1.4

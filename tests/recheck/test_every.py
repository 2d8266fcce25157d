"""Looks at fixed distances."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.recheck import Look
from harvester.recheck.durations import LONGEST_S, SHORTEST_S
from harvester.recheck.every import Every
from tests.recheck.histories import NOW

intervals = st.integers(SHORTEST_S, LONGEST_S)


@given(st.text(), intervals, st.floats(0, 4e9))
def test_two_looks_are_never_nearer_than_half_their_distance(key: str, interval: int, last: float) -> None:
    due = Every(interval).due(key, [Look(last, 0)], last)
    assert interval / 2 - 1e-3 <= due.at - last <= 1.5 * interval + 1e-3


@given(st.text(), intervals, st.lists(st.floats(0, 0.49), min_size=2, max_size=9))
def test_looks_that_come_late_do_not_shift_those_that_follow(key: str, interval: int, late: list[float]) -> None:
    policy = Every(interval)
    dues = [policy.due(key, [Look(NOW, 0)], NOW).at]
    for share in late:
        dues.append(policy.due(key, [Look(dues[-1] + share * interval, 0)], NOW).at)
    assert [after - before for before, after in pairwise(dues)] == pytest.approx([interval] * len(late))


def test_looks_at_many_items_are_spread_over_the_interval() -> None:
    dues = [Every(3600).due(f"at://did:plc:{number}", [Look(NOW, 0)], NOW).at - NOW for number in range(6000)]
    a_minute = [sum(begin <= at < begin + 60 for at in dues) for begin in range(1800, 5400, 60)]
    assert sum(a_minute) == 6000
    assert max(a_minute) < 100 + 5 * 100**0.5

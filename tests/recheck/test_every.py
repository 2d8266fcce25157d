"""Looks at fixed distances."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.exceptions import UsageError
from harvester.recheck import Look, read_policy
from harvester.recheck.durations import LONGEST_S, SHORTEST_S, duration_text, read_duration, roughly

NOW = 1_790_000_000.0
intervals = st.integers(SHORTEST_S, LONGEST_S)


@given(intervals)
def test_a_duration_is_read_as_it_was_written(seconds: int) -> None:
    assert read_duration(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "1", "h", "1 h", "1.5h", "-1h", "1H", "29s", "0m", "53w", "9" * 9 + "s", "9" * 5000 + "w", "1h30m", "١h"],
)
def test_what_is_no_duration_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(UsageError, match="30s"):
        read_duration(text)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (45, "45 s"),
        (89, "89 s"),
        (5000, "83 min"),
        (12345, "3.4 h"),
        (200_000, "2.3 days"),
        (99e5, "115 days"),
    ],
)
def test_a_sentence_has_a_duration_in_the_unit_that_fits(seconds: float, said: str) -> None:
    assert roughly(seconds) == said


def test_what_was_never_looked_at_is_due_at_once() -> None:
    assert read_policy("every 1h").due("a", [], NOW) == (NOW, "never looked at")


@given(st.text(), intervals, st.floats(0, 4e9))
def test_the_next_look_is_between_half_and_one_and_a_half_intervals_away(key: str, interval: int, last: float) -> None:
    due = read_policy(f"every {duration_text(interval)}").due(key, [Look(last, 0)], last)
    assert interval / 2 - 1e-3 <= due.at - last <= 1.5 * interval + 1e-3


@given(st.text(), intervals, st.lists(st.floats(0, 0.49), min_size=2, max_size=9))
def test_looks_that_come_late_do_not_shift_those_that_follow(key: str, interval: int, late: list[float]) -> None:
    policy = read_policy(f"every {duration_text(interval)}")
    dues = [policy.due(key, [Look(NOW, 0)], NOW).at]
    for share in late:
        dues.append(policy.due(key, [Look(dues[-1] + share * interval, 0)], NOW).at)
    assert [after - before for before, after in pairwise(dues)] == pytest.approx([interval] * len(late))


def test_looks_at_many_items_are_spread_over_the_interval() -> None:
    policy = read_policy("every 1h")
    dues = [policy.due(f"at://did:plc:{number}", [Look(NOW, 0)], NOW).at for number in range(6000)]
    a_minute = [sum(begin <= at - NOW < begin + 60 for at in dues) for begin in range(1800, 5400, 60)]
    assert sum(a_minute) == 6000
    assert max(a_minute) < 100 + 5 * 100**0.5


@pytest.mark.parametrize("text", ["", "evry 1h", "1h", "every", "every day", "Every"])
def test_what_is_no_policy_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(UsageError, match=r"1h"):
        read_policy(text)


@pytest.mark.parametrize(("written", "text"), [(" every  90m ", "every 90m"), ("every 60m", "every 1h")])
def test_a_policy_has_a_text_that_is_read_as_the_same_policy(written: str, text: str) -> None:
    policy = read_policy(written)
    assert str(policy) == text
    assert read_policy(text) == policy

"""Policies by their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.exceptions import UsageError
from harvester.recheck import VisitPolicy, read_policy
from harvester.recheck.adaptive import Adaptive
from harvester.recheck.budget import Budget
from harvester.recheck.every import Every
from tests.recheck.histories import NOW, history

seconds = st.integers(30, 31_000_000)
numbers = st.decimals(min_value="0.01", max_value=900, places=3).map(float)
policies: st.SearchStrategy[VisitPolicy] = st.one_of(
    st.builds(Every, seconds),
    st.builds(lambda bounds: Adaptive(min(bounds), max(bounds), 1.5), st.tuples(numbers, numbers)),
    st.builds(
        lambda a_day, worth, bounds: Budget(a_day, worth, *sorted(bounds)),
        st.integers(1, 10_000_000),
        numbers,
        st.tuples(seconds, seconds),
    ),
)


@given(policies)
def test_a_policy_is_read_from_its_text_as_it_was(policy: VisitPolicy) -> None:
    assert read_policy(str(policy)) == policy


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("  every   90m ", "every 90m"),
        ("Every 60m", "every 1h"),
        ("cron */5 * * * *", "cron */5 * * * *"),
        ("cron 0 7 * * mon-fri  in Europe/Berlin", "cron 0 7 * * mon-fri in Europe/Berlin"),
        ("adaptive", "adaptive 0.07 to 1.75 a day"),
        ("adaptive times 2", "adaptive 0.07 to 1.75 a day times 2"),
        ("adaptive 1 to 24 a day times 0.5", "adaptive 1 to 24 a day times 0.5"),
        ("adaptive 200000 to 400000 a day times 0.000010", "adaptive 200000 to 400000 a day times 0.00001"),
        ("budget 400 a day", "budget 400 a day"),
        ("budget 400 a day worth 0.00005", "budget 400 a day worth 0.00005"),
        ("budget 400 a day worth 123456.654321", "budget 400 a day worth 123456.654321"),
        ("budget 400 a day worth 2 30m to 72h apart", "budget 400 a day worth 2 30m to 3d apart"),
    ],
)
def test_a_policy_has_one_text(written: str, text: str) -> None:
    assert str(read_policy(written)) == text
    assert read_policy(text) == read_policy(written)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "every 1h"),
        ("evry 1h", "every"),
        ("1h", "'1h'"),
        ("every", "30s"),
        ("every day", "30s"),
        ("every 10s", "30s"),
        ("cron 0 7 * *", "five"),
        ("cron 0 0 7 * * *", "five"),
        ("cron 61 * * * *", "Bad minute"),
        ("cron 0 0 30 2 *", "day-of-month"),
        ("cron * * * * * in Berlin", "'Berlin'"),
        ("cron * * * * * in Europe", "'Europe'"),
        ("cron * * * * * in ../zone", "zone"),
        ("adaptive 2 to 1 a day", "lower"),
        ("adaptive 0 to 1 a day", "52 weeks"),
        ("adaptive 1 to 2000 a day times 2", "minute"),
        ("adaptive 1", ".adaptive "),
        ("adaptive 1 to 2 a daytimes 2", ".adaptive "),
        ("budget 400", ".budget "),
        ("budget 0 a day", "from 1 to"),
        ("budget 99999999 a day", "from 1 to"),
        ("budget 9 a day worth 0", "above 0"),
        ("budget 9 a day 3d to 1h apart", "shorter"),
        ("budget " + "9" * 5000 + " a day", "999"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        read_policy(text)
    assert len(str(refused.value)) < 400


@given(
    st.text(max_size=30)
    | st.sampled_from(["every ", "cron ", "adaptive ", "budget "]).flatmap(lambda a: st.text().map(a.__add__))
)
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    try:
        policy = read_policy(text)
    except UsageError:
        return
    assert policy.due("a", history([1, 2]), NOW).at > NOW


@given(policies, st.text(), st.lists(st.none() | st.integers(0, 50), min_size=1, max_size=40), st.floats(0.001, 3))
def test_the_next_look_follows_the_last_one(
    policy: VisitPolicy, key: str, found: list[int | None], days: float
) -> None:
    due = policy.due(key, history(found, days), NOW + 1e6)
    assert due.at >= NOW + 14.9
    assert due == policy.due(key, history(found, days), NOW)
    assert due.why


@pytest.mark.parametrize("text", ["every 1h", "adaptive", "budget 400 a day"])
def test_what_was_never_looked_at_is_due_at_once(text: str) -> None:
    assert read_policy(text).due("a", [], NOW) == (NOW, "never looked at")

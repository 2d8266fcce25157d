"""Durations as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.exceptions import UsageError
from harvester.recheck.durations import LONGEST_S, SHORTEST_S, duration_text, read_duration, roughly


@given(st.integers(SHORTEST_S, LONGEST_S))
def test_a_duration_is_read_as_it_was_written(seconds: int) -> None:
    assert read_duration(duration_text(seconds)) == seconds


REFUSED = ["", "1", "h", "1 h", "1.5h", "-1h", "1H", "29s", "0m", "53w", "9" * 9 + "s", "9" * 5000 + "w", "1h30m", "١h"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_duration_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(UsageError, match="30s"):
        read_duration(text)


SAID = [
    (0, "0 s"),
    (45, "45 s"),
    (89, "89 s"),
    (5000, "83 min"),
    (12345, "3.4 h"),
    (2e5, "2.3 days"),
    (9.9e6, "115 days"),
]


@pytest.mark.parametrize(("seconds", "said"), SAID)
def test_a_sentence_has_a_duration_in_the_unit_that_fits(seconds: float, said: str) -> None:
    assert roughly(seconds) == said

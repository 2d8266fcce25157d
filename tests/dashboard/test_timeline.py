"""Posts over time."""

from datetime import date, timedelta

import pytest

from harvester.dashboard.timeline import Timeline

START = date(2025, 3, 5)


def daily(days: int, count: int = 10) -> dict[date, int]:
    return {START + timedelta(days=day): count for day in range(days)}


@pytest.mark.parametrize(("days", "unit"), [(1, "day"), (40, "day"), (200, "week"), (1500, "month"), (20_000, "year")])
def test_bars_fit_the_span_and_lose_no_post(days: int, unit: str) -> None:
    timeline = Timeline.of(daily(days))
    assert timeline.unit == unit
    assert sum(count for _, count in timeline.bars) == 10 * days
    assert timeline.left_out == 0
    assert len(timeline.bars) <= 110


@pytest.mark.parametrize("others", [{}, {date(9999, 11, 1): 5}, {date(9990, 1, 1): 5}, {START: 5}, {date.min: 5}])
def test_the_last_day_that_there_is_can_be_drawn(others: dict[date, int]) -> None:
    """Registers write 9999-12-31 for a day that nobody knows."""
    timeline = Timeline.of(others | {date.max: 5})
    assert sum(count for _, count in timeline.bars) == 5 + sum(others.values())
    assert timeline.latest == date.max
    assert timeline.ticks


def test_bars_have_no_gaps() -> None:
    timeline = Timeline.of({START: 5, START + timedelta(days=30): 5})
    assert len(timeline.bars) == 31
    assert [count for _, count in timeline.bars].count(0) == 29


def test_absurd_dates_are_left_out_and_said() -> None:
    timeline = Timeline.of(daily(100) | {date(1, 1, 1): 1, date(1999, 1, 1): 2, date(2099, 1, 1): 3, date.max: 1})
    assert timeline.unit == "week"
    assert timeline.left_out == 7
    assert (timeline.earliest, timeline.latest) == (date(1, 1, 1), date.max)
    assert sum(count for _, count in timeline.bars) == 1000


def test_a_few_early_posts_near_the_others_are_drawn() -> None:
    timeline = Timeline.of({START - timedelta(days=50): 1} | daily(100))
    assert timeline.left_out == 0


def test_labels_are_at_most_five_and_lie_under_their_bars() -> None:
    for days in (1, 2, 3, 10, 1000, 20_000):
        ticks = Timeline.of(daily(days)).ticks
        assert 1 <= len(ticks) <= 5
        assert all(0 < at < 1 for at, _ in ticks)
    assert Timeline.of(daily(1)).ticks == [(0.5, "05 Mar 2025")]


def test_no_posts_make_no_timeline() -> None:
    assert Timeline.of({}).bars == []
    assert Timeline.of({}).most == 0

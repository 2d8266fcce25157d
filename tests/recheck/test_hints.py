"""What feeds say of when to look again puts a look off, and brings none forward."""

from datetime import UTC, datetime, timedelta

import pytest

from harvester.recheck.hints import MOST_S, Hints, not_before

NOW = datetime(2026, 11, 4, 10, 30, tzinfo=UTC)
"""A Wednesday."""


@pytest.mark.parametrize(
    ("hints", "at"),
    [
        (Hints(), None),
        (Hints(3600), NOW + timedelta(hours=1)),
        (Hints(31_536_000), NOW + timedelta(seconds=MOST_S)),
        (Hints(skip_hours=(3, 4)), None),
        (Hints(skip_hours=(10,)), datetime(2026, 11, 4, 11, tzinfo=UTC)),
        (Hints(3600, skip_hours=(11, 12)), datetime(2026, 11, 4, 13, tzinfo=UTC)),
        (Hints(skip_days=(2,)), datetime(2026, 11, 5, tzinfo=UTC)),
        (Hints(skip_hours=(0, 1), skip_days=(2, 3)), datetime(2026, 11, 6, 2, tzinfo=UTC)),
        (Hints(skip_hours=tuple(range(24))), None),
        (Hints(3600, skip_hours=tuple(range(24))), NOW + timedelta(hours=1)),
        (Hints(3600, skip_days=tuple(range(7))), NOW + timedelta(hours=1)),
    ],
)
def test_a_look_waits_as_long_as_the_hints_say_and_not_for_ever(hints: Hints, at: datetime | None) -> None:
    assert not_before(hints, NOW) == at

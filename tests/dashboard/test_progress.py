"""Reading the stats, and measuring pace."""

from typing import Any

import pytest
from rich.console import Console

from harvester.dashboard.panel import line, panel
from harvester.dashboard.progress import Accounts, Meter, Pace, Progress, Speedometer, below, two_below

NOW = 1_800_000_000.0

STATS: dict[str, Any] = {
    "harvester/crawl": "bluesky-3f9a1c-1",
    "harvester/accounts/queued": 3903,
    "harvester/accounts/profile_collected": 189,
    "harvester/accounts/posts_collected": 1204,
    "harvester/accounts/failed": 2,
    "harvester/accounts/skipped": 12,
    "harvester/accounts/reasons/failed/gone": 2,
    "harvester/threads/queued": 20,
    "harvester/threads/collected": 200,
    "harvester/pages": 3401,
    "harvester/records/parsed/follow": 90_000,
    "harvester/records/stored/profile": 1204,
    "harvester/records/stored/follow": 80_200,
    "harvester/records/stored/list_item": 38_996,
    "harvester/images/stored": 420,
    "harvester/images/failed/too_large": 3,
    "harvester/staging/bytes": 12_345_678,
    "harvester/errors/server_error/public.api.example": 2,
    "harvester/errors/rate_limited/public.api.example": 10,
    "harvester/errors/rate_limited/other.example": 4,
    "harvester/waiting/public.api.example": NOW + 42,
    "harvester/waiting/other.example": NOW - 1,
    "harvester/waiting/third.example": 0,
    "harvester/waiting_for/mongodb": 0,
    "finish_reason": None,
}
PACE = Pace(11.2, 980, 1.4)


def drawn(stats: dict[str, Any], width: int, in_flight: int | None = None) -> list[str]:
    console = Console(width=width, height=24, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(
            panel(Progress.of(stats, NOW), PACE, now=NOW, elapsed=751, memory=210_000_000, in_flight=in_flight)
        )
    return [row.rstrip() for row in capture.get().splitlines()]


def test_counts_are_read_by_level_without_zeros_largest_first() -> None:
    assert list(below(STATS, "harvester/accounts").items())[:2] == [("queued", 3903), ("posts_collected", 1204)]
    assert "other.example" not in below({"harvester/waiting/other.example": 0}, "harvester/waiting")
    assert two_below(STATS, "harvester/errors") == {
        "rate_limited": {"public.api.example": 10, "other.example": 4},
        "server_error": {"public.api.example": 2},
    }


def test_a_reason_may_contain_slashes() -> None:
    stats = {"harvester/accounts/reasons/failed/server: HTTP 500 at /xrpc": 1}
    assert two_below(stats, "harvester/accounts/reasons") == {"failed": {"server: HTTP 500 at /xrpc": 1}}
    assert below(stats, "harvester/accounts") == {}


def test_accounts_are_complete_at_the_last_stage_of_their_crawl() -> None:
    stats = {"harvester/accounts/queued": 5, "harvester/accounts/profile_collected": 3, "harvester/accounts/failed": 1}
    graph = Accounts.of(stats)
    assert (graph.complete, graph.settled, graph.left, graph.total) == (3, 4, 5, 9)
    posts = Accounts.of({**stats, "harvester/last_stage": "posts_collected"})
    assert (posts.complete, posts.settled, posts.left) == (0, 1, 8)


def test_pace_is_that_of_the_window_and_not_of_the_whole_crawl() -> None:
    meter = Meter(10)
    assert meter.rates(0, (0,)) == (0.0,)
    assert meter.rates(5, (100,)) == (20.0,)
    for second in range(6, 40):
        meter.rates(second, (100,))
    assert meter.rates(40, (100,)) == (0.0,)
    assert meter.rates(45, (200,))[0] == pytest.approx(10.0)


def test_accounts_of_earlier_runs_do_not_count_as_pace() -> None:
    def look(second: float, **stages: int) -> Pace:
        stats = {f"harvester/accounts/{stage}": count for stage, count in stages.items()}
        return speedometer.measure(Progress.of(stats, NOW), second)

    speedometer = Speedometer(10)
    assert look(0).accounts_per_second == 0
    assert look(1, queued=5000, profile_collected=4000).accounts_per_second == 0
    assert look(11, queued=4990, profile_collected=4000, failed=10).accounts_per_second == pytest.approx(1.0)


def test_memory_of_the_meter_is_bounded_by_the_window() -> None:
    meter = Meter(10)
    for tick in range(10_000):
        meter.rates(tick / 4, (tick,))
    assert len(meter._samples) <= 42


def test_no_time_is_foretold_without_pace_or_without_work() -> None:
    progress = Progress.of(STATS, NOW)
    assert PACE.seconds_left(progress) == pytest.approx(4092 / 1.4)
    assert Pace(11, 980, 0).seconds_left(progress) is None
    assert PACE.seconds_left(Progress.of({"harvester/accounts/profile_collected": 3}, NOW)) is None


def test_only_waits_that_are_not_over_are_shown() -> None:
    assert Progress.of(STATS, NOW).waiting == {"public.api.example": NOW + 42}
    assert any("public.api.example asked to wait 42 s" in row for row in drawn(STATS, 80))
    assert not any("third.example" in row for row in drawn(STATS, 80))


def test_log_line_says_everything_once() -> None:
    said = line(Progress.of(STATS | {"harvester/waiting_for/mongodb": 1}, NOW), PACE)
    assert said.startswith(
        "1,204 of 5,310 accounts, 3,401 pages (11.2/s), 120,400 records (980/s), "
        "16 errors (14 rate limited, 2 server error), waiting for MongoDB, waiting for public.api.example until "
    )
    assert said.endswith(", about 49 min left")
    assert "\n" not in said


@pytest.mark.parametrize("width", [40, 80, 300])
def test_panel_is_whole_at_every_width_and_fits_24_rows(width: int) -> None:
    rows = drawn(STATS, width)
    assert {len(row) for row in rows} == {min(width, 110)}
    assert width < 80 or len(rows) <= 23
    assert "bluesky-3f9a1c-1" in rows[0]
    assert "12 min 31 s" in rows[0]
    assert "Ctrl-C" in rows[-1]


def test_panel_shows_what_the_stats_say() -> None:
    text = "\n".join(drawn(STATS, 120, in_flight=3))
    for part in (
        "1,204 of 5,310 accounts, about 49 min left",
        "3,903 queued, 189 profile collected, 1,204 posts collected, 2 failed, 12 skipped",
        "200 collected, 20 queued",
        "3,401  (11.2/s)",
        "120,400  (980/s)",
        "80,200 follows, 38,996 list items, 1,204 profiles",
        "420 stored, 3 failed",
        "12.3 MB on disk, 210 MB of memory in use",
        "14 rate limited, 2 server error",
        "finishing 3 requests in flight",
    ):
        assert part in text


def test_an_empty_crawl_can_be_drawn() -> None:
    assert "Pages    0" in "\n".join(drawn({}, 80))
    assert line(Progress.of({}, NOW), Pace(0, 0, 0)) == "0 pages (0/s), 0 records (0/s)"

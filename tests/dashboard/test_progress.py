"""Reading the stats, and measuring pace."""

import re
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console

from harvester.dashboard.panel import line, panel
from harvester.dashboard.progress import CrawlPace, Meter, Progress, Speedometer, below, two_below

NOW = 1_800_000_000.0

STATS: dict[str, Any] = {
    "harvester/job": "bluesky-3f9a1c-1",
    "harvester/items/account/waiting": 3903,
    "harvester/items/account/active": 189,
    "harvester/items/account/done": 1204,
    "harvester/items/account/failed": 2,
    "harvester/items/account/skipped": 12,
    "harvester/items/county/waiting": 20,
    "harvester/items/county/active": 0,
    "harvester/items/county/done": 200,
    "harvester/stages/account/profile_collected": 189,
    "harvester/stages/account/posts_collected": 1204,
    "harvester/reasons/account/failed/gone": 2,
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
PACE = CrawlPace(11.2, 980, 1.4)


def drawn(stats: dict[str, Any], width: int, in_flight: int | None = None, height: int = 24) -> list[str]:
    """The rows of the panel, without the empty one below it, on which the cursor stands."""
    console = Console(width=width, height=height, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(
            panel(Progress.of(stats, NOW), PACE, now=NOW, elapsed=751, memory=210_000_000, in_flight=in_flight)
        )
    *rows, empty = [row.rstrip() for row in capture.get().splitlines()]
    assert not empty
    return rows


def test_counts_are_read_by_level_without_zeros_largest_first() -> None:
    assert list(below(STATS, "harvester/items/account").items())[:2] == [("waiting", 3903), ("done", 1204)]
    assert "other.example" not in below({"harvester/waiting/other.example": 0}, "harvester/waiting")
    assert two_below(STATS, "harvester/errors") == {
        "rate_limited": {"public.api.example": 10, "other.example": 4},
        "server_error": {"public.api.example": 2},
    }


def test_a_reason_may_contain_slashes() -> None:
    stats = {"harvester/reasons/account/failed/server: HTTP 500 at /xrpc": 1}
    assert two_below(stats, "harvester/reasons/account") == {"failed": {"server: HTTP 500 at /xrpc": 1}}
    assert below(stats, "harvester/reasons/account") == {}


def test_every_item_is_settled_or_left_and_the_kind_with_the_most_comes_first() -> None:
    stats = {f"harvester/items/{kind}/waiting": number for kind, number in (("feed", 3), ("seed", 1), ("page", 9))}
    progress = Progress.of(stats | {"harvester/items/seed/failed": 1, "harvester/items/feed/done": 2}, NOW)
    assert [(each.kind, each.done, each.total) for each in progress.items] == [
        ("page", 0, 9),
        ("feed", 2, 5),
        ("seed", 0, 2),
    ]
    assert (progress.items_settled, progress.items_left, progress.items_total) == (3, 13, 16)
    whole = Progress.of(STATS, NOW)
    assert (whole.items_settled, whole.items_left, whole.items_total) == (1418, 4112, 5530)
    assert list(whole.items[0].by_state) == ["waiting", "active", "done", "failed", "skipped"]


def test_pace_is_that_of_the_window_and_not_of_the_whole_crawl() -> None:
    meter = Meter(10)
    assert meter.rates(0, (0,)) == (0.0,)
    assert meter.rates(5, (100,)) == (20.0,)
    for second in range(6, 40):
        meter.rates(second, (100,))
    assert meter.rates(40, (100,)) == (0.0,)
    assert meter.rates(45, (200,))[0] == pytest.approx(10.0)


def test_items_of_earlier_runs_do_not_count_as_pace() -> None:
    def look(second: float, **states: int) -> CrawlPace:
        stats = {f"harvester/items/account/{state}": count for state, count in states.items()}
        return speedometer.measure(Progress.of(stats, NOW), second)

    speedometer = Speedometer(10)
    assert look(0).items_per_second == 0
    assert look(1, waiting=5000, done=4000).items_per_second == 0
    assert look(11, waiting=4990, done=4000, failed=10).items_per_second == pytest.approx(1.0)


def test_memory_of_the_meter_is_bounded_by_the_window() -> None:
    meter = Meter(10)
    for tick in range(10_000):
        meter.rates(tick / 4, (tick,))
    assert len(meter._samples) <= 42


def test_no_time_is_foretold_without_pace_or_without_work() -> None:
    progress = Progress.of(STATS, NOW)
    assert PACE.seconds_left(progress) == pytest.approx(4112 / 1.4)
    assert CrawlPace(11, 980, 0).seconds_left(progress) is None
    assert PACE.seconds_left(Progress.of({"harvester/items/account/done": 3}, NOW)) is None


def test_only_waits_that_are_not_over_are_shown() -> None:
    assert Progress.of(STATS, NOW).waiting == {"public.api.example": NOW + 42}
    assert any(re.search(r"public\.api\.example .* 42 s\b", row) for row in drawn(STATS, 80))
    assert not any("third.example" in row for row in drawn(STATS, 80))


def test_items_that_wait_for_a_time_say_when_the_first_is_due() -> None:
    later = STATS | {"harvester/next_due": NOW + 600}
    assert any("10 min 00 s" in row for row in drawn(later, 80))
    assert f"{datetime.fromtimestamp(NOW + 600):%H:%M:%S}" in line(Progress.of(later, NOW), PACE)
    assert drawn(STATS | {"harvester/next_due": NOW - 1}, 80) == drawn(STATS, 80)


def test_log_line_says_everything_once() -> None:
    said = line(Progress.of(STATS | {"harvester/waiting_for/mongodb": 1}, NOW), PACE)
    for part in (
        "1,204 of 5,310 accounts",
        "200 of 220 counties",
        "3,401 pages (11.2/s)",
        "120,400 records (980/s)",
        "16 errors (14 rate limited, 2 server error)",
        "MongoDB",
        "public.api.example",
        f"{datetime.fromtimestamp(NOW + 42):%H:%M:%S}",
        "49 min",
    ):
        assert said.count(part) == 1
    assert "\n" not in said


@pytest.mark.parametrize("width", [40, 80, 300])
def test_panel_is_whole_at_every_width_and_fits_24_rows(width: int) -> None:
    rows = drawn(STATS, width)
    assert {len(row) for row in rows} == {min(width, 110)}
    assert len(rows) <= 23
    assert "bluesky-3f9a1c-1" in rows[0]
    assert "12 min 31 s" in rows[0]
    assert "Ctrl-C" in rows[-1]


LOW = {
    (100, 9): ["Items", "Accounts", "Pages", "Records", "Errors", "Waiting"],
    (80, 12): ["Items", "Accounts", "Counties", "Pages", "Records", "Errors", "Waiting"],
    (40, 12): ["Items", "Pages", "Errors", "Waiting"],
}
"""Columns and rows of a terminal -> the rows of the panel that it shows, by their names."""


@pytest.mark.parametrize("size", LOW, ids=str)
def test_a_low_terminal_shows_errors_and_waiting_rather_than_images(size: tuple[int, int]) -> None:
    columns, rows = size
    stats = STATS | {"harvester/limit/public.api.example": 8.0}
    top, *shown, bottom = panel_rows = drawn(stats, columns, height=rows)
    assert {len(row) for row in panel_rows} == {columns}
    assert len(panel_rows) < rows
    assert top.startswith("╭─ bluesky-3f9a1c-1  12 min 31 s ─")
    assert "Ctrl-C" in bottom
    assert {(row[0], row[-1]) for row in shown} == {("│", "│")}
    assert [row[2:].split()[0] for row in shown if row[2] != " "] == LOW[size]


def test_the_limit_stands_beside_the_rate() -> None:
    def pages(**limits: float) -> str:
        stats = {f"harvester/limit/{site}": rate for site, rate in limits.items()}
        return next(row for row in drawn(stats | {"harvester/interval/slow": 0.5}, 80) if "Pages" in row)

    def rates(**limits: float) -> list[str]:
        return re.findall(r"[\d.]+(?=/s| to )", pages(**limits))

    assert rates() == ["11.2"]
    assert rates(one=8.0) == ["11.2", "8"]
    assert rates(one=8.0, other=8.0) == ["11.2", "8"]
    assert rates(one=8.0, other=0.05) == ["11.2", "0.05", "8"]
    assert rates(slow=8.0) == ["11.2", "2"]
    assert pages(one=8.0, other=8.0) != pages(one=8.0), "of several sites each may be asked so often"


def test_panel_shows_what_the_stats_say() -> None:
    text = "\n".join(drawn(STATS, 120, in_flight=3))
    for part in (
        "1,204 of 5,310 accounts, 200 of 220 counties",
        "49 min",
        "Accounts  3,903 waiting, 189 active, 1,204 done, 2 failed, 12 skipped",
        "1,204 posts collected, 189 profile collected",
        "Counties  20 waiting, 200 done",
        "3,401  (11.2/s)",
        "120,400  (980/s)",
        "80,200 follows, 38,996 list items, 1,204 profiles",
        "420 stored, 3 failed",
        "12.3 MB",
        "210 MB",
        "14 rate limited, 2 server error",
        "3 requests in flight",
    ):
        assert part in text


def test_a_run_without_jobs_speaks_of_no_items() -> None:
    assert "Items" not in "\n".join(drawn({}, 80))
    said = line(Progress.of({}, NOW), CrawlPace(0, 0, 0))
    assert said.split(", ") == ["0 pages (0/s)", "0 records (0/s)"]

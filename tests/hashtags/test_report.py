"""`harvester report hashtags` draws rank and volume over time, on a page that needs nothing else; tags are counted."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.config import Config
from harvester.dashboard.trends import MOST_LINES, MOST_LOOKS, TrendSelection, gather, render, write_trends
from harvester.exceptions import UsageError
from harvester.items.trend import Trend
from harvester.parsers.hashtags.bluesky import trends_of
from harvester.parsers.hashtags.rows import VisitContext
from harvester.spiders.hashtags.arguments import HashtagsArguments
from harvester.spiders.hashtags.spider import HashtagsSpider
from tests.hashtags.cases import SEEN
from tests.pipelines.records import post

Records = Database[dict[str, Any]]
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def trend(
    tag: str, hours_ago: int, rank: int | None, volume: int | None, source: str = "google", region: str = "US"
) -> Trend:
    look = VisitContext(source, region, "1d", NOW - timedelta(hours=hours_ago), SEEN)
    (made,) = trends_of({"tag": tag, "posts": volume}, b"{}", rank, look)
    assert isinstance(made, Trend)
    return made


def store(mongodb: Records, *trends: Trend) -> None:
    mongodb["trends"].insert_many([trend.to_document() for trend in trends])


def test_rank_and_volume_are_drawn_over_time_on_a_page_that_asks_for_nothing(
    config: Config, mongodb: Records, tmp_path: Path
) -> None:
    store(
        mongodb,
        *(trend("Cats & <b>dogs</b>", 4 - look, 1 + look, 1000 * look) for look in range(4)),
        *(trend("rain", 4 - look, 4 - look, None) for look in (0, 1, 3)),
        trend("Cats", 2, None, 70, "bluesky", "world"),
        trend("old", 24 * 40, 1, 5),
    )
    page = write_trends(config, TrendSelection(), tmp_path / "page.html").read_text("utf-8")
    assert not re.findall(r"(?:src|href|url)\s*[=(]|https?://|<script|@import", page)
    assert "Cats &amp; &lt;b&gt;dogs&lt;/b&gt;" in page
    assert "<h2>google, US, 1d</h2>" in page
    assert "<h2>bluesky, world, 1d</h2>" in page
    assert page.count("<svg") == 3  # of the search there is no rank
    assert ">old<" not in page

    google = next(chart for chart in gather(mongodb, TrendSelection(), NOW) if chart.source == "google")
    assert [line.name for line in google.lines] == ["rain", "Cats & <b>dogs</b>"]  # as they rank now
    assert google.rank_paths() == [
        "M0.0 216.0h.1L333.3 145.3M1000.0 4.0h.1",
        "M0.0 4.0h.1L333.3 74.7L666.7 145.3L1000.0 216.0",
    ]
    assert google.volume_paths() == ["", "M0.0 216.0h.1L333.3 145.3L666.7 74.7L1000.0 4.0"]


def test_what_is_drawn_is_bounded_and_can_be_chosen(config: Config, mongodb: Records) -> None:
    store(
        mongodb,
        *(trend(f"tag{number}", hours, number + 1, 5) for number in range(MOST_LINES + 3) for hours in range(1, 220)),
        trend("TAG1", 1, 1, 5, "mastodon", "a.example"),
    )
    google, mastodon = gather(mongodb, TrendSelection(), NOW)
    assert (len(google.lines), google.tags, len(google.looks)) == (MOST_LINES, MOST_LINES + 3, MOST_LOOKS)
    assert (google.looks[0], google.looks[-1]) == (NOW - timedelta(hours=219), NOW - timedelta(hours=1))
    assert mastodon.rank_paths() == ["M500.0 4.0h.1"]
    (chart,) = gather(mongodb, TrendSelection(["#Tag1"], region="US", days=2), NOW)
    assert ([line.name for line in chart.lines], len(chart.looks)) == (["tag1"], 48)
    assert render([google, mastodon, chart], TrendSelection(), NOW).count("<section>") == 3
    with pytest.raises(UsageError, match=r"\b30\b.*harvester crawl hashtags"):
        write_trends(config, TrendSelection(source="tiktok"))


async def test_hashtags_of_harvested_posts_are_counted_by_day(config: Config, mongodb: Records) -> None:
    days = [datetime(2026, 11, day, 12, tzinfo=UTC) for day in (1, 1, 2, 2)]
    tags = [("Cats", "cats"), ("CATS", "rain"), ("rain",), ("cats",)]
    posts = [post(key=str(n), sort_at=at, tags=names) for n, (at, names) in enumerate(zip(days, tags, strict=True))]
    rows = [each.to_document() for each in posts]
    rows[0]["facets"] = [{"start": 0, "end": 4, "kind": "tag", "value": "cats"}]
    rows[2]["facets"] = [{"start": 0, "end": 4, "kind": "tag", "value": "Fußball"}, {"kind": "link", "value": "cats"}]
    mongodb["posts"].insert_many([*rows, {**rows[3], "_id": "gone", "gone_at": NOW}])

    async def counted(given: str) -> dict[str, tuple[int | None, int | None]]:
        spider = HashtagsSpider(config, HashtagsArguments(sources=("bluesky",), collect=("counts",), tags=given))
        records = [record async for batch in spider.counts() for record in batch.records]
        return {r.key: (r.rank, r.volume) for r in records if isinstance(r, Trend)}

    first, second = (f"bluesky-posts world 1d 2026-11-0{day}T00:00Z" for day in (1, 2))
    assert await counted("") == {
        f"{first} cats": (1, 2),
        f"{first} rain": (2, 1),
        f"{second} cats": (1, 1),
        f"{second} fussball": (2, 1),
        f"{second} rain": (3, 1),
    }
    assert await counted("#RAIN") == {f"{first} rain": (1, 1), f"{second} rain": (1, 1)}

"""What a page yields costs no more memory than its share, and what is too large costs only itself."""

import json
from pathlib import Path

import pytest

from harvester.frontier.store import Frontier
from harvester.stores.staging import SUFFIX, read_segment
from tests.crawling import Answer, Site
from tests.frontier.crawl import FLOOD, TOO_LARGE, crawl
from tests.frontier.test_scheduler import FINE, Crawled, frontier
from tests.numbers import numbers_of

__all__ = ["frontier"]
VALIDATE = {"harvester.pipelines.validate.ValidatePipeline": 100, "tests.frontier.crawl.Pipeline": 200}
MOST_GROWTH_KB = 20_000
"""Of memory, between the first links and the last. One link that is held takes more than 2 kB."""
MOST_PEAK_KB = 400_000


async def test_a_request_that_is_too_large_costs_only_itself(frontier: Frontier, tmp_path: Path) -> None:
    to_long = Answer(302, b"", {"Location": "/" + "x" * 10_000})
    async with Site({"/linked?from=too-large": [FINE], "/to-long": [to_long]}) as site:
        long = "/long?" + "x" * 10_000
        crawled = await crawl(
            tmp_path, frontier.spider, site.url, "/too-large", "/to-long", long, "/fine", ITEM_PIPELINES_BASE=VALIDATE
        )
        told = Crawled(site, frontier)  # type: ignore[arg-type]
        page, redirect = await told.fate("/too-large"), await told.fate("/to-long")
        asked = [arrival.path for arrival in site.arrivals]
    assert crawled.reason == "finished", crawled.log
    assert sorted(asked) == [
        "/fine", "/linked?from=after-too-large", "/linked?from=too-large", "/to-long", "/too-large"
    ]  # fmt: skip
    assert page
    assert page.state == "done"
    assert redirect
    assert (redirect.state, redirect.outcome) == ("dead", "invalid")
    assert any(number > 10_000 for number in numbers_of(redirect.reason))
    assert crawled.stats["harvester/frontier/too_large"] == TOO_LARGE + 3
    [written] = (tmp_path / "data" / "rejects").rglob(f"*{SUFFIX}")
    lines = [json.loads(line) for line in read_segment(written)]
    assert {line["kind"] for line in lines} == {"link"}
    assert 0 < len(lines) <= TOO_LARGE
    assert all(len(line["key"]) <= 1000 and line["url"].endswith("/too-large") for line in lines)
    assert crawled.log.count("[harvester.frontier.scheduler] WARNING: ") == 1, crawled.log
    assert len(crawled.log) < 20_000
    assert (await frontier.status()).balanced


@pytest.mark.parametrize(
    "whole",
    [pytest.param("", id="short"), pytest.param("1", id="whole", marks=[pytest.mark.soak, pytest.mark.timeout(2400)])],
)
async def test_a_page_of_any_number_of_links_takes_the_memory_of_a_few(
    frontier: Frontier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: str
) -> None:
    monkeypatch.setenv("HARVESTER_REQUESTS_PER_SECOND", "8")
    monkeypatch.setenv("WHOLE_FLOOD", whole)
    monkeypatch.setattr("tests.frontier.crawl.LONGEST_S", 1800 if whole else 300)
    async with Site() as site:
        crawled = await crawl(tmp_path, frontier.spider, site.url, "/flood")
    peaks = [value for name, value in crawled.stats.items() if name.startswith("peak/")]
    assert len(peaks) == len(FLOOD) + bool(whole)
    assert max(peaks) - min(peaks) < MOST_GROWTH_KB, peaks
    assert max(peaks) < MOST_PEAK_KB, peaks

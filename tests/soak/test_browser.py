"""Two thousand rendered pages in one run: none is lost to kills, and browser and driver do not grow."""

import asyncio
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from tests.browser.crawl import Plan, Wish, end, start
from tests.browser.killing import chromiums, memory
from tests.browser.site import ITEMS, JavaScriptSite

PAGES = 2000
FIRST = 200
KILLS = (PAGES // 4, PAGES // 2, PAGES * 3 // 4)
"""After so many pages."""
WINDOW = 50
"""Pages on either side of a measurement, whose median is compared: pages that are open come and go."""
LONGEST_STALL_S = 60.0
LONGEST_S = 5400.0


@pytest.mark.soak
@pytest.mark.timeout(LONGEST_S + 60)
async def test_two_thousand_pages_and_three_kills_leave_memory_where_it_was(tmp_path: Path) -> None:
    async with JavaScriptSite() as site:
        meta = {"render": True, "rendering": {"steps": [{"wait_for": "#ready"}]}}
        plan = Plan([Wish(f"{site.url}/list/{number}", meta) for number in range(PAGES)])
        process = await start(plan, tmp_path)
        watch = asyncio.ensure_future(_watch(site, process.pid))
        try:
            done = await end(process, tmp_path, LONGEST_S)
        finally:
            watch.cancel()
            samples, kills = await watch
    assert kills == len(KILLS)
    assert len({each.url for each in done.results}) == len(done.results) == PAGES
    assert all(each.outcome == "ok" and each.text.count("<li>") == ITEMS for each in done.results)
    stamps = sorted(each.at for each in done.results)
    stall = max(after - before for before, after in pairwise(stamps))
    early = median(used for pages, used in samples if FIRST - WINDOW <= pages <= FIRST + WINDOW)
    late = median(used for pages, used in samples if pages >= PAGES - 2 * WINDOW)
    print(
        f"\n{PAGES} pages in {stamps[-1] - stamps[0]:.0f} s, the longest wait {stall:.1f} s;"
        f" {early / 2**20:.0f} MB after {FIRST}, {late / 2**20:.0f} MB at the end,"
        f" {max(used for _, used in samples) / 2**20:.0f} MB at most;"
        f" browsers: { {name: value for name, value in done.stats.items() if name.startswith('harvester/browser/')} }"
    )
    assert stall < LONGEST_STALL_S
    assert late < 1.2 * early


async def _watch(site: JavaScriptSite, pid: int) -> tuple[list[tuple[int, int]], int]:
    """Pages so far and bytes, now and then; kills at times. Ends when it is cancelled."""
    samples: list[tuple[int, int]] = []
    kills = 0
    try:
        while True:
            await asyncio.sleep(0.5)
            pages = sum(path.startswith("/data/") for path in site.asked)
            if used := await asyncio.to_thread(memory, pid):
                samples.append((pages, used))
            if kills < len(KILLS) and pages >= KILLS[kills]:
                found = chromiums(pid)
                for chromium in found:
                    chromium.kill()
                kills += bool(found)
    except asyncio.CancelledError:
        return samples, kills

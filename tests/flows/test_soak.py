"""Five hundred rows of one flow over two browsers: every row has a fate, and memory stays where it was."""

import asyncio
import time
from statistics import median
from typing import Any

import psutil
import pytest
from pymongo.database import Database

from tests.browser.killing import memory
from tests.flows.conftest import Flows
from tests.flows.site import NOBODY, FlowSite, recording
from tests.jobs.running import FINISHED

ROWS = 500
FIRST, WINDOW = 100, 40
"""Rows after which memory is measured first, and those on either side whose median counts."""
LONGEST_S = 3600


@pytest.mark.soak
@pytest.mark.timeout(LONGEST_S)
async def test_five_hundred_rows_have_fates_and_leave_memory_where_it_was(
    flows: Flows, mongodb: Database[dict[str, Any]]
) -> None:
    samples: list[tuple[int, int, int]] = []
    async with FlowSite() as site:
        name = "county_disclaimer_search"
        flows.write(
            'trusted = true\nno_results = "text/did not find any"\nscreenshot = true',
            recording(name, site, parcel="{key}"),
        )
        keys = [f"P-{number}" for number in range(ROWS - 1)]
        flows.rows([*keys, NOBODY])
        began = time.monotonic()
        flows.environment["HARVESTER_BROWSER_PAGES"] = "4"
        process = await flows.start("flow", recording="flow.json", inputs="@rows.csv")

        async def watch() -> None:
            while True:
                await asyncio.sleep(0.5)
                rows = site.asked["/county/taxes.aspx"]
                own = psutil.Process(process.pid).memory_info().rss
                samples.append((rows, await asyncio.to_thread(memory, process.pid), own))

        watching = asyncio.ensure_future(watch())
        try:
            code = await asyncio.wait_for(process.wait(), LONGEST_S)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
        took = time.monotonic() - began
    assert code == FINISHED, flows.said
    assert flows.fates() == dict.fromkeys(keys, ("done", "ok")) | {NOBODY: ("done", "no_results")}
    assert {row["row"]["key"] for row in mongodb["flow"].find()} == set(keys)
    assert "'harvester/browser/replaced/pages': 1" in flows.said, "a second browser took the first one's place"

    def at(column: int, low: int, high: int) -> float:
        return median(sample[column] for sample in samples if low <= sample[0] <= high) / 2**20

    early, late = at(1, FIRST - WINDOW, FIRST + WINDOW), at(1, ROWS - 2 * WINDOW, ROWS)
    own_early, own_late = at(2, FIRST - WINDOW, FIRST + WINDOW), at(2, ROWS - 2 * WINDOW, ROWS)
    print(
        f"\n{ROWS} rows in {took:.0f} s, {60 * ROWS / took:.0f} a minute; browsers {early:.0f} MB after {FIRST} rows,"
        f" {late:.0f} MB at the end; the crawl {own_early:.0f} MB and {own_late:.0f} MB"
    )
    assert late < 1.2 * early
    assert own_late < 1.2 * own_early

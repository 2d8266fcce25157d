"""A browser that dies, hangs, grows or is worn costs time, and no page."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from aiohttp import web

from tests.browser.crawl import Crawled, Plan, Wish, end, start
from tests.browser.killing import chromiums, drivers, until
from tests.browser.site import ITEMS, JavaScriptSite
from tests.forking import fork
from tests.root import ROOT

POOL = "harvester.browser.pool"


def lists(site: JavaScriptSite, count: int) -> list[Wish]:
    rendering = {"steps": [{"wait_for": "#ready", "timeout_s": 60}], "timeout_s": 90}
    return [Wish(f"{site.url}/list/{number}", {"render": True, "rendering": rendering}) for number in range(count)]


def assert_all_there(done: Crawled, count: int) -> None:
    assert [f"{each.url}: {each.said}" for each in done.results if each.outcome != "ok"] == [], done.log[-3000:]
    assert len({each.url for each in done.results}) == len(done.results) == count
    assert all(each.text.count("<li>") == ITEMS for each in done.results)
    assert "Traceback" not in done.log, done.log[-3000:]


class LastPagesHeld(JavaScriptSite):
    """The last pages of 20 come when `release` is set."""

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        name, _, number = request.path.strip("/").partition("/")
        if name == "data" and int(number) >= 16:
            await self.release.wait()
        return await super()._handle(request)


async def test_all_pages_are_obtained_though_chromium_is_killed_and_replaced_on_the_way(tmp_path: Path) -> None:
    seen: set[int] = set()

    def browsers() -> int:
        seen.update(chromium.pid for chromium in chromiums(process.pid))
        return len(seen)

    async with LastPagesHeld() as site:
        plan = Plan(lists(site, 20), patches={f"{POOL}.PAGES_A_BROWSER": 5})
        process = await start(plan, tmp_path)
        await until(lambda: sum(site.asked[f"/data/{number}"] for number in range(20)) >= 6)
        killed = chromiums(process.pid)
        for chromium in killed:
            seen.add(chromium.pid)
            chromium.kill()
        await until(lambda: browsers() >= len(killed) + 2)  # the one after, and one that took the place of a worn one
        site.release.set()
        done = await end(process, tmp_path)
    assert_all_there(done, 20)
    assert done.stats["harvester/browser/replaced/lost"] >= 1
    assert done.stats["harvester/browser/started"] >= 3  # whether the last one came to have pages is a matter of speed
    assert done.stats["playwright/page_count/max_concurrent"] <= 4
    assert done.stats.get("harvester/outcomes/navigation_failed", 0) == 0, "the tries were not spent"


@pytest.mark.soak
@pytest.mark.parametrize("harm", ["driver killed", "chromium stopped"])
async def test_pages_in_flight_go_to_the_next_browser(harm: str, tmp_path: Path) -> None:
    async with JavaScriptSite() as site:
        held = {"render": True, "rendering": {"steps": [{"wait_for": "#ready", "timeout_s": 80}], "timeout_s": 90}}
        wishes: list[Any] = [Wish(f"{site.url}/held/{number}", held) for number in range(2)]
        plan = Plan(wishes, patches={f"{POOL}.STALL_S": 3.0, f"{POOL}.WATCH_S": 0.5})
        process = await start(plan, tmp_path)
        await until(lambda: site.asked["/held/0"] + site.asked["/held/1"] >= 2)
        if harm == "driver killed":
            for driver in drivers(process.pid):
                driver.kill()
        else:
            for chromium in chromiums(process.pid):
                for each in [chromium, *chromium.children(recursive=True)]:
                    each.send_signal(signal.SIGSTOP)
        site.release.set()
        done = await end(process, tmp_path)
    assert [each.outcome for each in done.results] == ["ok", "ok"], done.log[-3000:]
    assert done.stats["harvester/browser/pages_lost"] == 2
    assert ("not answer" in done.log) == (harm == "chromium stopped")


@pytest.mark.soak
async def test_a_page_that_eats_memory_is_ended_alone_and_a_browser_above_its_bound_is_replaced(
    tmp_path: Path,
) -> None:
    async with JavaScriptSite() as site:
        hungry = Wish(
            f"{site.url}/hungry",
            {"render": True, "rendering": {"steps": [{"wait_for": "#never", "timeout_s": 80}], "timeout_s": 90}},
        )
        plan = Plan(
            [hungry, *lists(site, 12)],
            patches={f"{POOL}.PAGE_MEMORY_BYTES": 600 * 2**20, f"{POOL}.WATCH_S": 0.3},
        )
        done = await end(await start(plan, tmp_path, browser_memory_mb="500"), tmp_path)
    assert done.of(hungry.url).outcome == "navigation_failed"
    assert "memory" in done.of(hungry.url).said
    assert [each.url for each in done.results if each.outcome != "ok"] == [hungry.url]
    assert done.stats["harvester/browser/replaced/memory"] >= 1


async def test_nothing_is_left_of_a_crawl_that_is_stopped_or_killed(tmp_path: Path) -> None:
    async with JavaScriptSite() as site:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            site.asked.clear()
            never = {"render": True, "rendering": {"steps": [{"wait_for": "#no", "timeout_s": 200}], "timeout_s": 250}}
            process = await start(Plan([Wish(f"{site.url}/never", never), *lists(site, 500)]), tmp_path)
            await until(lambda: sum(site.asked.values()) > 8 and site.asked["/never"] > 0)
            left = [*drivers(process.pid), *chromiums(process.pid)]
            assert len(left) >= 2
            process.send_signal(sign)
            out, _ = await process.end(240)
            _, alive = await asyncio.to_thread(psutil.wait_procs, left, 20)
            assert alive == []
            if sign is signal.SIGTERM:
                assert "Traceback" not in (tmp_path / "log").read_text()
                assert msgspec.json.decode(out, type=Crawled).of(f"{site.url}/never").kind == "RunEnding"


@pytest.mark.slow
@pytest.mark.long
async def test_no_browser_window_or_session_is_left_or_lost_however_its_pool_is_ended(tmp_path: Path) -> None:
    async with JavaScriptSite() as site, JavaScriptSite() as other:
        site.elsewhere = f"{other.url.replace('127.0.0.1', 'localhost')}/stray"
        environment = os.environ | {"PYTHONPATH": str(ROOT), "HARVESTER_ALLOW_PRIVATE_HOSTS": "true"}
        process = await fork("tests.browser.ending", site.url, cwd=tmp_path, env=environment)
        out, log = await process.end(240)
    assert process.returncode == 0, log[-5000:]
    left = json.loads(out)
    assert len(left) == 7, log[-5000:]
    assert {way: alive for way, alive in left.items() if alive} == {}, log[-5000:]

"""Rendered pages a second, beside a bare Playwright loop with the same blocking and as many pages at the same time.

`python -m tests.bench.browser [pages] [rounds]`. Both take turns, so that what else the machine does hits both.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Route, async_playwright

from harvester.browser.blocking import Blocker
from harvester.browser.chromium import find_chromium, launch_options
from harvester.config import Config
from harvester.sites.rendering import Rendering
from tests.browser.crawl import Plan, Wish, end, start
from tests.browser.site import ITEMS
from tests.sandbox.process import ROOT

AT_ONCE = 4
LONGEST_S = 3600.0


def main() -> None:
    if sys.argv[1:2] == ["--bare"]:
        print(json.dumps(asyncio.run(bare(sys.argv[2], int(sys.argv[3])))))
        return
    pages, rounds = int(sys.argv[1]) if sys.argv[1:] else 300, int(sys.argv[2]) if sys.argv[2:] else 2
    speeds = asyncio.run(compare(pages, rounds))
    for name, found in speeds.items():
        print(
            f"{name:10} {sum(found) / len(found):6.2f} pages a second  ({', '.join(f'{each:.2f}' for each in found)})"
        )
    print(f"ratio      {sum(speeds['harvester']) / sum(speeds['bare']):6.2f}")


async def compare(pages: int, rounds: int) -> dict[str, list[float]]:
    """Pages a second of both, round by round."""
    speeds: dict[str, list[float]] = {"harvester": [], "bare": []}
    command = [sys.executable, "-m", "tests.browser.site"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as site:
        assert site.stdout
        url = site.stdout.readline().strip()
        for _ in range(rounds):
            speeds["harvester"].append(await harvester(url, pages))
            bare_loop = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.bench.browser", "--bare", url, str(pages)),
                cwd=ROOT,
                stdout=subprocess.PIPE,
            )
            out, _ = await bare_loop.communicate()
            speeds["bare"].append(json.loads(out))
        site.stdin.close()  # type: ignore[union-attr]
    return speeds


async def harvester(url: str, pages: int) -> float:
    """Between the first page and the last, the start of Chromium apart; that of those that replace it is in it."""
    rendering = {"steps": [{"wait_for": "#ready"}]}
    wishes = [Wish(f"{url}/list/{number}", {"render": True, "rendering": rendering}) for number in range(pages)]
    with tempfile.TemporaryDirectory() as folder:
        process = await start(Plan(wishes), Path(folder), browser_pages=str(AT_ONCE))
        done = await end(process, Path(folder), LONGEST_S)
    assert all(each.text.count("<li>") == ITEMS for each in done.results), done.log[-2000:]
    assert len(done.results) == pages
    return speed([each.at for each in done.results])


async def bare(url: str, pages: int) -> float:
    """As short as one would write it."""
    blocker = Blocker(Rendering(), url)
    stamps: list[float] = []
    numbers = iter(range(pages))

    async def route_one(route: Route) -> None:
        if blocker.refuses(route.request.url, route.request.resource_type):
            await route.abort()
        else:
            await route.continue_()

    async def work(context: Any) -> None:
        for number in numbers:
            page = await context.new_page()
            await page.route("**", route_one)
            await page.goto(f"{url}/list/{number}")
            await page.wait_for_selector("#ready")
            assert (await page.content()).count("<li>") == ITEMS
            await page.close()
            stamps.append(time.time())

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options(find_chromium(Config())))
        context = await browser.new_context()
        await asyncio.gather(*(work(context) for _ in range(AT_ONCE)))
        await browser.close()
    return speed(stamps)


def speed(stamps: list[float]) -> float:
    """Pages a second between the first and the last."""
    return (len(stamps) - 1) / (max(stamps) - min(stamps))


if __name__ == "__main__":
    main()

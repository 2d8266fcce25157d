"""Rendered pages a second, beside a bare Playwright loop with the same blocking and as many pages at the same time.

`python -m tests.bench.browser [pages]`. Both run side by side, so that what else the machine does hits both; what
is compared is the time in which both were at work.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Route, async_playwright

from harvester.browser.chromium import find_chromium, launch_options
from harvester.browser.request_filter import RequestFilter
from harvester.config import Config
from harvester.sites.browser import RenderOptions
from tests.browser.crawl import Plan, Wish, end, start
from tests.browser.site import ITEMS
from tests.root import ROOT

AT_ONCE = 4
LONGEST_S = 3600.0


def main() -> None:
    if sys.argv[1:2] == ["--bare"]:
        print(json.dumps(asyncio.run(bare(sys.argv[2], int(sys.argv[3])))))
        return
    stamps = asyncio.run(compare(int(sys.argv[1]) if sys.argv[1:] else 500))
    began, ended = max(map(min, stamps.values())), min(map(max, stamps.values()))
    speeds = {name: sum(began < at <= ended for at in found) / (ended - began) for name, found in stamps.items()}
    for name, found in speeds.items():
        print(f"{name:10} {found:6.2f} pages a second")
    print(f"ratio      {speeds['harvester'] / speeds['bare']:6.2f}  (over {ended - began:.0f} s)")


async def compare(pages: int) -> dict[str, list[float]]:
    """When each page was there."""
    pipe = asyncio.subprocess.PIPE
    site = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.browser.site"), cwd=ROOT, stdin=pipe, stdout=pipe
    )
    assert site.stdin
    assert site.stdout
    try:
        url = (await site.stdout.readline()).decode().strip()
        bare_loop = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.bench.browser", "--bare", url, str(pages)), cwd=ROOT, stdout=pipe
        )
        ours, (theirs, _) = await asyncio.gather(harvester(url, pages), bare_loop.communicate())
        return {"harvester": ours, "bare": json.loads(theirs)}
    finally:
        site.stdin.close()  # it ends with that
        await site.wait()


async def harvester(url: str, pages: int) -> list[float]:
    """A crawl with the project's settings; browsers that take the place of others are in it."""
    rendering = {"steps": [{"wait_for": "#ready"}]}
    wishes = [Wish(f"{url}/list/{number}", {"render": True, "rendering": rendering}) for number in range(pages)]
    with tempfile.TemporaryDirectory() as folder:
        process = await start(Plan(wishes), Path(folder), browser_pages=str(AT_ONCE))
        done = await end(process, Path(folder), LONGEST_S)
    assert all(each.text.count("<li>") == ITEMS for each in done.results), done.log[-2000:]
    assert len(done.results) == pages
    return [each.at for each in done.results]


async def bare(url: str, pages: int) -> list[float]:
    """As short as one would write it."""
    blocker = RequestFilter(RenderOptions(), url)
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
            await page.goto(f"{url}/list/{number}")
            await page.wait_for_selector("#ready")
            assert (await page.content()).count("<li>") == ITEMS
            await page.close()
            stamps.append(time.time())

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options(find_chromium(Config())))
        context = await browser.new_context()
        await context.route("**", route_one)
        await asyncio.gather(*(work(context) for _ in range(AT_ONCE)))
        await browser.close()
    return stamps


if __name__ == "__main__":
    main()

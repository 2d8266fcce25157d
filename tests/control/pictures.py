"""Draws the pictures of docs/control-room.md: `python -m tests.control.pictures` harvests a sandbox and looks at it."""

import asyncio
import os
import re
import tempfile
from pathlib import Path

from playwright.async_api import Page, expect

from harvester.sandbox.environment import settings
from tests.control import labels
from tests.control.browsing import ControlRoom, Seen, chromium, logged_in
from tests.root import ROOT
from tests.sandbox.process import Sandbox

IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1180, "height": 760}
LONGEST_MS = 300_000


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Sandbox(accounts=60, posts=8, forked=False) as site:
        variables = settings(site.url, Path(folder)) | {"HARVESTER_REQUESTS_PER_SECOND": "30"}
        variables["HARVESTER_STATE_DIR"] = f"{folder}/.harvester"
        with ControlRoom(Path(folder), variables, "--workers", "1") as room:
            async with chromium() as browser, logged_in(browser, room.url, room.token, viewport=SIZE) as person:
                await draw(person, site.handle(0))


async def draw(person: Seen, first: str) -> None:
    """Does what the page says, and takes pictures of it."""
    page = await person.go("/submit?spider=bluesky")
    await page.get_by_label(labels.ITEMS_FIELD).fill(first)
    await page.get_by_label("depth").fill("2")
    await page.get_by_label(labels.JOB_NAME).fill("Everybody near alice")
    await take(page, "submit")
    await page.get_by_role("button", name="Submit", exact=True).click()
    await page.wait_for_url("**/jobs/bluesky-*")
    bar = page.get_by_role("region", name="States").get_by_role("img")
    await expect(bar).to_have_attribute("aria-label", re.compile("done [1-9][0-9]"), timeout=LONGEST_MS)
    job = page.url
    await take(page, "job")
    await person.go("/")
    await take(page, "overview")
    await page.goto(f"{job}?state=done")
    await page.get_by_role("region", name="Items").get_by_role("link").nth(1).click()
    await expect(page.get_by_role("region", name="Attempts").get_by_role("row")).to_have_count(2, timeout=LONGEST_MS)
    await take(page, "item")
    await person.go("/records/posts")
    await take(page, "records")


async def take(page: Page, name: str) -> None:
    await page.wait_for_function("window.did_handshake")
    await page.wait_for_timeout(1500)  # pictures, and the chart
    await page.screenshot(path=IMAGES / f"control-{name}.png")


if __name__ == "__main__":
    os.chdir(ROOT)
    asyncio.run(main())

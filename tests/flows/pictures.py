"""Draws the pictures of docs/flows.md: `python -m tests.flows.pictures` records a flow in Chromium's own Recorder.

It wants the Chromium that has developer tools (apt-get install chromium), and no display.
"""

import asyncio
import base64
import json
import tempfile
import urllib.request

from playwright.async_api import Page, async_playwright

from harvester.browser.chromium import find_chromium
from harvester.config import Config
from tests.flows.site import FlowSite
from tests.ports import free_port
from tests.root import ROOT

IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 900, 560
"""Pixels."""
LONGEST_MS = 60_000


async def record(tools: Page, page: Page, site: FlowSite) -> None:
    """Does what docs/flows.md says, and takes pictures of the developer tools."""
    await page.goto(f"{site.url}/county/search/commonsearch.aspx?mode=parid")
    await tools.get_by_role("button", name="Create recording").last.click()
    await tools.get_by_label("Recording name").fill("Made-up County")
    await tools.screenshot(path=IMAGES / "recorder-create.png")
    await tools.get_by_role("button", name="Start recording").click()
    await tools.get_by_text("End recording").wait_for()
    await page.click("#btAgree")
    await page.click("#inpParid")
    await page.keyboard.type("010-000123-00", delay=30)
    await page.keyboard.press("Enter")
    await page.click("#searchResults tr")
    await page.get_by_text("Taxes").click()
    await page.get_by_text("Annual Taxes").wait_for()
    await tools.get_by_text("Taxes").first.wait_for()
    await tools.get_by_text("End recording").click()
    await tools.get_by_text("Performance panel").first.wait_for()
    await tools.screenshot(path=IMAGES / "recorder-steps.png")
    await tools.locator("[title='Export recording'], [aria-label='Export recording']").first.click()
    await tools.get_by_text("JSON").first.wait_for()
    session = await tools.context.new_cdp_session(tools)
    shot = await session.send("Page.captureScreenshot")  # Playwright waits for the menu to be closed
    (IMAGES / "recorder-export.png").write_bytes(base64.b64decode(shot["data"]))


async def main() -> None:
    port, binary = free_port(1), find_chromium(Config(), headed=True)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
        options += [f"--remote-debugging-port={port}", "--remote-allow-origins=*", f"--window-size={WIDTH},{HEIGHT}"]
        pipe = asyncio.subprocess.DEVNULL
        chromium = await asyncio.create_subprocess_exec(binary, *options, stdout=pipe, stderr=pipe)
        try:
            async with FlowSite() as site, async_playwright() as playwright:
                target = await _target(port)
                browser = await playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
                (context,) = browser.contexts
                page, tools = context.pages[0], await context.new_page()
                tools.set_default_timeout(LONGEST_MS)
                await tools.set_viewport_size({"width": WIDTH, "height": HEIGHT})
                of = target.removeprefix("ws://")
                await tools.goto(f"devtools://devtools/bundled/devtools_app.html?ws={of}&panel=chrome-recorder")
                await record(tools, page, site)
                await browser.close()
        finally:
            chromium.terminate()
            await chromium.wait()


async def _target(port: int) -> str:
    """Where the page of a browser that has just been started can be inspected."""
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:  # noqa: ASYNC210
                pages = [each for each in json.load(answer) if each["type"] == "page"]
            return str(pages[0]["webSocketDebuggerUrl"])
        except (OSError, IndexError):
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main())

"""Recordings are done as @puppeteer/replay does them on the same pages, and no slower: `make flows`."""

import asyncio
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.browser.chromium import find_chromium
from harvester.config import Config
from tests.flows import RECORDINGS, VALID
from tests.flows.conftest import Flows
from tests.flows.site import FlowSite, recording
from tests.jobs.running import FINISHED
from tests.root import ROOT

HERE = Path(__file__).parent
APP = ROOT / ".harvester" / "flows"
"""Where npm installs, and where Node therefore has to find the script."""
ROWS = 60
LONGEST_S = 600

pytestmark = [pytest.mark.flows, pytest.mark.timeout(2 * LONGEST_S)]


@pytest.fixture(scope="module")
def app() -> Path:
    """@puppeteer/replay, from npm."""
    APP.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "replay.mjs"):
        shutil.copy(HERE / name, APP)
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "ci", *options], cwd=APP, check=True, timeout=LONGEST_S)
    return APP


async def replay(app: Path, texts: list[str]) -> list[dict[str, Any]]:
    """What @puppeteer/replay makes of recordings, one after the other."""
    command = ["node", "replay.mjs", find_chromium(Config())]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=app, stdin=pipe, stdout=pipe)
    told, _ = await asyncio.wait_for(process.communicate("\n".join(texts).encode()), LONGEST_S)
    return [json.loads(line) for line in told.splitlines()]


@pytest.mark.parametrize("name", VALID)
async def test_the_same_steps_are_done_in_the_same_order(name: str, app: Path, flows: Flows) -> None:
    async with FlowSite() as site:
        [reference] = await replay(app, [recording(name, site)])
        theirs, their_pages = site.done(), site.asked_for
    async with FlowSite() as site:
        flows.write("trusted = true", recording(name, site))
        ran = await flows.command("flow", "run", "flow.json")
        ours, our_pages = site.done(), site.asked_for
    assert ran.returncode == 0, ran.stderr
    assert reference["failed"] == ""
    assert reference["done"] == [
        step["type"] for step in json.loads((RECORDINGS / f"{name}.json").read_text())["steps"]
    ]
    assert our_pages == their_pages
    assert ours == theirs
    assert ours, "pages tell what is done on them"
    print(f"\n{name}: {len(ours)} events on {len(our_pages)} documents, alike")


async def test_rows_a_minute_stand_beside_those_of_the_reference(
    app: Path, flows: Flows, mongodb: Database[dict[str, Any]]
) -> None:
    async with FlowSite() as site:
        name = "county_disclaimer_search"
        began = time.monotonic()
        done = await replay(app, [recording(name, site, parcel=f"P-{number}") for number in range(ROWS)])
        theirs = 60 * ROWS / (time.monotonic() - began)
        assert [each["failed"] for each in done] == [""] * ROWS
        flows.write("trusted = true\nhtml = false", recording(name, site, parcel="{key}"))
        flows.rows([f"P-{number}" for number in range(ROWS)])
        began = time.monotonic()
        flows.environment["HARVESTER_BROWSER_PAGES"] = "4"
        process = await flows.start("flow", recording="flow.json", inputs="@rows.csv")
        assert await asyncio.wait_for(process.wait(), LONGEST_S) == FINISHED, flows.said
        ours = 60 * ROWS / (time.monotonic() - began)
    assert {row["fields"]["parcel_id"] for row in mongodb["flow"].find()} == {f"P-{number}" for number in range(ROWS)}
    print(f"\n{ROWS} rows: {ours:.0f} a minute, with the start of the run; @puppeteer/replay, one by one, {theirs:.0f}")

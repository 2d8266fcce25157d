"""`make axe`: has axe-core, from npm, look at every view, in light and dark. Fails when it finds something serious."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.control.browsing import ControlRoom, chromium, logged_in

AXE = "axe-core@4.11.0"
VIEWS = (
    *("/", "/jobs", "/submit", "/sites", "/watched", "/schedules"),
    *("/runs", "/workers", "/records", "/dead-letters", "/settings"),
)
GRAVE = ("serious", "critical")


async def main() -> int:
    """How many grave violations there are."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "install", "--silent", "--no-save", "--prefix", folder, AXE], check=True)  # noqa: ASYNC221
        axe = (Path(folder) / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
        (Path(folder) / "room").mkdir()
        with ControlRoom(Path(folder) / "room", {}) as room:
            return await looked_at(room, axe)


async def looked_at(room: ControlRoom, axe: str) -> int:
    grave = 0
    async with chromium() as browser:
        for scheme in ("light", "dark"):
            async with logged_in(browser, room.url, room.token, color_scheme=scheme) as person:
                for path in VIEWS:
                    page = await person.go(path)
                    await page.evaluate(axe)
                    found: list[dict[str, Any]] = await page.evaluate("axe.run().then((each) => each.violations)")
                    for each in found:
                        grave += each["impact"] in GRAVE
                        print(f"{scheme} {path}: {each['impact']}: {each['help']}")
                        print(*(f"    {node['html'][:160]}" for node in each["nodes"][:3]), sep="\n")
    print(f"{2 * len(VIEWS)} pages, {grave} grave violations.")
    return grave


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(main()) else 0)

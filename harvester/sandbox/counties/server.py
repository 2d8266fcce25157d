"""Serves the three jurisdictions, each at its own port, because each site needs its own host."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from harvester.sandbox.counties import iasworld, patriot, vgsi

PLATFORMS = {"iasworld": iasworld, "patriot": patriot, "vgsi": vgsi}
CRAWLS = (
    "harvester crawl iasworld -a site=us-pa-sandbox -a owner=QUIMBELL",
    "harvester crawl patriot -a site=us-ma-sandbox -a all=yes",
    "harvester crawl vgsi -a site=us-vt-sandbox -a all=yes",
)
"""Example commands, shown when the sandbox starts."""
HOST = "127.0.0.1"
FILE, YOURS = "sandbox.toml", "yours"
"""Names in the folder of entries: the file of the three entries, and the link to the user's folder."""


@dataclass(frozen=True, slots=True)
class Counties:
    """The hosts and registry entries of the running jurisdictions."""

    hosts: tuple[str, ...]
    entries: str
    """Entries for the registry of sites, as TOML."""


@asynccontextmanager
async def serving(parcels: int, port: int = 0) -> AsyncIterator[Counties]:
    """Serves at `port` and the two ports above it. A port that is in use, or 0, is replaced by a free one."""
    async with AsyncExitStack() as stack:
        hosts, entries = [], []
        for number, platform in enumerate(PLATFORMS.values()):
            runner = web.AppRunner(platform.app_of(parcels), access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            host = await _begin(runner, port + number if port else 0)
            hosts.append(host)
            entries.append(platform.ENTRY.format(host=host))
        yield Counties(tuple(hosts), "".join(entries))


async def _begin(runner: web.AppRunner, port: int) -> str:
    try:
        await web.TCPSite(runner, HOST, port).start()
    except OSError:
        if not port:
            raise
        await web.TCPSite(runner, HOST, 0).start()
    return f"{HOST}:{runner.addresses[-1][1]}"


def write_entries(counties: Counties, folder: Path, yours: Path | None) -> None:
    """Writes the entries into a folder for HARVESTER_SITES_DIR, with a link to the user's own folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(counties.entries, encoding="utf-8")
    link = folder / YOURS
    link.unlink(missing_ok=True)
    if yours and yours.is_dir() and yours.resolve() != folder.resolve():
        link.symlink_to(yours.resolve(), target_is_directory=True)

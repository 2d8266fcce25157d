"""One crawl of all behaviours, in a process of its own, and what came of each."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from pymongo.database import Database
from redis.asyncio import Redis

from harvester.frontier.messages import DeadLetter, FrontierStatus
from harvester.frontier.store import Frontier
from tests.forking import fork
from tests.hostile.behaviours import BEHAVIOURS
from tests.hostile.site import HostileSite
from tests.hostile.spiders import Trap
from tests.root import ROOT

LONGEST_S = 240
NAMES = {each.name for each in BEHAVIOURS}
_pictures = re.compile(r"No picture from http://([a-z0-9-]+)\.\S+: (\w+)").finditer


class Found(NamedTuple):
    """What came of the crawl."""

    code: int
    outcomes: dict[str, str]
    """Of each behaviour: of its dead letter, or as the spider was told."""
    reasons: dict[str, str]
    pictures: dict[str, str]
    """Of those with a picture: why there is none, or `stored`."""
    status: FrontierStatus
    peak_mb: float
    files: list[str]
    """All that was made, below the folder above that of the crawl."""
    log: str


async def run(
    site: HostileSite, folder: Path, database: Database[dict[str, object]], uri: str, redis_url: str
) -> Found:
    """Crawls the site with harvester's own components. Three folders up, nothing may be written."""
    place = folder / "a" / "b" / "c"
    place.mkdir(parents=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
    environment = own | _variables(site, database.name, uri, redis_url)
    environment |= {"HOSTILE_PEAK": str(folder / "peak"), "HOSTILE_TOLD": str(folder / "told")}
    urls = " ".join(site.url(each.name) for each in BEHAVIOURS)
    command = ["crawl", "hostile", "-a", f"urls={urls}"]
    with (folder / "log").open("wb") as log:
        process = await fork("scrapy", *command, cwd=place, env=environment, log=log.fileno())
        try:
            code = await asyncio.wait_for(process.wait(), LONGEST_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    text = (folder / "log").read_text(errors="replace")
    dead, status = await _asked(redis_url, database.name)
    outcomes = dict(line.split() for line in (folder / "told").read_text().splitlines())
    letters = {each.url.removeprefix("http://").partition(".")[0]: each for each in dead if each.url.endswith("/")}
    outcomes |= {name: each.outcome for name, each in letters.items() if name in NAMES}
    stored = database[Trap.COLLECTION].find({"media_paths": {"$exists": True}})
    pictures = {str(each["_id"]): "stored" for each in stored}
    pictures |= {found[1]: found[2] for found in _pictures(text)}
    files = _files(folder)
    reasons = {name: each.reason for name, each in letters.items()}
    return Found(code, outcomes, reasons, pictures, status, json.loads((folder / "peak").read_text()), files, text)


def _files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


def _variables(site: HostileSite, database: str, uri: str, redis_url: str) -> dict[str, str]:
    return {
        "PYTHONPATH": str(ROOT),
        "SCRAPY_SETTINGS_MODULE": "tests.hostile.settings",
        "HARVESTER_MONGODB_URI": uri,
        "HARVESTER_DATABASE": database,
        "REDIS_URL": redis_url,
        "HARVESTER_ALLOW_PRIVATE_HOSTS": "no",
        "HARVESTER_PRIVATE_HOSTS": ",".join(site.host(each.name) for each in BEHAVIOURS),
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_MIN_RECORDS": "0",
        "HARVESTER_MAX_RESPONSE_MB": "8",
        "HARVESTER_MAX_IMAGE_MB": "2",
    }


async def _asked(redis_url: str, database: str) -> tuple[list[DeadLetter], FrontierStatus]:
    client = Redis.from_url(redis_url)
    try:
        frontier = Frontier(client, "hostile", database)
        return await frontier.dead(most=10_000), await frontier.status()
    finally:
        await client.aclose()

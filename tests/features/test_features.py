"""A feature of Scrapy gives the same items with harvester's line in the settings as without it."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from pymongo.database import Database

from tests.features.site import make_app
from tests.features.spiders import find_features
from tests.forking import fork
from tests.root import ROOT

Found = dict[str, dict[str, Any]]
LONGEST_S = 240
MOST_FEATURES = 50


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """Gives the address of a site. Each side of the pair has its own, since a site remembers who has asked."""
    runner = web.AppRunner(make_app())
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def crawl(folder: Path, environment: dict[str, str], *addons: str) -> Found:
    """Crawls all spiders against a site of their own, in one process."""
    async with served() as site:
        process = await fork("tests.features.crawling", site, *addons, cwd=folder, env=environment)
        out, log = await process.end(LONGEST_S)
    assert process.returncode == 0, log[-4000:]
    found: Found = json.loads(out.strip().splitlines()[-1])
    return found


def test_the_page_for_scrapys_users_names_each_feature() -> None:
    page = (ROOT / "docs" / "scrapy.md").read_text("utf-8").partition("## Features that are compared")[2]
    listed = page.partition("\n## ")[0].replace("`", "")
    features = find_features().values()
    assert f"these {len(features)} features" in listed
    assert [kind for kind in features if str(kind.__doc__) not in listed] == []


async def test_each_feature_gives_the_items_and_counts_of_plain_scrapy(
    tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str, own_redis: str
) -> None:
    given = {name: value for name, value in os.environ.items() if not name.startswith(("HARVESTER_", "SCRAPY_"))}
    own = {
        "HARVESTER_MONGODB_URI": mongodb_uri,
        "HARVESTER_REDIS_URL": own_redis,
        "HARVESTER_DATABASE": mongodb.name,
        "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
        "HARVESTER_REQUESTS_PER_SECOND": "0",
    }
    plain_folder, our_folder = tmp_path / "plain", tmp_path / "ours"
    for folder in (plain_folder, our_folder):
        folder.mkdir()
    plain = await crawl(plain_folder, given)
    ours = await crawl(our_folder, given | own, json.dumps({"harvester.Addon": 500}))
    assert plain.keys() == ours.keys() == find_features().keys()
    assert len(plain) >= MOST_FEATURES
    differing = {name: (plain[name], ours[name]) for name in plain if plain[name] != ours[name]}
    assert not differing, json.dumps(differing, indent=1)

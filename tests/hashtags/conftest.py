"""Crawls of the sandbox's sources of hashtags and trends."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pymongo.database import Database

from harvester.sandbox.sources import instagram, youtube
from tests.jobs.running import Runs
from tests.sandbox.process import Sandbox

Document = dict[str, Any]


class Crawls(Runs):
    """Runs of the spider."""

    def __init__(self, site: Sandbox, folder: Path, mongodb: Database[Document], **variables: str) -> None:
        sources = {
            "google_trends_url": site.url,
            "mastodon_instances": site.url,
            "tiktok_url": site.url,
            "bluesky_service": site.url,
            "bluesky_pds": site.url,
            "bluesky_identifier": site.handle(1),
            "bluesky_app_password": f"pw-{site.handle(1)}",
            "youtube_url": f"{site.url}/youtube/v3",
            "youtube_key": youtube.KEY,
            "instagram_url": f"{site.url}/v26.0",
            "instagram_user": instagram.USER,
            "instagram_token": instagram.TOKEN,
        }
        super().__init__(folder, "tests.hashtags.settings", **sources, **variables, deferred_seconds="0")
        self.site, self.mongodb, self.folder = site, mongodb, folder

    @property
    def host(self) -> str:
        """Of the sandbox, as records name it."""
        return urlsplit(self.site.url).netloc

    def set(self, name: str, value: str) -> None:
        """A setting of runs to come."""
        self._environment[f"HARVESTER_{name.upper()}"] = value

    def asked(self, path: str) -> int:
        """How often the sandbox was asked for an address with this in it."""
        return sum(path in request["path"] for request in self.site.log()["requests"])

    def rows(self, collection: str, **of: object) -> list[Document]:
        return list(self.mongodb[collection].find(of).sort("_id"))

    def items(self) -> dict[str, tuple[str, str, str]]:
        """Key of each item -> state, outcome, reason."""
        rows = self.mongodb["job_items"].find()
        return {row["key"]: (row["state"], row.get("outcome", ""), row.get("reason", "")) for row in rows}


@pytest.fixture(scope="package")
def _started() -> Iterator[Sandbox]:
    with Sandbox(accounts=48, posts=8) as site:
        yield site


@pytest.fixture
async def crawls(
    _started: Sandbox, tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[Document]
) -> AsyncIterator[Crawls]:
    """The sandbox as it was in the beginning, and runs."""
    _started.clear_faults()
    _started.clear_log()
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Crawls(_started, tmp_path, mongodb, **variables) as crawls:
        yield crawls
    _started.settings(mastodon_access="public", tiktok_pages={})

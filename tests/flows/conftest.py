"""Runs of the spider `flow`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.forking import Ran, run
from tests.jobs.command import HARVESTER
from tests.jobs.running import Runs


class Flows(Runs):
    """In a folder with a recording, what is collected, rows, and entries of sites."""

    def __init__(self, folder: Path, mongodb: Database[dict[str, Any]], **variables: str) -> None:
        super().__init__(folder, "tests.flows.settings", sites_dir=str(folder / "sites"), **variables)
        (folder / "sites").mkdir()
        self._mongodb = mongodb

    def write(self, collected: str, recording: str, name: str = "flow") -> None:
        """A recording, and what stands beside it."""
        (self._folder / f"{name}.json").write_text(recording, "utf-8")
        (self._folder / f"{name}.toml").write_text(collected, "utf-8")

    def rows(self, keys: Sequence[str], name: str = "rows") -> None:
        (self._folder / f"{name}.csv").write_text("\n".join(["key", *keys, ""]), "utf-8")

    def enter(self, *entries: str) -> None:
        """Entries of sites."""
        (self._folder / "sites" / "sites.toml").write_text("\n".join(entries), "utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """That of its processes."""
        return self._environment

    async def command(self, *words: str, **variables: str) -> Ran:
        """`harvester ...`."""
        environment = self._environment | {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}
        return await asyncio.to_thread(run, HARVESTER, *words, cwd=self._folder, env=environment)

    def fates(self) -> dict[str, tuple[str, str]]:
        """Row -> state and outcome."""
        return {item["key"]: (item["state"], item["outcome"]) for item in self._mongodb["job_items"].find()}

    def reason(self, key: str) -> str:
        """Why a row ended as it did."""
        found = self._mongodb["job_items"].find_one({"key": key})
        assert found
        return str(found["reason"])

    def files(self, key: str) -> dict[str, bytes]:
        """What was kept of a row."""
        [folder] = (self._folder / "data" / "flows").glob(f"*/{key.lower()}-*")
        return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
async def flows(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[dict[str, Any]]
) -> AsyncIterator[Flows]:
    # Fewer pages than may be asked for at once, so that rows that wait for a page hold permits of the site.
    variables = {"browser_pages": "2", "mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Flows(tmp_path, mongodb, **variables, deferred_seconds="0", lease_seconds="30") as flows:
        yield flows

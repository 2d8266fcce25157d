"""Runs of the spider `endpoints`, whose items are due whenever a test says so."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.endpoints.site import Api
from tests.jobs.running import Runs

Document = dict[str, Any]


class Endpoints(Runs):
    """`await endpoints.look(text)`: one look at each of the endpoints of a file."""

    def __init__(self, folder: Path, mongodb: Database[Document], **variables: str) -> None:
        super().__init__(folder, "tests.endpoints.settings", **variables)
        self.file = folder / "endpoints.toml"
        self.mongodb = mongodb

    def set(self, **variables: str) -> None:
        """For the environment of the next run."""
        self._environment.update(variables)

    async def look(self, text: str = "") -> int:
        """Its exit code."""
        if text:
            self.file.write_text(text, "utf-8")
        self.make_due()
        return await self.run("endpoints", endpoints=f"@{self.file}")

    async def command(self, *words: str) -> str:
        """What `harvester ...` prints."""
        process = await self._begin("tests.worker.command", *words)
        printed = (await process.stdout.read()).decode()
        assert await self.end(process) == 0, self.said
        return printed

    async def standings(self) -> dict[str, str]:
        """Name -> how each endpoint stands, as a person is told."""
        listed = json.loads(await self.command("endpoints", "list", "--json"))
        return {each["name"]: each["standing"] for each in listed}

    def make_due(self, **of: str) -> None:
        """As if the interval was over. When they were looked at is forgotten: a run reckons anew when they are due."""
        waiting = {"state": "waiting", **of}
        long_ago = {"due_at": datetime(2026, 1, 1, tzinfo=UTC)}
        self.mongodb["job_items"].update_many(waiting, {"$set": long_ago, "$unset": {"looks": ""}})

    def item(self, name: str) -> Document:
        found = self.mongodb["job_items"].find_one({"key": name})
        assert found, name
        return found

    def ids(self, collection: str) -> list[str]:
        return sorted(str(row["_id"]) for row in self.mongodb[collection].find())

    def written(self, collection: str) -> dict[str, datetime]:
        """Key -> when it was written last."""
        return {str(row["_id"]): row["provenance"]["fetched_at"] for row in self.mongodb[collection].find()}


@pytest.fixture
async def endpoints(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[Document]
) -> AsyncIterator[Endpoints]:
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Endpoints(tmp_path, mongodb, **variables) as endpoints:
        yield endpoints


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with Api() as api:
        yield api

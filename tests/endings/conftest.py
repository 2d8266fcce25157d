"""Runs of real commands, and a site that keeps its answers back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.crawling import Answer
from tests.jobs.running import Runs, Tree

SETTINGS = "tests.endings.settings"


class Holding(Tree):
    """A tree that answers the first so many requests, and the others once it may."""

    def __init__(self, pages: int, first: int) -> None:
        super().__init__(pages)
        self.first = first
        self.goes_on = asyncio.Event()

    async def __aexit__(self, *raised: Any) -> None:
        self.goes_on.set()
        await super().__aexit__(*raised)

    async def answer(self, path: str, number: int) -> Answer:
        if len(self.arrivals) > self.first:
            await self.goes_on.wait()
        return await super().answer(path, number)


@pytest.fixture
async def runs(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[dict[str, Any]]
) -> AsyncIterator[Runs]:
    """With the servers that all tests share."""
    async with Runs(
        tmp_path, settings=SETTINGS, mongodb_uri=mongodb_uri, redis_url=own_redis, database=mongodb.name
    ) as runs:
        yield runs


@pytest.fixture
async def runs_alone(tmp_path: Path) -> AsyncIterator[Runs]:
    """With private servers of its own."""
    async with Runs(tmp_path, settings=SETTINGS) as runs:
        yield runs

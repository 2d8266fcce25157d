"""Runs of real commands."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.jobs.running import Runs

SETTINGS = "tests.endings.settings"


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

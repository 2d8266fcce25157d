"""Frontiers of a test's own, in a real Valkey."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from harvester.frontier.store import Frontier


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    """A client of the Valkey that all tests share."""
    async with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
async def frontier(redis: Redis) -> AsyncIterator[Frontier]:
    """An empty frontier, dropped afterwards."""
    frontier = Frontier(redis, f"test-{uuid4().hex[:12]}")
    yield frontier
    await frontier.drop()

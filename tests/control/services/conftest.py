"""The services of the control room, on real servers that hold what a test has put there."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from harvester.config import Config
from harvester.frontier.store import Frontier
from harvester.jobs.service import JobService, job_service


@pytest.fixture
async def service(config: Config, own_redis: str) -> AsyncIterator[JobService]:
    """What services are made from."""
    async with job_service(config.model_copy(update={"redis_url": SecretStr(own_redis)})) as service:
        yield service


@pytest.fixture
async def frontier(service: JobService, own_redis: str) -> AsyncIterator[Frontier]:
    """That of the spider `feeds`."""
    async with Redis.from_url(own_redis) as redis:
        yield Frontier(redis, "feeds", service.config.database)

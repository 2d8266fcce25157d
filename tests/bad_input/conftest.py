"""A site for all tests of this folder, and places to run commands in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient

from tests.bad_input.command import Place
from tests.conftest import empty_redis
from tests.sandbox.process import Sandbox

Story = Callable[[Place, Sandbox], Any]
"""Runs commands and returns what a test looks at."""


@pytest.fixture(scope="session")
def _site() -> Iterator[Sandbox]:
    with Sandbox(accounts=60, posts=5, page_size=5) as site:
        yield site


@pytest.fixture(scope="module")
def site(_site: Sandbox) -> Iterator[Sandbox]:
    """60 accounts; a page holds 5 rows, so most lists have several."""
    yield _site
    _site.clear_faults()


@pytest.fixture
def place(site: Sandbox, tmp_path: Path, mongodb_uri: str, redis_url: str) -> Iterator[Place]:
    with _place(site, tmp_path, mongodb_uri, redis_url) as place:
        yield place


@pytest.fixture(scope="module")
def told(
    request: pytest.FixtureRequest,
    site: Sandbox,
    tmp_path_factory: pytest.TempPathFactory,
    mongodb_uri: str,
    redis_url: str,
) -> Callable[[str], Any]:
    """What came of one of the module's STORIES (name -> Story), each in a place of its own, when it is first asked."""
    stories: dict[str, Story] = request.module.STORIES

    @cache
    def tell(name: str) -> Any:
        with _place(site, tmp_path_factory.mktemp("place"), mongodb_uri, redis_url) as place:
            return stories[name](place, site)

    return tell


@contextmanager
def _place(site: Sandbox, folder: Path, mongodb_uri: str, redis_url: str) -> Iterator[Place]:
    name = f"test-{uuid4().hex[:12]}"
    with empty_redis(redis_url) as own_redis, MongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
        variables = {
            "SCRAPY_SETTINGS_MODULE": "harvester.settings",
            "HARVESTER_MONGODB_URI": mongodb_uri,
            "HARVESTER_REDIS_URL": own_redis,
            "HARVESTER_DATABASE": name,
            "HARVESTER_STATE_DIR": str(folder / "state"),
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_PLC_URL": site.url,
            "HARVESTER_PARKED_SECONDS": "0",
            "HARVESTER_DEFERRED_SECONDS": "0",
        }
        yield Place(folder, client[name], variables)
        client.drop_database(name)

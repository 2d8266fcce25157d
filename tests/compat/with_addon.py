"""pytest plugin: has `scrapy.utils.test.get_crawler` make crawlers of a project that harvester was brought into.

Scrapy's tests import `tests` of their own, so it imports nothing of ours.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import scrapy.utils.test
from redis import Redis
from scrapy import Spider
from scrapy.crawler import Crawler

from harvester.config import load_config

_SETTINGS: dict[str, Any] = {
    "ADDONS": {"harvester.Addon": 500},
    "ROBOTSTXT_OBEY": False,  # as in Scrapy; its tests count requests
    "LOG_LEVEL": "DEBUG",  # as in Scrapy, and the next two: its tests read its log
    "LOG_FORMATTER": "scrapy.logformatter.LogFormatter",
    "STATS_DUMP": True,
    "RETRY_TIMES": 2,  # as in Scrapy; unset, each outcome has its own number
    "HARVESTER_BACKOFF_FACTOR": 0.1,
}
_get_crawler = scrapy.utils.test.get_crawler


def _with_addon(
    spidercls: type[Spider] | None = None, settings_dict: dict[str, Any] | None = None, prevent_warnings: bool = True
) -> Crawler:
    given = settings_dict or {}
    addons = {**_SETTINGS["ADDONS"], **given.get("ADDONS", {})}
    return _get_crawler(spidercls, {**_SETTINGS, **given, "ADDONS": addons}, prevent_warnings)


scrapy.utils.test.get_crawler = _with_addon


def pytest_configure(config: pytest.Config) -> None:
    """Python warns of it where the `open_spider` of a project's pipeline fails: Scrapy calls all, and waits then."""
    config.addinivalue_line("filterwarnings", r"ignore:coroutine '.*\.open_spider' was never awaited:RuntimeWarning")


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Gives each test stores and folders of its own."""
    monkeypatch.setenv("HARVESTER_DATABASE", f"compat-{uuid4().hex[:12]}")
    monkeypatch.setenv("HARVESTER_STATE_DIR", str(tmp_path / "harvester-state"))
    monkeypatch.setenv("HARVESTER_DATA_DIR", str(tmp_path / "harvester-data"))
    with Redis.from_url(os.environ["HARVESTER_REDIS_URL"]) as redis:
        redis.flushall()  # pauses and breakers are of hosts, and the tests have one
    load_config.cache_clear()
    yield
    load_config.cache_clear()

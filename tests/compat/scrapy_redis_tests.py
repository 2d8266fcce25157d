"""scrapy-redis's own tests of its scheduler and spiders, with harvester's in their place."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import redis

from tests.bench.servers import ROOT, own_redis
from tests.compat.comparing import compare, download, outcomes

RELEASE = "scrapy-redis==0.9.1"
TESTS = ["tests/test_scrapy_redis.py::SchedulerTest", "tests/test_spiders.py"]
REASONS = {
    "tests/test_scrapy_redis.py::SchedulerTest::test_scheduler_persistent": (
        "it waits for the log line 'Resuming crawl (2 requests scheduled)', which scrapy-redis writes by way of"
        " Spider.log; here `harvester frontier status` says what waits"
    )
}
"""Test -> why it does not pass on harvester."""


def hold() -> bool:
    """Returns whether each test ended as it should."""
    with TemporaryDirectory(prefix="harvester-compat-") as folder, own_redis() as uri:
        source = download(Path(folder), RELEASE)
        theirs, ours = (_outcomes(source, uri, plugin) for plugin in ("tests.compat.theirs", "tests.compat.ours"))
    return compare("scrapy-redis", theirs, ours, REASONS)


def _outcomes(source: Path, uri: str, plugin: str) -> dict[str, bool]:
    address = urlsplit(uri)
    with redis.Redis.from_url(uri) as client:
        client.flushall()
    environment = {
        "PYTHONPATH": str(ROOT),
        "REDIS_HOST": str(address.hostname),
        "REDIS_PORT": str(address.port),
        "HARVESTER_REDIS_URL": uri,
    }
    return outcomes(source, TESTS, ["-c", os.devnull, "-p", plugin], environment)

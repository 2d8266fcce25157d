"""A worker's memory does not grow with the frontier: a million requests queued, within 20 MB of a hundred thousand."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo.database import Database
from redis import Redis

from harvester.frontier.keys import prefix_of
from tests.bench.servers import ROOT, module, own_redis, redis_memory
from tests.soak.growing import Growing

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

FEW, MANY = 100_000, 1_000_000
MOST_GROWTH_MB = 20
LONGEST_S = 3000


def test_a_workers_memory_is_flat_while_the_frontier_grows_to_a_million_requests(
    tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str
) -> None:
    with own_redis() as url, Redis.from_url(url) as redis, module("tests.bench.links", "1") as (_, [port]):
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "REDIS_URL": url,
            "MONGODB_URI": mongodb_uri,
            "HARVESTER_DATABASE": mongodb.name,
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
        }
        entries = prefix_of(Growing.name, mongodb.name) + "entries"
        command = [sys.executable, "-m", "tests.soak.growing", f"http://127.0.0.1:{port}", str(MANY)]
        log = tmp_path / "log"
        with log.open("wb") as output:
            worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)
        try:
            process = psutil.Process(worker.pid)
            memory = {}
            for size in (FEW, FEW * 2, FEW * 5, MANY):
                wait_until(lambda size=size: redis.hlen(entries) >= size, worker, log)  # type: ignore[misc]
                memory[size] = process.memory_info().rss / 1024**2
                print(
                    f"{size} queued: RSS {memory[size]:.1f} MB, Redis {redis_memory(redis) / size:.0f} bytes each",
                    flush=True,
                )
        finally:
            worker.kill()
            worker.wait()
        assert memory[MANY] - memory[FEW] < MOST_GROWTH_MB


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Fails when the process ends or the time is up."""
    deadline = time.monotonic() + LONGEST_S
    while not condition():
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)

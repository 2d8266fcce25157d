"""A job of ten items that comes later does not wait for one of a hundred thousand."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.bench.items import addresses, open_job
from tests.bench.servers import module
from tests.root import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

BIG, SMALL = 100_000, 10
STARTED_AT = 0.05
"""The share of the big job's work that is done when the small one comes."""
MOST_SHARE = 0.02


def test_a_small_job_ends_within_2_percent_of_the_big_ones_work(
    tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str, own_redis: str
) -> None:
    ended = {"state": {"$in": ["done", "failed", "skipped"]}}

    def of(job: str) -> int:
        return mongodb["job_items"].count_documents({"job": job, **ended})

    def until(job: str, number: float, worker: "subprocess.Popen[bytes]") -> None:
        while of(job) < number:
            assert worker.poll() is None
            time.sleep(0.1)

    with module("tests.bench.links", str(BIG)) as (_, [port]):
        site = f"http://127.0.0.1:{port}"
        big = asyncio.run(open_job(mongodb_uri, mongodb.name, addresses(site, BIG)))
        variables = {
            "PYTHONPATH": str(ROOT),
            "HARVESTER_MONGODB_URI": mongodb_uri,
            "HARVESTER_REDIS_URL": own_redis,
            "HARVESTER_DATABASE": mongodb.name,
            "HARVESTER_REQUESTS_PER_SECOND": "0",
        }
        command = [sys.executable, "-m", "tests.bench.items", "items", "all"]
        with subprocess.Popen(command, cwd=tmp_path, env=os.environ | variables) as worker:
            try:
                until(big, BIG * STARTED_AT, worker)
                small = asyncio.run(open_job(mongodb_uri, mongodb.name, addresses(site, SMALL)))
                before = of(big)
                until(small, SMALL, worker)
                share = (of(big) - before) / BIG
            finally:
                worker.kill()
    print(f"\nthe small job ended within {share:.2%} of the big one's work")
    assert share <= MOST_SHARE

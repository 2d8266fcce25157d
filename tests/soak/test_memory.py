"""Memory does not grow with the crawl: 200,000 accounts in one process, in less than 400 MB."""

import contextlib
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo.database import Database

from harvester.sandbox.network import REFUSING
from tests.crash.harvest import Harvest, fates
from tests.sandbox.process import Sandbox

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

ACCOUNTS = 200_000
MOST_MB = 400
SAMPLE_SECONDS = 30


def test_a_harvest_of_200000_accounts_stays_below_400_mb(
    tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str
) -> None:
    with Sandbox(accounts=ACCOUNTS, posts=5) as site:
        site.settings(pds_limit=10**9)
        harvest = Harvest(
            site, tmp_path, mongodb_uri, mongodb.name, collect="graph,profiles", direction="follows", depth="10"
        )
        process = psutil.Process(harvest.start().pid)
        peak, sample_at = 0.0, 0.0
        while harvest.running_until(lambda: True):
            peak = max(peak, peak_mb(process))
            if time.monotonic() > sample_at:
                sample_at = time.monotonic() + SAMPLE_SECONDS
                with contextlib.suppress(psutil.NoSuchProcess):
                    print(sample(process, mongodb), flush=True)
            time.sleep(0.2)
        assert harvest.wait() == 0, harvest.said[-3000:]
        print(f"peak {peak:.0f} MB")
        kinds = [site.network.kind(index) for index in range(ACCOUNTS) if not site.network.hidden(index)]
        refusing = sum(kind in REFUSING for kind in kinds)
        ends = Counter(ended for ended, _ in fates(mongodb)["account"].values())
        assert ends == {"profile_collected": len(kinds) - refusing, "skipped": refusing}
        assert mongodb["profiles"].count_documents({}) == len(kinds)
        assert peak < MOST_MB


def peak_mb(process: psutil.Process) -> float:
    """The most memory the process has had so far, where the system says it, else what it has; 0 when it has ended."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        pass
    try:
        return float(process.memory_info().rss) / 1024 / 1024
    except psutil.NoSuchProcess:
        return 0.0


def sample(process: psutil.Process, database: Database[dict[str, Any]]) -> str:
    """For who reads the numbers: how far, and at which price."""
    items = database["job_items"]
    left, known = items.count_documents({"state": {"$in": ["waiting", "active"]}}), items.estimated_document_count()
    times = process.cpu_times()
    rss = process.memory_info().rss / 1024 / 1024
    return f"{known - left} of {known} items, RSS {rss:.0f} MB, CPU {times.user + times.system:.0f} s"

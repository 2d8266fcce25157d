"""A job of a million items: submitted, looked at, paused, killed and worked off by two workers, and nothing is lost."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest
from pydantic import SecretStr
from pymongo.database import Database
from redis import Redis

from harvester.config import Config
from harvester.frontier.operations import status
from harvester.jobs.ledger import now
from harvester.jobs.service import JobReport, job_service
from tests.crash.harvest import Harvest
from tests.forking import run
from tests.jobs.command import HARVESTER
from tests.jobs.running import LEFT
from tests.sandbox.process import Sandbox

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

ITEMS = int(os.environ.get("ITEMS", 1_000_000))
KILLED_AT = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Shares of the work at which a worker is killed."""
PAUSED_AT = 0.1
COUNTED_S = 10.0
"""Between two counts of all items."""


class Million:
    """The job, and who works at it."""

    def __init__(self, site: Sandbox, folder: Path, mongodb: Database[dict[str, Any]], uri: str, redis: str) -> None:
        self.config = Config(
            mongodb_uri=SecretStr(uri), database=mongodb.name, redis_url=SecretStr(redis), data_dir=folder / "data"
        )
        self.variables = {
            "HARVESTER_REDIS_URL": redis,
            "HARVESTER_DATA_DIR": str(folder / "data"),
            "HARVESTER_LEASE_SECONDS": "10",
        }
        self._items = mongodb["job_items"]
        self.workers = [Harvest(site, folder / str(number), uri, mongodb.name, self.variables) for number in (1, 2)]
        self.job = ""

    def submit(self, site: Sandbox, folder: Path) -> None:
        accounts = folder / "accounts.txt"
        with accounts.open("w") as file:
            file.writelines(f"{site.did(number)}\n" for number in range(ITEMS))
        wanted = ["collect=profiles", "honour_opt_outs=no", "media=no", f"service={site.url}"]
        words = [word for argument in wanted for word in ("-a", argument)]
        variables = self.workers[0].environment | {"HARVESTER_STATE_DIR": str(folder / "state")}
        command = ["jobs", "submit", "bluesky", "--input", str(accounts), *words, "--json"]
        began = time.monotonic()
        submitted = run(HARVESTER, *command, cwd=folder, env=variables, within_s=1800)
        print(f"\nsubmitted in {time.monotonic() - began:.0f} s")
        told = json.loads(submitted.stdout)
        assert told["accepted"] == ITEMS, submitted.stderr
        self.job = told["job"]
        for worker in self.workers:
            worker.command = ["crawl", "bluesky", "-a", f"job={self.job}"]

    def report(self) -> tuple[JobReport, float]:
        """As `harvester jobs show` has it, and how many seconds that took."""

        async def look() -> tuple[JobReport, float]:
            async with job_service(self.config) as service:
                began = time.perf_counter()
                return await service.report(self.job), time.perf_counter() - began

        return asyncio.run(look())

    def do(self, what: str) -> None:
        async def change() -> None:
            async with job_service(self.config) as service:
                await getattr(service, what)(self.job)

        asyncio.run(change())

    def active(self) -> int:
        return self._items.count_documents({"job": self.job, "state": "active"})

    def states(self) -> Counter[str]:
        """By state. Read as they are stored, where none moves while it is read."""
        stages: list[dict[str, Any]] = [{"$match": {"job": self.job}}, {"$group": {"_id": "$state", "n": {"$sum": 1}}}]
        rows = self._items.aggregate(stages, hint={"$natural": 1})
        return Counter({row["_id"]: row["n"] for row in rows})

    def check(self) -> Counter[str]:
        """The equations: items of the job, requests of the frontier."""
        states = self.states()
        assert sum(states.values()) == ITEMS, states
        frontier = asyncio.run(status(self.config, "bluesky", 0.01)).status
        assert frontier.balanced, frontier
        return states


def until(condition: Any, most_s: float = 120.0) -> float:
    """How many seconds it took to become true."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < most_s
        time.sleep(0.02)
    return time.monotonic() - began


def test_a_million_items_are_worked_off_by_two_workers_that_are_killed(
    tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str, own_redis: str
) -> None:
    with Sandbox(accounts=ITEMS, posts=5) as site, Redis.from_url(own_redis) as redis:
        million = Million(site, tmp_path, mongodb, mongodb_uri, own_redis)
        million.submit(site, tmp_path)
        memory_before = redis.info("memory")["used_memory"]
        workers = million.workers
        began = time.monotonic()
        for worker in workers:
            worker.start()
        try:
            looks, ages, memory = [], [], []
            kills = list(KILLED_AT)
            paused = False
            counted_at = 0.0
            while any(worker.process and worker.process.poll() is None for worker in workers):
                report, took_s = million.report()
                looks.append((took_s, time.monotonic() - began))
                ages.append((now() - report.job.counted_at).total_seconds() if report.job.counted_at else 0)
                memory.append(redis.info("memory")["used_memory"] - memory_before)
                if time.monotonic() >= counted_at + COUNTED_S:
                    states = million.check()
                    ended = ITEMS - states["waiting"] - states["active"]
                    counted_at = time.monotonic()
                    print(f"{counted_at - began:.0f} s: {dict(states)}; shown {dict(report.states)}", flush=True)
                    if not paused and ended > PAUSED_AT * ITEMS:
                        paused = True
                        million.do("pause")
                        print(f"paused: {until(lambda: not million.active()):.1f} s until nothing was active")
                        assert {worker.wait() for worker in workers} == {LEFT}
                        million.do("resume")
                        for worker in workers:
                            worker.start()
                        print(f"resumed: {until(million.active):.1f} s until something was active", flush=True)
                    if kills and ended > kills[0] * ITEMS:
                        kills.pop(0)
                        struck = workers[len(kills) % 2]
                        struck.end(signal.SIGKILL)
                        struck.start()
                time.sleep(0.5)
            codes = [worker.wait() for worker in workers]
        finally:
            for worker in workers:
                if worker.process and worker.process.poll() is None:
                    worker.process.kill()
                    worker.wait()
        seconds = time.monotonic() - began
        print(f"worked off in {seconds:.0f} s, {ITEMS / seconds:,.0f} items a second; exit codes {codes}")
        usual_s, *_, most_s = quantiles((took_s for took_s, _ in looks), n=100)[49:]
        slowest = ", ".join(f"{1000 * took_s:.0f} ms after {at:.0f} s" for took_s, at in sorted(looks)[-3:])
        print(f"counts: {len(looks)} looks, median {1000 * usual_s:.0f} ms, 99 of 100 within {1000 * most_s:.0f} ms")
        print(f"the slowest {slowest}")
        print(f"what was shown was at most {max(ages):.0f} s old")
        print(f"Redis: at most {max(memory) / 1e6:.1f} MB more than before")
        assert not kills
        assert codes == [0, 0], [worker.said[-2000:] for worker in workers]
        hidden = sum(map(site.network.hidden, range(ITEMS)))
        assert million.check() == {"done": ITEMS - hidden, "failed": hidden}
        assert mongodb["profiles"].count_documents({}) == ITEMS - hidden

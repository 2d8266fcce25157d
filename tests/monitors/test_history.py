"""What the history keeps of runs, and which earlier runs a run is compared with."""

import asyncio
import os
import platform
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.monitors import history
from harvester.monitors.arguments import printable_arguments
from harvester.monitors.history import COMPARED_RUNS, RunHistory, earlier_runs, mark_lost

NOW = datetime.now(UTC)


@pytest.fixture
async def database(mongodb: Database[dict[str, Any]], mongodb_uri: str) -> AsyncIterator[AsyncDatabase[dict[str, Any]]]:
    """The test's database, for use on the event loop."""
    async with AsyncMongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
        yield client[mongodb.name]


def run(name: str, **fields: Any) -> dict[str, Any]:
    """A document of a passed run."""
    passed = {"spider": "toy", "scope": "alike", "resumed": False, "verdict": "passed", "state": "finished"}
    return {"_id": name, "started_at": NOW, **passed, **fields}


def running(name: str, silent: timedelta, host: str, pid: int) -> dict[str, Any]:
    return run(name, state="running", verdict=None, heartbeat_at=datetime.now(UTC) - silent, host=host, pid=pid)


@pytest.fixture
def dead_pid() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


async def test_silent_runs_and_those_of_dead_processes_here_are_lost_and_others_are_not(
    database: AsyncDatabase[dict[str, Any]], dead_pid: int
) -> None:
    minutes, seconds, here = timedelta(minutes=2), timedelta(seconds=20), platform.node()
    await database.runs.insert_many(
        [
            running("silent", minutes, "elsewhere", 1),
            running("dead", seconds, here, dead_pid),
            running("alive", seconds, here, os.getpid()),
            running("alive elsewhere", seconds, "elsewhere", dead_pid),
            run("finished", heartbeat_at=NOW - minutes, host="elsewhere", pid=1),
        ]
    )
    assert await mark_lost(database) == 2
    assert await database.runs.distinct("_id", {"state": "lost"}) == ["dead", "silent"]
    assert await mark_lost(database) == 0


async def test_a_run_is_compared_with_earlier_passed_whole_runs_of_its_spider(
    database: AsyncDatabase[dict[str, Any]],
) -> None:
    day = timedelta(days=1)
    await database.runs.insert_many(
        [
            run("alike", started_at=NOW - day),
            run("other arguments", started_at=NOW - 2 * day, scope="other"),
            run("continued", started_at=NOW - 3 * day, resumed=True),
            run("failed", started_at=NOW - day, verdict="failed"),
            run("not judged", started_at=NOW - day, verdict="not judged"),
            run("other spider", started_at=NOW - day, spider="other"),
            run("later", started_at=NOW + day),
        ]
    )
    earlier = await earlier_runs(database, run("this"))
    assert [each["_id"] for each in earlier.same_scope] == ["alike"]
    assert [each["_id"] for each in earlier.same_spider] == ["alike", "other arguments", "continued"]


async def test_only_the_newest_runs_are_compared(database: AsyncDatabase[dict[str, Any]]) -> None:
    await database.runs.insert_many([run(f"{n:02}", started_at=NOW - timedelta(days=n)) for n in range(1, 15)])
    earlier = await earlier_runs(database, run("this"))
    assert [each["_id"] for each in earlier.same_scope] == [f"{n:02}" for n in range(1, COMPARED_RUNS + 1)]


async def test_a_run_says_again_and_again_that_it_is_alive_and_how_far_it_has_come(
    config: Config, database: AsyncDatabase[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "HEARTBEAT_SECONDS", 0.01)
    crawler = get_crawler()
    kept = RunHistory(crawler, config)
    await kept.spider_opened()
    first = await database.runs.find_one({"_id": kept.run_id})
    assert first
    assert first["state"] == "running"
    assert crawler.stats
    crawler.stats.set_value("harvester/records/stored/post", 5)
    async with asyncio.timeout(240):
        while not (later := await database.runs.find_one({"_id": kept.run_id, "counts.post": 5})):
            pass
    assert later["heartbeat_at"] > first["heartbeat_at"]
    crawler.stats.set_value("finish_reason", "finished")
    await kept.engine_stopped()
    last = await database.runs.find_one({"_id": kept.run_id})
    assert last
    assert (last["state"], last["finish_reason"]) == ("finished", "finished")


def test_arguments_are_kept_short_and_without_secrets() -> None:
    class Arguments(BaseModel):
        seeds: list[str]
        text: str
        password: SecretStr
        service: str

    printable = printable_arguments(
        Arguments(
            seeds=[f"seed {number}" for number in range(100_000)],
            text="x" * 100_000,
            password=SecretStr("sesame"),
            service="https://me:sesame@api.test/",
        )
    )
    assert printable["seeds"][-1] == "… (100,000 in all)"
    assert len(str(printable)) < 2000
    assert "sesame" not in str(printable)
    assert printable_arguments(None) == {}


def test_arguments_that_are_no_text_can_be_kept() -> None:
    assert printable_arguments({"seeds": "caf\udce9", "tags": ["\ud800"]}) == {"seeds": "caf?", "tags": ["?"]}


async def test_a_run_that_is_killed_after_a_second_leaves_counts(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 6:
            raise asyncio.CancelledError

    kept = RunHistory(get_crawler(), config)
    saved: list[dict[str, Any]] = []

    async def save() -> None:
        saved.append(kept.document())

    monkeypatch.setattr(kept, "_save", save)
    monkeypatch.setattr(history, "asyncio", SimpleNamespace(sleep=sleep))
    with pytest.raises(asyncio.CancelledError):
        await kept._beat()
    assert pauses == [1, 2, 4, 8, 10, 10]
    assert len(saved) == 5

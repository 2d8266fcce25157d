"""What Prometheus is told of a harvester: the truth of both stores, and which of them is away."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from pymongo.asynchronous.database import AsyncDatabase
from redis.asyncio import Redis

from harvester.config import Config
from harvester.control.metrics import (
    ITEMS_A_WORKER,
    MOST_OUTCOMES,
    Observed,
    ObservedJob,
    exposition,
    families,
    observe,
)
from harvester.control.tokens import Scope
from harvester.frontier.admin import FrontierAdmin
from harvester.items import Found
from harvester.jobs.documents import Counted, ItemState, Job, JobState
from harvester.jobs.ledger import Ledger
from harvester.sites.breaker import SiteBreaker
from harvester.stores import mongodb
from tests.control.serving import Controller

Document = dict[str, Any]
NOW = datetime(2026, 3, 4, tzinfo=UTC)


@pytest.fixture
async def database(config: Config) -> AsyncIterator[AsyncDatabase[Document]]:
    connected = mongodb.connect(config)
    yield connected
    await mongodb.disconnect(connected)


@pytest.fixture
def watched(config: Config, own_redis: str) -> Config:
    return config.model_copy(update={"redis_url": SecretStr(own_redis)})


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Name and values of labels in the order of their names -> value."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def at_once(operation: Any) -> Any:
    return await operation()


async def test_jobs_items_queues_sites_and_workers_are_told_as_the_stores_have_them(
    watched: Config, own_redis: str, database: AsyncDatabase[Document]
) -> None:
    ledger = Ledger(database, at_once)
    await ledger.make_indexes()
    job = (await ledger.open_job("flat", "a")).job
    found = [Found("page", f"https://{site}.example/{n}") for site in ("up", "down") for n in range(3)]
    await ledger.add(job.id, found, lambda each: "down" if "down" in each.key else "up")
    await ledger.items.update_one({"job": job.id, "site": "up"}, {"$set": {"state": "done", "outcome": "ok"}})
    await ledger.counting.count(job.id)
    paused = (await ledger.open_job("flat", "b", state=JobState.PAUSED)).job
    await ledger.add(paused.id, found[:1], lambda _: "up")
    running = {"state": "running", "spider": "flat"}
    beats = (datetime.now(UTC), datetime.now(UTC) - timedelta(hours=1))
    await database.runs.insert_many([{**running, "heartbeat_at": at} for at in beats])
    async with Redis.from_url(own_redis) as redis:
        await FrontierAdmin(redis, "flat", watched.database).set_breaker(
            "down", SiteBreaker().rules(), "open", "a test"
        )
    said, content_type = await exposition(watched, database)
    told = samples(said)
    assert content_type.startswith("text/plain")
    assert told["harvester_jobs", "flat", "open"] == told["harvester_jobs", "flat", "paused"] == 1
    assert told["harvester_job_items", job.id, "ok", "flat", "done"] == 1
    assert told["harvester_job_items", job.id, "", "flat", "waiting"] == 5
    assert told["harvester_job_ended_items", job.id, "flat"] == 1
    assert told["harvester_job_due_items", job.id, "flat"] == 2, "those of a site that is left alone cannot be begun"
    assert told["harvester_job_due_items", paused.id, "flat"] == 0
    assert told["harvester_queue_depth", "flat"] == 2
    assert told["harvester_wanted_workers", "flat"] == told["harvester_workers", "flat"] == 1
    assert told["harvester_sites_left_alone", "flat"] == 1
    assert told["harvester_site_left_alone", "person", "down", "flat", "open", ""] == 1
    assert told["harvester_frontier_requests", "ready", "flat"] == 0
    assert told["harvester_server_up", "mongodb"] == told["harvester_server_up", "redis"] == 1
    assert told["harvester_disk_size_bytes", "data"] > told["harvester_disk_free_bytes", "data"] > 0


async def test_the_scrape_of_a_harvester_whose_redis_is_away_says_so_and_still_tells_of_its_jobs(
    config: Config, database: AsyncDatabase[Document], free_port: int
) -> None:
    await Ledger(database, at_once).open_job("flat", "a")
    away = config.model_copy(update={"redis_url": SecretStr(f"redis://127.0.0.1:{free_port}/0")})
    told = samples((await exposition(away, database))[0])
    assert told["harvester_server_up", "redis"] == 0
    assert told["harvester_server_up", "mongodb"] == told["harvester_jobs", "flat", "open"] == 1
    assert not [name for name, *_ in told if name.startswith("harvester_frontier")]


async def test_the_scrape_of_a_harvester_whose_mongodb_is_away_says_so(
    config: Config, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harvester.control.metrics.SERVER_S", 0.2)
    uri = f"mongodb://127.0.0.1:{free_port}/"
    away = mongodb.connect(config.model_copy(update={"mongodb_uri": SecretStr(uri)}))
    observed = await observe(config, away)
    await mongodb.disconnect(away)
    assert observed.up == {"mongodb": False}


async def test_the_controller_tells_prometheus_with_a_token_that_may_read_and_nobody_else(control: Controller) -> None:
    assert (await control.http.get("/metrics")).status_code == 401
    answer = await control.http.get("/metrics", headers=control.headers(Scope.READ))
    assert answer.status_code == 200
    assert samples(answer.content)["harvester_server_up", "mongodb"] == 1
    openmetrics = {"Accept": "application/openmetrics-text;version=1.0.0", **control.headers(Scope.READ)}
    answer = await control.http.get("/metrics", headers=openmetrics)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def job_with(counts: list[Counted]) -> Job:
    return Job(id="flat-1", spider="flat", scope="a", number=1, created_at=NOW, counts=tuple(counts))


def test_outcomes_of_a_job_take_a_bounded_number_of_series_and_lose_no_item() -> None:
    counts = [Counted("page", ItemState.FAILED, "", f"odd-{n}", n + 1) for n in range(3 * MOST_OUTCOMES)]
    observed = Observed({"mongodb": True}, jobs=[ObservedJob(job_with(counts), 0, 0.0)])
    (items,) = (family for family in families(observed) if family.name == "harvester_job_items")
    assert len(items.samples) == MOST_OUTCOMES + 1
    assert sum(sample.value for sample in items.samples) == sum(row.items for row in counts)


@pytest.mark.parametrize(
    ("due", "wanted"), [(0, 0), (1, 1), (ITEMS_A_WORKER, 1), (ITEMS_A_WORKER + 1, 2), (100 * ITEMS_A_WORKER, 100)]
)
def test_workers_are_wanted_for_as_many_items_as_are_due(due: int, wanted: int) -> None:
    observed = Observed({"mongodb": True}, jobs=[ObservedJob(job_with([]), due, 0.0)])
    assert observed.wanted_workers("flat") == wanted


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed: apt-get install prometheus")
async def test_promtool_finds_nothing_to_say_of_the_metrics(watched: Config, database: AsyncDatabase[Document]) -> None:
    said, _ = await exposition(watched, database)
    command = ["promtool", "check", "metrics"]
    checked = await asyncio.to_thread(subprocess.run, command, input=said, capture_output=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")

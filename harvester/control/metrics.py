"""Metrics for Prometheus: the state of MongoDB and Redis, read at each scrape and stored nowhere.

`observe` reads, `families` converts to Prometheus's metrics, and `exposition` does both. The metrics of a worker
process are in harvester.worker.metrics. docs/monitoring.md lists all metrics.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pymongo
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from harvester import __version__
from harvester.config import Config
from harvester.exceptions import ServiceError, UsageError
from harvester.frontier import frontier_record
from harvester.frontier.admin import FrontierAdmin
from harvester.frontier.messages import BreakerStatus, Depth
from harvester.jobs.documents import ItemState, Job, JobState, read_job
from harvester.jobs.ledger import Ledger
from harvester.monitors.history import LOST_AFTER_SECONDS
from harvester.publish import admin
from harvester.publish.sinks import load_sinks
from harvester.stores import mongodb
from harvester.stores.redis import connect
from harvester.worker.metrics import DiskUse, disk_families, disks_of

logger = logging.getLogger(__name__)

Document = dict[str, Any]

SERVER_S = 4.0
"""Seconds that each server may take. Prometheus waits 10 s by default and must still learn which server is away."""
MOST_JOBS = 100
"""Maximum number of open and paused jobs with their own series, the latest first; harvester_jobs counts all jobs."""
MOST_OUTCOMES = 30
"""Maximum number of outcomes of a job with their own series; the rest is `other`."""
MOST_SITES = 200
"""Maximum number of sites with an open breaker that have their own series, by spider.

harvester_sites_left_alone counts all.
"""
MOST_COUNTED = 10_000
"""Maximum number of due items of a job to count each time.

Beyond it the job's own counts are used; they may be a minute old.
"""
ITEMS_A_WORKER = 1_000
"""Number of due items and requests that justify one more worker process."""
PLACES = ("ready", "parked", "waiting", "leased", "dead")


class ObservedJob(NamedTuple):
    """An open or paused job."""

    job: Job
    due: int
    """Number of items that may be claimed now."""
    oldest_due_s: float
    """Seconds that the next due item has waited; in a recurring job, how late it is. 0: no item is due."""


class ObservedFrontier(NamedTuple):
    """The requests and breakers of a spider's frontier."""

    counts: Depth
    breakers: dict[str, BreakerStatus]
    """Breakers that are not closed, by site; for a tier of proxies the name is site, zero byte, tier."""


@dataclass(frozen=True)
class Observed:
    """The observations at a moment. Fields of a server without a response are empty."""

    up: dict[str, bool]
    """Server name -> True if it answered."""
    disks: Sequence[DiskUse] = ()
    job_states: dict[tuple[str, str], int] = field(default_factory=dict)
    """(Spider, state) -> number of jobs."""
    jobs: Sequence[ObservedJob] = ()
    workers: dict[str, int] = field(default_factory=dict)
    """Spider -> number of worker processes with a heartbeat within the last minute."""
    frontiers: dict[str, ObservedFrontier] = field(default_factory=dict)
    """Frontiers by spider."""
    publishing: admin.PublishStatus | None = None
    """The state of publishing. None: no sink is configured."""

    @property
    def spiders(self) -> list[str]:
        """Returns all spiders with a job, frontier or worker."""
        of_jobs = {spider for spider, _ in self.job_states}
        return sorted({*of_jobs, *self.frontiers, *self.workers})

    def queue_depth(self, spider: str) -> int:
        """Returns the work that workers could do now: due items, and requests that are ready or leased."""
        due = sum(each.due for each in self.jobs if each.job.spider == spider)
        counts = self.frontiers[spider].counts if spider in self.frontiers else None
        return due + (counts.ready + counts.leased if counts else 0)

    def wanted_workers(self, spider: str) -> int:
        """Returns the number of workers for this queue.

        It ignores the limits of sites: docs/capacity.md says how many are useful.
        """
        return math.ceil(self.queue_depth(spider) / ITEMS_A_WORKER)


async def exposition(config: Config, database: AsyncDatabase[Document], accept: str = "") -> tuple[bytes, str]:
    """Returns the text and its content type according to the Accept header. Unreachable servers raise no exception."""
    observed = await observe(config, database)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(observed))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Once(Collector):
    """Collects the metrics of a single observation."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def collect(self) -> Iterator[Metric]:
        yield from families(self._observed)


# Asking ---------------------------------------------------------------------------------------------------


async def observe(config: Config, database: AsyncDatabase[Document]) -> Observed:
    """Reads MongoDB, then Redis, then the due items: Redis knows the open breakers, whose sites have no due items."""
    disks = disks_of(config)
    try:
        with pymongo.timeout(SERVER_S):
            job_states = await _job_states(database)
            known = [row["_id"] async for row in database[frontier_record.COLLECTION].find({}, {"_id": 1})]
            spiders = sorted({*known, *(spider for spider, _ in job_states)})
            workers = dict.fromkeys(spiders, 0) | await _workers(database)
        frontiers = await _frontiers(config, spiders)
        with pymongo.timeout(SERVER_S):
            jobs = await _jobs(database, frontiers or {})
            published = await _publishing(config, database)
    except PyMongoError as error:
        logger.warning("Metrics lack what MongoDB knows: %s", mongodb.said(error))
        return Observed({"mongodb": False}, disks)
    up = {"mongodb": True, "redis": frontiers is not None}
    return Observed(up, disks, job_states, jobs, workers, frontiers or {}, published)


async def _job_states(database: AsyncDatabase[Document]) -> dict[tuple[str, str], int]:
    group = {"$group": {"_id": {"spider": "$spider", "state": "$state"}, "jobs": {"$sum": 1}}}
    rows = await (await database.jobs.aggregate([group])).to_list()
    return {(row["_id"]["spider"], row["_id"]["state"]): row["jobs"] for row in rows}


async def _workers(database: AsyncDatabase[Document]) -> dict[str, int]:
    """Returns the number of running runs by spider: each run is a process."""
    heard_of = {"state": "running", "heartbeat_at": {"$gte": datetime.now(UTC) - timedelta(seconds=LOST_AFTER_SECONDS)}}
    group = {"$group": {"_id": "$spider", "runs": {"$sum": 1}}}
    rows = await (await database.runs.aggregate([{"$match": heard_of}, group])).to_list()
    return {row["_id"]: row["runs"] for row in rows}


async def _frontiers(config: Config, spiders: Sequence[str]) -> dict[str, ObservedFrontier] | None:
    """Returns the frontiers, or None when Redis does not answer."""
    redis: Redis | None = None
    try:
        redis = await asyncio.to_thread(connect, config)
        async with asyncio.timeout(SERVER_S):
            await redis.ping()
            frontiers = [FrontierAdmin(redis, spider, config.database) for spider in spiders]
            return {each.spider: ObservedFrontier(await each.depth(), await each.breakers()) for each in frontiers}
    except (RedisError, OSError, ServiceError) as error:
        logger.warning("Metrics lack what Redis knows: %s", error or type(error).__name__)
        return None
    finally:
        if redis:
            with suppress(RedisError, OSError):
                await redis.aclose()


async def _jobs(database: AsyncDatabase[Document], frontiers: dict[str, ObservedFrontier]) -> list[ObservedJob]:
    ledger = Ledger(database, _at_once)
    unfinished = {"state": {"$in": [JobState.OPEN, JobState.PAUSED]}}
    rows = await ledger.jobs.find(unfinished, sort=[("created_at", -1)], limit=MOST_JOBS).to_list()
    return [await _job(ledger, job, frontiers.get(job.spider)) for job in map(read_job, rows)]


async def _job(ledger: Ledger, job: Job, frontier: ObservedFrontier | None) -> ObservedJob:
    left_alone = [name.partition("\0")[0] for name in frontier.breakers if "\0" not in name] if frontier else []
    if job.state is not JobState.OPEN or not await ledger.is_due(job, left_alone):
        return ObservedJob(job, 0, 0.0)
    now = ledger.now()
    query = {"job": job.id, "state": ItemState.WAITING, "due_at": {"$not": {"$gt": now}}, "site": {"$nin": left_alone}}
    due = await ledger.items.count_documents(query, limit=MOST_COUNTED)
    if due == MOST_COUNTED and not left_alone and not job.standing:
        due = max(due, sum(row.items - row.later for row in job.counts if row.state is ItemState.WAITING))
    order = [("due_at", 1), ("depth", 1), ("priority", -1), ("_id", 1)]
    oldest = await ledger.items.find_one(query, {"due_at": 1, "updated_at": 1}, sort=order)
    since: datetime = (oldest.get("due_at") or oldest["updated_at"]) if oldest else now
    return ObservedJob(job, due, max(0.0, (now - since).total_seconds()))


async def _publishing(config: Config, database: AsyncDatabase[Document]) -> admin.PublishStatus | None:
    try:
        sinks = load_sinks(config)
    except UsageError as error:
        logger.warning("Metrics lack what is published: %s", error)
        return None
    return await admin.status(database, sinks) if sinks else None


async def _at_once(operation: Callable[[], Any]) -> Any:
    """Calls without a retry, because Prometheus scrapes again by itself."""
    return await operation()


# Saying ---------------------------------------------------------------------------------------------------


def families(observed: Observed) -> Iterator[Metric]:
    """Yields the metrics. Jobs are labelled `job_id`, because Prometheus itself sets a label `job`."""
    yield InfoMetricFamily("harvester_build", "The harvester that answers.", {"version": __version__})
    up = _gauge("harvester_server_up", "1 if MongoDB, or Redis, answered just now.", "server")
    for server, answers in observed.up.items():
        up.add_metric([server], answers)
    yield up
    yield from disk_families(observed.disks)
    if observed.up.get("mongodb"):
        yield from _of_jobs(observed)
        yield from _of_spiders(observed)
    if observed.up.get("redis"):
        yield from _of_frontiers(observed.frontiers)
    if observed.publishing:
        yield from _of_publishing(observed.publishing)


def _of_jobs(observed: Observed) -> Iterator[Metric]:
    jobs = _gauge("harvester_jobs", "Jobs of a spider, by state.", "spider", "state")
    for (spider, state), number in sorted(observed.job_states.items()):
        jobs.add_metric([spider, state], number)
    yield jobs
    items = _gauge(
        "harvester_job_items",
        "Items of an open or paused job, as counted last.",
        "spider",
        "job_id",
        "state",
        "outcome",
    )
    ended = _gauge("harvester_job_ended_items", "Items that are done, failed or skipped.", "spider", "job_id")
    standing = _gauge("harvester_job_standing", "1 if the job never ends.", "spider", "job_id")
    due = _gauge("harvester_job_due_items", "Items that may be begun now.", "spider", "job_id")
    oldest = _gauge(
        "harvester_job_oldest_due_seconds",
        "How long the due item has waited that is next, or by how much it is late in a standing job.",
        *("spider", "job_id"),
    )
    for job, due_items, oldest_due_s in observed.jobs:
        labels = [job.spider, job.id]
        for (state, outcome), number in _items_of(job).items():
            items.add_metric([*labels, state, outcome], number)
        ended_items = sum(row.items for row in job.counts if row.state not in (ItemState.WAITING, ItemState.ACTIVE))
        ended.add_metric(labels, ended_items)
        standing.add_metric(labels, job.standing)
        due.add_metric(labels, due_items)
        oldest.add_metric(labels, oldest_due_s)
    yield from (items, ended, standing, due, oldest)


def _items_of(job: Job) -> dict[tuple[str, str], int]:
    """Returns (state, outcome) -> number of items. Items without an outcome have an empty one."""
    by_outcome: Counter[str] = Counter()
    for row in job.counts:
        by_outcome[row.outcome] += row.items
    named = {outcome for outcome, _ in by_outcome.most_common(MOST_OUTCOMES)}
    counts: Counter[tuple[str, str]] = Counter()
    for row in job.counts:
        counts[row.state, row.outcome if row.outcome in named else "other"] += row.items
    return dict(counts)


def _of_spiders(observed: Observed) -> Iterator[Metric]:
    depth = _gauge("harvester_queue_depth", "Items and requests that workers could do now.", "spider")
    wanted = _gauge("harvester_wanted_workers", "Worker processes for so long a queue.", "spider")
    workers = _gauge("harvester_workers", "Processes that work at a spider.", "spider")
    for spider in observed.spiders:
        depth.add_metric([spider], observed.queue_depth(spider))
        wanted.add_metric([spider], observed.wanted_workers(spider))
        workers.add_metric([spider], observed.workers.get(spider, 0))
    yield from (depth, wanted, workers)


def _of_frontiers(frontiers: dict[str, ObservedFrontier]) -> Iterator[Metric]:
    requests = _gauge("harvester_frontier_requests", "Requests in a frontier, by place.", "spider", "place")
    dead = _gauge("harvester_dead_letters", "Requests that were given up, by outcome.", "spider", "outcome")
    shut = _gauge("harvester_sites_left_alone", "Sites, and tiers of proxies, whose breaker is not closed.", "spider")
    site = _gauge("harvester_site_left_alone", "1 for each of them.", "spider", "site", "tier", "state", "cause")
    until = _gauge(
        "harvester_site_left_alone_until_timestamp_seconds", "When it is tried again.", "spider", "site", "tier"
    )
    for spider, (counts, breakers) in frontiers.items():
        for place in PLACES:
            requests.add_metric([spider, place], getattr(counts, place))
        for outcome, number in sorted(counts.dead_by_outcome.items()):
            dead.add_metric([spider, outcome], number)
        shut.add_metric([spider], len(breakers))
        for name, breaker in list(breakers.items())[:MOST_SITES]:
            of_site, _, tier = name.partition("\0")
            site.add_metric([spider, of_site, tier, breaker.state, breaker.cause], 1)
            if breaker.until:
                until.add_metric([spider, of_site, tier], breaker.until)
    yield from (requests, dead, shut, site, until)


def _of_publishing(status: admin.PublishStatus) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "harvester_publish_marked_records", "Records whose deliveries are still to be made.", status.marked
    )
    yield GaugeMetricFamily("harvester_publish_sender_up", "1 if a process sends.", bool(status.sender))
    waiting = _gauge("harvester_publish_waiting", "Deliveries that are not confirmed.", "sink")
    dead = _gauge("harvester_publish_dead", "Deliveries that are not tried any more.", "sink")
    oldest = _gauge("harvester_publish_oldest_seconds", "Since when the first of those that wait is due.", "sink")
    failing = _gauge("harvester_publish_failing", "1 if the receiver takes nothing.", "sink")
    set_aside = _gauge("harvester_publish_set_aside", "1 if nothing is sent to it until somebody resumes it.", "sink")
    for sink in status.sinks:
        waiting.add_metric([sink.name], sink.waiting)
        dead.add_metric([sink.name], sink.dead)
        late_s = (datetime.now(UTC) - sink.oldest).total_seconds() if sink.oldest else 0
        oldest.add_metric([sink.name], max(0.0, late_s))
        failing.add_metric([sink.name], sink.state == "failing")
        set_aside.add_metric([sink.name], sink.state == "set aside")
    yield from (waiting, dead, oldest, failing, set_aside)


def _gauge(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=labels)

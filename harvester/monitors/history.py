"""The history of runs in the collection `runs`: their arguments, states and results."""

import asyncio
import logging
import os
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Self

import psutil
import pymongo
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.errors import PyMongoError
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from harvester.config import Config, load_config
from harvester.exceptions import HarvesterError, ServiceError, UnknownRun, UsageError
from harvester.formatting import storable
from harvester.masking import mask
from harvester.monitors.arguments import printable_arguments
from harvester.monitors.judgement import Judged, Judgement
from harvester.monitors.summary import RunSummary, exit_code
from harvester.shutdown import stop
from harvester.stores import mongodb, servers

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 10
"""Seconds between two heartbeats of a run."""
LOST_AFTER_SECONDS = 60
"""Seconds without a heartbeat until a run counts as dead."""
DATABASE_SECONDS = 5
"""Seconds that an operation in MongoDB may take: a run must be able to end without MongoDB."""
CAUSE_SECONDS = 1.0
"""Seconds for the operation when a missing server kept the run from starting: the server may be MongoDB itself."""
STATES = ("running", "finished", "failed", "interrupted", "lost")
"""States of a run."""
COMPARED_RUNS = 10
"""Maximum number of earlier runs to compare a run with."""

Runs = Collection[dict[str, Any]]

_IN_WORDS = ("arguments", "errors", "failures", "message", "stats")
"""Fields of a run that may contain text from a site."""

INDEXES = [
    IndexModel([("spider", ASCENDING), ("scope", ASCENDING), ("started_at", DESCENDING)]),
    IndexModel([("spider", ASCENDING), ("verdict", ASCENDING), ("started_at", DESCENDING)]),
    IndexModel([("state", ASCENDING), ("heartbeat_at", ASCENDING)]),
    IndexModel([("started_at", DESCENDING)]),
    IndexModel([("job", ASCENDING)]),
]


class Earlier(NamedTuple):
    """Documents of earlier passed runs, the newest first, at most COMPARED_RUNS each."""

    same_scope: list[dict[str, Any]]
    """Complete runs (not continuations) with the same arguments."""
    same_spider: list[dict[str, Any]]


class RunHistory:
    """Updates the run's document in `runs` while a spider runs, and loads earlier runs.

    Without MongoDB the run goes on: `earlier` stays None, and the document is written when MongoDB is back.
    """

    earlier: Earlier | None = None
    """None until it was read."""
    judgement: Judgement | None = None
    """The judgement, which RunMonitors sets at the end."""
    of_project: dict[str, Judged]
    """The latest results of the project's own monitors, by name. RunMonitoring runs them."""

    def __init__(self, crawler: Crawler, config: Config) -> None:
        assert crawler.stats
        self.crawler = crawler
        self.stats = crawler.stats
        self.config = config
        self.started_at = datetime.now(UTC)
        self.run_id = _run_id(self.started_at)
        self.stats.set_value("harvester/run", self.run_id)
        self.of_project = {}
        self.closed = False
        """True if the end of the run was written."""
        self._database: AsyncDatabase[dict[str, Any]] | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._unreachable = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        history = cls(crawler, load_config())
        crawler.signals.connect(history.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(history.engine_stopped, signal=signals.engine_stopped)
        return history

    async def spider_opened(self) -> None:
        """Writes the run's document and reads earlier runs now, because MongoDB may be down at the end."""
        await self._save()
        self._heartbeat = asyncio.create_task(self._beat())

    @property
    def opened(self) -> bool:
        """Returns True if the run began. A crawl without opened pipelines did not begin."""
        return self._heartbeat is not None

    async def engine_stopped(self) -> None:
        """Writes the result of the run.

        RunMonitoring comes before this extension in EXTENSIONS, and has judged the run.
        """
        if self._heartbeat is None:
            return
        await stop(self._heartbeat)
        await self._save()
        self.closed = True
        if self._database is not None:
            await mongodb.disconnect(self._database)

    def write_end(self) -> None:
        """Writes the result of a run when its engine did not stop properly. Needs no event loop."""
        document = self.document()
        self.closed = True
        if unwritten := _write(
            self.config, lambda runs: runs.replace_one({"_id": self.run_id}, document, upsert=True), DATABASE_SECONDS
        ):
            logger.warning("Run %s could not be written to MongoDB: %s", self.run_id, unwritten)

    def document(self) -> dict[str, Any]:
        """Returns the current document of the run, even when MongoDB is unreachable."""
        spider = self.crawler.spider
        stats = self.stats.get_stats()
        summary = RunSummary.from_stats(stats)
        finished_at = datetime.now(UTC) if summary.finish_reason else None
        document = {
            "_id": self.run_id,
            "spider": getattr(spider, "name", None),
            "crawl": stats.get("harvester/job"),
            "scope": getattr(spider, "scope", None),
            "resumed": bool(getattr(spider, "resumed", False)),
            "arguments": printable_arguments(getattr(spider, "arguments", None)),
            **_process(self.crawler.settings),
            "state": _state(summary, self.judgement),
            "started_at": self.started_at,
            "heartbeat_at": datetime.now(UTC),
            "finished_at": finished_at,
            "finish_reason": summary.finish_reason or None,
            "message": summary.cause or None,
            "counts": summary.stored,
            "parsed": summary.parsed,
            "rejected": summary.rejected,
            "outcomes": summary.outcomes,
            "errors": [error._asdict() for error in summary.errors[:100]],
            "coverage": summary.coverage,
            "items": summary.items,
            "verdict": self.judgement.verdict if self.judgement else None,
            "failures": self.judgement.failures if self.judgement else [],
            "stats": summary.excerpt,
            "exit_code": exit_code(stats, 0) if summary.finish_reason else None,
            "report": stats.get("harvester/report"),
        }
        stored: dict[str, Any] = storable(document | {name: mask.within(document[name]) for name in _IN_WORDS})
        return stored

    async def _beat(self) -> None:
        pause_s = 1.0  # starts small: short runs should leave counts too when killed
        while True:
            await asyncio.sleep(pause_s)
            await self._save()
            pause_s = min(2 * pause_s, HEARTBEAT_SECONDS)

    async def _save(self) -> None:
        document = self.document()
        try:
            with pymongo.timeout(DATABASE_SECONDS), mongodb.at_the_end(self.crawler):
                if self._database is None:
                    self._database = mongodb.connect(self.config)
                runs = self._database.runs
                await runs.replace_one({"_id": self.run_id}, document, upsert=True)
                if self.earlier is None:
                    await runs.create_indexes(INDEXES)
                    await mark_lost(self._database)
                    self.earlier = await earlier_runs(self._database, document)
        except (PyMongoError, ServiceError) as error:
            if not self._unreachable or document["finished_at"]:
                logger.warning("Run %s could not be written to MongoDB: %s", self.run_id, mongodb.said(error))
            self._unreachable = True
        else:
            self._unreachable = False


def history_of(crawler: Crawler) -> RunHistory:
    """Returns the crawler's RunHistory. Raises UsageError when the extension is not enabled."""
    history = crawler.get_extension(RunHistory)
    if history is None:
        raise UsageError("Monitors need the extension harvester.monitors.history.RunHistory: enable it.")
    return history


async def earlier_runs(database: AsyncDatabase[dict[str, Any]], document: dict[str, Any]) -> Earlier:
    """Returns the spider's passed runs that started before the document's run."""
    passed = {
        "spider": document["spider"],
        "verdict": "passed",
        "started_at": {"$lt": document["started_at"]},
    }
    alike = {**passed, "scope": document["scope"], "resumed": False}
    same_scope, same_spider = [
        await database.runs.find(query).sort("started_at", DESCENDING).limit(COMPARED_RUNS).to_list()
        for query in (alike, passed)
    ]
    return Earlier(same_scope, same_spider)


async def find_runs(
    database: AsyncDatabase[dict[str, Any]], query: dict[str, Any], most: int, fields: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Returns documents of runs, the latest first, after marking killed runs as lost. Raises PyMongoError."""
    await mark_lost(database)
    return await database.runs.find(query, fields, sort=[("started_at", DESCENDING)], limit=most).to_list()


async def run_named(database: AsyncDatabase[dict[str, Any]], run: str) -> dict[str, Any]:
    """Returns the run with this id, or with an id that uniquely starts so; for an empty id the latest run.

    Raises UsageError for an ambiguous id, UnknownRun for an unknown one, PyMongoError.
    """
    if not run.isascii():
        raise UnknownRun(f"There is no run {run!r}; `harvester runs list` shows them.")
    beginning = {"_id": {"$gte": run, "$lt": f"{run}~"}} if run else {}
    found = await find_runs(database, beginning, 2 if run else 1)
    exact = [each for each in found if each["_id"] == run]
    if len(found) == 1 or exact:
        return (exact or found)[0]
    if found:
        raise UsageError(f"Several runs begin with {run!r}; `harvester runs list` shows them.")
    raise UnknownRun(f"There is no run {run!r}; `harvester runs list` shows them." if run else "There is no run yet.")


def write_down_unopened(settings: BaseSettings, spider: str, arguments: Mapping[str, str], error: Exception) -> None:
    """Stores a run that never began, unless this would need to start a new private MongoDB.

    A job of Scrapyd is always stored, so it can be looked up by its id. If the job began, it has stored itself.
    """
    try:
        config = load_config()
    except HarvesterError:
        return
    job = settings["SCRAPYD_JOB"]
    if not job and not servers.has_mongodb(config):
        return
    now = datetime.now(UTC)
    document = {
        "_id": _run_id(now),
        "spider": spider,
        "arguments": printable_arguments(arguments),
        **_process(settings),
        "state": "failed",
        "started_at": now,
        "heartbeat_at": now,
        "finished_at": now,
        "finish_reason": error.finish_reason if isinstance(error, HarvesterError) else "program_error",
        "message": mask(str(error) if isinstance(error, HarvesterError) else f"{type(error).__name__}: {error}"),
        "exit_code": getattr(error, "exit_code", 1),
    }
    which = {"job": job} if job else {"_id": document["_id"]}
    unwritten = _write(
        config,
        lambda runs: runs.update_one(which, {"$setOnInsert": document}, upsert=True),
        CAUSE_SECONDS if isinstance(error, ServiceError) else DATABASE_SECONDS,
    )
    if unwritten and job:
        logger.warning("Job %s could not be written to MongoDB: %s", job, unwritten)


def _write(config: Config, write: Callable[[Runs], object], seconds: float) -> str:
    """Writes without an event loop, within a time limit. Returns the error; empty if it succeeded.

    Uses a thread, because starting a private server may take longer.
    """
    said = [f"it did not answer in {seconds:g} s"]

    def connect_and_write() -> None:
        try:
            with pymongo.timeout(seconds):
                database = mongodb.connect_sync(config)
                with database.client:
                    write(database.runs)
        except (PyMongoError, HarvesterError) as error:
            said[0] = mongodb.said(error)
        else:
            said[0] = ""

    writing = Thread(target=connect_and_write, daemon=True)
    writing.start()
    writing.join(seconds + 1)
    return said[0]


async def mark_lost(database: AsyncDatabase[dict[str, Any]]) -> int:
    """Sets the state `lost` on runs with a killed process, and returns their number."""
    silent_since = datetime.now(UTC) - timedelta(seconds=LOST_AFTER_SECONDS)
    lost = []
    async for run in database.runs.find({"state": "running"}):
        if run["heartbeat_at"] < silent_since or _died_here(run):
            lost.append(run["_id"])
            logger.warning("Run %s of %s did not end: its process was killed", run["_id"], run["spider"])
    await database.runs.update_many({"_id": {"$in": lost}, "state": "running"}, {"$set": {"state": "lost"}})
    return len(lost)


def _run_id(started_at: datetime) -> str:
    return f"{started_at:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def _process(settings: BaseSettings) -> dict[str, Any]:
    """Returns the fields about the process: host, process id, job at Scrapyd, log file."""
    log = settings["LOG_FILE"]
    return {
        "host": platform.node(),
        "pid": os.getpid(),
        "job": settings["SCRAPYD_JOB"] or None,
        "log": str(Path(log).absolute()) if log else None,
    }


def _died_here(run: dict[str, Any]) -> bool:
    """Returns True if the run's process was on this machine and has ended."""
    return run["host"] == platform.node() and not psutil.pid_exists(run["pid"])


def _state(summary: RunSummary, judgement: Judgement | None) -> str:
    if not summary.finish_reason:
        return "running"
    if summary.interrupted:
        return "interrupted"
    failed = judgement.verdict == "failed" if judgement else summary.finish_reason != "finished"
    return "failed" if failed else "finished"

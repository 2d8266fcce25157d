"""The history of runs, in the collection `runs`: what each was asked, how it goes, what became of it."""

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
"""How often a run says that it is alive."""
LOST_AFTER_SECONDS = 60
"""A run that was silent for so long is taken for dead."""
DATABASE_SECONDS = 5
"""How long one exchange with MongoDB may take: a run must end without it."""
CAUSE_SECONDS = 1.0
"""The same, when a server is the cause for which a run did not begin: it may be MongoDB."""
STATES = ("running", "finished", "failed", "interrupted", "lost")
"""Of a run."""
COMPARED_RUNS = 10
"""How many earlier runs a run is compared with."""

Runs = Collection[dict[str, Any]]

_IN_WORDS = ("arguments", "errors", "failures", "message", "stats")
"""Fields of a run in which something may stand that a site said."""

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
    """Whole runs (none that continued another) that were asked for the same."""
    same_spider: list[dict[str, Any]]


class RunHistory:
    """Keeps one document of `runs` up to date while a spider runs, and knows the runs before it.

    Without MongoDB the run goes on: `earlier` stays None, and the document is written when MongoDB is back.
    """

    earlier: Earlier | None = None
    """None until it was read."""
    judgement: Judgement | None = None
    """Set by RunMonitors at the end."""
    of_project: dict[str, Judged]
    """What the project's own monitors said last, by name. RunMonitoring runs them."""

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
        """Whether it was written down how the run ended."""
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
        """Writes the run down and reads the earlier ones, now, so that MongoDB may be gone at the end."""
        await self._save()
        self._heartbeat = asyncio.create_task(self._beat())

    @property
    def opened(self) -> bool:
        """Whether the run began: a crawl that could not open its pipelines is none."""
        return self._heartbeat is not None

    async def engine_stopped(self) -> None:
        """Writes down what became of the run. RunMonitoring stands before it in EXTENSIONS, and has judged."""
        if self._heartbeat is None:
            return
        await stop(self._heartbeat)
        await self._save()
        self.closed = True
        if self._database is not None:
            await mongodb.disconnect(self._database)

    def write_end(self) -> None:
        """Writes down what became of a run whose engine was not stopped in good order. Needs no event loop."""
        document = self.document()
        self.closed = True
        if unwritten := _write(
            self.config, lambda runs: runs.replace_one({"_id": self.run_id}, document, upsert=True), DATABASE_SECONDS
        ):
            logger.warning("Run %s could not be written to MongoDB: %s", self.run_id, unwritten)

    def document(self) -> dict[str, Any]:
        """The run as it is now: the document of `runs`, whether or not MongoDB can be reached."""
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
        pause_s = 1.0  # short runs, too, leave their counts when they are killed
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
    """The crawler's RunHistory. Raises UsageError when the extension is not enabled."""
    history = crawler.get_extension(RunHistory)
    if history is None:
        raise UsageError("Monitors need the extension harvester.monitors.history.RunHistory: enable it.")
    return history


async def earlier_runs(database: AsyncDatabase[dict[str, Any]], document: dict[str, Any]) -> Earlier:
    """The passed runs of the document's spider that started before it."""
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
    """Documents of runs, the last first; those whose process was killed are lost by then. Raises PyMongoError."""
    await mark_lost(database)
    return await database.runs.find(query, fields, sort=[("started_at", DESCENDING)], limit=most).to_list()


async def run_named(database: AsyncDatabase[dict[str, Any]], run: str) -> dict[str, Any]:
    """The run with this id, or whose id begins so; of an empty one the last.

    Raises UsageError when several begin so, UnknownRun when there is none, PyMongoError.
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
    """Writes down a run that never began, unless it would need a private MongoDB where there has been none.

    A job of Scrapyd can be looked up by its id in any case; one that began wrote itself down.
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
    """Writes without an event loop, for so long at most. Returns what kept it from that; empty when it is written.

    In a thread, since a private server that has to be started may need longer.
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
    """Sets the state `lost` on runs whose process was killed, and returns how many there were."""
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
    """Where a run is executed: the process, its job at Scrapyd, its log file."""
    log = settings["LOG_FILE"]
    return {
        "host": platform.node(),
        "pid": os.getpid(),
        "job": settings["SCRAPYD_JOB"] or None,
        "log": str(Path(log).absolute()) if log else None,
    }


def _died_here(run: dict[str, Any]) -> bool:
    """Whether the run's process was one of this machine and is no more."""
    return run["host"] == platform.node() and not psutil.pid_exists(run["pid"])


def _state(summary: RunSummary, judgement: Judgement | None) -> str:
    if not summary.finish_reason:
        return "running"
    if summary.interrupted:
        return "interrupted"
    failed = judgement.verdict == "failed" if judgement else summary.finish_reason != "finished"
    return "failed" if failed else "finished"

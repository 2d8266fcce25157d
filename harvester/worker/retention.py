"""Retention of files on disk: removes old or excess files, but never files that a job still needs.

HARVESTER_RETENTION sets limits by kind of file, as `logs=30d,500MB rejects=180d`; other kinds are stored forever.
`sweep` is `harvester gc`; `daily` does the same in each supervisor of workers.

Needed are: files written since the spider's oldest unfinished job began (for a recurring job: since the oldest active
attempt began) or since the spider's oldest current run began; files that are still being written; and each file that a
record names. Files are removed singly, so a kill in between leaves fewer files and no other damage.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from pymongo.database import Database
from pymongo.errors import PyMongoError

from harvester.config import Config
from harvester.exceptions import HarvesterError, UsageError
from harvester.items import RECORDS
from harvester.items.other import know_collections
from harvester.jobs.documents import ITEMS, JOBS, ItemState, JobState
from harvester.monitors.history import LOST_AFTER_SECONDS
from harvester.project import spider_loader
from harvester.recheck.durations import read_duration
from harvester.stores import mongodb
from harvester.stores.staging import SUFFIX
from harvester.validation import did_you_mean

logger = logging.getLogger(__name__)

Document = dict[str, Any]

SETTING = "HARVESTER_RETENTION"
MARK = ".gc"
"""A file in the data folder with the time of the last automatic sweep. Its lock is held during a sweep."""
DAY_S = 86_400.0
FRESH_S = 3_600.0
"""Age in seconds below which files are never removed: they may still be written."""
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_size = re.compile(r"(\d+)\s*(KB|MB|GB|TB)", re.IGNORECASE).fullmatch
_is_run = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}").fullmatch


class Bound(NamedTuple):
    """The limit for a kind of file."""

    age_s: float | None = None
    """Maximum age in seconds. None: any age."""
    size_bytes: int | None = None
    """Maximum bytes of all files together; beyond it the oldest are removed. None: any size."""


class FileGroup(NamedTuple):
    """Files that are removed together, or not at all."""

    paths: tuple[Path, ...]
    size_bytes: int
    at: float
    """Unix time of the latest write."""
    spider: str = ""
    job: str = ""


@dataclass
class Swept:
    """The result of a sweep for a kind of file."""

    kind: str
    files: int = 0
    size_bytes: int = 0
    removed: int = 0
    removed_bytes: int = 0
    needed: int = 0
    """Number of files beyond their limit that are still needed."""
    faults: list[str] = field(default_factory=list)
    """Errors of files that could not be removed."""


@dataclass
class Needs:
    """The files that are needed.

    `by_spider`, `by_job`: Unix time since when all files are needed. `runs`, `logs`: needed at any age.
    """

    by_spider: dict[str, float]
    by_job: dict[str, float]
    runs: set[str]
    """Ids of current runs."""
    logs: set[Path]
    """Log files of current runs."""

    def has(self, kept: FileGroup) -> bool:
        since = min(self.by_spider.get(kept.spider, float("inf")), self.by_job.get(kept.job, float("inf")))
        return kept.at >= since or any(path.stem in self.runs or path in self.logs for path in kept.paths)


def read_bounds(text: str, named: str = SETTING) -> dict[str, Bound]:
    """Reads limits; an empty text has none. Raises UsageError for an invalid limit.

    `named`: the source, for the error message.
    """
    bounds = {}
    for word in text.split():
        kind, _, said = word.partition("=")
        if kind not in KINDS:
            raise UsageError(f"{named}: {kind!r} is no kind of files{did_you_mean(kind, KINDS)} {_KNOWN}")
        age_s, size_bytes = None, None
        for part in filter(None, said.split(",")):
            if found := _size(part):
                size_bytes = int(found[1]) * _UNITS[found[2].upper()]
            else:
                try:
                    age_s = float(read_duration(part))
                except UsageError as error:
                    raise UsageError(f"{named}: {kind}: {error}; or a size as 500MB.") from None
        if age_s is None and size_bytes is None:
            raise UsageError(f"{named}: {kind} has no bound: write {kind}=30d, {kind}=2GB or {kind}=30d,2GB.")
        bounds[kind] = Bound(age_s, size_bytes)
    return bounds


def sweep(
    config: Config,
    bounds: dict[str, Bound],
    *,
    dry_run: bool = False,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[Swept]:
    """Removes files that are beyond their limit and not needed. Returns a result for each kind in `bounds`.

    `dry_run`: removes nothing, but returns the same results. Raises ServiceError when MongoDB is unreachable; nothing
    is removed then.
    """
    spider_loader()  # with the spiders it imports the project's records
    database = mongodb.connect_sync(config)
    try:
        with database.client:
            needs = _needs(database)
            swept = []
            for kind, bound in bounds.items():
                beyond, result = _beyond(kind, bound, KINDS[kind](config), needs)
                if kind == "flows":
                    beyond = _unnamed(database, beyond, result)
                for kept in beyond:
                    if not goes_on():
                        break
                    _remove(kept, result, _root(config, kind), dry_run=dry_run)
                swept.append(result)
    except PyMongoError as error:
        raise mongodb.unavailable(error) from None
    return swept


def daily(config: Config, goes_on: Callable[[], bool] = lambda: True) -> list[Swept]:
    """Sweeps with the limits of the settings, once a day among all processes that share the data folder.

    Errors are only logged, because they must not end the caller. Returns an empty list when no sweep was due.
    """
    mark = config.data_dir / MARK
    try:
        if not (bounds := read_bounds(config.retention)) or not config.data_dir.is_dir():
            return []
        with FileLock(mark.with_name(f"{MARK}.lock"), timeout=0):
            if mark.exists() and time.time() - mark.stat().st_mtime < DAY_S:
                return []
            swept = sweep(config, bounds, goes_on=goes_on)
            mark.touch()
    except Timeout:
        return []
    except (HarvesterError, OSError) as error:
        logger.warning("Old files are not removed: %s", error)
        return []
    for each in swept:
        if each.removed:
            logger.info("Removed %d of %d files of the kind %s (%s)", each.removed, each.files, each.kind, SETTING)
        for fault in each.faults[:1]:
            logger.warning("Old files are not removed: %s", fault)
    return swept


# What is needed -------------------------------------------------------------------------------------------


def _needs(database: Database[Document]) -> Needs:
    by_spider: dict[str, float] = {}
    by_job: dict[str, float] = {}
    unfinished = {"state": {"$in": [JobState.OPEN, JobState.PAUSED]}}
    for job in database[JOBS].find(unfinished, {"spider": 1, "created_at": 1, "recheck": 1}):
        since = job["created_at"].timestamp()
        if job.get("recheck"):  # it never finishes: only active attempts need files
            active = {"job": job["_id"], "state": ItemState.ACTIVE}
            first = database[ITEMS].find_one(active, {"fed_at": 1}, sort=[("fed_at", 1)])
            since = first["fed_at"].timestamp() if first and first.get("fed_at") else float("inf")
        by_job[job["_id"]] = since
        by_spider[job["spider"]] = min(since, by_spider.get(job["spider"], since))
    silent_since = datetime.now(UTC) - timedelta(seconds=LOST_AFTER_SECONDS)
    running = {"state": "running", "heartbeat_at": {"$gte": silent_since}}
    runs, logs = set(), set()
    for run in database["runs"].find(running, {"spider": 1, "started_at": 1, "log": 1}):
        since = run["started_at"].timestamp()
        by_spider[run["spider"]] = min(since, by_spider.get(run["spider"], since))
        runs.add(run["_id"])
        logs.update([Path(run["log"])] if run.get("log") else [])
    return Needs(by_spider, by_job, runs, logs)


def _unnamed(database: Database[Document], beyond: Iterable[FileGroup], result: Swept) -> list[FileGroup]:
    """Returns the groups without a file that a record names.

    Compares only the end of a path: the folder may be spelled differently.
    """
    of_path = {_below_all(path): kept for kept in beyond for path in kept.paths}
    if not of_path:
        return []
    named: set[FileGroup] = set()
    know_collections(database.list_collection_names())
    for kind in list(RECORDS.values()):
        for record in database[kind.COLLECTION].find({"files": {"$type": "object"}}, {"files": 1}):
            for file in record["files"].values():
                if isinstance(file, dict) and (kept := of_path.get(_below_all(str(file.get("path"))))):
                    named.add(kept)
    result.needed += len({path for kept in named for path in kept.paths})
    return [kept for kept in dict.fromkeys(of_path.values()) if kept not in named]


def _below_all(path: str | Path) -> tuple[str, ...]:
    """Returns the last parts of the path of a flow's file: job, row and name."""
    return PurePath(path).parts[-3:]


# What there is --------------------------------------------------------------------------------------------


def _segments(config: Config, folder: str) -> Iterator[FileGroup]:
    """Yields finished segments; unfinished ones have another suffix."""
    root = config.data_dir / folder
    for path in root.glob(f"*/*/*/*{SUFFIX}"):
        yield from _kept([path], spider=path.relative_to(root).parts[0])


def _logs(config: Config) -> Iterator[FileGroup]:
    for root in (config.data_dir / "logs", config.state_dir / "logs"):
        for path in root.rglob("*.log*"):
            yield from _kept([path])
    for path in config.state_dir.glob("*/server.log.1"):
        yield from _kept([path])


def _reports(config: Config) -> Iterator[FileGroup]:
    for path in (config.data_dir / "reports").rglob("*.html"):
        yield from _kept([path], job="" if _is_run(path.stem) else path.stem)


def _folders(root: Path, pattern: str) -> Iterator[FileGroup]:
    """Yields each folder with all its files. The path below the root starts with the id of a job."""
    for folder in root.glob(pattern):
        if folder.is_dir() and not folder.is_symlink():
            yield from _kept(folder.rglob("*"), job=folder.relative_to(root).parts[0])


def _bad_lines(config: Config) -> Iterator[FileGroup]:
    for path in (config.data_dir / "jobs").glob("*.bad-lines.jsonl"):
        yield from _kept([path], spider=path.name.rsplit("-", 3)[0])


def _feeds(config: Config) -> Iterator[FileGroup]:
    for folder in (config.data_dir / "feeds").glob("*/*"):
        yield from _kept(folder.rglob("*"), spider=folder.name)


def _flows(config: Config) -> Iterator[FileGroup]:
    if "://" not in config.images_store:  # a bucket has its own retention rules
        yield from _folders(_root(config, "flows"), "*/*")


KINDS: dict[str, Callable[[Config], Iterator[FileGroup]]] = {
    "bad_lines": _bad_lines,
    "exports": lambda config: _folders(config.data_dir / "exports", "*"),
    "feeds": _feeds,
    "flows": _flows,
    "logs": _logs,
    "rejects": lambda config: _segments(config, "rejects"),
    "reports": _reports,
    "staging": lambda config: _segments(config, "staging"),
}
_KNOWN = f"There are {', '.join(KINDS)}."


def _root(config: Config, kind: str) -> Path:
    """Returns the folder of a kind, which is never removed itself."""
    if kind == "flows":
        return Path(config.images_store or config.data_dir) / "flows"
    return config.data_dir / {"bad_lines": "jobs"}.get(kind, kind)


def _kept(paths: Iterable[Path], *, spider: str = "", job: str = "") -> Iterator[FileGroup]:
    """Yields the existing files as a group; yields nothing if no file exists."""
    files, size_bytes, at = [], 0, 0.0
    for path in paths:
        try:
            about = path.lstat()
        except OSError:
            continue
        if not path.is_dir() or path.is_symlink():
            files.append(path)
            size_bytes, at = size_bytes + about.st_size, max(at, about.st_mtime)
    if files:
        yield FileGroup(tuple(files), size_bytes, at, spider, job)


def _beyond(kind: str, bound: Bound, found: Iterable[FileGroup], needs: Needs) -> tuple[list[FileGroup], Swept]:
    """Returns the groups to remove, the oldest first, with the counts of the kind."""
    everything = sorted(found, key=lambda kept: kept.at)
    result = Swept(kind, sum(len(kept.paths) for kept in everything), sum(kept.size_bytes for kept in everything))
    now = time.time()
    oldest = float("-inf") if bound.age_s is None else now - bound.age_s
    size_bytes, beyond = result.size_bytes, []
    for kept in everything:
        is_too_much = bound.size_bytes is not None and size_bytes > bound.size_bytes
        if (kept.at >= oldest and not is_too_much) or now - kept.at < FRESH_S:
            continue
        if needs.has(kept):
            result.needed += len(kept.paths)
            continue
        size_bytes -= kept.size_bytes
        beyond.append(kept)
    return beyond, result


def _remove(kept: FileGroup, result: Swept, root: Path, *, dry_run: bool) -> None:
    for path in kept.paths:
        try:
            size_bytes = path.lstat().st_size
            if not dry_run:
                path.unlink()
        except FileNotFoundError:  # another process removed it
            continue
        except OSError as error:
            result.faults.append(f"{path}: {error.strerror or error}")
            continue
        result.removed += 1
        result.removed_bytes += size_bytes
    if not dry_run:
        _remove_empty_folders({path.parent for path in kept.paths}, root)


def _remove_empty_folders(folders: Iterable[Path], root: Path) -> None:
    """Removes empty folders, and parents that become empty, below the root."""
    waiting = sorted(folders, key=lambda folder: len(folder.parts), reverse=True)
    while waiting:
        folder = waiting.pop(0)
        if root not in folder.parents:
            continue
        try:
            folder.rmdir()
        except OSError:  # not empty, or just filled
            continue
        waiting.append(folder.parent)


def total(swept: Sequence[Swept]) -> Swept:
    """Returns the sum over all kinds."""
    names = ("files", "size_bytes", "removed", "removed_bytes", "needed")
    return Swept("all", *(sum(getattr(each, name) for each in swept) for name in names))

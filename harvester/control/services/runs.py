"""Runs: the latest with their verdicts, the report of a run, and the end of a log."""

import asyncio
import os
import platform
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from harvester.exceptions import UsageError
from harvester.jobs.service import JobService
from harvester.masking import mask
from harvester.monitors.history import STATES, find_runs, run_named

Document = Mapping[str, Any]

MOST = 500
"""Maximum number of runs in a response."""
MOST_LINES = 500
"""Maximum number of log lines in a response: the last ones."""
MOST_LOG_BYTES = 256 * 1024
"""Maximum number of bytes of a log to read for a response."""
MOST_LINE = 2000
"""Maximum number of characters of a log line or a monitor's message."""
MOST_STATS = 500
"""Maximum number of stats of a run to show."""
_FIELDS = (
    *("spider", "crawl", "state", "verdict", "finish_reason", "exit_code", "started_at", "finished_at"),
    *("heartbeat_at", "counts", "rejected", "outcomes", "failures.monitor", "host", "log"),
)


@dataclass(frozen=True, slots=True)
class RunFailure:
    """A monitor that did not pass, or an error of which there were many."""

    name: str
    said: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a line. Of one that has not begun little is known."""

    id: str
    spider: str
    job: str
    """Id of the job. Empty: the run had no job, or several."""
    state: str
    """running, finished, failed, interrupted, or lost (its process was killed)."""
    verdict: str
    """The verdict of the monitors: passed or failed; empty before a verdict."""
    finish_reason: str
    exit_code: int | None
    started_at: datetime
    finished_at: datetime | None
    seconds: float
    """Seconds from its start to its end, or to its last heartbeat."""
    records: int
    """Number of records that it has stored."""
    rejected: int
    outcomes: dict[str, int]
    """Outcome -> number of requests."""
    failed: list[str]
    """Names of the monitors that failed."""
    host: str
    has_log: bool
    """True if its log is a file on this machine."""


@dataclass(frozen=True, slots=True)
class RunsPage:
    """The last first."""

    runs: list[RunRow]
    more: bool


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run was asked for, what it did, and why it ended as it did."""

    run: RunRow
    arguments: dict[str, str]
    resumed: bool
    message: str
    """The reason why it ended, or did not start."""
    counts: dict[str, int]
    """Kind of record -> number of stored records. `parsed` and `rejected` have the same form."""
    parsed: dict[str, int]
    rejected: dict[str, int]
    items: dict[str, dict[str, int]]
    """Kind -> state -> number of the job's items."""
    failures: list[RunFailure]
    """Failed monitors with their messages."""
    errors: list[RunFailure]
    """The most frequent failures of requests: the outcome, the host, the number and a message."""
    stats: dict[str, str]
    pid: int
    log: str
    """Path of the log file on its host; empty if the run logged to its terminal."""
    report: str


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines of a log, without secrets."""

    lines: list[str]
    end: int
    """Number of bytes of the file read so far. Pass it as `after` to read only newer lines."""
    cut: bool
    """True if requested lines before these were left out."""


class Runs:
    """The history of runs."""

    def __init__(self, service: JobService) -> None:
        self._database = service.database

    async def list(self, spider: str = "", state: str = "", job: str = "", most: int = 100) -> RunsPage:
        """Returns the latest runs that match. Raises UsageError for an unknown state."""
        if state and state not in STATES:
            raise UsageError(f"state: {state!r} is none of {', '.join(STATES)}.")
        query = {name: value for name, value in (("spider", spider), ("state", state), ("crawl", job)) if value}
        most = min(most, MOST)
        found = await find_runs(self._database, query, most + 1, _FIELDS)
        return RunsPage(list(map(_row, found[:most])), len(found) > most)

    async def report(self, run: str) -> RunReport:
        """Returns the report of the run with this id, or with an id that uniquely starts so.

        Raises UnknownRun, UsageError.
        """
        found = await run_named(self._database, run)
        return RunReport(
            run=_row(found),
            arguments={name: str(value) for name, value in (found.get("arguments") or {}).items()},
            resumed=bool(found.get("resumed")),
            message=_short(found.get("message")),
            counts=found.get("counts") or {},
            parsed=found.get("parsed") or {},
            rejected=found.get("rejected") or {},
            items=found.get("items") or {},
            failures=[RunFailure(each["monitor"], _short(each["message"])) for each in found.get("failures") or ()],
            errors=[_error(each) for each in found.get("errors") or ()],
            stats={name: str(value) for name, value in list((found.get("stats") or {}).items())[:MOST_STATS]},
            pid=found["pid"],
            log=found.get("log") or "",
            report=str(found.get("report") or ""),
        )

    async def log(self, run: str, lines: int = MOST_LINES, after: int = 0) -> LogTail:
        """Returns the last lines of a run's log; with `after` (the `end` of an earlier result), only newer lines.

        Raises UnknownRun, and UsageError when this machine has no readable log of the run.
        """
        found = await run_named(self._database, run)
        if not found.get("log"):
            raise UsageError(f"{found['_id']} wrote its log to its terminal, and not into a file.")
        if not _is_here(found):
            raise UsageError(f"The log of {found['_id']} is on {found['host']}: {found['log']}.")
        return await asyncio.to_thread(tail, Path(found["log"]), min(lines, MOST_LINES), after)


def tail(path: Path, most: int, after: int = 0) -> LogTail:
    """Returns the last complete lines of a file. Raises UsageError when the file cannot be read."""
    try:
        with open(path, "rb", opener=_regular) as file:
            size = file.seek(0, os.SEEK_END)
            after = after if after <= size else 0  # a shorter file is a new log
            return _lines(file, max(size - MOST_LOG_BYTES, after), size, most, after)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from None


def _lines(file: BinaryIO, first: int, size: int, most: int, after: int) -> LogTail:
    file.seek(first)
    read = file.read(size - first)
    whole = read[: read.rfind(b"\n") + 1] if len(read) < MOST_LOG_BYTES or b"\n" in read else read
    rows = whole.splitlines()
    if first > after:
        rows = rows[1:]  # the first row may be incomplete
    cut = len(rows) > most or first > after
    shown = [mask(row.decode("utf-8", "replace"), MOST_LINE) for row in rows[-most:]] if most else []
    return LogTail(shown, first + len(whole), cut)


def _regular(path: str, flags: int) -> int:
    """Opens only regular files: a pipe or device could block the reader."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is no file", path)
    return descriptor


def _is_here(run: Document) -> bool:
    return bool(run.get("host") == platform.node())


def _row(run: Document) -> RunRow:
    until = run.get("finished_at") or run["heartbeat_at"]
    return RunRow(
        id=run["_id"],
        spider=run.get("spider") or "",
        job=run.get("crawl") or "",
        state=run["state"],
        verdict=run.get("verdict") or "",
        finish_reason=run.get("finish_reason") or "",
        exit_code=run.get("exit_code"),
        started_at=run["started_at"],
        finished_at=run.get("finished_at"),
        seconds=(until - run["started_at"]).total_seconds(),
        records=_sum(run.get("counts")),
        rejected=_sum(run.get("rejected")),
        outcomes=run.get("outcomes") or {},
        failed=_names(run.get("failures") or ()),
        host=run.get("host") or "",
        has_log=bool(run.get("log")) and _is_here(run),
    )


def _names(failures: Sequence[Document]) -> list[str]:
    return [each["monitor"] for each in failures]


def _error(error: Document) -> RunFailure:
    said = f": {error['said']}" if error.get("said") else ""
    return RunFailure(error["outcome"], _short(f"{error['times']:,} times at {error['host']}{said}"))


def _sum(counts: Mapping[str, int] | None) -> int:
    return sum((counts or {}).values())


def _short(text: object) -> str:
    return mask(str(text or ""), MOST_LINE)

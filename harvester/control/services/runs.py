"""Runs: the last ones with their verdicts, what became of one and why, and the end of its log."""

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
"""Runs that one answer holds."""
MOST_LINES = 500
"""Of a log that one answer holds, the last."""
MOST_LOG_BYTES = 256 * 1024
"""Of a log that are read for one answer."""
MOST_LINE = 2000
"""Characters of a line of a log, and of what a monitor says."""
MOST_STATS = 500
"""Stats of a run that are shown."""
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
    """Empty: it was of no job, or of several."""
    state: str
    """running, finished, failed, interrupted or lost: its process was killed."""
    verdict: str
    """Of its monitors, passed or failed; empty while there is none."""
    finish_reason: str
    exit_code: int | None
    started_at: datetime
    finished_at: datetime | None
    seconds: float
    """That it took, or was last heard of after."""
    records: int
    """That it has stored."""
    rejected: int
    outcomes: dict[str, int]
    """Of its requests."""
    failed: list[str]
    """Monitors that did not pass."""
    host: str
    has_log: bool
    """Whether it wrote its log into a file of this machine."""


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
    """Why it ended, or did not begin."""
    counts: dict[str, int]
    """Kind of record -> how many it has stored; likewise below."""
    parsed: dict[str, int]
    rejected: dict[str, int]
    items: dict[str, dict[str, int]]
    """Kind -> state -> items of its job."""
    failures: list[RunFailure]
    """Monitors that did not pass, with what they say."""
    errors: list[RunFailure]
    """The most frequent failures of requests: outcome and host, how often and what was said."""
    stats: dict[str, str]
    pid: int
    log: str
    """Its file on its host; empty: it wrote to its terminal."""
    report: str


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines of a log, without secrets."""

    lines: list[str]
    end: int
    """Bytes of the file up to which it was read: what is asked `after` them has only what came since."""
    cut: bool
    """Whether lines before these, that were asked for, are left out."""


class Runs:
    """The history of runs."""

    def __init__(self, service: JobService) -> None:
        self._database = service.database

    async def list(self, spider: str = "", state: str = "", job: str = "", most: int = 100) -> RunsPage:
        """Raises UsageError for a state that is none."""
        if state and state not in STATES:
            raise UsageError(f"state: {state!r} is none of {', '.join(STATES)}.")
        query = {name: value for name, value in (("spider", spider), ("state", state), ("crawl", job)) if value}
        most = min(most, MOST)
        found = await find_runs(self._database, query, most + 1, _FIELDS)
        return RunsPage(list(map(_row, found[:most])), len(found) > most)

    async def report(self, run: str) -> RunReport:
        """Of the run with this id, or the only one whose id begins so. Raises UnknownRun, UsageError."""
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
        """The end of its log; with `after`, only what came since an answer whose `end` that was.

        Raises UnknownRun, and UsageError when there is no log that can be read on this machine.
        """
        found = await run_named(self._database, run)
        if not found.get("log"):
            raise UsageError(f"{found['_id']} wrote its log to its terminal, and not into a file.")
        if not _is_here(found):
            raise UsageError(f"The log of {found['_id']} is on {found['host']}: {found['log']}.")
        return await asyncio.to_thread(tail, Path(found["log"]), min(lines, MOST_LINES), after)


def tail(path: Path, most: int, after: int = 0) -> LogTail:
    """The last lines of a file that are whole. Raises UsageError when it cannot be read."""
    try:
        with open(path, "rb", opener=_regular) as file:
            size = file.seek(0, os.SEEK_END)
            after = after if after <= size else 0  # else it is another file by now
            return _lines(file, max(size - MOST_LOG_BYTES, after), size, most, after)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from None


def _lines(file: BinaryIO, first: int, size: int, most: int, after: int) -> LogTail:
    file.seek(first)
    read = file.read(size - first)
    whole = read[: read.rfind(b"\n") + 1] if len(read) < MOST_LOG_BYTES or b"\n" in read else read
    rows = whole.splitlines()
    if first > after:
        rows = rows[1:]  # of which the beginning was not read
    cut = len(rows) > most or first > after
    shown = [mask(row.decode("utf-8", "replace"), MOST_LINE) for row in rows[-most:]] if most else []
    return LogTail(shown, first + len(whole), cut)


def _regular(path: str, flags: int) -> int:
    """Opens a file, and nothing that would keep the reader waiting."""
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

"""Runs: the last ones, what became of one, and the end of its log, bounded and without secrets."""

import errno
import os
import platform
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.control.services import runs as module
from harvester.control.services.runs import Runs, tail
from harvester.exceptions import UnknownRun, UsageError
from harvester.jobs.service import JobService
from harvester.masking import mask
from tests.cli.test_runs import AT, document
from tests.numbers import numbers_of

Document = dict[str, Any]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "crawl.log"
    path.write_bytes(b"first line\n\xff second\nthird")
    return path


@pytest.fixture
def runs(service: JobService, mongodb: Database[Document], log: Path) -> Runs:
    """A passed run, a failed one with a log, and one that never began."""
    failed = {
        "state": "failed",
        "verdict": "failed",
        "exit_code": 6,
        "started_at": AT + timedelta(hours=1),
        "finished_at": AT + timedelta(hours=3),
        "crawl": "bluesky-1",
        "rejected": {"post": 2},
        "log": str(log),
        "errors": [{"outcome": "blocked", "host": "x.test", "times": 7, "said": "no thanks"}],
        "failures": [{"monitor": "Refusals", "message": "7 of 9 answers were a refusal." + "x" * 5000}],
        "stats": {"harvester/run": "b"},
    }
    unopened = {
        "_id": "c",
        "spider": "feeds",
        "arguments": {},
        "host": "elsewhere",
        "pid": 3,
        "job": None,
        "log": "/x.log",
        "state": "failed",
        "started_at": AT + timedelta(days=1),
        "heartbeat_at": AT + timedelta(days=1),
        "finished_at": AT + timedelta(days=1),
        "finish_reason": "usage_error",
        "message": "no",
        "exit_code": 2,
    }
    mongodb["runs"].insert_many([document("a"), document("b", **failed), unopened])
    return Runs(service)


async def test_the_last_runs_come_first_with_their_verdicts(runs: Runs) -> None:
    page = await runs.list()
    assert [(each.id, each.state, each.verdict) for each in page.runs] == [
        ("c", "failed", ""),
        ("b", "failed", "failed"),
        ("a", "finished", "passed"),
    ]
    failed = page.runs[1]
    assert (failed.records, failed.rejected, failed.seconds, failed.failed) == (1203, 2, 7200, ["Refusals"])
    assert [each.has_log for each in page.runs] == [False, True, False]
    page = await runs.list(most=2)
    assert (len(page.runs), page.more) == (2, True)
    assert [each.id for each in (await runs.list("bluesky", "failed")).runs] == ["b"]
    assert [each.id for each in (await runs.list(job="bluesky-1")).runs] == ["b"]
    with pytest.raises(UsageError, match=r"^state: 'odd'"):
        await runs.list(state="odd")


async def test_a_killed_run_is_shown_as_lost(runs: Runs, mongodb: Database[Document]) -> None:
    silent = {"state": "running", "finished_at": None, "heartbeat_at": datetime.now(UTC) - timedelta(minutes=5)}
    mongodb["runs"].insert_one(document("d", **silent))
    assert [each.id for each in (await runs.list(state="lost")).runs] == ["d"]


async def test_a_run_says_why_it_failed(runs: Runs) -> None:
    report = await runs.report("b")
    assert report.run.id == "b"
    [error] = report.errors
    assert (error.name, numbers_of(error.said), "x.test: no thanks" in error.said) == ("blocked", [7], True)
    [failure] = report.failures
    assert numbers_of(failure.said)[:2] == [7, 9]
    assert len(failure.said) == module.MOST_LINE
    assert (await runs.report("c")).message == "no"
    with pytest.raises(UnknownRun):
        await runs.report("odd")
    with pytest.raises(UnknownRun):
        await runs.report("öde")


async def test_the_log_of_a_run_of_this_machine_is_read_and_no_other(
    runs: Runs, mongodb: Database[Document], log: Path
) -> None:
    assert (await runs.log("b")).lines == ["first line", "� second"]
    with pytest.raises(UsageError, match="elsewhere"):
        await runs.log("c")
    with pytest.raises(UsageError, match="terminal"):
        await runs.log("a")
    mongodb["runs"].update_one({"_id": "b"}, {"$set": {"log": str(log.parent), "host": platform.node()}})
    with pytest.raises(UsageError, match=re.escape(str(log.parent))):
        await runs.log("b")


def test_what_is_no_file_keeps_nobody_waiting(log: Path) -> None:
    log.unlink()
    with pytest.raises(UsageError, match=f"{re.escape(str(log))}.*{os.strerror(errno.ENOENT)}"):
        tail(log, 1)
    os.mkfifo(log)
    with pytest.raises(UsageError, match=re.escape(str(log))):
        tail(log, 1)


def test_the_end_of_a_log_is_bounded_and_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"line {number}\n" for number in range(1000)) + "unfinished")
    read = tail(path, 500)
    assert read.lines == [f"line {number}" for number in range(500, 1000)]
    assert read.cut
    assert tail(path, 500, read.end).lines == []
    with path.open("a") as file:
        file.write(" line\nnext\n")
    read = tail(path, 500, read.end)
    assert (read.lines, read.cut) == (["unfinished line", "next"], False)
    path.write_text("another\n")
    assert tail(path, 500, read.end).lines == ["another"]
    monkeypatch.setattr(module, "MOST_LOG_BYTES", 20)
    path.write_text("a long line that is cut\nshort\n")
    read = tail(path, 500)
    assert (read.lines, read.cut) == (["short"], True)
    path.write_text("x" * 50)
    assert tail(path, 500).end == 50


def test_a_log_shows_no_secret_and_no_line_without_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    mask.add("hunter2hunter2")
    path.write_text(f"password hunter2hunter2\n{'x' * 10_000}\n")
    secret, long = tail(path, 500).lines
    assert secret == "password ***"
    assert len(long) == module.MOST_LINE

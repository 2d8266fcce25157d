"""`harvester runs` says what was run, how it ended and why, also of a run whose process was killed."""

import json
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.exceptions import UsageError
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER

Document = dict[str, Any]
Runs = Callable[..., Ran]
PASSED, FAILED, KILLED = "20260131-120000-aaaaa1", "20260131-130000-aaaaa2", "20260131-160000-aaaaa3"
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def document(name: str, **fields: Any) -> Document:
    return {
        "_id": name,
        "spider": "bluesky",
        "state": "finished",
        "host": platform.node(),
        "pid": 1,
        "started_at": AT,
        "heartbeat_at": AT + timedelta(seconds=90),
        "finished_at": AT + timedelta(seconds=90),
        "counts": {"post": 1200, "profile": 3},
        "verdict": "passed",
        "exit_code": 0,
        "finish_reason": "finished",
        **fields,
    }


@pytest.fixture
def runs(tmp_path: Path, mongodb: Database[Document], mongodb_uri: str) -> Runs:
    """The command, in a database with a passed, a failed and a killed run, the last one last."""
    failed = {
        "state": "failed",
        "verdict": "failed",
        "exit_code": 6,
        "started_at": AT + timedelta(hours=1),
        "finished_at": AT + timedelta(hours=3),
        "arguments": {"seeds": "alice.test"},
        "crawl": "bluesky-1",
        "rejected": {"post": 2},
        "errors": [{"outcome": "blocked", "host": "x.test", "times": 7, "said": "no \x1b[2Jthanks"}],
        "failures": [{"monitor": "Refusals", "message": "7 of 9 answers were a refusal."}],
        "report": "/data/reports/1.html",
        "log": str(tmp_path / "crawl.log"),
    }
    killed = {
        "state": "running",
        "verdict": None,
        "exit_code": None,
        "finish_reason": None,
        "started_at": AT + timedelta(hours=4),
        "heartbeat_at": AT + timedelta(hours=5),
        "finished_at": None,
    }
    mongodb["runs"].insert_many(
        [
            document(PASSED),
            document(FAILED, **failed),
            document(KILLED, **killed),
        ]
    )
    (tmp_path / "crawl.log").write_bytes(b"first line\n\xff second\n")
    environment = {**os.environ, "HARVESTER_MONGODB_URI": mongodb_uri, "HARVESTER_DATABASE": mongodb.name}
    return lambda *words: run(HARVESTER, "runs", *words, cwd=tmp_path, env=environment)


def test_runs_are_listed_the_last_first_and_a_killed_one_is_lost(runs: Runs) -> None:
    ran = runs("list")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        KILLED,
        FAILED,
        PASSED,
    ]
    assert "lost" in lines[1]
    assert all(word in lines[2] for word in ("1,203", "6", "failed", "2 h 00 min"))
    assert [row["_id"] for row in json.loads(runs("list", "--state", "failed", "--json").stdout)] == [FAILED]
    assert runs("list", "--spider", "other").stdout == "None.\n"


def test_a_run_says_what_it_was_asked_for_and_why_it_failed(runs: Runs) -> None:
    ran = runs("show", FAILED)
    assert ran.returncode == 0, ran.stderr
    first = ran.stdout.splitlines()[0]
    for said in (FAILED, "bluesky", "failed", "finished", "exit code 6"):
        assert said in first
    for said in (
        "seeds=alice.test",
        "job bluesky-1",
        "1,200 post",
        "3 profile",
        "2 post",
        "7 x blocked",
        "x.test: no \\x1b[2Jthanks",
        "Refusals: 7 of 9",
        "/data/reports/1.html",
    ):
        assert said in ran.stdout
    assert json.loads(runs("show", "--json").stdout)["_id"] == KILLED, "the last"


def test_its_log_is_printed_whatever_bytes_are_in_it(runs: Runs) -> None:
    ran = runs("log", FAILED)
    assert (ran.returncode, ran.stdout) == (0, "first line\n� second\n")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["list", "--state", "done"], ["--state", "'done'", "running, finished, failed, interrupted, lost"]),
        (["show", "20\udcff"], ["'20\\udcff'"]),
        (["list", "--spider", "\udcff"], ["--spider", "'\\udcff'"]),
        (["show", "2027"], ["'2027'", "harvester runs list"]),
        (["show", "20260131"], ["Several", "'20260131'", "harvester runs list"]),
        (["log", PASSED], [PASSED, "terminal"]),
    ],
)
def test_what_cannot_be_shown_is_said(words: list[str], named: list[str], runs: Runs) -> None:
    ran = runs(*words)
    assert ran.returncode == UsageError.exit_code
    assert [name for name in named if name not in ran.stderr] == [], ran.stderr


def test_a_log_that_is_gone_is_said(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "crawl.log").unlink()
    ran = runs("log", FAILED)
    assert ran.returncode == UsageError.exit_code
    assert "crawl.log" in ran.stderr
    assert "No such file" in ran.stderr

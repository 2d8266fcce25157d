"""Ctrl-C and SIGTERM while a crawl starts: exit code 130, one sentence, no traceback, and no server is left behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harvester.config import Config
from harvester.stores.servers.state import State, running_in
from harvester.worker.interrupts import SAID
from tests.sandbox.process import ROOT

SECONDS = 90
"""After which something that should happen counts as missing."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def started(folder: Path, *words: str, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """A command under way."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings", **variables}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_crawl_that_asks_for_its_servers_ends_when_it_is_told_to(number: signal.Signals, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS)
        uri = f"mongodb://127.0.0.1:{silent.getsockname()[1]}"
        with (
            started(
                tmp_path, "scrapy", "crawl", "bluesky", "-a", "seeds=a.example", HARVESTER_MONGODB_URI=uri
            ) as crawl,
            silent.accept()[0],
        ):
            crawl.send_signal(number)
            out, log = crawl.communicate(timeout=SECONDS)
    assert (crawl.returncode, out, log.splitlines()) == (130, "", [SAID])


@pytest.mark.parametrize("words", ["jobs list", "runs list"])
def test_sigterm_ends_a_command_as_ctrl_c_does(words: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS)
        uri = f"mongodb://127.0.0.1:{silent.getsockname()[1]}"
        variables = {"HARVESTER_MONGODB_URI": uri, "HARVESTER_REDIS_URL": "redis://127.0.0.1:1"}
        with started(tmp_path, "tests.worker.command", *words.split(), **variables) as command, silent.accept()[0]:
            command.send_signal(signal.SIGTERM)
            _, log = command.communicate(timeout=SECONDS)
    assert (command.returncode, "Traceback" in log) == (130, False)


@pytest.mark.parametrize("number", SIGNALS)
def test_workers_whose_servers_are_asked_for_are_not_begun(number: signal.Signals, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS)
        variables = {
            "HARVESTER_MONGODB_URI": f"mongodb://127.0.0.1:{silent.getsockname()[1]}",
            "HARVESTER_REDIS_URL": "redis://127.0.0.1:1",
        }
        with (
            started(tmp_path, "tests.worker.command", "worker", "bluesky", **variables) as workers,
            silent.accept()[0],
        ):
            workers.send_signal(number)
            out, log = workers.communicate(timeout=SECONDS)
    assert (workers.returncode, out, log.splitlines()) == (130, "", [SAID])


def test_a_private_server_that_is_being_started_ends_with_the_crawl_that_wanted_it(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "mongodb"
    variables = {"HARVESTER_STATE_DIR": str(tmp_path / "state")}
    with started(tmp_path, "scrapy", "crawl", "bluesky", "-a", "seeds=a.example", **variables) as crawl:
        until(lambda: running_in(folder, State.read(folder).supervisor_pid) is not None)
        supervisor = psutil.Process(State.read(folder).supervisor_pid)
        crawl.send_signal(signal.SIGINT)
        _, log = crawl.communicate(timeout=SECONDS)
    assert (crawl.returncode, log.splitlines()) == (130, [SAID])
    supervisor.wait(SECONDS)


@pytest.fixture
def opening(tmp_path: Path, config: Config, redis_url: str) -> Iterator["subprocess.Popen[str]"]:
    """A crawl whose spider opens until there is a file `go`."""
    assert config.mongodb_uri
    variables = {
        "SCRAPY_SETTINGS_MODULE": "tests.cli.starting",
        "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
        "HARVESTER_REDIS_URL": redis_url,
        "HARVESTER_DATABASE": config.database,
    }
    with started(tmp_path, "scrapy", "crawl", "manners", **variables) as crawl:
        until((tmp_path / "opening").exists)
        yield crawl


@pytest.mark.parametrize("number", SIGNALS)
def test_a_spider_that_opens_is_closed_as_it_should_be(
    number: signal.Signals, opening: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    opening.send_signal(number)
    (tmp_path / "go").touch()
    _, log = opening.communicate(timeout=SECONDS)
    assert opening.returncode == 130, log
    assert "Closing spider (shutdown)" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_a_spider_that_opens_at_once(
    number: signal.Signals, opening: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    opening.send_signal(number)
    until((tmp_path / "heard").exists)
    opening.send_signal(number)
    _, log = opening.communicate(timeout=SECONDS)
    assert opening.returncode == 130, log
    assert "Traceback" not in log

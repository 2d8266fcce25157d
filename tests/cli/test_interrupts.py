"""Ctrl-C and SIGTERM while a crawl starts: exit code 130, one sentence, no traceback, and no server is left behind.

What Ctrl-C ends has started from nothing; for SIGTERM, which goes the same way, it is forked.
"""

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
from harvester.stores.servers.state import ServerState, running_in
from harvester.worker.interrupts import SAID
from tests.forking import Begun, begin
from tests.jobs.command import HARVESTER
from tests.root import ROOT

SECONDS = 90
"""After which something that should happen counts as missing."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SIGTERM_SOON = (pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM)
"""`make test` sends the cheaper of the two."""
CRAWL = ("scrapy", "crawl", "bluesky", "-a", "seeds=a.example")


class Started:
    """A command under way, and the files of what it writes."""

    def __init__(self, process: Begun | subprocess.Popen[bytes], out: Path, log: Path) -> None:
        self._process = process
        self._out, self._log = out, log

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> tuple[int, str, str]:
        """Its exit code, and what it wrote to stdout and stderr."""
        return self._process.wait(SECONDS), self._out.read_text(), self._log.read_text()


@contextmanager
def started(folder: Path, *words: str, by: signal.Signals = signal.SIGINT, **variables: str) -> Iterator[Started]:
    """A command that is to be ended by this signal."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings", **variables}
    process: Begun | subprocess.Popen[bytes]
    paths = folder / "out", folder / "log"
    with paths[0].open("wb") as out, paths[1].open("wb") as log:
        if by == signal.SIGINT:
            command = [sys.executable, *([] if words[0] == HARVESTER else ["-m"]), *words]
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=log)
        else:
            process = begin(*words, cwd=folder, env=environment, files=[None, out.fileno(), log.fileno()])
    try:
        yield Started(process, *paths)
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
            started(tmp_path, *CRAWL, by=number, HARVESTER_MONGODB_URI=uri) as crawl,
            silent.accept()[0],
        ):
            crawl.send_signal(number)
            code, out, log = crawl.ended()
    assert (code, out, log.splitlines()) == (128 + number, "", [SAID])


@pytest.mark.parametrize("words", ["jobs list", "runs list"])
def test_sigterm_ends_a_command_as_ctrl_c_does(words: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS)
        uri = f"mongodb://127.0.0.1:{silent.getsockname()[1]}"
        variables = {"HARVESTER_MONGODB_URI": uri, "HARVESTER_REDIS_URL": "redis://127.0.0.1:1"}
        with (
            started(tmp_path, HARVESTER, *words.split(), by=signal.SIGTERM, **variables) as command,
            silent.accept()[0],
        ):
            command.send_signal(signal.SIGTERM)
            code, _, log = command.ended()
    assert (code, "Traceback" in log) == (143, False)


@pytest.mark.parametrize("number", SIGTERM_SOON)
def test_workers_whose_servers_are_asked_for_are_not_begun(number: signal.Signals, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS)
        variables = {
            "HARVESTER_MONGODB_URI": f"mongodb://127.0.0.1:{silent.getsockname()[1]}",
            "HARVESTER_REDIS_URL": "redis://127.0.0.1:1",
        }
        with (
            started(tmp_path, HARVESTER, "worker", "bluesky", by=number, **variables) as workers,
            silent.accept()[0],
        ):
            workers.send_signal(number)
            code, out, log = workers.ended()
    assert (code, out, log.splitlines()) == (128 + number, "", [SAID])


def test_a_private_server_that_is_being_started_ends_with_the_crawl_that_wanted_it(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "mongodb"
    with started(tmp_path, *CRAWL, HARVESTER_STATE_DIR=str(tmp_path / "state")) as crawl:
        until(lambda: running_in(folder, ServerState.read(folder).supervisor_pid) is not None)
        supervisor = psutil.Process(ServerState.read(folder).supervisor_pid)
        crawl.send_signal(signal.SIGINT)
        code, _, log = crawl.ended()
    assert (code, log.splitlines()) == (130, [SAID])
    supervisor.wait(SECONDS)


@pytest.fixture
def opening(tmp_path: Path, config: Config, redis_url: str, number: signal.Signals) -> Iterator[Started]:
    """A crawl whose spider opens until there is a file `go`."""
    assert config.mongodb_uri
    variables = {
        "SCRAPY_SETTINGS_MODULE": "tests.cli.starting",
        "HARVESTER_MONGODB_URI": config.mongodb_uri.get_secret_value(),
        "HARVESTER_REDIS_URL": redis_url,
        "HARVESTER_DATABASE": config.database,
    }
    with started(tmp_path, "scrapy", "crawl", "manners", by=number, **variables) as crawl:
        until((tmp_path / "opening").exists)
        yield crawl


@pytest.mark.parametrize("number", SIGTERM_SOON)
def test_a_spider_that_opens_is_closed_as_it_should_be(
    number: signal.Signals, opening: Started, tmp_path: Path
) -> None:
    opening.send_signal(number)
    (tmp_path / "go").touch()
    code, _, log = opening.ended()
    assert code == 128 + number, log
    assert "Closing spider (shutdown)" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("number", SIGTERM_SOON)
def test_a_second_signal_ends_a_spider_that_opens_at_once(
    number: signal.Signals, opening: Started, tmp_path: Path
) -> None:
    opening.send_signal(number)
    until((tmp_path / "heard").exists)
    opening.send_signal(number)
    code, _, log = opening.ended()
    assert code == 128 + number, log
    assert "Traceback" not in log

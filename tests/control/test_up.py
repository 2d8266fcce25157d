"""`harvester up` is the control room and all it needs, once in a folder, and ends in good order."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from playwright.async_api import expect
from pymongo import MongoClient

from harvester.config import Config
from harvester.control import up
from harvester.exceptions import INTERRUPTED
from tests import forking
from tests.control import labels
from tests.control.browsing import END_S, HARVESTER, ControlRoom, chromium, logged_in
from tests.sandbox.process import Sandbox

expect.set_options(timeout=180_000)


@pytest.fixture
def variables(mongodb_uri: str, own_redis: str) -> Iterator[dict[str, str]]:
    """Of servers that are there already, and a database of the test's own."""
    database = f"test-{uuid4().hex[:12]}"
    names = {"MONGODB_URI": mongodb_uri, "REDIS_URL": own_redis, "DATABASE": database}
    yield {f"HARVESTER_{name}": value for name, value in names.items()}
    with MongoClient[dict[str, Any]](mongodb_uri) as client:
        client.drop_database(database)


def run(folder: Path, variables: dict[str, str], *words: str) -> forking.Ran:
    return forking.run(HARVESTER, "up", *words, cwd=folder, env={**os.environ, **variables}, within_s=END_S)


def test_in_an_empty_folder_the_control_room_begins_with_servers_of_its_own(tmp_path: Path) -> None:
    with ControlRoom(tmp_path, {}, forked=False) as room:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", room.url)
        token = tmp_path / ".harvester" / "token"
        assert (token.stat().st_mode & 0o777, room.token in "\n".join(room.said)) == (0o600, True)
        assert {path.name for path in (tmp_path / ".harvester").iterdir()} >= {"mongodb", "valkey"}
        second = run(tmp_path, {}, "--port", "0")
        assert (second.returncode, second.stdout) == (2, "")
        assert f"already: {room.url}" in second.stderr
        assert room.end(signal.SIGINT) == 0
    with ControlRoom(tmp_path, {}) as again:
        assert room.token not in "\n".join(again.said)
        assert room.token == again.token


def test_a_port_that_is_in_use_is_named(tmp_path: Path, variables: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        other = run(tmp_path, variables, "--port", str(port))
    assert (other.returncode, other.stdout) == (2, "")
    [line] = other.stderr.splitlines()
    assert line.startswith(f"127.0.0.1:{port} ")
    assert ("Address already in use" in line, "--port" in line) == (True, True)


@pytest.mark.parametrize("host", ["127.0.0..1", "192.0.2.1"])
def test_a_host_that_is_none_of_this_machine_is_named(host: str, tmp_path: Path, variables: dict[str, str]) -> None:
    said = run(tmp_path, variables, "--port", "0", "--host", host)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith(f"{host}:0 ")
    assert "--host" in said.stderr


def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    blocked = "import importlib.util as u, sys\nfound = u.find_spec\n"
    blocked += "u.find_spec = lambda name, *more: None if name == 'nicegui' else found(name, *more)\n"
    (tmp_path / "sitecustomize.py").write_text(blocked)
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = subprocess.run([HARVESTER, "up", "--port", "0"], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (2, "")
    assert "harvester[control]" in said.stderr
    assert "nicegui is missing" in said.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "file").write_text("")
    said = run(tmp_path, variables | {"HARVESTER_STATE_DIR": str(tmp_path / "file" / "state")}, "--port", "0")
    assert said.returncode == 4
    assert said.stderr.startswith(f"{tmp_path}/file")
    assert "HARVESTER_STATE_DIR" in said.stderr
    assert "Traceback" not in said.stderr


async def test_one_signal_is_passed_on_to_the_workers_once(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    drained: list[str] = []
    monkeypatch.setattr(up.WorkerSession, "drain", lambda _: drained.append("once"))
    serving = asyncio.create_task(asyncio.Event().wait())
    told = partial(os.kill, os.getpid(), signal.SIGTERM)
    assert await up._until_told(config, up.UpOptions(workers=0), serving, drained.append, told) == 0  # type: ignore[arg-type]
    serving.cancel()
    assert drained == ["once"]


@pytest.fixture
def program(tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], up.WorkerSession]:
    """Workers that are a program of the shell."""

    def made(text: str) -> up.WorkerSession:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        config.state_dir.mkdir(exist_ok=True)
        return up.WorkerSession(config, 1, print)

    return made


async def test_workers_that_are_being_started_when_it_ends_are_ended(
    program: Callable[[str], up.WorkerSession],
) -> None:
    workers = program("exec sleep 1000")
    keeping = asyncio.create_task(workers.keep())
    while not workers.log.exists():  # noqa: ASYNC110  the process is begun in the same turn
        await asyncio.sleep(0)
    workers.drain()
    assert await asyncio.wait_for(keeping, 60) == INTERRUPTED


async def test_the_log_of_workers_is_bounded_while_they_run(
    program: Callable[[str], up.WorkerSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "MOST_LOG_BYTES", 1000)
    monkeypatch.setattr(up, "LOG_LOOK_S", 0.01)
    workers = program("while :; do echo a line of the log; sleep 0.01; done")
    keeping = asyncio.create_task(workers.keep())
    before = workers.log.with_name("worker.log.1")
    async with asyncio.timeout(60):
        while not before.exists() or workers.log.stat().st_size == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert workers.log.read_bytes().startswith(b"a line of the log\n")
    workers.drain()
    await keeping


async def test_of_a_log_of_any_length_its_end_is_shown(program: Callable[[str], up.WorkerSession]) -> None:
    workers = program("")
    workers.log.write_bytes(b"x" * 1_000_000 + b"\nthe end\n")
    words = workers._last_words()
    assert ("the end" in words, len(words) < 100_000) == (True, True)


async def test_workers_that_cannot_be_started_are_tried_again_and_that_is_said(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "FIRST_REST_S", 0.01)
    (config.state_dir / up.LOG).mkdir(parents=True)
    said: list[str] = []

    def say(words: str) -> None:
        said.append(words)
        if len(said) == 2:
            workers.drain()

    workers = up.WorkerSession(config, 1, say)
    assert await asyncio.wait_for(workers.keep(), 60) == 1
    assert {up.LOG in words for words in said} == {True}


@pytest.mark.slow
@pytest.mark.long
async def test_a_job_submitted_on_the_page_harvests_the_sandbox_though_a_worker_is_killed(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    with Sandbox(accounts=20, posts=2) as site:
        variables |= {
            "HARVESTER_BLUESKY_SERVICE": site.url,
            "HARVESTER_PLC_URL": site.url,
            "HARVESTER_REQUESTS_PER_SECOND": "5",
            "HARVESTER_LEASE_SECONDS": "10",
        }
        with ControlRoom(tmp_path, variables, "--workers", "2") as room:
            async with chromium() as browser, logged_in(browser, room.url, room.token) as person:
                page = await person.go("/submit?spider=bluesky")
                await page.get_by_label(labels.ITEMS_FIELD).fill(site.handle(0))
                await page.get_by_label("depth").fill("2")
                await page.get_by_label("collect").fill("graph,profiles")
                await page.get_by_role("button", name="Submit", exact=True).click()
                await page.wait_for_url("**/jobs/bluesky-*", timeout=60_000)
                bar = page.get_by_role("region", name="States").get_by_role("img")
                await expect(bar).to_have_attribute("aria-label", re.compile("done [1-9]"))
                crawls = [each for each in psutil.Process(room.pid).children(recursive=True) if _is_crawl(each)]
                crawls[0].kill()
                await expect(page.get_by_text("finished")).to_be_visible()
                await expect(bar).to_have_attribute(
                    "aria-label", re.compile("^waiting 0, active 0, done [1-9][0-9]+, failed 0")
                )
                assert person.faults == []
            wanted = site.truth_of(hops=2, directions=("follows",))
            assert _profiles(variables) >= {site.did(number) for number in wanted.kept}
            assert room.end(signal.SIGTERM) in (143, 6), "6: monitors may blame the run that was killed"
    assert not psutil.pid_exists(crawls[0].pid)


def _is_crawl(process: psutil.Process) -> bool:
    try:
        return "crawl" in process.cmdline()
    except psutil.Error:
        return False


def _profiles(variables: dict[str, str]) -> set[str]:
    """DIDs."""
    with MongoClient[dict[str, Any]](variables["HARVESTER_MONGODB_URI"]) as client:
        return set(client[variables["HARVESTER_DATABASE"]]["profiles"].distinct("did"))

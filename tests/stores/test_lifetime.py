"""Private servers start with their first user, are shared, and stop after their last, whoever is killed."""

import io
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from pymongo import MongoClient
from redis import Redis

from harvester.stores.servers import membership
from harvester.stores.servers.binaries import find_binary
from harvester.stores.servers.kinds import SERVERS
from harvester.stores.servers.state import ServerState
from tests.root import ROOT
from tests.stores.conftest import Place, ended

BOTH = pytest.mark.parametrize("name", ["mongodb", "valkey"])
VALKEY_SOON = pytest.mark.parametrize("name", ["valkey", pytest.param("mongodb", marks=pytest.mark.slow)])
"""`make test` starts the cheaper of the two."""


def write(uri: str, value: int) -> None:
    if not uri.startswith("mongodb"):
        with Redis.from_url(uri) as redis:
            redis.set("value", value)
        return
    with MongoClient[dict[str, int]](uri, journal=True) as client:
        client["test"]["values"].insert_one({"value": value})


def read(uri: str) -> int:
    if not uri.startswith("mongodb"):
        with Redis.from_url(uri) as redis:
            return int(redis.get("value"))
    with MongoClient[dict[str, int]](uri) as client:
        document = client["test"]["values"].find_one()
        assert document
        return document["value"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_that_a_server_starts_is_said_at_a_terminal_only(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    screen.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", screen)
    membership._report_start(SERVERS["mongodb"], Path("/somewhere/.harvester/mongodb"))
    said = screen.getvalue()
    assert ("mongodb" in said, "/somewhere/.harvester" in said, bool(said)) == (is_terminal,) * 3


@VALKEY_SOON
def test_a_server_is_shared_and_stops_after_its_last_user(place: Place, name: str) -> None:
    first, second = place.user(name), place.user(name)
    uri = first.ask("join")
    assert second.ask("join") == uri
    server, supervisor = place.server(name), place.supervisor(name)
    write(uri, 7)
    first.leave()
    assert read(second.ask("join")) == 7
    assert place.server(name) == server
    second.leave()
    assert ended(server, supervisor)


def test_a_server_stops_after_its_last_user_was_killed(place: Place) -> None:
    users = [place.user("mongodb") for _ in range(2)]
    assert len({user.ask("join") for user in users}) == 1
    server, supervisor = place.server("mongodb"), place.supervisor("mongodb")
    for user in users:
        user.kill()
    assert ended(server, supervisor)


@VALKEY_SOON
def test_data_and_address_outlast_the_server(place: Place, name: str) -> None:
    before = place.user(name)
    uri = before.ask("join")
    write(uri, 42)
    server = place.server(name)
    before.leave()
    assert ended(server)
    after = place.user(name)
    assert after.ask("join") == uri
    assert read(uri) == 42
    assert place.server(name) != server


@BOTH
def test_a_killed_server_is_started_again_with_its_data(place: Place, name: str) -> None:
    user = place.user(name)
    uri = user.ask("join")
    write(uri, 3)
    server = place.server(name)
    server.kill()
    assert ended(server)
    assert user.ask("join") == uri
    assert read(uri) == 3


@VALKEY_SOON
def test_a_killed_supervisor_takes_its_server_along_and_the_next_call_starts_both(place: Place, name: str) -> None:
    user = place.user(name)
    uri = user.ask("join")
    write(uri, 5)
    server, supervisor = place.server(name), place.supervisor(name)
    supervisor.kill()
    assert ended(server, supervisor)
    assert user.ask("join") == uri
    assert read(uri) == 5


@pytest.mark.parametrize("order", [("user", "supervisor"), ("supervisor", "user"), ("server", "supervisor", "user")])
def test_nothing_is_left_whoever_is_killed(place: Place, order: tuple[str, ...]) -> None:
    user = place.user("valkey")
    user.ask("join")
    processes = {
        "user": psutil.Process(user.process.pid),
        "server": place.server("valkey"),
        "supervisor": place.supervisor("valkey"),
    }
    for who in order:
        processes[who].kill()
    user.leave()
    assert ended(processes["server"], processes["supervisor"])


def test_processes_that_start_at_once_share_one_server(place: Place) -> None:
    users = [place.user("mongodb") for _ in range(10)]
    with ThreadPoolExecutor(10) as pool:
        uris = set(pool.map(lambda user: user.ask("join"), users))
    assert len(uris) == 1
    data = str(place.state_dir / "mongodb" / "data")
    servers = [process for process in psutil.process_iter(["cmdline"]) if data in (process.info["cmdline"] or [])]
    assert servers == [place.server("mongodb")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_that_did_not_ask_is_no_user(place: Place) -> None:
    user = place.user("valkey")
    user.ask("join")
    child = psutil.Process(int(user.ask("fork")))
    try:
        server = place.server("valkey")
        user.process.kill()
        assert ended(server)
        assert child.is_running()
    finally:
        child.kill()


def test_a_server_that_outlived_its_supervisor_is_replaced(place: Place, free_port: int) -> None:
    folder = place.state_dir / "valkey"
    data = folder / "data"
    data.mkdir(parents=True)
    redis = SERVERS["valkey"]
    with (folder / "server.log").open("wb") as log:
        command = [*redis.command(find_binary(redis), data), "--port", str(free_port)]
        orphan = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=data, stdout=log)
    ServerState(server_pid=orphan.pid).write(folder)
    assert place.user("valkey").ask("join").startswith("unix://")
    orphan.wait(240)
    assert place.server("valkey").pid != orphan.pid


def test_a_pid_that_belongs_to_another_process_by_now_is_left_alone(place: Place) -> None:
    folder = place.state_dir / "valkey"
    folder.mkdir(parents=True)
    ServerState(supervisor_pid=os.getpid(), server_pid=os.getpid()).write(folder)
    assert place.user("valkey").ask("join").startswith("unix://")


def test_a_supervisor_that_is_told_to_end_stops_its_server_cleanly(place: Place) -> None:
    user = place.user("mongodb")
    user.ask("join")
    server, supervisor = place.server("mongodb"), place.supervisor("mongodb")
    supervisor.send_signal(signal.SIGTERM)
    assert ended(server, supervisor)
    assert '"Shutting down","attr":{"exitCode":0}' in (place.state_dir / "mongodb" / "server.log").read_text()


TOLD_WHILE_IT_LOOKS = """
import os, signal
from harvester.stores.servers import supervisor

class Told(supervisor.ServerSupervisor):
    def _start(self, port):
        super()._start(port)
        self.process._waitpid_lock = SignalWhenHeld(self.process._waitpid_lock)

class SignalWhenHeld:
    def __init__(self, lock):
        self.lock, self.release = lock, lock.release

    def acquire(self, *wishes):
        held = self.lock.acquire(*wishes)
        os.kill(os.getpid(), signal.SIGTERM)
        return held

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *told):
        self.lock.release()

supervisor.ServerSupervisor = Told
supervisor.main()
"""


def test_a_supervisor_that_is_told_to_end_while_it_looks_after_its_server_ends(place: Place) -> None:
    """The moment in which its process holds the lock without which nobody can wait for the server."""
    before = place.user("valkey")
    before.ask("join")
    server, supervisor = place.server("valkey"), place.supervisor("valkey")
    arguments = supervisor.cmdline()[-4:]
    before.leave()
    assert ended(server, supervisor)
    told = subprocess.Popen([sys.executable, "-c", TOLD_WHILE_IT_LOOKS, *arguments], cwd=ROOT)
    try:
        assert told.wait(60) == 0
    finally:
        told.kill()

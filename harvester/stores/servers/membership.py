"""Makes a process a user of a private server by a connection to the supervisor, which is started if needed."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from filelock import FileLock, Timeout

from harvester import logs
from harvester.exceptions import ServiceError, StateGone
from harvester.stores.private_files import close_folder, forbid_writing, make_closed, open_closed
from harvester.stores.servers.binaries import find_binary
from harvester.stores.servers.kinds import PrivateServer, connect
from harvester.stores.servers.state import (
    SUPERVISOR_SOCKET,
    ServerState,
    gone,
    last_log_lines,
    log_path,
    make_secret,
    read_secret,
    running_in,
    sockets_folder,
)

START_TIMEOUT_SECONDS = 90
"""Seconds to wait for a supervisor to listen. It may have to wait for the server of an earlier supervisor."""
READY_TIMEOUT_SECONDS = 180
"""Seconds to wait for the server to be ready. After a crash it recovers first."""

_connections: dict[Path, socket.socket] = {}
_secrets: dict[Path, str] = {}
"""Secrets of the servers that this process has used.

A different or missing secret shows that the folder was replaced.
"""
_lock = threading.Lock()


def join(server: PrivateServer, state_dir: Path) -> str:
    """Returns the address of the private server, once it is ready. Raises ServiceError.

    Raises StateGone if this process has used the server and the folder was removed since, because a new empty server
    would not replace the lost data.
    """
    folder = state_dir.resolve() / server.name
    with _lock:
        for _ in range(3):
            _check_folder(server, folder)
            connection = _connections.pop(folder, None) or _enter(server, folder)
            answer = _ask(connection, folder)
            if "uri" in answer:
                _connections[folder] = connection
                _secrets.setdefault(folder, read_secret(folder))
                return answer["uri"]
            connection.close()
            if "error" in answer:
                raise ServiceError(answer["error"])
        raise ServiceError(f"The private {server.title} dies again and again:\n{last_log_lines(folder)}")


def leave_all() -> None:
    """Closes all connections."""
    with _lock:
        _secrets.clear()
        while _connections:
            _connections.popitem()[1].close()


def _check_folder(server: PrivateServer, folder: Path) -> None:
    known = _secrets.get(folder)
    try:
        is_same = known is None or read_secret(folder) == known
    except FileNotFoundError:
        is_same = False
    if not is_same:
        raise StateGone(gone(server, folder))


def _ask(connection: socket.socket, folder: Path) -> dict[str, str]:
    """Returns the supervisor's answer; empty if the supervisor has ended."""
    try:
        connection.sendall(f"{read_secret(folder)}\n".encode())
        with connection.makefile("rb") as reader:
            line = reader.readline()
    except TimeoutError:
        return {"error": f"A private server was not ready after {READY_TIMEOUT_SECONDS} seconds."}
    except OSError:
        line = b""
    answer: dict[str, str] = json.loads(line) if line.endswith(b"\n") else {}
    return answer


def _enter(server: PrivateServer, folder: Path) -> socket.socket:
    """Returns a connection to the server's supervisor. Only one process at a time may start it."""
    try:
        make_closed(folder.parent)
        forbid_writing(folder.parent)
        close_folder(folder)
        close_folder(folder / "data")
        with FileLock(folder / "lock", timeout=START_TIMEOUT_SECONDS, mode=0o600):
            return _connect(folder) or _start_supervisor(server, folder)
    except Timeout:
        raise ServiceError(f"Another process has been starting {server.title} in {folder} for too long.") from None
    except OSError as error:
        raise ServiceError(
            f"The private {server.title} cannot keep its data in {folder}: {error}."
            " Make room and let it be written, or set HARVESTER_STATE_DIR to another folder."
        ) from None


def _connect(folder: Path) -> socket.socket | None:
    state = ServerState.read(folder)
    if not running_in(folder, state.supervisor_pid):
        return None
    path = Path(state.sockets, SUPERVISOR_SOCKET) if state.sockets else None
    try:
        return connect(path, state.supervisor_port, READY_TIMEOUT_SECONDS)
    except OSError:
        return None  # the supervisor is about to end


def _report_start(server: PrivateServer, folder: Path) -> None:
    """Reports the start at a terminal, since it takes seconds during which nothing else is shown."""
    if sys.stderr and sys.stderr.isatty():
        logs.say(f"Starting a private {server.name} in {folder.parent} ...")


def _start_supervisor(server: PrivateServer, folder: Path) -> socket.socket:
    make_secret(folder)
    command = [
        sys.executable,
        "-m",
        "harvester.stores.servers.supervisor",
        server.name,
        str(folder),
        find_binary(server),
        str(sockets_folder(folder) or ""),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    windows_flags = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    with os.fdopen(open_closed(log_path(folder), os.O_WRONLY | os.O_APPEND), "ab") as log:
        supervisor = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment,
            start_new_session=True,
            creationflags=windows_flags,
        )
    _report_start(server, folder)
    threading.Thread(target=supervisor.wait, daemon=True).start()  # prevents a zombie
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        connection = _connect(folder)
        if connection:
            return connection
        if supervisor.poll() is not None:
            break
        time.sleep(0.02)
    raise ServiceError(f"The supervisor of the private {server.title} did not start:\n{last_log_lines(folder)}")


def _forget() -> None:
    """Closes a forked child's copies of the parent's connections, which would keep the servers running."""
    global _lock
    _lock = threading.Lock()
    for connection in _connections.values():
        connection.close()
    _connections.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

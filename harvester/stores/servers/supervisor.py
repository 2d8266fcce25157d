"""The process that owns a private server: starts it, restarts it when it died, stops it after its last user.

    python -m harvester.stores.servers.supervisor mongodb <folder> <binary> <folder of sockets, or nothing>

A user connects and sends a line with the secret. It gets a line of JSON as soon as the server is ready, {"uri": ...},
or cannot be started, {"error": ...}. It counts as a user until its connection is closed. The connection of a client
that sends anything else is closed.
"""

import contextlib
import hmac
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

import psutil

from harvester.stores.private_files import close_folder
from harvester.stores.servers.binaries import describe_exit
from harvester.stores.servers.kinds import LOOPBACK, SERVERS, PrivateServer, ServerAccess
from harvester.stores.servers.state import (
    SERVER_SOCKET,
    SUPERVISOR_SOCKET,
    ServerState,
    bound_log,
    gone,
    last_log_lines,
    log_path,
    log_size,
    read_secret,
    running_in,
    secret_path,
)

GRACE_SECONDS = 2.0
"""Seconds that the server runs on without users, since one command often follows another."""
FIRST_USER_SECONDS = 30.0
"""Seconds that the process that started the supervisor has to become a user, while it lives."""
STOP_SECONDS = 30.0
"""Seconds that a server has to stop cleanly before it is killed."""
START_ATTEMPTS = 3
"""Maximum number of starts, each with another port, in case another process takes the port in between."""


class ServerSupervisor:
    """Owns a private server. Single-threaded, because on Linux the server dies with the thread that started it."""

    def __init__(self, server: PrivateServer, folder: Path, binary: str, sockets: Path | None) -> None:
        self.server = server
        self.folder = folder
        self.binary = binary
        self.sockets = sockets
        self.secret = read_secret(folder)
        self.starter = os.getppid()
        self.users: set[socket.socket] = set()
        self.waiting: set[socket.socket] = set()
        """Users that wait for the address."""
        self.home: list[int] = []
        """Inodes of the folder and of the server's data.

        While these are in use, no other folders get the same numbers.
        """
        self.ready = False
        self.attempts = 0
        self.error = ""
        self.is_told_to_end = False

    def end(self, number: int, frame: FrameType | None) -> None:
        """Asks the process to end. A signal handler.

        It raises nothing: Popen may hold a lock at this moment, which would then stay locked for ever.
        """
        self.is_told_to_end = True

    def run(self) -> None:
        """Runs until the last user has left, the server cannot be started, or a signal ends the process."""
        with (
            self._listen() as self.listener,
            selectors.DefaultSelector() as self.selector,
        ):
            self.listener.setblocking(False)
            self.selector.register(self.listener, selectors.EVENT_READ)
            before = ServerState.read(self.folder)
            _stop_orphan(self.folder / "data", before.server_pid)
            self._start(before.server_port)
            self.home = self._inodes()
            try:
                self._serve()
            finally:
                self.listener.close()  # a new user now starts another supervisor
                self._stop()

    def _listen(self) -> socket.socket:
        if self.sockets is None:
            return socket.create_server((LOOPBACK, 0))
        path = self.sockets / SUPERVISOR_SOCKET
        path.unlink(missing_ok=True)
        return socket.create_server(str(path), family=socket.AF_UNIX)

    def _serve(self) -> None:
        until = monotonic() + FIRST_USER_SECONDS
        while monotonic() < until and not self.error and not self.is_told_to_end:
            for key, _ in self.selector.select(timeout=0.5 if self.ready else 0.02):
                if key.fileobj is self.listener:
                    self._welcome()
                else:
                    self._hear(key.fileobj)  # type: ignore[arg-type]
            self._look_after_server()
            self._answer()
            bound_log(self.folder)
            if self.users:
                until = monotonic() + GRACE_SECONDS
            elif os.getppid() != self.starter:  # it has ended, perhaps before it became a user
                until = min(until, monotonic() + GRACE_SECONDS)

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):  # the user has already left
            user, _ = self.listener.accept()
            self.selector.register(user, selectors.EVENT_READ)

    def _hear(self, user: socket.socket) -> None:
        try:
            said = user.recv(200)
        except OSError:
            said = b""
        if hmac.compare_digest(said, f"{self.secret}\n".encode()):
            self.users.add(user)
            self.waiting.add(user)
            return
        self.selector.unregister(user)
        self.users.discard(user)
        self.waiting.discard(user)
        user.close()

    def _answer(self) -> None:
        if not self.ready and not self.error:
            return
        answer = {"error": self.error} if self.error else {"uri": self.server.uri(self.access)}
        for user in self.waiting:
            with contextlib.suppress(OSError):  # the user has ended; its closed connection is handled next
                user.sendall(json.dumps(answer).encode() + b"\n")
        self.waiting.clear()

    def _inodes(self) -> list[int]:
        """Returns an empty list if a folder or the secret is missing."""
        try:
            secret_path(self.folder).stat()
            return [self.folder.stat().st_ino, (self.folder / "data").stat().st_ino]
        except FileNotFoundError:
            return []

    def _look_after_server(self) -> None:
        if self._inodes() != self.home:
            self._give_up_home()
            return
        code = self.process.poll()
        if code is None:
            self.ready = self.ready or self.server.answers(self.access)
        elif self.ready:
            print(f"supervisor: {self.binary} ended ({describe_exit(code)}); it is started again", flush=True)
            self.attempts = 0
            self._start(self.access.port)
        elif self.sockets is None and not _is_free(self.access.port) and self.attempts < START_ATTEMPTS:
            self._start(0)
        else:
            self.error = (
                f"{self.server.title} does not start ({describe_exit(code)}): {self.binary} says\n"
                f"{last_log_lines(self.folder, self.log_offset)}\n"
                f"Its data is in {self.folder / 'data'}, its log in {log_path(self.folder)}."
            )

    def _give_up_home(self) -> None:
        """Kills the server, since the files in its folder are no longer its own.

        The confirmed data is in the old files.
        """
        self.error = gone(self.server, self.folder)
        print(f"supervisor: {self.error}", flush=True)
        self.process.kill()  # so that its users notice
        with contextlib.suppress(FileNotFoundError):
            is_its_folder = [self.folder.stat().st_ino] == self.home[:1]
            if is_its_folder:  # only the data is missing; users must not take new data for it
                secret_path(self.folder).unlink()

    def _start(self, port: int) -> None:
        """Starts the server. Without sockets it listens on `port`, or on another port if that is taken or 0."""
        self.ready = False
        self.attempts += 1
        self.access = self._access(port)
        self.log_offset = log_size(self.folder)
        data = self.folder / "data"
        close_folder(data)
        command = [*self.server.command(self.binary, data), *self.server.options(self.access)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=data, preexec_fn=die_with_parent())
        with contextlib.suppress(OSError), self.process.stdin as stdin:  # type: ignore[union-attr]
            stdin.write(self.server.stdin(self.access).encode())  # OSError: it has ended, which is noticed next
        listening = 0 if self.sockets else self.listener.getsockname()[1]
        ServerState(os.getpid(), listening, self.process.pid, self.access.port, str(self.sockets or "")).write(
            self.folder
        )

    def _access(self, port: int) -> ServerAccess:
        if self.sockets:
            return ServerAccess(secret_path(self.folder), self.secret, self.sockets / SERVER_SOCKET)
        free = port if port and _is_free(port) else _free_port()
        return ServerAccess(secret_path(self.folder), self.secret, None, free)

    def _stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def die_with_parent() -> Callable[[], None] | None:
    """Ends a child when this process is killed, on Linux. Elsewhere the next supervisor stops the orphan."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, parent, set_parent_death_signal = ctypes.CDLL(None).prctl, os.getpid(), 1

    def prepare() -> None:
        prctl(set_parent_death_signal, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    return prepare


def _stop_orphan(data: Path, pid: int) -> None:
    """Stops the server of a killed supervisor, or waits until a dying supervisor has stopped its server."""
    kill_at = monotonic() + STOP_SECONDS
    while process := running_in(data, pid):  # psutil's wait would also wait for a zombie
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill() if monotonic() > kill_at else process.terminate()
        sleep(0.1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if os.name == "posix":  # elsewhere the option would share the port with another listener
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Runs the supervisor process."""
    name, folder, binary, sockets = sys.argv[1:]
    os.umask(0o077)
    supervisor = ServerSupervisor(SERVERS[name], Path(folder), binary, Path(sockets) if sockets else None)
    signal.signal(signal.SIGTERM, supervisor.end)  # sent when the machine shuts down
    supervisor.run()


if __name__ == "__main__":
    main()

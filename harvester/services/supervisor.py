"""The process that owns a private server: starts it, again when it has died, stops it after its last user.

    python -m harvester.services.supervisor mongodb <folder> <binary>

A user connects and sends a line. It gets a line of JSON as soon as the server is ready, {"uri": ...}, or
turns out not to start, {"error": ...}. It counts as a user until its connection is closed.
"""

import contextlib
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

import psutil

from harvester.services.binaries import describe_exit
from harvester.services.servers import SERVERS, Server
from harvester.services.state import State, bound_log, last_log_lines, log_path, log_size, running_in

GRACE_SECONDS = 2.0
"""How long the server goes on without users: one command often follows another."""
FIRST_USER_SECONDS = 30.0
"""How long the process that started the supervisor has to become a user."""
STOP_SECONDS = 30.0
"""How long a server has to stop cleanly before it is killed."""
START_ATTEMPTS = 3
"""With another port each time, should something else take it in between."""


class Supervisor:
    """Single-threaded, because on Linux the server dies with the thread that started it."""

    def __init__(self, server: Server, folder: Path, binary: str) -> None:
        self.server = server
        self.folder = folder
        self.binary = binary
        self.users: set[socket.socket] = set()
        self.waiting: set[socket.socket] = set()
        """Users that have asked for the address."""
        self.ready = False
        self.attempts = 0
        self.error = ""

    def run(self) -> None:
        """Returns when the last user has left, or when the server cannot be started."""
        with (
            socket.create_server(("127.0.0.1", 0)) as self.listener,
            selectors.DefaultSelector() as self.selector,
        ):
            self.listener.setblocking(False)
            self.selector.register(self.listener, selectors.EVENT_READ)
            before = State.read(self.folder)
            _stop_orphan(self.folder / "data", before.server_pid)
            self._start(before.server_port)
            try:
                self._serve()
            finally:
                self.listener.close()  # whoever comes now starts a supervisor of its own
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                self._stop()

    def _serve(self) -> None:
        until = monotonic() + FIRST_USER_SECONDS
        while monotonic() < until and not self.error:
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

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):  # already gone
            user, _ = self.listener.accept()
            self.users.add(user)
            self.selector.register(user, selectors.EVENT_READ)

    def _hear(self, user: socket.socket) -> None:
        try:
            question = user.recv(100)
        except OSError:
            question = b""
        if question:
            self.waiting.add(user)
            return
        self.selector.unregister(user)
        self.users.discard(user)
        self.waiting.discard(user)
        user.close()

    def _answer(self) -> None:
        if not self.ready and not self.error:
            return
        answer = {"error": self.error} if self.error else {"uri": self.server.uri(self.port)}
        for user in self.waiting:
            with contextlib.suppress(OSError):  # it has ended; its connection says so next
                user.sendall(json.dumps(answer).encode() + b"\n")
        self.waiting.clear()

    def _look_after_server(self) -> None:
        code = self.process.poll()
        if code is None:
            self.ready = self.ready or self.server.answers(self.port)
        elif self.ready:
            print(f"supervisor: {self.binary} ended ({describe_exit(code)}); it is started again", flush=True)
            self.attempts = 0
            self._start(self.port)
        elif not _is_free(self.port) and self.attempts < START_ATTEMPTS:
            self._start(0)
        else:
            self.error = (
                f"{self.server.title} does not start ({describe_exit(code)}): {self.binary} says\n"
                f"{last_log_lines(self.folder, self.log_offset)}\n"
                f"Its data is in {self.folder / 'data'}, its log in {log_path(self.folder)}."
            )

    def _start(self, port: int) -> None:
        """Starts the server on that port, or on another one when it is taken or 0."""
        self.ready = False
        self.attempts += 1
        self.port = port if port and _is_free(port) else _free_port()
        self.log_offset = log_size(self.folder)
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        command = self.server.command(self.binary, data, self.port)
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=data, preexec_fn=_die_with_parent())
        State(os.getpid(), self.listener.getsockname()[1], self.process.pid, self.port).write(self.folder)

    def _stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux, ends a child when this process is killed. Elsewhere the next supervisor stops the orphan."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, parent, set_parent_death_signal = ctypes.CDLL(None).prctl, os.getpid(), 1

    def prepare() -> None:
        prctl(set_parent_death_signal, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return prepare


def _stop_orphan(data: Path, pid: int) -> None:
    """Stops the server of a supervisor that was killed, or waits until a dying one has stopped its own."""
    kill_at = monotonic() + STOP_SECONDS
    while process := running_in(data, pid):  # psutil's wait would wait for a zombie as well
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill() if monotonic() > kill_at else process.terminate()
        sleep(0.1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if os.name == "posix":  # elsewhere the option would share the port with whoever listens
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Entry point of the process."""
    name, folder, binary = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the machine shuts down
    Supervisor(SERVERS[name], Path(folder), binary).run()


if __name__ == "__main__":
    main()

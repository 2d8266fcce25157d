"""A mongod of the test's own, to be killed."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from pymongo import MongoClient

from harvester.stores.servers.binaries import find_binary
from harvester.stores.servers.kinds import MongoDB, PrivateServer

READY_SECONDS = 240


class Mongod:
    """`with Mongod(folder, port) as server: ...server.uri...`; it can be killed and started again on its port."""

    server: ClassVar[PrivateServer] = MongoDB()
    address: ClassVar[str] = "mongodb://127.0.0.1:{port}/?directConnection=true"
    loopback: ClassVar[tuple[str, ...]] = ("--bind_ip", "127.0.0.1")

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        self._data = folder / "db"
        self._log = folder / "mongod.log"
        self._port = port
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}
        """Variables of its next start."""
        self.uri = self.address.format(port=port)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(signal.SIGKILL)

    def start(self) -> None:
        """Returns when it answers; after a kill it recovers first."""
        server = self.server
        self._data.mkdir(parents=True, exist_ok=True)
        command = [*server.command(find_binary(server), self._data), *self.loopback, "--port", str(self._port)]
        command += self._options
        with self._log.open("ab") as log:
            variables = os.environ | self.environment
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables)
        deadline = time.monotonic() + READY_SECONDS
        while not self.answers():
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether it is ready: it listens only after recovery is complete."""
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True

    def send(self, number: signal.Signals) -> None:
        assert self._process
        os.kill(self._process.pid, number)

    def end(self, number: signal.Signals) -> None:
        """Ends the process by a signal; a second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(240)

    def client(self) -> MongoClient[dict[str, Any]]:
        return MongoClient(self.uri, tz_aware=True)

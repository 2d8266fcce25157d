"""A controller in a process of its own, on a loopback port, that can be killed: python -m tests.control.server."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
import uvicorn
from pymongo import monitoring

from harvester.config import load_config
from harvester.control import batches, idempotency
from harvester.control.app import create_app
from tests.ports import free_port
from tests.root import ROOT

DIE_AT = "TESTS_DIE_AT"
"""A variable, `update job_items 3`: at the start of the third such command to MongoDB the process kills itself."""
SILENT_S = 2.0
"""After which one that died is taken over."""


class Server:
    """Runs until it is killed, or kills itself."""

    def __init__(self, variables: Mapping[str, str], folder: Path) -> None:
        self._port = str(free_port())
        self._folder = folder
        self._variables = variables
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self, die_at: str = "") -> None:
        """Begins, or begins anew."""
        environment = {**os.environ, **self._variables, "PYTHONPATH": str(ROOT), DIE_AT: die_at}
        log = self._folder / "server.log"
        with log.open("ab") as file:
            command = [sys.executable, "-m", "tests.control.server", self._port]
            self.process = subprocess.Popen(command, cwd=self._folder, env=environment, stdout=file, stderr=file)
        while True:
            assert self.process.poll() is None, log.read_text()
            try:
                if httpx2.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx2.HTTPError:
                time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(variables: Mapping[str, str], folder: Path) -> Iterator[Server]:
    server = Server(variables, folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Killer(monitoring.CommandListener):
    """Kills this process at a command that is named as by DIE_AT."""

    def __init__(self, die_at: str) -> None:
        self._command, self._collection, left = die_at.split()
        self._left = int(left)

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if (event.command_name, event.command.get(event.command_name)) == (self._command, self._collection):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Nothing."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nothing."""


def main() -> None:
    batches.SILENT_S = idempotency.SILENT_S = SILENT_S
    if die_at := os.environ[DIE_AT]:
        monitoring.register(Killer(die_at))
    config = uvicorn.Config(create_app(load_config()), "127.0.0.1", int(sys.argv[1]), http="h11", log_level="warning")
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()

"""A controller in a process of its own, on a loopback port, that can be killed: python -m tests.control.server."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import uvicorn
from pymongo import monitoring

from harvester.config import load_config
from harvester.control import batches, idempotency
from harvester.control.app import create_app
from tests.forking import begin
from tests.ports import free_port
from tests.root import ROOT

DIE_AT = Path("die-at")
"""A file, `update job_items 3`: at the start of the third such command to MongoDB the process kills itself."""
SILENT_S = 2.0
"""After which one that died is taken over."""


class Server:
    """Runs until it is killed, or kills itself."""

    def __init__(self, variables: Mapping[str, str], folder: Path) -> None:
        self._port = str(free_port())
        self._folder = folder
        self._variables = variables
        self.url = f"http://127.0.0.1:{self._port}"

    def die_at(self, moment: str) -> None:
        """Has it kill itself, soon."""
        beside = self._folder / "soon"
        beside.write_text(moment)
        beside.replace(self._folder / DIE_AT)

    def start(self) -> None:
        """Begins, or begins anew."""
        (self._folder / DIE_AT).unlink(missing_ok=True)
        environment = {**os.environ, **self._variables, "PYTHONPATH": str(ROOT)}
        log = self._folder / "server.log"
        with log.open("ab") as file:
            files = [None, file.fileno(), file.fileno()]
            self.process = begin("tests.control.server", self._port, cwd=self._folder, env=environment, files=files)
        while True:
            assert self.process.poll() is None, log.read_text()
            with suppress(OSError), urlopen(f"{self.url}/readyz", timeout=10):
                return
            time.sleep(0.2)

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
    """Kills this process at the command that DIE_AT says."""

    def __init__(self) -> None:
        self._seen = 0

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if not DIE_AT.exists():
            return
        command, collection, number = DIE_AT.read_text().split()
        if event.command_name == command and collection in (
            event.command.get(command),
            event.command.get("collection"),  # of getMore
        ):
            self._seen += 1
            if self._seen == int(number):
                os.kill(os.getpid(), signal.SIGKILL)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Nothing."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nothing."""


def main() -> None:
    batches.SILENT_S = idempotency.SILENT_S = SILENT_S
    monitoring.register(Killer())
    config = uvicorn.Config(create_app(load_config()), "127.0.0.1", int(sys.argv[1]), http="h11", log_level="warning")
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()

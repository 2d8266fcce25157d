"""Users of private servers, each a process of its own, and what the tests need to see of the servers."""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harvester.stores.servers.state import ServerState, running_in
from tests.forking import begin
from tests.root import ROOT


class User:
    """A process that uses a private server."""

    def __init__(self, name: str, state_dir: Path, umask: int | None) -> None:
        (given, say), (hear, told) = os.pipe(), os.pipe()
        words = [name, str(state_dir), *([] if umask is None else [str(umask)])]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = begin("tests.stores.user", *words, cwd=ROOT, env=environment, files=[given, told, 2])
        os.close(given)
        os.close(told)
        self._say, self._hear = os.fdopen(say, "w"), os.fdopen(hear)

    def say(self, command: str) -> None:
        self._say.write(f"{command}\n")
        self._say.flush()

    def hear(self) -> str:
        return self._hear.readline().strip()

    def ask(self, command: str) -> str:
        self.say(command)
        return self.hear()

    def leave(self) -> None:
        """It ends as programs do."""
        self._say.close()
        self.process.wait(240)
        self._hear.close()

    def kill(self) -> None:
        self.process.kill()
        self.leave()


class Place:
    """A state_dir and the processes that run in it."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.users: list[User] = []

    def user(self, name: str, umask: int | None = None) -> User:
        self.users.append(User(name, self.state_dir, umask))
        return self.users[-1]

    def server(self, name: str) -> psutil.Process:
        """The server that runs now."""
        process = running_in(self.state_dir / name / "data", ServerState.read(self.state_dir / name).server_pid)
        assert process
        return process

    def supervisor(self, name: str) -> psutil.Process:
        """The supervisor that runs now."""
        process = running_in(self.state_dir / name, ServerState.read(self.state_dir / name).supervisor_pid)
        assert process
        return process

    def close(self) -> None:
        """Ends all that runs in it."""
        while self.users:
            self.users.pop().kill()
        for folder in self.state_dir.glob("*/"):
            supervisor = running_in(folder, ServerState.read(folder).supervisor_pid)
            if supervisor:
                supervisor.terminate()
                supervisor.wait(240)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """An empty state_dir, in which nothing runs any more when the test is over."""
    place = Place(tmp_path.resolve() / "state")
    yield place
    place.close()


def ended(*processes: psutil.Process) -> bool:
    """Waits until the processes have ended; False when one has not after a minute."""
    return not psutil.wait_procs(processes, timeout=240)[1]

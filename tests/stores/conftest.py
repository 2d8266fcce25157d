"""Users of private servers, each a process of its own, and what the tests need to see of the servers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harvester.stores.servers.state import State, running_in


class User:
    """A process that uses a private server."""

    def __init__(self, name: str, state_dir: Path, umask: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.stores.user", name, str(state_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            umask=umask,
        )

    def say(self, command: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def ask(self, command: str) -> str:
        self.say(command)
        return self.hear()

    def leave(self) -> None:
        """It ends as programs do."""
        self.process.communicate(timeout=240)

    def kill(self) -> None:
        self.process.kill()
        self.leave()


class Place:
    """A state_dir and the processes that run in it."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.users: list[User] = []

    def user(self, name: str, umask: int = -1) -> User:
        self.users.append(User(name, self.state_dir, umask))
        return self.users[-1]

    def server(self, name: str) -> psutil.Process:
        """The server that runs now."""
        process = running_in(self.state_dir / name / "data", State.read(self.state_dir / name).server_pid)
        assert process
        return process

    def supervisor(self, name: str) -> psutil.Process:
        """The supervisor that runs now."""
        process = running_in(self.state_dir / name, State.read(self.state_dir / name).supervisor_pid)
        assert process
        return process

    def close(self) -> None:
        """Ends all that runs in it."""
        while self.users:
            self.users.pop().kill()
        for folder in self.state_dir.glob("*/"):
            supervisor = running_in(folder, State.read(folder).supervisor_pid)
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

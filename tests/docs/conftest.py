"""A folder in which somebody follows a document, and the servers that the commands of the document speak to."""

import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo.database import Database

from tests.crawling import LONGEST_S
from tests.forking import Forked, fork


class Ended(NamedTuple):
    code: int
    out: str
    log: str


class House(NamedTuple):
    """An empty folder, and servers."""

    folder: Path
    database: Database[dict[str, Any]]
    environment: dict[str, str]

    async def begin(self, command: str) -> Forked:
        """Starts a command line, as typed in the folder."""
        program, *arguments = command.split()
        if program == "python":
            program, *arguments = str(self.folder / arguments[0]), *arguments[1:]
        elif [program, *arguments][:2] == ["harvester", "worker"]:
            program = "tests.worker.command"  # which forks the workers too
        else:
            program = str(Path(sys.executable).with_name(program))
        return await fork(program, *arguments, cwd=self.folder, env=self.environment)

    async def run(self, command: str) -> Ended:
        """Runs a command line, as typed in the folder, to its end."""
        process = await self.begin(command)
        out, log = await process.end(LONGEST_S)
        assert process.returncode is not None
        return Ended(process.returncode, out, log)

    async def runs(self, command: str) -> str:
        """What it printed. Fails when it fails."""
        ended = await self.run(command)
        assert ended.code == 0, f"{command}: {ended.out}\n{ended.log}"
        return ended.out

    async def test(self) -> str:
        """Runs the folder's tests, in a process that knows no others, and tells what pytest said."""
        process = await fork("tests.docs.alone", cwd=self.folder, env=self.environment)
        out, _ = await process.end(LONGEST_S)
        return out


@pytest.fixture
def house(tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str, own_redis: str) -> House:
    own = {
        "REDIS_URL": own_redis,
        "MONGODB_URI": mongodb_uri,
        "DATABASE": mongodb.name,
        "REQUESTS_PER_SECOND": "0",
        "ALLOW_PRIVATE_HOSTS": "true",
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SCRAPY_", "PYTEST_"))}
    folder = tmp_path / "empty"
    folder.mkdir()
    return House(folder, mongodb, environment | {f"HARVESTER_{name}": value for name, value in own.items()})

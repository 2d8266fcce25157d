"""Ledgers on a database of the test's own: any number at once, each killed after so many operations on MongoDB."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import SecretStr
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database

from harvester.config import Config, load_config
from harvester.items import Found
from harvester.jobs.documents import Item, ItemState, Job, read_item
from harvester.jobs.ledger import Ledger
from tests.control.listening import Controllers
from tests.jobs.command import Jobs
from tests.root import ROOT

T = TypeVar("T")
Document = dict[str, Any]
SCOPE = "0123456789abcdef"


class Killed(Exception):
    """The process of a ledger ended here."""


class OneLedger(Ledger):
    """As one process sees it."""

    def __init__(
        self, database: AsyncDatabase[Document], operations: float, clock: Callable[[], datetime] | None = None
    ) -> None:
        super().__init__(database, self.run, clock)
        self.left = operations
        """Operations after which it counts as killed."""
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """Done once, after the next operation and before the ledger gets its answer."""
        self.lose_answers = False
        """Whether every operation is done twice, since the first answer got lost."""

    async def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        if self.left <= 0:
            raise Killed
        self.left -= 1
        result = await operation()
        if self.lose_answers:
            result = await operation()
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            await meanwhile()
        return result


class Ledgers:
    """Makes ledgers, and reads what they have written."""

    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self.database = database
        self.clock: Callable[[], datetime] | None = None
        """By which they go that are made from now on. None: by that of this machine."""

    def another(self, operations: float = math.inf) -> OneLedger:
        return OneLedger(self.database, operations, self.clock)

    async def job(self, **fields: Any) -> Job:
        """The job of the test."""
        return (await self.another().open_job("flat", SCOPE, **fields)).job

    async def items(self) -> dict[str, Item]:
        """By key."""
        rows = await self.database["job_items"].find().to_list()
        return {row["key"]: read_item(row) for row in rows}

    async def states(self) -> dict[str, ItemState]:
        """By key."""
        return {key: item.state for key, item in (await self.items()).items()}


@pytest.fixture
async def ledgers(mongodb_uri: str, mongodb: Database[Document]) -> AsyncIterator[Ledgers]:
    async with AsyncMongoClient[Document](mongodb_uri, tz_aware=True) as client:
        ledgers = Ledgers(client[mongodb.name])
        await ledgers.another().make_indexes()
        yield ledgers


def moments(first: int, end: int) -> list[Any]:
    """After how many operations a process is killed: each third number, and the others when `make slow` runs."""
    return [
        pytest.param(number, marks=() if (number - first) % 3 == 1 else pytest.mark.slow)
        for number in range(first, end)
    ]


def after_operations(ledger: OneLedger, operations: int, action: Callable[[], Awaitable[object]]) -> None:
    """Has something done after so many operations of the ledger, and before the next."""
    left = operations

    async def step() -> None:
        nonlocal left
        if left:
            left -= 1
            ledger.meanwhile = step
        else:
            await action()

    ledger.meanwhile = step


def pages(*keys: str | int, **fields: Any) -> Iterator[Found]:
    """Items with these keys."""
    return (Found("page", str(key), **fields) for key in keys)


def nowhere(_: Found) -> str:
    """Of which site an item is: nobody knows."""
    return ""


@pytest.fixture(scope="session")
def controllers() -> Iterator[Controllers]:
    """A server for controllers."""
    with Controllers().running() as running:
        yield running


@pytest.fixture
def remote_jobs(
    controllers: Controllers,
    local_jobs: Jobs,
    redis_url: str,
    mongodb_uri: str,
    mongodb: Database[Document],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Jobs]:
    """Runs `harvester jobs` against a controller: it cannot reach the servers by itself."""
    config = Config(
        mongodb_uri=SecretStr(mongodb_uri),
        redis_url=SecretStr(redis_url),
        database=mongodb.name,
        state_dir=tmp_path / "controller" / "state",
        data_dir=tmp_path / "controller" / "data",
    )
    with controllers.controller(config) as controller:
        variables = {
            "HARVESTER_MONGODB_URI": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1",
            "HARVESTER_DATABASE": "none",
            "HARVESTER_URL": controller.url,
            "HARVESTER_TOKEN": controller.token,
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        local_jobs.variables.update(variables)
        load_config.cache_clear()
        yield local_jobs


@pytest.fixture
def jobs(local_jobs: Jobs) -> Jobs:
    """Runs `harvester jobs`."""
    return local_jobs


@pytest.fixture
def local_jobs(
    redis_url: str,
    mongodb_uri: str,
    mongodb: Database[Document],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Jobs:
    """Runs `harvester jobs` with servers of this machine."""
    variables = {
        "HARVESTER_REDIS_URL": redis_url,
        "HARVESTER_MONGODB_URI": mongodb_uri,
        "HARVESTER_DATABASE": mongodb.name,
        "HARVESTER_DATA_DIR": str(tmp_path / "data"),
        "SCRAPY_SETTINGS_MODULE": "tests.jobs.cli_settings",
        "COLUMNS": "140",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Jobs(tmp_path, {**variables, "PYTHONPATH": str(ROOT)}, monkeypatch, capsys)

"""Fixtures that all rooms share: real servers, a database for each test, an environment without surprises."""

import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
import scrapy.core.downloader.contextfactory  # noqa: F401  it reads the source of the whole stack, which grows deep
from hypothesis import HealthCheck, settings
from pydantic import SecretStr
from pymongo import MongoClient
from pymongo.database import Database
from redis import Redis

from harvester.config import Config, load_config
from harvester.masking import mask
from harvester.sites import load_sites
from harvester.stores import servers
from harvester.stores.servers.kinds import SERVERS
from harvester.stores.servers.state import ServerState, running_in
from harvester.worker import interrupts
from tests import ports
from tests.postgresql import PASSWORD, SUPERUSER, of_system, of_wheel, postgresql
from tests.root import ROOT

settings.register_profile("at random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("the same each time", settings.get_profile("at random"), derandomize=True, database=None)
settings.load_profile("the same each time")
Config.model_config["env_file"] = None
for _name in list(os.environ):
    if _name.startswith("HARVESTER_") or _name in ("MONGODB_URI", "REDIS_URL"):
        del os.environ[_name]  # here, not in a fixture: harvester.settings reads them when it is imported
os.environ["HARVESTER_ALLOW_PRIVATE_HOSTS"] = "true"  # the servers of the tests are on loopback
os.environ.setdefault("NODE_COMPILE_CACHE", str(ROOT / ".pytest_cache" / "node"))  # each browser has a Node.js
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has each process begin with some of the long tests, so that none of them runs alone at the end.

    pytest-xdist deals the tests out in as many runs of neighbours as there are processes.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    long = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    dealt: list[pytest.Item] = []
    for process in range(processes):
        first = long[process::processes]
        share = (len(items) - len(dealt)) // (processes - process)
        number = max(0, share - len(first))
        dealt += first + others[:number]
        del others[:number]
    items[:] = dealt + others


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Has Python look for no garbage among the thousands of tests: not while it collects them, and not later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test may set variables through monkeypatch; the configuration made of them does not outlive it."""
    load_config.cache_clear()
    load_sites.cache_clear()
    module = os.environ.get("SCRAPY_SETTINGS_MODULE")
    on_sigterm = signal.getsignal(signal.SIGTERM)
    yield
    if signal.getsignal(signal.SIGTERM) is not on_sigterm:  # a command that ran in this process would end it later
        signal.signal(signal.SIGTERM, on_sigterm)
    interrupts._received.clear()  # a later command in this process would end with the code of that signal
    load_config.cache_clear()
    load_sites.cache_clear()
    mask.forget()
    if module is None:
        os.environ.pop("SCRAPY_SETTINGS_MODULE", None)  # Scrapy sets it where a command is called in this process


def _place_of_servers() -> str | None:
    """In memory, where there is room: a disk that is busy with others' work may keep a server waiting for long."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30 else None


@pytest.fixture(scope="session")
def _servers() -> Iterator[Config]:
    """A configuration whose private servers all tests share. They stop at the end, and after a kill too."""
    with TemporaryDirectory(prefix="harvester-tests-", dir=_place_of_servers()) as folder:
        state_dir = Path(folder).resolve()
        yield Config(state_dir=state_dir)
        servers.leave()
        for name in SERVERS:
            supervisor = running_in(state_dir / name, ServerState.read(state_dir / name).supervisor_pid)
            if supervisor:
                supervisor.wait(240)


@pytest.fixture(scope="session")
def mongodb_uri(_servers: Config) -> str:
    """Address of a real mongod."""
    return servers.mongodb_uri(_servers)


@pytest.fixture(scope="module")
def redis_url(_servers: Config) -> str:
    """Address of a real Valkey that is empty when a module begins.

    It keeps the pauses of hosts by their ports, and a later site may get the port of an earlier one.
    """
    url = servers.redis_url(_servers)
    with Redis.from_url(url) as redis:
        redis.flushdb()
    return url


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """Address of a real PostgreSQL, with its password."""
    programs = of_wheel() or of_system()
    if programs is None:
        pytest.skip("PostgreSQL is neither installed nor in a wheel for this platform: apt-get install postgresql")
    with postgresql(programs, asks=True) as port:
        yield f"postgresql://{SUPERUSER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/postgres"


@pytest.fixture
def own_redis(redis_url: str) -> Iterator[str]:
    """Address of an empty database of this test's own."""
    with empty_redis(redis_url) as url:
        yield url


@contextmanager
def empty_redis(redis_url: str) -> Iterator[str]:
    """Address of a database that is empty, and is emptied afterwards."""
    url = f"{redis_url.removesuffix('0')}{1 + uuid4().int % 15}"
    with Redis.from_url(url) as redis:
        redis.flushdb()
        yield url
        redis.flushdb()


@pytest.fixture(scope="session")
def _mongo_client(mongodb_uri: str) -> Iterator[MongoClient[dict[str, Any]]]:
    """To log in takes longer than most of what a test asks for."""
    with MongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
        yield client


@pytest.fixture
def mongodb(_mongo_client: MongoClient[dict[str, Any]]) -> Iterator[Database[dict[str, Any]]]:
    """An empty database of this test's own, dropped afterwards."""
    name = f"test-{uuid4().hex[:12]}"
    yield _mongo_client[name]
    _mongo_client.drop_database(name)


@pytest.fixture
def config(tmp_path: Path, mongodb: Database[dict[str, Any]], mongodb_uri: str) -> Config:
    """Configuration for `tmp_path` and the test's database: no rate limit, loopback allowed."""
    return Config(
        mongodb_uri=SecretStr(mongodb_uri),
        database=mongodb.name,
        state_dir=tmp_path / "state",
        data_dir=tmp_path / "data",
        requests_per_second=0,
        allow_private_hosts=True,
    )


@pytest.fixture
def free_port() -> int:
    """A loopback port on which nothing listens."""
    return ports.free_port()

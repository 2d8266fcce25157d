"""One Scrapyd for all tests of this folder, a site, and the database of the jobs' records."""

import os
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from harvester.config import Config
from harvester.stores import servers
from tests.deploy.scrapyd import PASSWORD, USER, Scrapyd
from tests.forking import Ran, run
from tests.jobs.command import HARVESTER
from tests.ports import free_port
from tests.root import ROOT
from tests.sandbox.process import Sandbox

Records = Database[dict[str, Any]]
SOURCES = ("pyproject.toml", "README.md", "LICENSE")
"""Files beside the package of which it is built."""


@pytest.fixture(scope="package")
def _started() -> Iterator[Sandbox]:
    with Sandbox(accounts=40, posts=8, page_size=20) as site:
        yield site


@pytest.fixture
def site(_started: Sandbox) -> Iterator[Sandbox]:
    """The network, without faults."""
    yield _started
    _started.clear_faults()


@pytest.fixture(scope="package")
def records(mongodb_uri: str) -> Iterator[Records]:
    """Where all jobs write to."""
    with MongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:
        name = f"test-{uuid4().hex[:12]}"
        yield client[name]
        client.drop_database(name)


@pytest.fixture(scope="package")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all installed packages but harvester, as where Scrapyd runs."""
    folder = tmp_path_factory.mktemp("dependencies")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "harvester" not in path.name and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="package")
def redis_url(_servers: Config) -> str:
    """Address of a real Valkey."""
    return servers.redis_url(_servers)


@pytest.fixture(scope="package")
def variables(
    _started: Sandbox, mongodb_uri: str, redis_url: str, records: Records, dependencies: Path
) -> dict[str, str]:
    """Of Scrapyd and its jobs."""
    return {
        "PYTHONPATH": str(dependencies),
        "HARVESTER_MONGODB_URI": mongodb_uri,
        "HARVESTER_REDIS_URL": redis_url,
        "HARVESTER_DATABASE": records.name,
        "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_PLC_URL": _started.url,
    }


@pytest.fixture(scope="package")
def empty_scrapyd(tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]) -> Iterator[Scrapyd]:
    """A Scrapyd to which nothing is deployed before the tests do so."""
    scrapyd = Scrapyd(tmp_path_factory.mktemp("scrapyd"), free_port(), variables)
    scrapyd.start()
    yield scrapyd
    scrapyd.stop()


@pytest.fixture(scope="package")
def first_deploy(empty_scrapyd: Scrapyd) -> Ran:
    """That of this checkout."""
    return run_deploy(empty_scrapyd, ROOT)


@pytest.fixture(scope="package")
def scrapyd(empty_scrapyd: Scrapyd, first_deploy: Ran) -> Scrapyd:
    """A Scrapyd to which this checkout was deployed."""
    assert first_deploy.returncode == 0, first_deploy.stderr
    return empty_scrapyd


def run_deploy(scrapyd: Scrapyd | str | None, folder: Path, *options: str) -> Ran:
    """`harvester deploy` in the folder of a project; to no address but that of its scrapy.cfg when None."""
    login = {"HARVESTER_SCRAPYD_USER": USER, "HARVESTER_SCRAPYD_PASSWORD": PASSWORD}
    url = scrapyd.url if isinstance(scrapyd, Scrapyd) else scrapyd
    to = ["--url", url] if url else []
    return run(HARVESTER, "deploy", *to, *options, cwd=folder, env={**os.environ, **login})


@pytest.fixture
def copy_of_checkout(tmp_path: Path) -> Callable[[], Path]:
    """Makes a checkout to be changed."""

    return lambda: copy_checkout(tmp_path / "checkout")


def copy_checkout(folder: Path) -> Path:
    """With what Python has compiled of it, but for what it is writing."""
    copytree(ROOT / "harvester", folder / "harvester", ignore=ignore_patterns("*.pyc.*"))
    for name in SOURCES:
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder

"""One network for all tests of this folder, and harvests of it: shared ones, since each takes seconds, and own ones."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from tests.crash.harvest import Harvest
from tests.sandbox.process import Sandbox

Records = Database[dict[str, Any]]
EVERYTHING = "graph,profiles,posts,threads,lists"


class Harvested(NamedTuple):
    """A harvest that has ended well."""

    database: Records
    folder: Path
    said: str
    requests: list[dict[str, Any]]
    """Those that the site was asked."""

    @property
    def data(self) -> Path:
        return self.folder / "data"


@pytest.fixture(scope="package")
def _started() -> Iterator[Sandbox]:
    with Sandbox(accounts=48, posts=8, page_size=30) as site:
        yield site


@pytest.fixture
def site(_started: Sandbox) -> Iterator[Sandbox]:
    """The network, without faults."""
    yield _started
    _started.clear_faults()


@pytest.fixture(scope="package")
def harvested(
    _started: Sandbox, mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Harvested]]:
    """Harvests all that there is, by a given `history`, the first time that it is asked for."""
    known: dict[str, Harvested] = {}
    with MongoClient[dict[str, Any]](mongodb_uri, tz_aware=True) as client:

        def by(history: str) -> Harvested:
            if history not in known:
                database, folder = client[f"test-bluesky-{history}"], tmp_path_factory.mktemp(history)
                client.drop_database(database.name)
                _started.clear_log()
                harvest = Harvest(_started, folder, mongodb_uri, database.name, collect=EVERYTHING, history=history)
                assert harvest.run() == 0, harvest.said[-3000:]
                known[history] = Harvested(database, folder, harvest.said, _started.log()["requests"])
            return known[history]

        yield by
        for history in known:
            client.drop_database(f"test-bluesky-{history}")


@pytest.fixture
def harvest(
    site: Sandbox, tmp_path: Path, mongodb_uri: str, mongodb: Records, own_redis: str
) -> Callable[..., Harvest]:
    """Makes a command of the test's own: arguments of the spider by name, and `variables` of the environment."""

    def make(variables: dict[str, str] | None = None, **arguments: str) -> Harvest:
        redis = {"HARVESTER_REDIS_URL": own_redis}
        return Harvest(site, tmp_path, mongodb_uri, mongodb.name, redis | (variables or {}), **arguments)

    return make

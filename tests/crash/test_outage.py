"""A MongoDB that goes away is a pause: nothing is lost, and Ctrl-C still works."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from uuid import uuid4

import pytest
from pydantic import SecretStr
from pymongo import AsyncMongoClient
from pymongo.errors import ConnectionFailure
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.exceptions import ServiceError
from harvester.stores.mongodb import MongoOutage, at_the_end, disconnect
from tests.bad_input.command import Answer
from tests.crash.harvest import Harvest, documents, fates, stored
from tests.crash.mongod import Mongod
from tests.crash.nothing_lost import differences
from tests.ports import free_port
from tests.sandbox.process import Sandbox

pytestmark = pytest.mark.timeout(1800)

PAUSED = "crawl pauses"
BACK = "crawl goes on"
OUTAGE_SECONDS = 1.0
PATIENT_MS = 240_000


class Calm(NamedTuple):
    """A server, a site, and what an undisturbed harvest makes of it."""

    server: Mongod
    site: Sandbox
    records: dict[str, dict[str, Any]]
    fates: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calm]:
    folder = tmp_path_factory.mktemp("calm")
    with (
        Mongod(folder / "mongodb", free_port()) as server,
        Sandbox(accounts=50, posts=4) as site,
        server.client() as client,
    ):
        harvest = Harvest(site, folder, server.uri, "calm")
        assert harvest.run() == 0, harvest.said
        yield Calm(server, site, stored(client["calm"]), fates(client["calm"]))


class Disturbed:
    """A harvest that has come to its middle."""

    def __init__(self, calm: Calm, folder: Path, **variables: str) -> None:
        self.name = f"disturbed-{uuid4().hex[:8]}"
        self._calm = calm
        self._folder = folder
        self.harvest = Harvest(calm.site, folder, calm.server.uri, self.name, variables)
        self.harvest.start()
        half = sum(map(len, calm.records.values())) // 2
        with calm.server.client() as client:
            assert self.harvest.running_until(lambda: documents(client[self.name]) > half), self.harvest.said

    def again(self) -> Harvest:
        """The same harvest without the variables."""
        return Harvest(self._calm.site, self._folder, self._calm.server.uri, self.name)

    def lacks(self) -> list[str]:
        """How it differs from the undisturbed one."""
        with self._calm.server.client() as client:
            database = client[self.name]
            return differences(stored(database), self._calm.records) + differences(fates(database), self._calm.fates)


@pytest.mark.slow
def test_a_mongod_that_ends_and_is_started_again_is_a_pause(calm: Calm, tmp_path: Path) -> None:
    disturbed = Disturbed(calm, tmp_path)
    harvest = disturbed.harvest
    for times, number in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
        calm.server.end(number)
        assert harvest.running_until(lambda: harvest.said.count(PAUSED) >= times), harvest.said  # noqa: B023
        time.sleep(OUTAGE_SECONDS)
        calm.server.start()
        assert harvest.running_until(lambda: harvest.said.count(BACK) >= times), harvest.said  # noqa: B023
    assert harvest.wait() == 0, harvest.said
    assert harvest.said.count(PAUSED) == harvest.said.count(BACK) >= 2, "a server that begins may falter once more"
    assert Answer(0, harvest.said).is_for_people(), harvest.said
    assert disturbed.lacks() == []


@pytest.mark.slow
def test_a_mongod_that_hangs_for_a_while_is_a_pause(calm: Calm, tmp_path: Path) -> None:
    disturbed = Disturbed(calm, tmp_path)
    calm.server.send(signal.SIGSTOP)
    time.sleep(8)
    calm.server.send(signal.SIGCONT)
    assert disturbed.harvest.wait() == 0, disturbed.harvest.said
    assert disturbed.lacks() == []


@pytest.mark.slow
def test_ctrl_c_during_an_outage_ends_the_run_and_the_next_one_completes_it(calm: Calm, tmp_path: Path) -> None:
    disturbed = Disturbed(calm, tmp_path)
    calm.server.end(signal.SIGKILL)
    try:
        assert disturbed.harvest.running_until(lambda: PAUSED in disturbed.harvest.said), disturbed.harvest.said
        assert disturbed.harvest.end(signal.SIGINT, seconds=60) in (4, 130), disturbed.harvest.said
        assert "continue" in disturbed.harvest.said
        assert "Traceback" not in disturbed.harvest.said
    finally:
        calm.server.start()
    assert disturbed.harvest.run() == 0, disturbed.harvest.said
    assert disturbed.lacks() == []


@pytest.mark.soak
def test_ctrl_c_while_requests_wait_their_turn_fails_none_of_them(calm: Calm, tmp_path: Path) -> None:
    disturbed = Disturbed(calm, tmp_path, HARVESTER_REQUESTS_PER_SECOND="150")
    assert disturbed.harvest.end(signal.SIGINT, seconds=60) == 130, disturbed.harvest.said
    assert "continue" in disturbed.harvest.said
    assert disturbed.again().run() == 0, disturbed.harvest.said
    assert disturbed.lacks() == []


async def test_a_run_that_ends_waits_once_for_a_mongodb_that_is_away(calm: Calm) -> None:
    """The first operation that waits in vain has waited for the others, and for all that is tried once at the end."""
    crawler = get_crawler()
    crawler.engine = cast("Any", SimpleNamespace(running=False, pause=lambda: None, unpause=lambda: None))
    patiently = MongoOutage(crawler, Config(mongodb_uri=SecretStr(calm.server.uri)))
    gone = asyncio.Event()
    tries: list[str] = []

    async def fails(which: str) -> None:
        tries.append(which)
        if which == "under way":
            await gone.wait()
        raise ConnectionFailure("away")

    async with asyncio.timeout(60):
        under_way = asyncio.create_task(patiently(lambda: fails("under way")))
        with pytest.raises(ServiceError, match="away"):
            await patiently(lambda: fails("first"))
        gone.set()
        with pytest.raises(ServiceError, match="away"):
            await under_way
        assert sorted(tries) == ["first", "first", "under way"]

        client = AsyncMongoClient[dict[str, Any]](calm.server.uri, serverSelectionTimeoutMS=PATIENT_MS)
        await asyncio.gather(*(client.admin.command("ping") for _ in range(5)))  # of each the server knows a session
        calm.server.end(signal.SIGKILL)
        try:
            for _ in range(2):  # the first finds a connection that is broken, the second none
                with at_the_end(crawler), pytest.raises(ConnectionFailure):
                    await client.calm.runs.insert_one({})
            await disconnect(client.calm)
        finally:
            calm.server.start()

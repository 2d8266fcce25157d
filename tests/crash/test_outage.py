"""A MongoDB that goes away is a pause: nothing is lost, and Ctrl-C still works."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from tests.bad_input.command import Answer
from tests.crash.harvest import Harvest, documents, fates, stored
from tests.crash.mongod import Mongod
from tests.crash.nothing_lost import differences
from tests.ports import free_port
from tests.sandbox.process import Sandbox

pytestmark = pytest.mark.timeout(1800)

PAUSED = "MongoDB cannot be reached; the crawl pauses until it is back"
BACK = "MongoDB is back; the crawl goes on"
OUTAGE_SECONDS = 1.0


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
        Sandbox(accounts=80, posts=4) as site,
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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_mongod_that_ends_and_is_started_again_is_a_pause(calm: Calm, tmp_path: Path, number: signal.Signals) -> None:
    disturbed = Disturbed(calm, tmp_path)
    calm.server.end(number)
    assert disturbed.harvest.running_until(lambda: PAUSED in disturbed.harvest.said), disturbed.harvest.said
    time.sleep(OUTAGE_SECONDS)
    calm.server.start()
    assert disturbed.harvest.wait() == 0, disturbed.harvest.said
    assert disturbed.harvest.said.count(PAUSED) == disturbed.harvest.said.count(BACK) == 1
    assert Answer(0, disturbed.harvest.said).is_for_people(), disturbed.harvest.said
    assert disturbed.lacks() == []


def test_a_mongod_that_hangs_for_a_while_is_a_pause(calm: Calm, tmp_path: Path) -> None:
    disturbed = Disturbed(calm, tmp_path)
    calm.server.send(signal.SIGSTOP)
    time.sleep(8)
    calm.server.send(signal.SIGCONT)
    assert disturbed.harvest.wait() == 0, disturbed.harvest.said
    assert disturbed.lacks() == []


@pytest.mark.long
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


def test_ctrl_c_while_requests_wait_their_turn_fails_none_of_them(calm: Calm, tmp_path: Path) -> None:
    disturbed = Disturbed(calm, tmp_path, HARVESTER_REQUESTS_PER_SECOND="150")
    assert disturbed.harvest.end(signal.SIGINT, seconds=60) == 130, disturbed.harvest.said
    assert "continue" in disturbed.harvest.said
    assert disturbed.again().run() == 0, disturbed.harvest.said
    assert disturbed.lacks() == []

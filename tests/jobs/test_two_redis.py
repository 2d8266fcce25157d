"""Two processes with one MongoDB and two Redis: the second is refused before it fetches. A lost one is no second."""

import re
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester.stores.servers.kinds import SERVERS
from harvester.stores.servers.state import ServerState, running_in
from tests.jobs.running import FINISHED, Runs, Tree, records, states

Document = dict[str, Any]
REFUSED = 2
PAGES, REQUESTS_PER_SECOND = 1000, 20
"""More than are fetched while the second process finds out about the first."""


class Sides:
    """Processes with a private Redis each, in folders of their own, on one MongoDB."""

    def __init__(self, folder: Path, mongodb_uri: str, database: str) -> None:
        self._folder = folder
        self._variables = {"mongodb_uri": mongodb_uri, "database": database, "lease_seconds": "10"}

    def side(self, name: str, **variables: str) -> Runs:
        (self._folder / name).mkdir()
        return Runs(self._folder / name, **self._variables, **variables)

    def redis(self, name: str) -> Path:
        """The folder of its private Redis."""
        return self._folder / name / "state" / "valkey"

    def wait_for_servers(self) -> None:
        for name in SERVERS:
            for folder in self._folder.glob(f"*/state/{name}"):
                if supervisor := running_in(folder, ServerState.read(folder).supervisor_pid):
                    supervisor.wait(240)


@pytest.fixture
async def sides(tmp_path: Path, mongodb_uri: str, mongodb: Database[Document]) -> AsyncIterator[Sides]:
    sides = Sides(tmp_path, mongodb_uri, mongodb.name)
    yield sides
    sides.wait_for_servers()


async def test_a_second_redis_is_refused_before_anything_is_fetched_and_the_first_goes_on(
    sides: Sides, mongodb: Database[Document]
) -> None:
    slowly = {"requests_per_second": str(REQUESTS_PER_SECOND)}
    async with Tree(PAGES) as tree, sides.side("a", **slowly) as a, sides.side("b") as b:
        first = await a.start(urls=tree.url)
        await a.until(lambda: len(tree.arrivals) > 0)
        assert await b.run(urls=tree.url) == REFUSED, b.said
        assert first.returncode is None, a.said
        refusal = re.search(r".*HARVESTER_REDIS_URL.*", b.said)
        assert refusal, b.said
        for state in ("a", "b"):
            assert str(sides.redis(state).parent) in refusal[0]
        assert f":{first.pid}:" in refusal[0]
        assert "(usage_error)" in b.said, "by the conversation in which it would be given requests"
        assert mongodb["job_items"].count_documents({"attempts": {"$gt": 1}}) == 0
        first.terminate()
        assert await a.end(first) == 143
        assert max(tree.count(path) for path in {arrival.path for arrival in tree.arrivals}) == 1


async def test_when_the_first_has_ended_the_second_works_at_the_job(sides: Sides, mongodb: Database[Document]) -> None:
    async with Tree(40) as tree, sides.side("a") as a, sides.side("b") as b:
        first = await a.start(urls=tree.url)
        await a.until(lambda: len(tree.arrivals) > 20)
        await a.kill(first)
        assert await b.run(urls=tree.url) == FINISHED, b.said
        assert f":{first.pid}:" in b.said, "it has waited until it was known whether the first still works"
        assert records(mongodb) == tree.records()
    assert set(states(mongodb)) == {"done"}


async def test_a_private_redis_that_lost_its_files_is_no_second_one(sides: Sides, mongodb: Database[Document]) -> None:
    async with Tree(100) as tree, sides.side("a") as a:
        first = await a.start(urls=tree.url)
        await a.until(lambda: len(tree.arrivals) > 50)
        data = sides.redis("a") / "data"
        server = running_in(data, ServerState.read(data.parent).server_pid)
        assert server
        server.send_signal(signal.SIGSTOP)
        for each in data.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        server.kill()
        second = await a.start(urls=tree.url)
        assert [await a.end(first), await a.end(second)] == [FINISHED, FINISHED], a.said
        assert records(mongodb) == tree.records()
    assert set(states(mongodb)) == {"done"}
    assert "HARVESTER_REDIS_URL" not in a.said

"""A host that cannot be reached is told of soon, and a run ends by itself whose hosts have never answered."""

from typing import Any

import pytest
from pymongo.database import Database

from tests.jobs.running import FINISHED, LEFT, Runs, Tree
from tests.ports import free_port

PATIENT = {"SCRAPY_SETTINGS_MODULE": "tests.endings.patient"}


def told_of(name: str, runs: Runs) -> list[str]:
    """The warnings that name this host."""
    return [line for line in runs.said.splitlines() if " WARNING: " in line and name in line]


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
async def test_a_run_whose_host_never_answers_ends_by_itself_and_names_the_host(
    host: str, runs: Runs, mongodb: Database[dict[str, Any]]
) -> None:
    runs._environment |= PATIENT | {"HARVESTER_UNREACHABLE_SECONDS": "2"}
    name = f"{host}:{free_port()}"
    assert await runs.run(urls=f"http://{name}/") == LEFT, runs.said
    assert len(told_of(name, runs)) >= 2
    [run] = mongodb["runs"].find()
    assert (run["state"], run["finish_reason"], run["exit_code"]) == ("failed", "unreachable", LEFT)
    assert name in run["message"]


async def test_a_run_goes_on_when_its_host_answers_before_the_end(runs: Runs) -> None:
    runs._environment |= PATIENT
    port = free_port()
    process = await runs.start(urls=f"http://127.0.0.1:{port}")
    await runs.until(lambda: bool(told_of(f"127.0.0.1:{port}", runs)))
    tree = Tree(12)
    tree.port = port
    async with tree:
        assert await runs.end(process) == FINISHED, runs.said

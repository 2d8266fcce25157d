"""The folder of the private servers is removed during a run: it ends, says why, and begins no new server."""

import shutil
from pathlib import Path

import pytest

from harvester.exceptions import StateGone
from tests.bad_input.command import Answer
from tests.jobs.running import FINISHED, Holding, Runs


async def test_a_crawl_whose_servers_were_removed_ends_and_says_so(runs_alone: Runs, tmp_path: Path) -> None:
    runs, state = runs_alone, tmp_path / "state"
    async with Holding(20, first=10) as tree:
        process = await runs.start(urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) > 12)
        shutil.rmtree(state, ignore_errors=True)
        tree.goes_on.set()
        assert await runs.end(process) == StateGone.exit_code, runs.said
        said = " ".join(runs.said.rpartition("\nWhy\n")[2].split())
        assert f"{state}/" in said
        assert "removed" in said
        assert "scrapy crawl" not in said, runs.said
        assert Answer(0, runs.said).is_for_people(), runs.said
        assert not list(state.glob("*/data")), "no new server was begun"
        assert await runs.run(urls=tree.url) == FINISHED, "what is typed next begins anew"


@pytest.mark.slow
async def test_workers_whose_servers_were_removed_are_not_started_again(runs_alone: Runs, tmp_path: Path) -> None:
    runs, state = runs_alone, tmp_path / "state"
    async with Holding(20, first=10) as tree:
        process = await runs.work("tree", urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) > 12)
        shutil.rmtree(state, ignore_errors=True)
        tree.goes_on.set()
        assert await runs.end(process) == StateGone.exit_code, runs.said
        assert f"{state}/" in runs.said
        assert "removed" in runs.said
        assert runs.said.count(": started, pid") == 1
        assert not list(state.glob("*/data")), "no new server was begun"

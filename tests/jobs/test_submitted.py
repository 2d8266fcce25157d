"""A job from its submission to its export: submitted, worked at, looked at, tried again, each by its command."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tests.crawling import Answer, until
from tests.forking import Ran
from tests.jobs.command import Jobs
from tests.jobs.running import Tree, records, states

Document = dict[str, Any]
PAGES = 13


@pytest.fixture
def trees(jobs: Jobs, own_redis: str) -> Jobs:
    """Runs `harvester jobs` with the spider `tree`, on a Redis of the test's own."""
    jobs.variables |= {
        "SCRAPY_SETTINGS_MODULE": "tests.jobs.settings",
        "HARVESTER_REDIS_URL": own_redis,
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_STATE_DIR": str(jobs.folder / "state"),
        "NO_PROXY": "127.0.0.1",
    }
    return jobs


@pytest.fixture
async def tree() -> AsyncIterator[Tree]:
    async with Tree(PAGES) as tree:
        yield tree


async def run(trees: Jobs, *words: str) -> Ran:
    return await asyncio.to_thread(trees.run, *words)


async def ask(trees: Jobs, *words: str) -> Any:
    ran = await run(trees, *words, "--json")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


async def submit(trees: Jobs, tree: Tree, *keys: str) -> str:
    path = trees.write("".join(f"{tree.url}/{key}\n" for key in keys), "input.txt")
    submitted = await ask(trees, "submit", "tree", "--input", str(path), "-a", f"urls={tree.url}")
    job: str = submitted["job"]
    return job


async def test_a_job_is_worked_off_and_says_where_all_that_it_brought_lies(
    trees: Jobs, tree: Tree, mongodb: Database[Document]
) -> None:
    job = await submit(trees, tree, "page/1")
    ran = await run(trees, "run", job)
    assert ran.returncode == 0, ran.stderr
    assert (await run(trees, "wait", job)).returncode == 0
    assert records(mongodb) == tree.records()
    shown = await ask(trees, "show", job)
    assert (shown["job"]["state"], shown["states"]) == ("finished", {"done": 2 * PAGES})
    assert shown["stages"] == {"seen from behind": PAGES}
    (item,) = await ask(trees, "items", job, "--text", "/page/7")
    found = [f"{tree.url}/behind/7", f"{tree.url}/page/7"]
    assert sorted(item["results"]["records"]["leaves"]) == found
    assert item["item"]["site"] == tree.name
    await ask(trees, "export", job)
    manifest = (trees.folder / "data" / "exports" / job / "manifest.jsonl").read_text().splitlines()
    rows = {row["key"]: row for row in map(json.loads, manifest)}
    assert len(rows) == 2 * PAGES
    assert sorted(rows[f"{tree.url}/page/7"]["records"]["leaves"]) == found
    assert len((trees.folder / "data" / "exports" / job / "leaves.jsonl").read_text().splitlines()) == 3 * PAGES


async def test_items_that_failed_are_tried_again_and_the_job_is_whole(
    trees: Jobs, tree: Tree, mongodb: Database[Document]
) -> None:
    tree.bad = lambda path, number: 401 if path == "/page/2" else 0
    job = await submit(trees, tree, "page/1")
    assert (await run(trees, "run", job)).returncode == 0
    assert (await run(trees, "wait", job)).returncode == 6
    (failed,) = await ask(trees, "items", job, "--state", "failed")
    assert (failed["item"]["key"], failed["item"]["outcome"]) == (f"{tree.url}/page/2", "auth_required")
    tree.bad = lambda path, number: 0
    assert (await ask(trees, "retry", job, "--failed"))["retried"] == 1
    assert (await run(trees, "run", job)).returncode == 0
    assert (await run(trees, "wait", job)).returncode == 0
    assert states(mongodb) == {"done": 2 * PAGES}
    assert records(mongodb) == tree.records()


async def test_a_paused_job_is_not_worked_at_and_one_that_is_cancelled_is_refused(
    trees: Jobs, tree: Tree, mongodb: Database[Document]
) -> None:
    job = await submit(trees, tree, "page/1")
    await ask(trees, "pause", job, "--reason", "repairs")
    ran = await run(trees, "run", job)
    assert (ran.returncode, job in ran.stderr, "repairs" in ran.stderr) == (7, True, True)
    await ask(trees, "cancel", job, "--yes")
    ran = await run(trees, "run", job)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert all(named in ran.stderr for named in (job, "cancelled"))
    assert states(mongodb) == {"skipped": 1}
    assert tree.arrivals == []


async def test_a_job_may_be_submitted_to_while_it_is_worked_at(
    trees: Jobs, tree: Tree, mongodb: Database[Document]
) -> None:
    path = trees.write(f"{tree.url}/page/{PAGES}\n", "input.txt")
    words = ("submit", "tree", "-a", f"urls={tree.url}", "--idempotency-key", "monday", "--input", str(path))
    job = (await ask(trees, *words))["job"]
    tree.bad = lambda path, number: 503 if path == f"/page/{PAGES}" and number == 0 else 0
    running = asyncio.create_task(run(trees, "run", job))
    trees.write(f"{tree.url}/page/1\n", "input.txt")
    assert (await ask(trees, *words))["accepted"] == 1
    assert (await running).returncode == 0
    await run(trees, "run", job)
    assert states(mongodb) == {"done": 2 * PAGES}


class SlowTree(Tree):
    """Some pages are not answered before `on` is set."""

    def __init__(self, pages: int, *held: str) -> None:
        super().__init__(pages)
        self.held = held
        self.on = asyncio.Event()

    async def answer(self, path: str, number: int) -> Answer:
        if path in self.held:
            await self.on.wait()
        return await super().answer(path, number)


async def test_the_manifest_is_read_while_the_job_is_worked_at(trees: Jobs, mongodb: Database[Document]) -> None:
    async def manifest() -> dict[str, Any]:
        (written,) = await ask(trees, "export", job, "--only", "manifest")
        lines = (await asyncio.to_thread(Path(written["path"]).read_text)).splitlines()
        assert len(lines) == written["rows"]
        return {row["key"]: row for row in map(json.loads, lines)}

    async with SlowTree(4, "/page/4") as tree:
        job = await submit(trees, tree, "page/1")
        running = asyncio.create_task(ask(trees, "run", job))
        done = {"key": f"{tree.url}/page/3", "state": "done"}
        await until(lambda: mongodb["job_items"].count_documents(done) == 1)
        rows = await manifest()
        ended, begun = rows[f"{tree.url}/page/3"], rows[f"{tree.url}/page/4"]
        tree.on.set()
        assert (ended["outcome"], ended["attempts"], ended["reason"], ended["files"]) == ("ok", 1, None, [])
        assert sorted(ended["records"]["leaves"]) == [f"{tree.url}/behind/3", f"{tree.url}/page/3"]
        assert ended["created_at"] <= ended["fed_at"] <= ended["history"][0]["at"] <= ended["updated_at"]
        assert (begun["state"], begun["records"]) == ("active", {})
        assert (await running)["state"] == "finished"
        assert {row["state"] for row in (await manifest()).values()} == {"done"}

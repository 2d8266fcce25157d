"""`harvester worker` without a spider works at all open jobs, shares its processes, and ends with the last of them."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo.database import Database

from tests.forking import Forked, fork
from tests.jobs.command import HARVESTER
from tests.jobs.running import FINISHED, LEFT, Holding, Runs, Tree, jobs, records, states
from tests.worker.running import gone

Document = dict[str, Any]


class Working(Runs):
    """`harvester worker` and `harvester jobs` as processes."""

    async def work(self, *words: str, **arguments: object) -> Forked:
        return await super().work(*words, "--drain-seconds", "240", **arguments)

    async def jobs(self, *words: str) -> Any:
        return await self._told("jobs", *words)

    async def schedule(self, *words: str) -> Any:
        return await self._told("schedule", *words)

    async def _told(self, *words: str) -> Any:
        process = await fork(HARVESTER, *words, "--json", cwd=self._folder, env=self._environment)
        out, log = await process.end(240)
        assert process.returncode == 0, log
        return json.loads(out)

    async def submit(self, spider: str, tree: Tree, *pages: int) -> str:
        """The job of these pages."""
        path = self._folder / f"{spider}.txt"
        path.write_text("".join(f"{tree.url}/page/{page}\n" for page in pages))
        words = ("submit", spider, "--input", str(path), "-a", f"urls={tree.url}")
        job: str = (await self.jobs(*words))["job"]
        return job

    def started(self, spider: str) -> list[int]:
        """Ids of the processes that were started for it."""
        return [int(pid) for pid in re.findall(rf"Worker \d+ \({spider}\): started, pid (\d+)", self.said)]

    def check_nothing_runs(self) -> None:
        pids = re.findall(r": started, pid (\d+)", self.said)
        assert pids
        assert all(gone(int(pid)) for pid in pids)


MAKES_ROOM = r"Worker \d+ \(tree\) .*\bpatient_tree\b"
NOTHING_TO_DO = "Nothing to do"


@pytest.fixture
async def working(
    tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[Document]
) -> AsyncIterator[Working]:
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Working(tmp_path, **variables) as working:
        working._environment |= {"SCRAPY_SETTINGS_MODULE": "tests.worker.jobs_settings", "NO_LIVE": "1"}
        yield working


async def test_a_large_and_a_small_job_of_two_spiders_end_with_one_command(
    working: Working, mongodb: Database[Document]
) -> None:
    async with Tree(60) as large, Tree(3) as small:
        await working.submit("tree", large, 1)
        await working.submit("patient_tree", small, 1)
        assert await working.end(await working.work("--processes", "2")) == FINISHED, working.said
        assert records(mongodb) == large.records() | small.records()
        assert large.count("/page/1") == small.count("/page/1") == 1
    assert set(jobs(mongodb).values()) == {"finished"}
    assert states(mongodb) == {"done": 126}
    assert working.started("tree")
    assert working.started("patient_tree")
    working.check_nothing_runs()


@pytest.mark.slow
async def test_a_job_that_comes_later_gets_a_process_of_a_spider_that_has_several(
    working: Working, mongodb: Database[Document]
) -> None:
    working._environment["HARVESTER_REQUESTS_PER_SECOND"] = "20"  # of each site: the large one takes minutes
    async with Tree(0) as large, Tree(3) as small:
        await working.submit("tree", large, *range(1000, 1400))
        process = await working.work("--processes", "2")
        await working.until(lambda: len(working.started("tree")) == 2 and len(large.arrivals) > 30)
        job = await working.submit("patient_tree", small, 1)
        await working.until(lambda: jobs(mongodb)[job] == "finished")
        assert re.search(MAKES_ROOM, working.said)
        assert "open" in jobs(mongodb).values(), "the large one goes on meanwhile"
        process.terminate()
        assert await working.end(process) == 143, working.said
    working.check_nothing_runs()


@pytest.mark.slow
async def test_a_spider_whose_process_is_started_again_before_its_turn_is_over_makes_room_too(
    working: Working, mongodb: Database[Document]
) -> None:
    working._environment |= {"TURN_S": "4", "WINDOW": "50"}
    async with Tree(0) as large, Tree(3) as small:
        await working.submit("tree", large, *range(1000, 3000))
        process = await working.work()
        await working.until(lambda: len(large.arrivals) > 0)
        job = await working.submit("patient_tree", small, 1)
        killed: set[int] = set()

        def makes_room() -> bool:
            return re.search(MAKES_ROOM, working.said) is not None

        while not makes_room():
            assert len(killed) < 100, working.said
            await working.until(lambda: makes_room() or not killed.issuperset(working.started("tree")))
            fetched = len(large.arrivals)
            await working.until(lambda: makes_room() or len(large.arrivals) > fetched)  # noqa: B023
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(working.started("tree")[-1]).kill()
            killed.update(working.started("tree"))
        await working.until(lambda: jobs(mongodb)[job] == "finished")
        process.terminate()
        assert await working.end(process) == 143, working.said
    working.check_nothing_runs()


@pytest.mark.slow
async def test_the_death_of_a_process_that_makes_room_does_not_count(
    working: Working, mongodb: Database[Document]
) -> None:
    working._environment["TURN_S"] = "1"
    async with Holding(3) as tree, Tree(3) as other:
        await working.submit("tree", tree, 1)
        process = await working.work()
        await working.until(lambda: tree.count("/page/1") == 1)
        await working.submit("patient_tree", other, 1)
        await working.until(lambda: bool(re.search(MAKES_ROOM, working.said)))
        psutil.Process(*working.started("tree")).kill()
        tree.goes_on.set()
        assert await working.end(process) == FINISHED, working.said
        assert records(mongodb) == tree.records() | other.records()
    assert "(SIGKILL)" in working.said


async def test_a_worker_that_waits_for_jobs_begins_one_when_it_comes(
    working: Working, mongodb: Database[Document]
) -> None:
    working._environment["HARVESTER_IDLE_SECONDS"] = "-1"
    async with Tree(5) as tree:
        process = await working.work()
        for first in (1, 2):
            await working.until(lambda: NOTHING_TO_DO in working.said)
            job = await working.submit("tree", tree, first)
            await working.until(lambda job=job: jobs(mongodb)[job] == "finished")  # type: ignore[misc]
        assert "`harvester jobs submit`" in working.said
        process.terminate()
        assert await working.end(process) == 143, working.said
    assert records(mongodb) == tree.records()
    working.check_nothing_runs()


async def test_a_signal_drains_all_and_the_same_command_goes_on(working: Working, mongodb: Database[Document]) -> None:
    async with Holding(40, first=30) as tree, Holding(40, first=30) as other:
        await working.submit("tree", tree, 1)
        await working.submit("patient_tree", other, 1)
        process = await working.work("--processes", "2")
        await working.until(lambda: len(tree.arrivals) > 30 and len(other.arrivals) > 30)
        process.terminate()
        await working.until(lambda: working.said.count("Closing spider (shutdown)") == 2)
        tree.goes_on.set()
        other.goes_on.set()
        assert await working.end(process) == 143, working.said
        assert working.said.count("Spider closed (shutdown)") == 2
        working.check_nothing_runs()
        assert "waiting" in states(mongodb) or "active" in states(mongodb)
        assert await working.end(await working.work("--processes", "2")) == FINISHED, working.said
        assert records(mongodb) == tree.records() | other.records()
    assert states(mongodb) == {"done": 160}


@pytest.mark.slow
async def test_a_paused_job_gets_no_process(working: Working, mongodb: Database[Document]) -> None:
    async with Tree(3) as tree, Tree(3) as paused:
        await working.submit("tree", tree, 1)
        job = await working.submit("patient_tree", paused, 1)
        await working.jobs("pause", job)
        assert await working.end(await working.work("--processes", "2")) == FINISHED, working.said
        assert (working.started("patient_tree"), paused.arrivals) == ([], [])
        assert records(mongodb) == tree.records()
    assert states(mongodb) == {"done": 6, "waiting": 1}


async def test_items_that_wait_for_longer_than_it_may_wait_are_left_with_a_word(
    working: Working, mongodb: Database[Document]
) -> None:
    async with Tree(3) as tree:
        tree.bad = lambda path, number: 503 if path == "/page/2" else 0
        await working.submit("patient_tree", tree, 1)
        assert await working.end(await working.work()) == LEFT, working.said
        assert re.search(r" left .*\bpatient_tree\b", working.said)
        assert NOTHING_TO_DO not in working.said, "it does not wait"
    assert states(mongodb) == {"done": 4, "waiting": 1}
    working.check_nothing_runs()


@pytest.mark.slow
async def test_a_spider_that_rested_long_ago_is_waited_for_when_it_rests_again(
    working: Working, mongodb: Database[Document]
) -> None:
    working._environment["HARVESTER_PARKED_SECONDS"] = "5"
    async with Tree(1) as first, Tree(1) as second, Holding(1) as other:
        await working.submit("patient_tree", other, 1)
        first.bad = second.bad = lambda path, number: 503
        job = await working.submit("tree", first, 1)
        process = await working.work("--processes", "2")
        await working.until(lambda: jobs(mongodb)[job] == "finished")
        await asyncio.sleep(6)
        job = await working.submit("tree", second, 1)
        mongodb["jobs"].update_one({"_id": job}, {"$set": {"backoff_s": 3.0}})
        await working.until(lambda: bool(mongodb["job_items"].count_documents({"job": job, "failures": 1})))
        second.bad = lambda path, number: 0
        other.goes_on.set()
        assert await working.end(process) == FINISHED, working.said
        assert records(mongodb) == second.records() | other.records()


async def test_what_is_active_in_nobodys_hands_is_worked_at(working: Working, mongodb: Database[Document]) -> None:
    """A process was killed that had begun the only item."""
    async with Tree(3) as tree:
        await working.submit("tree", tree, 1)
        begun = {"state": "active", "attempts": 1, "feeder": "dead", "fed_at": datetime(2026, 1, 1, tzinfo=UTC)}
        mongodb["job_items"].update_one({}, {"$set": begun})
        assert await working.end(await working.work()) == FINISHED, working.said
        assert records(mongodb) == tree.records()


@pytest.mark.parametrize(
    ("words", "left"), [(("pause",), "waiting"), pytest.param(("cancel", "--yes"), "skipped", marks=pytest.mark.slow)]
)
async def test_what_a_run_that_ended_early_has_begun_comes_to_its_end_though_its_job_was_stopped_since(
    working: Working, mongodb: Database[Document], words: tuple[str, ...], left: str
) -> None:
    async with Holding(40, first=30) as tree:
        job = await working.submit("tree", tree, 1)
        process = await working.start("tree", job=job)
        await working.until(lambda: len(tree.arrivals) > 30)
        process.kill()
        await working.end(process)
        tree.goes_on.set()
        await working.jobs(words[0], job, *words[1:])
        assert states(mongodb)["active"]
        assert await working.end(await working.work()) == FINISHED, working.said
    assert set(states(mongodb)) == {"done", left}


@pytest.mark.parametrize(
    ("spider", "code", "said"),
    [
        ("refused_tree", 2, r"\brefused_tree\b.* any more"),
        pytest.param(
            "broken_tree",
            1,
            r"\b3 times\b.*\bbroken_tree\b",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_a_spider_that_cannot_be_started_stops_no_other(
    working: Working, mongodb: Database[Document], spider: str, code: int, said: str
) -> None:
    working._environment["HARVESTER_MAX_DELIVERIES"] = "1"
    async with Tree(3) as tree:
        await working.submit("tree", tree, 1)
        await working.submit(spider, tree, 1)
        assert await working.end(await working.work("--processes", "2")) == code, working.said
        assert re.search(said, working.said)
        assert records(mongodb) == tree.records()
    assert sorted(jobs(mongodb).values()) == ["finished", "open"]


async def test_a_spider_of_which_every_process_dies_gets_none_for_a_while(
    working: Working, mongodb: Database[Document]
) -> None:
    working._environment["HARVESTER_MAX_DELIVERIES"] = "1"
    async with Tree(3) as tree:
        await working.submit("broken_tree", tree, 1)
        assert await working.end(await working.work("--processes", "2")) == 1, working.said
    assert len(re.findall(r"\bbroken_tree\b.* 1 min 00 s", working.said)) <= 2, "once for each process"
    assert len(working.started("broken_tree")) <= 2 * 3
    assert states(mongodb) == {"waiting": 1}


async def test_open_jobs_are_named_whose_spider_the_project_does_not_have(
    working: Working, mongodb: Database[Document]
) -> None:
    async with Tree(3) as tree:
        await working.submit("tree", tree, 1)
        await working.submit("patient_tree", tree, 1)
        mongodb["jobs"].update_one({"spider": "patient_tree"}, {"$set": {"spider": "moved"}})
        assert await working.end(await working.work()) == FINISHED, working.said
        assert records(mongodb) == tree.records()
    assert len(re.findall(r"\bmoved\b", working.said)) == 1


@pytest.mark.slow
async def test_a_schedule_whose_items_cannot_be_read_stops_no_spider(
    working: Working, mongodb: Database[Document]
) -> None:
    keys = working._folder / "keys"
    keys.write_text("one\n")
    await working.schedule("add", "lines", "listed", "-a", f"keys={keys}", "--every", "1h")
    keys.unlink()
    mongodb["schedules"].update_one({}, {"$set": {"next_at": datetime(2026, 1, 1, tzinfo=UTC)}})
    async with Tree(40) as tree:
        job = await working.submit("tree", tree, 1)
        process = await working.work("--processes", "2")
        await working.until(lambda: jobs(mongodb)[job] == "finished")
        process.terminate()
        assert await working.end(process) == 143, working.said
        assert records(mongodb) == tree.records()
    assert working.said.count("FileNotFoundError: ") == 1
    assert jobs(mongodb) == {job: "finished"}, "nothing is left of the one that could not be begun"


async def test_without_open_jobs_it_ends(working: Working) -> None:
    assert await working.end(await working.work()) == FINISHED
    assert "HARVESTER_IDLE_SECONDS=-1" in working.said


async def test_a_spider_that_needs_arguments_has_them_from_its_open_jobs(
    working: Working, mongodb: Database[Document]
) -> None:
    async with Tree(3) as tree, Tree(3) as other:
        await working.submit("tree", tree, 1)
        left = await working.submit("patient_tree", other, 1)
        assert await working.end(await working.work("tree")) == FINISHED, working.said
        assert jobs(mongodb)[left] == "open"
        assert set(jobs(mongodb).values()) == {"open", "finished"}
        assert not other.arrivals


async def test_arguments_are_those_of_a_spider(working: Working) -> None:
    process = await working.work("-a", "urls=x")
    assert await working.end(process) == 2
    assert "-a: " in working.said

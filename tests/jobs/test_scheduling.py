"""Schedules on a real MongoDB: begun once for each time, by several at once, killed whenever."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pymongo.database import Database

from harvester.exceptions import JobConflict, UnknownJob
from harvester.items.found import MOST_INPUT_BYTES
from harvester.jobs.control import Control
from harvester.jobs.documents import Job, JobState
from harvester.jobs.ledger import now
from harvester.jobs.schedules import CatchUp, Overlap, Schedule
from harvester.jobs.scheduling import ScheduleChange, Schedules
from harvester.jobs.transitions import Removed
from tests.crawling import LONGEST_S
from tests.forking import Forked, fork
from tests.jobs.conftest import Killed, Ledgers, after_operations, nowhere, pages
from tests.jobs.test_standing import MORNING, Clock, clock
from tests.root import ROOT

Document = dict[str, Any]
MOST_OPERATIONS = 22
"""More than it takes to begin a schedule with few items."""

__all__ = ["clock"]


@pytest.fixture(autouse=True)
def _project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.settings")


def schedule(name: str = "s", **fields: Any) -> Schedule:
    """Due in the morning, and each hour from then on. Each job has three items."""
    arguments = {"urls": "http://site.example", "first": "1,2,3"}
    given: dict[str, Any] = {
        "spider": "tree",
        "arguments": arguments,
        "cron": "0 * * * *",
        "created_at": MORNING,
        "next_at": MORNING,
    }
    return Schedule(id=name, **(given | fields))


async def begin(ledgers: Ledgers) -> list[str]:
    """The jobs that are begun now."""
    return [begun.job for begun in await Schedules(ledgers.another()).begin_due()]


async def all_jobs(ledgers: Ledgers) -> list[Document]:
    return await ledgers.database["jobs"].find(sort=[("created_at", 1), ("_id", 1)]).to_list()


async def finish(ledgers: Ledgers, job: str) -> None:
    await ledgers.database["jobs"].update_one({"_id": job}, {"$set": {"state": JobState.FINISHED}})


async def test_a_time_begins_one_job_with_its_items_and_the_next_one_comes_in_an_hour(
    ledgers: Ledgers, clock: Clock
) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule(priority=3))
    clock.turn(seconds=-1)
    assert await begin(ledgers) == []
    clock.turn(seconds=1)
    (job,) = await begin(ledgers)
    assert await begin(ledgers) == []
    (known,) = await all_jobs(ledgers)
    assert (known["_id"], known["name"], known["priority"], known["spider"]) == (job, "s", 3, "tree")
    assert sorted(await ledgers.items()) == [f"http://site.example/page/{number}" for number in (1, 2, 3)]
    told = await schedules.named("s")
    assert (told.begun_at, told.last_job, told.next_at) == (MORNING, job, MORNING + timedelta(hours=1))
    assert await schedules.next_at() == MORNING + timedelta(hours=1)


async def test_a_schedule_of_hashtags_begins_with_what_its_arguments_name(
    ledgers: Ledgers, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "harvester.settings")
    arguments = {"sources": "google,mastodon", "tags": "cats", "regions": "US", "instances": "a.example"}
    await Schedules(ledgers.another()).add(schedule(spider="hashtags", arguments=arguments))
    assert await begin(ledgers) != [""]
    assert sorted(await ledgers.items()) == ["google US", "mastodon a.example", "mastodon a.example #cats"]


async def test_a_time_at_which_the_arguments_name_nothing_begins_no_job_and_says_so(
    ledgers: Ledgers, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job without an item is never finished, and would keep all later times from being begun."""
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "harvester.settings")
    schedules = Schedules(ledgers.another())
    arguments = {"sources": "bluesky", "collect": "counts"}
    await schedules.add(schedule(spider="hashtags", arguments=arguments))
    assert await begin(ledgers) == [""]
    assert await all_jobs(ledgers) == []
    assert "arguments" in (await schedules.named("s")).said


@pytest.mark.parametrize("operations", range(1, MOST_OPERATIONS))
async def test_whenever_one_is_killed_the_next_begins_the_same_job_and_no_other(
    ledgers: Ledgers, clock: Clock, operations: int
) -> None:
    await Schedules(ledgers.another()).add(schedule())
    try:
        await Schedules(ledgers.another(operations)).begin_due()
    except Killed:
        assert operations < MOST_OPERATIONS - 1
    for _ in range(2):
        await begin(ledgers)
    (job,) = await all_jobs(ledgers)
    assert len(await ledgers.items()) == 3
    assert (await Schedules(ledgers.another()).named("s")).last_job == job["_id"]


@pytest.mark.parametrize("operations", [0, 1])
async def test_a_time_that_another_has_dealt_with_does_not_come_back_and_its_job_stays_finished(
    ledgers: Ledgers, clock: Clock, operations: int
) -> None:
    """While the slow one has read which schedules are due, and while it has read this one."""
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule(queue=(MORNING - timedelta(hours=1),)))
    clock.turn(seconds=-1)
    slow = ledgers.another()

    async def meanwhile() -> None:
        (first,) = await begin(ledgers)
        await finish(ledgers, first)
        clock.turn(seconds=1)

    after_operations(slow, operations, meanwhile)
    begun = await Schedules(slow).begin_due() + await schedules.begin_due()
    assert [each.at for each in begun] == [MORNING]
    first, second = await all_jobs(ledgers)
    assert (first["state"], second["state"]) == (JobState.FINISHED, JobState.OPEN)


async def test_what_is_due_is_read_again_before_it_is_begun(ledgers: Ledgers, clock: Clock) -> None:
    """Those before it may have taken long, while another has dealt with all of them."""
    for name in ("s", "t"):
        await Schedules(ledgers.another()).add(schedule(name, queue=(MORNING,), next_at=MORNING + timedelta(hours=1)))
    slow = ledgers.another()

    async def meanwhile() -> None:
        for job in await begin(ledgers):
            await finish(ledgers, job)

    slow.meanwhile = meanwhile
    assert await Schedules(slow).begin_due() == []
    assert [job["state"] for job in await all_jobs(ledgers)] == 2 * [JobState.FINISHED]


async def test_who_looks_by_times_that_were_changed_meanwhile_notes_nothing(ledgers: Ledgers, clock: Clock) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule(cron="0 6 * * *", queue=(MORNING - timedelta(days=1),)))
    clock.turn(seconds=-1)
    slow = ledgers.another()

    async def meanwhile() -> None:
        await schedules.change("s", ScheduleChange(cron="0 * * * *"))
        clock.turn(seconds=1)

    after_operations(slow, 1, meanwhile)
    await Schedules(slow).begin_due()
    await begin(ledgers)
    assert (await schedules.named("s")).next_at == MORNING + timedelta(hours=1)


@pytest.mark.parametrize(("number", "kills"), [(30, 3), pytest.param(100, 20, marks=pytest.mark.soak)])
async def test_schedules_that_are_due_at_once_each_begin_once_with_two_workers_that_are_killed(
    ledgers: Ledgers, mongodb_uri: str, mongodb: Database[Document], tmp_path: Path, number: int, kills: int
) -> None:
    schedules = Schedules(ledgers.another())
    at = now()
    due = {"created_at": at, "next_at": at, "cron": "", "every_s": 86_400}
    for each in range(number):
        await schedules.add(schedule(f"s{each}", **due))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "tests.jobs.settings"}

    async def worker() -> Forked:
        return await fork("tests.jobs.scheduling", mongodb_uri, mongodb.name, cwd=tmp_path, env=environment)

    async def until(reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONGEST_S):
            while not reached():
                assert all(each.returncode is None for each in workers)
                await asyncio.sleep(0.01)

    workers = [await worker(), await worker()]
    try:
        for kill in range(1, kills + 1):
            least = kill * number // (kills + 2)
            await until(lambda least=least: mongodb["jobs"].estimated_document_count() >= least)  # type: ignore[misc]
            victim = workers.pop(0)
            victim.kill()
            await victim.communicate()  # to the end of its pipes, else they are left open
            workers.append(await worker())
        waiting = {"$or": [{"begun_at": None}, {"queue.0": {"$exists": True}}]}
        await until(lambda: mongodb["schedules"].count_documents(waiting) == 0)
    finally:
        for process in workers:
            process.kill()
            await process.communicate()
    jobs = list(mongodb["jobs"].find())
    assert Counter(job["name"] for job in jobs) == {f"s{each}": 1 for each in range(number)}
    items = Counter(item["job"] for item in mongodb["job_items"].find({}, {"job": 1}))
    assert items == {job["_id"]: 3 for job in jobs}
    assert {each.last_job for each in await schedules.all()} == {job["_id"] for job in jobs}


async def test_while_the_last_job_goes_on_a_time_is_skipped_or_waits_or_joins(ledgers: Ledgers, clock: Clock) -> None:
    schedules = Schedules(ledgers.another())
    for overlap in Overlap:
        await schedules.add(schedule(overlap, overlap=overlap))
    await begin(ledgers)
    first = {each.id: each.last_job for each in await schedules.all()}
    await ledgers.database["job_items"].delete_one({"job": first["join"]})
    clock.turn(hours=1)
    assert sorted(await begin(ledgers)) == ["", first["join"]]
    told = {each.id: each for each in await schedules.all()}
    assert f"was skipped: {first['skip']} is not finished" in told["skip"].said
    assert told["queue"].queue == (MORNING + timedelta(hours=1),)
    items = Counter(row["job"] for row in await ledgers.database["job_items"].find().to_list())
    assert items == dict.fromkeys(first.values(), 3)
    clock.turn(minutes=30)
    assert await begin(ledgers) == []
    await finish(ledgers, first["queue"])
    (second,) = await begin(ledgers)
    assert second not in first.values()
    assert (await schedules.named("queue")).begun_at == MORNING + timedelta(hours=1)


async def test_times_that_were_missed_are_made_up_for_one_after_the_other(ledgers: Ledgers, clock: Clock) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule("all", catch_up=CatchUp.ALL, overlap=Overlap.QUEUE))
    await schedules.add(schedule("once", catch_up=CatchUp.ONCE))
    await schedules.add(schedule("none", catch_up=CatchUp.NONE))
    clock.turn(hours=2, minutes=30)
    assert len(await begin(ledgers)) == 2
    begun = {each.id: each.begun_at for each in await schedules.all()}
    assert begun == {"all": MORNING, "once": MORNING + timedelta(hours=2), "none": None}
    assert "was passed over" in (await schedules.named("none")).said
    for hours in (1, 2):
        await finish(ledgers, (await schedules.named("all")).last_job)
        await begin(ledgers)
        assert (await schedules.named("all")).begun_at == MORNING + timedelta(hours=hours)


async def test_each_job_gets_the_items_with_which_another_began(ledgers: Ledgers, clock: Clock) -> None:
    ledger = ledgers.another()
    source: Job = (await ledger.open_job("tree", "f" * 16, arguments={"urls": "http://site.example"})).job
    await ledger.add(source.id, pages("a", "b", "c", input={"n": 1}), nowhere)
    await ledger.add(source.id, pages("found later"), nowhere, depth=1)
    await ledger.apply([(f"{source.id}:page:c", Removed())])
    await Schedules(ledger).add(schedule(job=source.id, arguments={}))
    (job,) = await begin(ledgers)
    rows = await ledger.items.find({"job": job}).to_list()
    assert {row["key"]: row["input"] for row in rows} == {"a": {"n": 1}, "b": {"n": 1}}


async def test_a_time_for_which_no_job_can_be_made_is_passed_over_and_says_why(ledgers: Ledgers, clock: Clock) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule("gone", job="tree-00000000"))
    await schedules.add(schedule("bad", arguments={"colour": "blue"}))
    await schedules.add(schedule("strange", spider="nobody"))
    await schedules.add(schedule("long", arguments={"urls": f"http://site.example/{'x' * MOST_INPUT_BYTES}"}))
    assert await begin(ledgers) == ["", "", "", ""]
    said = {each.id: each.said for each in await schedules.all()}
    for name, named in (("gone", "tree-00000000"), ("bad", "colour"), ("strange", "'nobody'"), ("long", "page: ")):
        assert named in said[name]
    assert f"{MOST_INPUT_BYTES:,}" in said["long"]
    assert await begin(ledgers) == []


async def test_in_a_pause_nothing_is_begun_and_nothing_made_up_for(ledgers: Ledgers, clock: Clock) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule())
    await schedules.pause("s")
    assert await schedules.next_at() is None
    clock.turn(hours=5, minutes=30)
    assert await begin(ledgers) == []
    assert await schedules.resume("s") == MORNING + timedelta(hours=6)
    assert await schedules.resume("s") == MORNING + timedelta(hours=6)
    assert await begin(ledgers) == []
    clock.turn(minutes=30)
    assert len(await begin(ledgers)) == 1
    await schedules.remove("s")
    with pytest.raises(UnknownJob, match="'s'"):
        await schedules.remove("s")
    assert len(await all_jobs(ledgers)) == 1


async def test_a_pause_and_its_end_set_right_what_a_clock_that_was_ahead_has_noted(
    ledgers: Ledgers, clock: Clock
) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule())
    clock.turn(days=365)
    (job,) = await begin(ledgers)
    await finish(ledgers, job)
    clock.turn(days=-365)
    await schedules.pause("s")
    assert await schedules.resume("s") == MORNING + timedelta(hours=1)
    clock.turn(hours=1)
    assert len(await begin(ledgers)) == 1


async def test_a_pause_that_is_taken_back_was_none(ledgers: Ledgers, clock: Clock) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule())
    await schedules.pause("s")
    clock.turn(minutes=30)
    assert await schedules.resume("s", as_before=True) == MORNING
    assert len(await begin(ledgers)) == 1


async def test_of_two_who_end_a_pause_the_slow_one_brings_no_time_back(ledgers: Ledgers, clock: Clock) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule(paused=True))
    clock.turn(seconds=-1)
    ledgers.clock = Clock()
    ledgers.clock.turn(seconds=-1)  # it stays then: whoever is slow writes later what was found by it
    slow = ledgers.another()
    ledgers.clock = clock

    async def meanwhile() -> None:
        await schedules.resume("s")
        clock.turn(seconds=1)
        assert len(await begin(ledgers)) == 1

    slow.meanwhile = meanwhile
    assert await Schedules(slow).resume("s") == MORNING + timedelta(hours=1)
    assert await begin(ledgers) == []


async def test_two_schedules_have_two_names(ledgers: Ledgers) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule())
    with pytest.raises(JobConflict, match="'s'"):
        await schedules.add(replace(schedule(), spider="patient_tree"))
    assert (await schedules.named("s")).spider == "tree"


async def test_a_job_of_a_schedule_that_was_cancelled_gets_no_items(ledgers: Ledgers, clock: Clock) -> None:
    schedules = Schedules(ledgers.another())
    await schedules.add(schedule(overlap=Overlap.JOIN))
    (job,) = await begin(ledgers)
    await Control(ledgers.another()).cancel(job)
    clock.turn(hours=1)
    (second,) = await begin(ledgers)
    assert second != job

"""A job is given items by whoever began it, or serves a start list, and may be killed at any moment."""

import math
import re
from typing import Any, cast

import pytest
from redis.asyncio import Redis
from scrapy.utils.test import get_crawler

from harvester.config import DATABASE
from harvester.frontier.keys import prefix_of
from harvester.frontier.start_list import StartList
from harvester.items import Found
from harvester.items.found import MOST_INPUT_BYTES
from harvester.jobs.control import Control
from harvester.jobs.documents import ItemState, JobState
from harvester.jobs.job_opener import OpensJobs, file_entries, give_items, open_job_of
from harvester.jobs.start_lists import Serving
from tests.jobs.conftest import Killed, Ledgers, OneLedger
from tests.jobs.spiders import TreeArguments, TreeSpider
from tests.jobs.test_ledger import claim, end

SPIDER = cast(OpensJobs, TreeSpider)
ARGUMENTS = TreeArguments(urls="http://site.example", first="1,2,3,4,5")
KEYS = {f"http://site.example/page/{number}" for number in range(1, 6)}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items are added two at a time."""
    monkeypatch.setattr("harvester.jobs.ledger.CHUNK", 2)


async def give(ledger: OneLedger) -> str:
    """As `scrapy crawl` does; the job."""
    job, _ = await open_job_of(ledger, SPIDER, ARGUMENTS, incomplete=True)
    await give_items(ledger, SPIDER, job, TreeSpider.first_items(ARGUMENTS))
    return job.id


async def work_off(ledger: OneLedger, job: str) -> bool:
    """As another process does; whether the job is finished then."""
    while items := await claim(ledger, job, 10):
        await end(ledger, items)
    return await ledger.finish(job)


async def jobs_of(ledgers: Ledgers) -> list[dict[str, Any]]:
    return await ledgers.database["jobs"].find().to_list()


async def test_a_job_whose_giver_was_killed_anywhere_gets_the_rest_by_the_same_command_and_no_second_one_is_made(
    ledgers: Ledgers,
) -> None:
    ledger, operations, was_left_open = ledgers.another(), 0, 0
    while True:
        operations += 1
        try:
            await give(ledgers.another(operations))
        except Killed:
            for job in await jobs_of(ledgers):
                assert not await work_off(ledger, job["_id"]), operations
                was_left_open += 1
        else:
            break
        job_id = await give(ledgers.another())
        assert await work_off(ledger, job_id), operations
        assert [job["_id"] for job in await jobs_of(ledgers)] == [job_id], operations
        items = await ledgers.database["job_items"].find().to_list()
        assert sorted(item["key"] for item in items) == sorted(KEYS)
        assert {item["attempts"] for item in items} == {1}
        for name in ("jobs", "job_items"):
            await ledgers.database[name].delete_many({})
    assert was_left_open > 5
    assert await work_off(ledger, (await jobs_of(ledgers))[0]["_id"])


async def test_what_two_give_together_is_complete_when_one_has_given_it(ledgers: Ledgers) -> None:
    slow, _ = await open_job_of(ledgers.another(), SPIDER, ARGUMENTS, incomplete=True)
    assert await give(ledgers.another()) == slow.id
    assert await work_off(ledgers.another(), slow.id)
    await give_items(ledgers.another(), SPIDER, slow, TreeSpider.first_items(ARGUMENTS))
    known = await ledgers.another().job(slow.id)
    assert known
    assert known.state is JobState.FINISHED
    assert set((await ledgers.states()).values()) == {ItemState.DONE}
    assert len(await jobs_of(ledgers)) == 1


async def test_a_paused_job_that_is_incomplete_stays_so_until_it_is_given_its_items(ledgers: Ledgers) -> None:
    with pytest.raises(Killed):
        await give(ledgers.another(8))
    ledger = ledgers.another()
    (job,) = await jobs_of(ledgers)
    await Control(ledger).pause(job["_id"])
    await give(ledger)  # of a paused job nothing is asked
    await Control(ledger).resume(job["_id"])
    assert not await work_off(ledger, job["_id"])
    await give(ledger)
    assert await work_off(ledger, job["_id"])


async def test_a_cancelled_job_that_is_incomplete_has_a_next_one(ledgers: Ledgers) -> None:
    with pytest.raises(Killed):
        await give(ledgers.another(8))
    ledger = ledgers.another()
    (job,) = await jobs_of(ledgers)
    await Control(ledger).cancel(job["_id"])
    assert await give(ledger) != job["_id"]
    known = await ledger.job(job["_id"])
    assert known is not None
    assert known.state is JobState.CANCELLED


STATS = get_crawler().stats


class Servers:
    """Workers that serve one start list, each killed after so many operations on Redis and MongoDB together."""

    def __init__(self, ledgers: Ledgers, redis: Redis) -> None:
        self._ledgers = ledgers
        self._redis: Any = redis  # its annotations mix answers of bytes and of str
        self._stats = STATS
        self.start_list = StartList(redis, "tree")

    async def file_entries(self, operations: float = math.inf) -> None:
        ledger, start_list = self._ledgers.another(operations), StartList(self._redis, "tree")

        async def add(arguments: str, found: list[Found]) -> None:
            asked_for = TreeArguments.model_validate_json(arguments)
            await file_entries(ledger, SPIDER, start_list, ledger.run, asked_for, found)

        def read(entry: bytes) -> tuple[str, list[Found]]:
            site, _, number = entry.decode().rpartition("/page/")
            return TreeArguments(urls=site).model_dump_json(), [Found("page", f"{site}/page/{number}")]

        await Serving(start_list, ledger.run, self._stats, read, add).file_entries()

    async def silence(self) -> None:
        """None of them was heard for a lease."""
        workers = f"{prefix_of('tree', DATABASE)}start:workers"
        for worker in await self._redis.zrange(workers, 0, -1):
            await self._redis.zadd(workers, {worker: 1})


ENTRIES = [f"http://{site}.example/page/{number}" for site in ("one", "two") for number in range(1, 4)]


@pytest.mark.parametrize(
    "before", [pytest.param(False, id="new jobs"), pytest.param(True, id="jobs that are open", marks=pytest.mark.slow)]
)
async def test_entries_of_a_worker_that_was_killed_anywhere_are_done_once_though_their_jobs_were_finished_meanwhile(
    ledgers: Ledgers, own_redis: str, before: bool
) -> None:
    operations, was_finished = 0, 0
    async with Redis.from_url(own_redis) as redis:
        while True:
            operations += 1
            await redis.flushdb()
            for name in ("jobs", "job_items"):
                await ledgers.database[name].delete_many({})
            servers, ledger = Servers(ledgers, redis), ledgers.another()
            if before:
                await servers.start_list.push([entry.replace("page/", "page/0") for entry in ENTRIES])
                await servers.file_entries()
            await servers.start_list.push(ENTRIES)
            was_killed = False
            try:
                await servers.file_entries(operations)
            except Killed:
                was_killed = True
                for job in await jobs_of(ledgers):
                    was_finished += await work_off(ledger, job["_id"])
            await servers.silence()
            await servers.file_entries()
            for job in await jobs_of(ledgers):
                await work_off(ledger, job["_id"])
            keys = [item["key"] for item in await ledgers.database["job_items"].find().to_list()]
            assert {*ENTRIES} <= {*keys}
            assert len(keys) == len(ENTRIES) * (1 + before), operations
            assert {job["state"] for job in await jobs_of(ledgers)} == {"finished"}, operations
            assert not await redis.keys("*start:taken*")
            assert not await redis.keys("*start:filed*")
            if not was_killed:
                break
    assert was_finished > 5


async def test_an_entry_that_names_what_cannot_be_an_item_is_a_dead_letter_and_the_others_are_filed(
    ledgers: Ledgers, own_redis: str
) -> None:
    async with Redis.from_url(own_redis) as redis:
        servers = Servers(ledgers, redis)
        await servers.start_list.push([f"http://one.example/page/{'9' * MOST_INPUT_BYTES}", ENTRIES[0]])
        await servers.file_entries()
        assert [item["key"] for item in await ledgers.database["job_items"].find().to_list()] == [ENTRIES[0]]
        (dead,) = await servers.start_list.dead()
        assert re.match(rf"page: .*\bkey\b.*\b{MOST_INPUT_BYTES:,}", dead.reason)
        assert not await redis.keys("*start:taken*")


async def test_a_worker_that_was_silent_files_nothing_of_what_another_has_taken_from_it(
    ledgers: Ledgers, own_redis: str
) -> None:
    async with Redis.from_url(own_redis) as redis:
        servers, slow, ledger = Servers(ledgers, redis), StartList(redis, "tree"), ledgers.another()
        await servers.start_list.push(ENTRIES[:1])
        await slow.take(10)
        await servers.silence()
        await servers.file_entries()
        (job,) = await jobs_of(ledgers)
        assert await work_off(ledger, job["_id"])
        asked_for = TreeArguments(urls="http://one.example")
        await file_entries(ledger, SPIDER, slow, ledger.run, asked_for, [Found("page", ENTRIES[0])])
    assert await ledgers.database["job_items"].count_documents({}) == 1
    for each in await jobs_of(ledgers):
        await work_off(ledger, each["_id"])
    assert {each["state"] for each in await jobs_of(ledgers)} == {"finished"}

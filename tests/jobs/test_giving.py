"""A job is given the items that its arguments name by whoever began it, who may be killed at any moment."""

from typing import Any, cast

import pytest

from harvester.jobs.control import Control
from harvester.jobs.documents import JobState, State
from harvester.jobs.opening import OpensJobs, give_items, open_job_of
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
    assert await work_off(ledgers.another(), slow.id)
    assert set((await ledgers.states()).values()) == {State.DONE}
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

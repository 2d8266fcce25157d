"""How a job's items are counted: soon, by one at a time, whoever dies, and whatever a clock said."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from pymongo.database import Database
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.jobs import documents
from harvester.jobs.counting import MOST_COUNTED, OTHER
from harvester.jobs.documents import BY_OUTCOME, ItemState, Job, JobState
from harvester.jobs.job_stats import JobStats
from harvester.jobs.ledger import now
from harvester.jobs.service import JobService, by_state
from harvester.jobs.transitions import Ended
from tests.jobs.conftest import Killed, Ledgers, OneLedger, after_operations, nowhere, pages
from tests.jobs.test_ledger import claim, end

Document = dict[str, Any]


@pytest.mark.parametrize(("others", "order"), [(2, "COLLSCAN"), (20, "IXSCAN { _id: 1 }")])
async def test_a_job_is_counted_whole_in_the_order_in_which_its_items_are_read_soonest(
    ledgers: Ledgers, mongodb: Database[Document], others: int, order: str
) -> None:
    ledger = ledgers.another()
    job, other = await ledgers.job(), (await ledger.open_job("flat", "other")).job
    await ledger.add(job.id, pages("a", "b"), nowhere)
    await ledger.add(other.id, pages(*map(str, range(others))), nowhere)
    await end(ledger, await claim(ledger, job.id, 1))
    mongodb.command("profile", 2)
    counted = await ledger.counting.count(job.id)
    mongodb.command("profile", 0)
    assert {(each.state, each.items) for each in counted} == {(ItemState.DONE, 1), (ItemState.WAITING, 1)}
    seen = mongodb["system.profile"].find({"command.pipeline.1.$group.items": {"$exists": True}})
    assert [row["planSummary"] for row in seen] == [order]


async def test_of_all_that_work_at_a_job_one_counts_and_no_one_else_for_a_while(ledgers: Ledgers) -> None:
    job, ledger, other = await ledgers.job(), ledgers.another(), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    await asyncio.gather(ledger.counting.count_when_due(job), other.counting.count_when_due(job))
    counted = await ledger.job(job.id)
    assert counted is not None
    assert len(counted.pace) == 1
    assert counted.count_due_at
    await other.counting.count_when_due(counted)
    assert await ledger.job(job.id) == counted
    long_ago = counted.count_due_at - timedelta(days=1)
    await ledger.counting.count(job.id)
    looked_at_often = await ledger.job(job.id)
    assert looked_at_often is not None
    assert looked_at_often.pace == counted.pace, "who looks often keeps no more of them"
    await ledger.jobs.update_one({"_id": job.id}, {"$set": {"count_due_at": long_ago, "pace.0.at": long_ago}})
    overdue = await ledger.job(job.id)
    assert overdue is not None
    await other.counting.count_when_due(overdue)
    again = await ledger.job(job.id)
    assert again is not None
    assert len(again.pace) == 2


@pytest.mark.parametrize(("counting_took_s", "waited_s"), [(None, 60), (0.3, 10), (100, 300), (1000, 600)])
async def test_a_job_whose_counter_died_is_counted_by_another_after_three_times_as_long_as_counting_last_took(
    ledgers: Ledgers, counting_took_s: float | None, waited_s: float
) -> None:
    """Also when nobody had counted for long: time in which nothing was counted is none that counting took."""
    at = now()
    ledgers.clock = lambda: at
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    await ledger.counting.count(job.id)
    await ledger.set_job(job.id, counting_s=counting_took_s)
    counted_at, died_at = at, at + timedelta(days=30)
    for _ in range(3):
        at = died_at
        with pytest.raises(Killed):
            await counted_by(ledgers.another(operations=3), job)
        at = died_at + timedelta(seconds=waited_s - 1)
        assert await counted_by(ledger, job) == counted_at
        died_at += timedelta(seconds=waited_s + 1)
    at = died_at
    assert await counted_by(ledger, job) == at


async def test_a_job_is_counted_again_within_ten_minutes_of_a_count_by_a_clock_that_was_a_day_ahead(
    ledgers: Ledgers,
) -> None:
    at = now()
    ledgers.clock = lambda: at
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    at += timedelta(days=1)
    await ledger.counting.count(job.id)
    at -= timedelta(days=1)
    await end(ledger, await claim(ledger, job.id, 1))
    at += timedelta(minutes=10)
    assert await counted_by(ledger, job) == at
    known = await ledger.job(job.id)
    assert known
    assert [(each.state, each.items) for each in known.counts] == [(ItemState.DONE, 1)]
    assert [pace.ended for pace in known.pace] == [0, 1]


async def test_whoever_counts_slowly_does_not_replace_what_was_counted_since_by_whichever_clock(
    ledgers: Ledgers,
) -> None:
    at = now()
    ledgers.clock = lambda: at
    job, slow, ledger = await ledgers.job(), ledgers.another(), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)

    async def finish() -> None:
        nonlocal at
        at -= timedelta(seconds=5)  # the clock of another machine
        await end(ledger, await claim(ledger, job.id, 1))
        assert await ledger.finish(job.id)

    after_operations(slow, 3, finish)  # it has read the items, and not written what they were
    assert [each.state for each in await slow.counting.count(job.id)] == [ItemState.WAITING]
    known = await ledger.job(job.id)
    assert known
    assert ([each.state for each in known.counts], known.is_counted) == ([ItemState.DONE], True)


async def test_whoever_did_not_hear_that_it_may_count_counts(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    ledger.lose_answers = True
    assert await counted_by(ledger, job)


async def test_items_are_counted_and_their_reasons_told_though_somebody_has_dropped_the_indexes(
    ledgers: Ledgers,
) -> None:
    stats = get_crawler().stats
    assert stats
    job, ledger = await ledgers.job(attempts=1), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    await ledger.apply([(item.id, Ended(1, "invalid", "no page")) for item in await claim(ledger, job.id, 1)])
    await ledger.items.drop_indexes()
    known = await ledger.job(job.id)
    assert known
    shown = JobStats(ledger, stats)
    await shown.look(known)
    await shown.close()
    told = {name: value for name, value in stats.get_stats().items() if "items/" in name or "reasons/" in name}
    assert told == {
        "harvester/items/page/failed": 1,
        "harvester/reasons/page/failed/invalid: no page": 1,
    }


async def test_an_index_of_an_earlier_version_is_replaced(ledgers: Ledgers) -> None:
    ledger = ledgers.another()
    await ledger.items.drop_indexes()
    fields = [(name, 1) for name in ("job", "outcome", "state", "_id")]
    await ledger.items.create_index(fields, name=BY_OUTCOME)
    await ledger.make_indexes()
    assert "partialFilterExpression" in (await ledger.items.index_information())[BY_OUTCOME]


async def report(service: JobService, job: str) -> Job:
    return (await service.report(job)).job


@pytest.mark.parametrize("ask", [report, JobService.wait])
async def test_the_end_of_a_large_job_is_told_with_its_final_counts_though_who_finished_it_was_killed(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch, ask: Callable[[JobService, str], Awaitable[Job]]
) -> None:
    monkeypatch.setattr(documents, "SMALL", 2)
    job, ledger = await ledgers.job(attempts=1), ledgers.another()
    await ledger.add(job.id, pages("a", "b", "c"), nowhere)
    claimed = await claim(ledger, job.id, 3)
    await ledger.counting.count(job.id)
    await ledger.apply([(item.id, Ended(1, "invalid", "bad")) for item in claimed])
    killed = ledgers.another(operations=4)
    with pytest.raises(Killed):
        await killed.finish(job.id)
    ended = await ledger.job(job.id)
    assert ended
    assert ended.state is JobState.FINISHED
    told = await ask(JobService(Config(), ledgers.database, ledger), job.id)
    assert by_state(told) == {ItemState.FAILED: 3}


async def counted_by(ledger: OneLedger, job: Job) -> datetime | None:
    """When its items were counted last, after it was this one's turn to."""
    known = await ledger.job(job.id)
    assert known
    await ledger.counting.count_when_due(known)
    known = await ledger.job(job.id)
    assert known
    return known.counted_at


async def test_a_job_with_any_number_of_outcomes_is_counted_the_rare_ones_together(
    ledgers: Ledgers, mongodb: Database[Document]
) -> None:
    """As when a spider puts keys into its own words: its document would have outgrown what MongoDB holds."""
    job, ledger, outcomes = await ledgers.job(), ledgers.another(), MOST_COUNTED + 500
    await ledger.add(job.id, pages(*map(str, range(2 * outcomes))), nowhere)
    number = {"$max": [0, {"$subtract": [{"$toInt": "$key"}, outcomes]}]}
    own = {"$concat": ["none of ", {"$toString": number}]}
    mongodb["job_items"].update_many({}, [{"$set": {"outcome": own, "stage": own}}])
    counted = await ledger.counting.count(job.id)
    assert sum(each.items for each in counted) == 2 * outcomes
    assert {each.kind for each in counted} == {"page"}
    assert {each.state for each in counted} == {ItemState.WAITING}
    told = {each.outcome: each.items for each in counted}
    assert len(told) == MOST_COUNTED + 1
    assert told["none of 0"] == outcomes + 1
    assert told[OTHER] == outcomes - MOST_COUNTED
    assert {each.stage for each in counted} == set(told)

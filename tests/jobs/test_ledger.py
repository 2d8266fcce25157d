"""The ledger of jobs, on a real MongoDB: several at once, killed between any two steps."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from harvester import items
from harvester.config import Config
from harvester.items import Batch, Found, Stage
from harvester.jobs import ledger as ledger_module
from harvester.jobs.documents import Item, ItemState, JobState, SavedResult, item_id
from harvester.jobs.ledger import Added, now
from harvester.jobs.service import JobService
from harvester.jobs.transitions import Ended, Lost, StageReached
from tests.crawling import until
from tests.forking import Forked, fork
from tests.jobs.conftest import Killed, Ledgers, OneLedger, after_operations, moments, nowhere, pages
from tests.root import ROOT

Document = dict[str, Any]


async def test_a_scope_has_one_unfinished_job_however_many_open_it(ledgers: Ledgers) -> None:
    opened = await asyncio.gather(*(ledgers.another().open_job("flat", "0123", name="x") for _ in range(5)))
    others = [await ledgers.another().open_job(*each) for each in (("flat", "4567"), ("deep", "0123"))]
    assert sorted(each.begun for each in opened) == [False, True, True, True, True]
    assert len({each.job.id for each in (*opened, *others)}) == 3


async def test_a_scope_whose_job_has_ended_gets_the_next_one(ledgers: Ledgers) -> None:
    ledger = ledgers.another()
    for number, state in enumerate((JobState.FINISHED, JobState.CANCELLED), 1):
        job = await ledgers.job()
        assert job.number == number
        await ledger.jobs.update_one({"_id": job.id}, {"$set": {"state": state}})
    paused = await ledgers.job()
    await ledger.jobs.update_one({"_id": paused.id}, {"$set": {"state": JobState.PAUSED}})
    assert (await ledger.open_job("flat", paused.scope)).job.id == paused.id


async def test_a_job_of_a_database_that_was_emptied_has_a_new_id(ledgers: Ledgers) -> None:
    """A Redis that knew the attempts of the one before takes its items for new ones."""
    before = await ledgers.job()
    await ledgers.database.drop_collection("jobs")
    assert (await ledgers.job()).id != before.id


async def test_a_key_makes_a_second_job_the_same_whatever_has_become_of_it(ledgers: Ledgers) -> None:
    ledger = ledgers.another()
    first, _ = await ledger.open_job("flat", "a", idempotency_key="mine")
    await ledger.jobs.update_one({"_id": first.id}, {"$set": {"state": JobState.FINISHED}})
    again = await asyncio.gather(*(ledgers.another().open_job("flat", "b", idempotency_key="mine") for _ in range(3)))
    assert {each.job.id for each in again} == {first.id}


async def test_items_are_added_once_and_counted(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    assert await ledger.add(job.id, pages(1, 2, 2, 3), nowhere) == Added(3, 1)
    assert await ledger.add(job.id, pages(3, 4), nowhere) == Added(1, 1)
    assert await ledger.add(job.id, pages(), nowhere) == Added(0, 0)
    items = await ledgers.items()
    assert items.keys() == {"1", "2", "3", "4"}
    assert {item.state for item in items.values()} == {ItemState.WAITING}


async def test_an_operation_that_was_done_twice_counts_once(ledgers: Ledgers) -> None:
    ledger = ledgers.another()
    ledger.lose_answers = True
    job = (await ledger.open_job("flat", "0123", limits={"page": 3})).job
    assert await ledger.add(job.id, pages(1, 2, 3), nowhere) == Added(3, 0)
    claimed = await ledger.claim(job, 10, "feeder")
    assert [item.attempts for item in claimed] == [1, 1, 1]
    await ledger.apply([(item.id, Ended(1, "timeout", counts={"requests": 2})) for item in claimed])
    assert {(item.failures, item.counts["requests"]) for item in (await ledgers.items()).values()} == {(1, 2)}


async def test_what_is_added_comes_in_a_stream(ledgers: Ledgers, mongodb: Database[Document]) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    number = 3 * ledger_module.CHUNK + 7
    ahead = []

    def many() -> Iterator[Found]:
        for each in range(number):
            if each % 100 == 0:
                ahead.append(each - mongodb["job_items"].count_documents({}))
            yield Found("page", str(each))

    assert await ledger.add(job.id, many(), nowhere) == Added(number, 0)
    assert max(ahead) < ledger_module.CHUNK


async def test_found_items_are_a_step_farther_than_what_their_page_was_fetched_for(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, [Found("page", "near", depth=1), Found("page", "far", depth=5)], nowhere)
    near, far = (item_id(job.id, "page", key) for key in ("near", "far"))
    found = [
        (job.id, [far], Found("page", "a")),
        (job.id, [near], Found("page", "b")),
        (job.id, [far, near], Found("page", "c")),
        (job.id, [far], Found("page", "d", depth=1)),
        (job.id, ["nobody"], Found("page", "e")),
        (job.id, [far], Found("page", "b")),
    ]
    assert await ledger.add_found(found, lambda found: f"of {found.key}") == 5
    assert await ledger.add_found(found, nowhere) == 0
    items = await ledgers.items()
    assert {key: items[key].depth for key in "abcde"} == {"a": 6, "b": 2, "c": 2, "d": 1, "e": 0}
    assert items["a"].site == "of a"


async def test_what_pages_say_of_items_is_noted_for_the_attempt_that_they_were_fetched_for(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a", "b", depth=1), nowhere)
    a, b = await claim(ledger, job.id, 2)
    page = Batch([], (), job.id, ((a.id, 1), (b.id, 7)), (Found("page", "c"), Found("page", "c", depth=1)))
    page = page._replace(
        stages=(Stage(a.id, "half"), Stage(b.id, "half")), said=(items.ItemResult(a.id, "failed", "gone"),)
    )
    await ledger.note([page, page, page._replace(said=())], nowhere)
    noted = await ledgers.items()
    assert (noted["a"].stage, noted["a"].said) == ("half", SavedResult(1, ItemState.FAILED, "gone"))
    assert (noted["b"].stage, noted["b"].said) == ("", None)
    assert (noted["c"].state, noted["c"].depth) == (ItemState.WAITING, 1)


async def test_an_item_found_nearer_is_nearer_and_done_again(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("done", "waiting", depth=3), nowhere)
    await end(ledger, await claim(ledger, job.id, 1))
    await ledger.add(job.id, pages("done", "waiting", depth=4), nowhere)
    assert {item.depth for item in (await ledgers.items()).values()} == {3}
    await ledger.add(job.id, pages("done", "waiting", depth=1), nowhere)
    assert {item.depth for item in (await ledgers.items()).values()} == {1}
    assert await ledgers.states() == {"done": ItemState.WAITING, "waiting": ItemState.WAITING}


async def test_the_nearest_are_claimed_first_then_those_with_the_largest_priority(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    for key, depth, priority in (("a", 1, 0), ("b", 0, -5), ("c", 0, 5), ("d", 2, 9), ("e", 0, 0), ("f", 3, 0)):
        await ledger.add(job.id, pages(key, depth=depth, priority=priority), nowhere)
    claimed = await claim(ledger, job.id, 2)
    assert [item.key for item in claimed] == ["c", "e"]
    assert [item.key for item in await claim(ledger, job.id, 10)] == ["b", "a"]  # d is two steps from those
    await end(ledger, claimed)
    assert await claim(ledger, job.id, 10) == []
    await end(ledger, [item for item in (await ledgers.items()).values() if item.key == "b"])
    assert [item.key for item in await claim(ledger, job.id, 10)] == ["d"]


async def test_large_numbers_of_an_input_are_numbers_of_python_for_the_spider(ledgers: Ledgers) -> None:
    ledger, large = ledgers.another(), {"id": 2**40, "more": [{"ids": [2**40, 1]}]}
    job = await ledgers.job(arguments={"most": 2**40})
    await ledger.add(job.id, [Found("page", "1", large)], nowhere)
    (item,) = await ledger.claim(job, 1, "f")
    assert item.input == large
    assert {type(item.input["id"]), *map(type, item.input["more"][0]["ids"])} == {int}
    read = await ledger.job(job.id)
    assert read
    assert type(read.arguments["most"]) is int


async def test_items_of_sites_that_are_left_alone_are_passed_over_and_hold_up_nobody(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("near", "nearer"), lambda _: "refusing")
    await ledger.add(job.id, pages("far", depth=5), lambda _: "well")
    assert [item.key for item in await claim(ledger, job.id, 1)] == ["near"]
    claimed = await ledger.claim((await ledger.job(job.id)) or job, 10, "f", left_alone=["refusing"])
    assert [item.key for item in claimed] == ["far"]
    assert [item.key for item in await claim(ledger, job.id, 10)] == ["nearer"]


async def test_two_feeders_never_claim_the_same_attempt(ledgers: Ledgers) -> None:
    job = await ledgers.job()
    await ledgers.another().add(job.id, pages(*range(500)), nowhere)
    claimed: list[list[Item]] = []

    async def feed() -> None:
        ledger = ledgers.another()
        while (await ledgers.another().is_left(job.id)) and sum(map(len, claimed)) < 500:
            claimed.append(await ledger.claim(job, 40, "feeder"))

    await asyncio.gather(*(feed() for _ in range(4)))
    keys = [item.key for each in claimed for item in each]
    assert Counter(keys) == Counter(map(str, range(500)))
    assert {item.attempts for item in (await ledgers.items()).values()} == {1}


async def test_never_more_items_are_fed_than_the_limit_and_the_rest_are_skipped(ledgers: Ledgers) -> None:
    job = await ledgers.job(limits={"page": 30})
    ledger = ledgers.another()
    await ledger.add(job.id, [*pages(*range(100)), Found("other", "free")], nowhere)

    async def feed() -> None:
        mine = ledgers.another()
        for _ in range(20):
            await mine.claim(job, 7, "feeder")

    await asyncio.gather(feed(), feed())
    items = await ledgers.items()
    fed = [item for item in items.values() if item.attempts]
    assert Counter(item.kind for item in fed) == {"page": 30, "other": 1}
    assert sorted(item.number for item in fed if item.number) == list(range(1, 31))
    assert Counter((item.state, item.reason) for item in items.values() if not item.attempts) == {
        (ItemState.SKIPPED, "max_items"): 70
    }


async def test_an_item_that_is_tried_again_keeps_its_number_within_the_limit(ledgers: Ledgers) -> None:
    job = await ledgers.job(limits={"page": 1}, backoff_s=0)
    ledger = ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    await ledger.apply([(item.id, Ended(1, "timeout")) for item in await ledger.claim(job, 1, "f")])
    await ledger.promote(job)
    (again,) = await ledger.claim(job, 1, "f")
    assert (again.attempts, again.number) == (2, 1)


async def test_events_of_several_processes_count_once(ledgers: Ledgers) -> None:
    job = await ledgers.job()
    first, second = ledgers.another(), ledgers.another()
    await first.add(job.id, pages(*range(100)), nowhere)
    claimed = await first.claim(job, 100, "f")
    events = [(item.id, Ended(1, "timeout", "late", {"requests": 1})) for item in claimed]
    await asyncio.gather(first.apply(events), second.apply(events[::-1]), second.apply(events))
    items = (await ledgers.items()).values()
    assert {(item.state, item.failures, item.counts["requests"]) for item in items} == {(ItemState.WAITING, 1, 1)}


async def test_several_events_of_an_item_are_made_in_their_order(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    (item,) = await claim(ledger, job.id, 1)
    said = SavedResult(1, ItemState.SKIPPED, "opt_out", "it says so")
    assert await ledger.apply([(item.id, StageReached(1, "half")), (item.id, said), (item.id, Ended(1, "ok"))]) == 1
    after = (await ledgers.items())["a"]
    assert (after.state, after.stage, after.outcome, after.said) == (ItemState.SKIPPED, "half", "opt_out", None)


async def test_an_event_that_meets_another_is_made_of_what_that_left(ledgers: Ledgers) -> None:
    """A page shows the item to be nearer just when its attempt ends: it waits again, whoever is first."""
    job, ledger, other = await ledgers.job(), ledgers.another(), ledgers.another()
    for operations in range(4):
        key = f"{operations}"
        await other.add(job.id, pages(key, depth=9 - operations), nowhere)
        item = (await ledgers.items())[key]
        await other.items.update_one({"_id": item.id}, {"$set": {"depth": 5}})
        (item,) = await claim(other, job.id, 1)
        assert item.key == key

        async def nearer(key: str = key) -> None:
            await other.add(job.id, pages(key, depth=2), nowhere)

        after_operations(ledger, operations, nearer)
        await ledger.apply([(item.id, Ended(1, "ok"))])
        if ledger.meanwhile:  # so many operations there were not
            ledger.meanwhile = None
            await nearer()
        after = (await ledgers.items())[key]
        assert (after.state, after.depth) == (ItemState.WAITING, 2), operations
        await other.items.delete_one({"_id": item.id})


async def test_items_wait_for_their_time_and_are_due_then(ledgers: Ledgers) -> None:
    job = await ledgers.job(backoff_s=3600)
    ledger = ledgers.another()
    await ledger.add(job.id, pages("a", "b", "c"), nowhere)
    a, b, _ = await ledger.claim(job, 3, "f")
    assert await ledger.next_due(job) is None
    assert await ledger.deferred(job.id) is None
    await ledger.apply([(a.id, Ended(1, "timeout", "late")), (b.id, Ended(1, "network"))])
    assert await ledger.promote(job) == 0
    assert await ledger.claim(job, 3, "f") == []
    deferred = await ledger.deferred(job.id)
    assert deferred is not None
    assert (deferred.items, deferred.outcomes) == (2, {"timeout": 1, "network": 1})
    assert deferred.until == await ledger.next_due(job)
    await ledger.counting.count(job.id)
    counted = await ledger.job(job.id)
    assert counted
    looking = JobService(Config(), ledgers.database, ledgers.another(operations=1))
    assert await looking._deferred(counted) == replace(deferred, reason=""), "told from counts, however many there are"
    await ledger.items.update_one({"_id": a.id}, {"$set": {"due_at": now() - timedelta(seconds=1)}})
    assert await ledger.promote(job) == 1
    assert [item.key for item in await ledger.claim(job, 3, "f")] == ["a"]
    assert await ledger.promote(job, all_of_them=True) == 1
    assert [item.key for item in await ledger.claim(job, 3, "f")] == ["b"]


async def test_active_items_are_those_that_were_claimed(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a", "b"), nowhere)
    assert await ledger.active(job.id) == []
    claimed = await claim(ledger, job.id, 1)
    assert await ledger.active(job.id) == claimed


async def test_a_job_is_finished_when_nothing_is_left_and_only_then(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    assert not await ledger.finish(job.id)  # its items are still to come
    await ledger.add(job.id, pages("a", "b"), nowhere)
    assert not await ledger.finish(job.id)
    a, b = await claim(ledger, job.id, 2)
    await ledger.apply([(a.id, Ended(1, "ok")), (b.id, Lost(1))])
    assert not await ledger.finish(job.id)
    await end(ledger, await claim(ledger, job.id, 1))
    assert await ledger.finish(job.id)
    finished = await ledger.job(job.id)
    assert finished is not None
    assert finished.state is JobState.FINISHED
    assert finished.ended_at
    assert sum(each.items for each in finished.counts) == 2


async def test_a_job_without_items_is_finished_once_that_is_known(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, [], nowhere)
    assert await ledger.finish(job.id)


async def test_a_job_is_finished_though_who_gave_its_items_was_killed_before_that_was_noted(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    operations = 0
    while not await ledgers.items():
        operations += 1
        with pytest.raises(Killed):
            await ledgers.another(operations).add(job.id, pages("a"), nowhere)
    assert not await ledger.finish(job.id)
    await end(ledger, await claim(ledger, job.id, 1))
    assert await ledger.finish(job.id)
    await ledger.add(job.id, pages("a", "b"), nowhere)
    known = await ledger.job(job.id)
    assert known is not None
    assert known.state is JobState.OPEN, "what comes later is not missed"


async def test_a_standing_job_is_never_finished(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(recheck="every 1h"), ledgers.another()
    await ledger.add(job.id, [], nowhere)
    assert not await ledger.finish(job.id)


@pytest.mark.parametrize("operations", range(6))
async def test_items_that_come_while_a_job_is_being_finished_are_not_missed(ledgers: Ledgers, operations: int) -> None:
    job, ledger, other = await ledgers.job(), ledgers.another(), ledgers.another()
    await ledger.add(job.id, [], nowhere)

    async def add() -> None:
        await other.add(job.id, pages("late"), nowhere)

    after_operations(ledger, operations, add)
    await ledger.finish(job.id)
    after = await other.job(job.id)
    assert after is not None
    assert after.state is JobState.OPEN
    assert await ledgers.states() == {"late": ItemState.WAITING}


@pytest.mark.parametrize("operations", moments(1, 14))
async def test_a_process_killed_while_it_adds_claims_or_ends_items_loses_none(
    ledgers: Ledgers, operations: int
) -> None:
    job = await ledgers.job(limits={"page": 2})
    ledger = ledgers.another(operations)
    step = 0
    try:
        await ledger.add(job.id, pages("a", "b", "c"), nowhere)
        step = 1
        claimed = await ledger.claim(job, 1, "f")
        step = 2
        await ledger.apply([(item.id, Ended(1, "ok", counts={"records": 1})) for item in claimed])
        step = 3
    except Killed:
        pass
    assert (step == 3) == (operations == 13), step
    other = ledgers.another()
    await other.add(job.id, pages("a", "b", "c"), nowhere)
    for _ in range(5):
        lost = await other.active(job.id)
        await other.apply([(item.id, Lost(item.attempts)) for item in lost])
        claimed = await other.claim(job, 1, "f")
        await other.apply([(item.id, Ended(item.attempts, "ok", counts={"records": 1})) for item in claimed])
    items = await ledgers.items()
    assert {key: (item.state, item.counts.get("records", 0)) for key, item in items.items()} == {
        "a": (ItemState.DONE, 1),
        "b": (ItemState.DONE, 1),
        "c": (ItemState.SKIPPED, 0),
    }
    assert await other.finish(job.id)


@pytest.mark.slow
async def test_a_killed_process_that_adds_goes_on_where_it_was(
    ledgers: Ledgers, mongodb_uri: str, mongodb: Database[Document], tmp_path: Path
) -> None:
    number = 10_000
    for reached in (1, 2000, 5000):
        process = await begin("adding", tmp_path, mongodb_uri, mongodb.name, str(number))
        while mongodb["job_items"].count_documents({}) < reached:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        process.kill()
        await process.wait()
        await disconnected(mongodb)
    there = mongodb["job_items"].count_documents({})
    process = await begin("adding", tmp_path, mongodb_uri, mongodb.name, str(number))
    out, log = await process.end(240)
    assert out.split() == [str(number - there), str(there)], log
    assert mongodb["job_items"].count_documents({}) == number


async def test_killed_processes_that_claim_leave_every_item_in_one_state(
    ledgers: Ledgers, mongodb_uri: str, mongodb: Database[Document], tmp_path: Path
) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages(*range(1000)), nowhere)
    for _ in range(2):
        processes = [await begin("claiming", tmp_path, mongodb_uri, mongodb.name) for _ in range(2)]
        while int(await processes[0].stdout.readline() or 99) < 3:
            pass
        for process in processes:
            process.kill()
            await process.wait()
    await disconnected(mongodb)
    states = Counter((await ledgers.states()).values())
    assert states[ItemState.ACTIVE]
    assert states[ItemState.DONE]
    lost = await ledger.active(job.id)
    assert await ledger.apply([(item.id, Lost(item.attempts)) for item in lost]) == states[ItemState.ACTIVE]
    process = await begin("claiming", tmp_path, mongodb_uri, mongodb.name)
    await process.end(240)
    assert Counter((await ledgers.states()).values()).keys() == {ItemState.ACTIVE, ItemState.DONE}
    assert len(await ledgers.items()) == 1000


async def test_items_are_counted_by_state_stage_and_outcome(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a", "b", "c"), nowhere)
    a, b = await claim(ledger, job.id, 2)
    await ledger.apply([(a.id, StageReached(1, "half")), (b.id, Ended(1, "gone"))])
    counted = await ledger.counting.count(job.id)
    assert {(each.kind, each.state, each.stage, each.outcome, each.items) for each in counted} == {
        ("page", ItemState.ACTIVE, "half", "", 1),
        ("page", ItemState.DONE, "", "gone", 1),
        ("page", ItemState.WAITING, "", "", 1),
    }
    known = await ledger.job(job.id)
    assert known is not None
    assert set(known.counts) == set(counted)
    assert known.counted_at


async def claim(ledger: OneLedger, job: str, most: int) -> list[Item]:
    known = await ledger.job(job)
    assert known is not None
    return await ledger.claim(known, most, "feeder")


async def end(ledger: OneLedger, items: list[Item]) -> None:
    await ledger.apply([(item.id, Ended(item.attempts, "ok")) for item in items])


async def begin(module: str, folder: Path, *arguments: str) -> Forked:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await fork(f"tests.jobs.{module}", *arguments, cwd=folder, env=environment)
    await process.stdout.readline()
    return process


async def disconnected(mongodb: Database[Document]) -> None:
    """Waits until MongoDB has done what killed processes asked for last: it goes on with that for a while."""
    theirs: list[Document] = [
        {"$currentOp": {"allUsers": True, "idleConnections": True}},
        {"$match": {"appName": mongodb.name}},
    ]
    await until(lambda: not list(mongodb.client.admin.aggregate(theirs)))

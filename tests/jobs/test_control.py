"""What people want of jobs: in bulk, as the table of transitions says, and safe to interrupt."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from msgspec.structs import asdict, replace
from pymongo.database import Database

from harvester.items import Found
from harvester.jobs import control as control_module
from harvester.jobs.control import Control
from harvester.jobs.documents import Document, Item, ItemState, Job, JobState, item_id, to_document
from harvester.jobs.ledger import Ledger, now
from harvester.jobs.transitions import Cancelled, Ended, Event, Lost, Retried, transition
from tests.jobs.conftest import Killed, Ledgers, after_operations, nowhere, pages
from tests.jobs.test_transitions import ITEMS

Action = Callable[[Control, str], Awaitable[object]]


async def retry_all(control: Control, job: str) -> object:
    return await control.retry(job, [item_id(job, "page", name) for name in ITEMS])


async def cancel(control: Control, job: str) -> object:
    return await control.cancel(job)


@pytest.mark.parametrize(("action", "event"), [(retry_all, Retried()), (cancel, Cancelled())])
async def test_in_bulk_items_become_what_the_table_of_transitions_says(
    ledgers: Ledgers, action: Action, event: Event
) -> None:
    job = await ledgers.job()
    ledger = ledgers.another()
    before = {
        name: replace(item, id=item_id(job.id, "page", name), job=job.id, key=name) for name, item in ITEMS.items()
    }
    await ledger.items.insert_many([to_document(item) for item in before.values()])
    await action(Control(ledger), job.id)
    for name, after in (await ledgers.items()).items():
        expected = transition(before[name], event, job.policy, now()) or before[name]
        assert _without_time(after) == _without_time(expected), name


def _without_time(item: Item) -> dict[str, object]:
    return asdict(replace(item, updated_at=item.created_at))


async def test_a_retry_tries_no_item_twice_though_workers_bring_them_back_at_once(
    ledgers: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_module, "CHUNK", 2)
    at = now()
    ledgers.clock = lambda: at
    job, ledger, worker = await ledgers.job(attempts=1), ledgers.another(), ledgers.another()
    await ledger.add(job.id, pages(*range(6)), nowhere)

    async def work(_: int = 0) -> None:
        nonlocal at
        at += timedelta(milliseconds=1)
        claimed = await worker.claim(job, 10, "worker")
        await worker.apply([(item.id, Ended(item.attempts, "invalid", "bad")) for item in claimed])

    await work()
    assert await Control(ledger).retry_those(job.id, [{"state": ItemState.FAILED}], work) == 6
    assert {item.attempts for item in (await ledgers.items()).values()} == {2}


async def test_a_retry_of_nothing_leaves_a_finished_job_finished(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    (item,) = await ledger.claim(job, 1, "f")
    await ledger.apply([(item.id, Ended(1, "ok"))])
    assert await ledger.finish(job.id)
    assert await Control(ledger).retry(job.id) == 0
    known = await ledger.job(job.id)
    assert known
    assert known.state is JobState.FINISHED
    assert await Control(ledger).retry(job.id, [item.id]) == 1
    known = await ledger.job(job.id)
    assert known
    assert (known.state, known.ended_at) == (JobState.OPEN, None)


async def test_a_paused_job_feeds_nothing_until_it_is_resumed(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    control = Control(ledger)
    await ledger.add(job.id, pages("a"), nowhere)
    assert await control.pause(job.id, "repairs")
    assert not await control.pause(job.id)
    paused = await ledger.job(job.id)
    assert paused is not None
    assert (paused.state, paused.pause_reason) == (JobState.PAUSED, "repairs")
    assert await ledger.claim(paused, 1, "f") == []
    assert not await ledger.finish(job.id)
    assert await control.resume(job.id)
    assert not await control.resume(job.id)
    resumed = await ledger.job(job.id)
    assert resumed is not None
    assert resumed.pause_reason == ""
    assert len(await ledger.claim(resumed, 1, "f")) == 1


async def test_a_cancelled_job_skips_what_waits_and_lets_what_is_active_end(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    control = Control(ledger)
    await ledger.add(job.id, pages("a", "b", "c"), nowhere)
    a, b = await ledger.claim(job, 2, "f")
    assert await control.cancel(job.id) == 1
    assert await control.cancel(job.id) == 0
    await ledger.apply([(a.id, Ended(1, "ok")), (b.id, Ended(1, "timeout"))])
    items = await ledgers.items()
    assert {key: (item.state, item.reason) for key, item in items.items()} == {
        "a": (ItemState.DONE, ""),
        "b": (ItemState.SKIPPED, "cancelled"),
        "c": (ItemState.SKIPPED, "cancelled"),
    }
    assert not await control.resume(job.id)
    assert await control.retry(job.id) is None


async def test_of_cancelled_jobs_workers_look_only_at_those_whose_items_have_not_all_ended(ledgers: Ledgers) -> None:
    ledger = ledgers.another()
    control = Control(ledger)
    jobs = {}
    for number, name in enumerate(["over", "waiting", "active", "paused", "open", "finished"]):
        jobs[name] = (await ledger.open_job("flat", f"{number:016x}")).job
        await ledger.add(jobs[name].id, pages(name), nowhere)
    await control.cancel(jobs["over"].id)
    await ledger.claim(jobs["active"], 1, "f")
    await control.cancel(jobs["active"].id)
    await control.begin_cancelling(jobs["waiting"].id)  # by a process that died then
    await control.pause(jobs["paused"].id)
    (item,) = await ledger.claim(jobs["finished"], 1, "f")
    await ledger.apply([(item.id, Ended(1, "ok"))])
    assert await ledger.finish(jobs["finished"].id)
    unfinished = {job.id for job in await ledger.unfinished("flat")}
    assert unfinished == {jobs[name].id for name in ("waiting", "active", "paused", "open")}
    assert await ledger.unfinished("other") == []


async def test_a_cancelled_job_takes_in_nothing_that_comes_late(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    control = Control(ledger)
    await control.cancel(job.id)
    await ledger.add(job.id, pages("late"), nowhere)
    assert await ledgers.states() == {"late": ItemState.SKIPPED}


async def _found(ledger: Ledger, job: Job, active: Item) -> object:
    return await ledger.add_found([(job.id, [active.id], Found("page", "found"))], nowhere)


async def _again(ledger: Ledger, job: Job, active: Item) -> object:
    return await ledger.apply([(active.id, Ended(1, "timeout"))])


async def _lost(ledger: Ledger, job: Job, active: Item) -> object:
    return await ledger.apply([(active.id, Lost(1))])


async def _tried_again(ledger: Ledger, job: Job, active: Item) -> object:
    await ledger.apply([(active.id, Ended(1, "invalid"))])
    return await Control(ledger).retry(job.id)


@pytest.mark.parametrize("happens", [_found, _again, _lost, _tried_again])
async def test_nothing_waits_in_a_job_that_is_cancelled_between_any_two_operations(
    ledgers: Ledgers, mongodb: Database[Document], happens: Callable[[Ledger, Job, Item], Awaitable[object]]
) -> None:
    operations, is_cancelled = 0, True
    while is_cancelled:
        mongodb["job_items"].delete_many({})
        mongodb["jobs"].delete_many({})
        job, other = await ledgers.job(), ledgers.another()
        await other.add(job.id, pages("active"), nowhere)
        (active,) = await other.claim(job, 1, "f")
        ledger, is_cancelled = ledgers.another(), False

        async def cancel_job(job: Job = job) -> None:
            nonlocal is_cancelled
            is_cancelled = await Control(ledgers.another()).cancel(job.id) is not None

        after_operations(ledger, operations, cancel_job)
        await happens(ledger, job, active)
        if is_cancelled:
            assert ItemState.WAITING not in (await ledgers.states()).values(), (
                f"cancelled after {operations + 1} operations"
            )
        operations += 1
    assert operations > 3


async def test_retry_takes_what_failed_or_what_ended_with_an_outcome_or_single_items(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(attempts=1), ledgers.another()
    control = Control(ledger)
    ends = {"a": "invalid", "b": "timeout", "c": "gone", "d": "ok"}
    await ledger.add(job.id, pages(*ends), nowhere)
    await ledger.apply([(item.id, Ended(1, ends[item.key])) for item in await ledger.claim(job, 9, "f")])
    assert await ledger.finish(job.id)
    assert await control.retry(job.id) == 2
    assert await _waiting(ledgers) == {"a", "b"}
    reopened = await ledger.job(job.id)
    assert reopened is not None
    assert (reopened.state, reopened.ended_at) == (JobState.OPEN, None)
    assert await control.retry(job.id, outcome="gone") == 1
    assert await control.retry(job.id, items=[item_id(job.id, "page", "d"), "nobody"]) == 1
    assert await _waiting(ledgers) == set(ends)
    assert await control.retry("no job") is None


async def test_retry_with_an_outcome_takes_what_waits_for_a_time_too(ledgers: Ledgers) -> None:
    job, ledger = await ledgers.job(), ledgers.another()
    await ledger.add(job.id, pages("a"), nowhere)
    await ledger.apply([(item.id, Ended(1, "timeout")) for item in await ledger.claim(job, 1, "f")])
    assert await Control(ledger).retry(job.id, outcome="timeout") == 1
    assert await ledger.next_due(job) is None


async def _waiting(ledgers: Ledgers) -> set[str]:
    return {key for key, state in (await ledgers.states()).items() if state is ItemState.WAITING}


async def test_a_priority_is_the_jobs(ledgers: Ledgers) -> None:
    at = now()
    ledgers.clock = lambda: at
    job, ledger = await ledgers.job(), ledgers.another()
    at += timedelta(milliseconds=1)
    other, _ = await ledger.open_job("flat", "other")
    assert [each.id for each in await ledger.jobs_of("flat", JobState)] == [job.id, other.id]
    assert await Control(ledger).set_priority(other.id, 3)
    assert [each.id for each in await ledger.jobs_of("flat", JobState)] == [other.id, job.id]
    assert not await Control(ledger).set_priority("no job", 3)


@pytest.mark.parametrize("action", [retry_all, cancel])
async def test_who_is_killed_meanwhile_does_the_same_again(
    ledgers: Ledgers, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_module, "CHUNK", 2)
    job, ledger = await ledgers.job(attempts=1), ledgers.another()
    await ledger.add(job.id, pages(*ITEMS), nowhere)
    if action is retry_all:
        await ledger.apply([(item.id, Ended(1, "timeout")) for item in await ledger.claim(job, 99, "f")])
    for operations in range(1, 40):
        try:
            await action(Control(ledgers.another(operations)), job.id)
        except Killed:
            continue
        break
    else:
        pytest.fail("it never came to its end")
    assert set((await ledgers.states()).values()) == {ItemState.WAITING if action is retry_all else ItemState.SKIPPED}

"""What is done to jobs over HTTP: it is done, once, and never to more items than were meant."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from pymongo.database import Database

from harvester.control import batches
from harvester.control.app import PREFIX
from harvester.control.batches import ActionBatch, BatchAction, Batches, BatchState
from harvester.control.idempotency import KEYS
from harvester.control.tokens import Scope
from harvester.jobs import documents, listing
from harvester.jobs.documents import ItemState, Job, JobState
from harvester.jobs.ledger import now
from harvester.jobs.listing import ItemFilter, ItemReport
from harvester.jobs.transitions import Ended
from harvester.wire import reader
from tests.control.serving import Controller
from tests.control.test_app import job_of
from tests.pipelines.records import PAGE


async def end(control: Controller, job: Job, **outcomes: str) -> None:
    """Begins all items that wait, of which those named by their keys (as _1=ok) end so."""
    ledger = control.context.jobs.ledger
    known = await ledger.job(job.id)
    assert known
    for item in await ledger.claim(known, 1000, "worker"):
        if outcome := outcomes.get(f"_{item.key}"):
            await ledger.apply([(item.id, Ended(item.attempts, outcome, f"because of {outcome}"))])


async def states(control: Controller, job: Job) -> dict[str, str]:
    rows = await control.context.database["job_items"].find({"job": job.id}).to_list()
    return {row["key"]: row["state"] for row in rows}


async def ended(control: Controller, location: str) -> ActionBatch:
    """The batch when it has ended."""
    while True:
        batch = reader(ActionBatch)((await control.get(location.removeprefix(PREFIX))).content)
        if batch.state is not BatchState.RUNNING:
            return batch
        await asyncio.sleep(0.02)


async def test_a_job_is_paused_and_goes_on_however_often_it_is_said(control: Controller) -> None:
    job = await job_of(control, "1")
    for action, state in (("pause", "paused"), ("pause", "paused"), ("resume", "open"), ("resume", "open")):
        answer = await control.post(f"/jobs/{job.id}/{action}", None)
        assert (answer.status_code, answer.json()["state"]) == (200, state)
    paused = await control.post(f"/jobs/{job.id}/pause", None, json={"reason": "lunch"})
    assert paused.json()["pause_reason"] == "lunch"
    assert (await control.post("/jobs/none/pause", None)).status_code == 404


async def test_priority_is_set_and_bounded(control: Controller) -> None:
    job = await job_of(control, "1")
    put = control.http.put
    url, headers = f"{PREFIX}/jobs/{job.id}/priority", control.headers(Scope.OPERATE)
    assert (await put(url, json={"priority": -5}, headers=headers)).json()["priority"] == -5
    for wrong in (10**10, "high", None, 1.5):
        assert (await put(url, json={"priority": wrong}, headers=headers)).status_code == 422


async def test_a_cancelled_job_begins_nothing_and_what_waits_is_skipped(control: Controller) -> None:
    job = await job_of(control, "1", "2", "3")
    answer = await control.post(f"/jobs/{job.id}/cancel", None)
    assert (answer.status_code, answer.json()["matched"], answer.json()["by"]) == (202, 3, "a operateer")
    assert (await control.context.jobs.job(job.id)).state is JobState.CANCELLED
    batch = await ended(control, answer.headers["location"])
    assert (batch.action, batch.state, batch.done) == (BatchAction.CANCEL, BatchState.DONE, 3)
    assert set((await states(control, job)).values()) == {"skipped"}
    again = await control.post(f"/jobs/{job.id}/cancel", None)
    assert again.headers["location"] == answer.headers["location"]
    assert (await control.post(f"/jobs/{job.id}/resume", None)).status_code == 409
    retried = await control.post(f"/jobs/{job.id}/retry", "k", json={})
    assert (retried.status_code, retried.json()["type"]) == (409, "urn:harvester:problem:conflict")


async def test_a_retry_is_of_those_it_names_and_no_others(control: Controller) -> None:
    job = await job_of(control, *"123456")
    await end(control, job, _1="invalid", _2="invalid", _3="gone", _4="ok", _5="ok")
    dry = await control.post(f"/jobs/{job.id}/retry", None, json={"dry_run": True})
    failed = [key for key, state in (await states(control, job)).items() if state == "failed"]
    assert (dry.status_code, dry.json()) == (200, {"matched": len(failed)})
    by_outcome = {"filter": {"outcome": ["invalid"]}, "dry_run": True}
    assert (await control.post(f"/jobs/{job.id}/retry", None, json=by_outcome)).json() == {"matched": 2}
    more = await control.post(f"/jobs/{job.id}/retry", "k", json={"filter": {"outcome": ["invalid"]}, "expect": 1})
    assert (more.status_code, more.json()["type"]) == (409, "urn:harvester:problem:more_than_expected")
    one = await control.post(f"/jobs/{job.id}/retry", "k", json={"items": ["4"], "expect": 1})
    assert (one.status_code, one.json()["matched"]) == (202, 1), one.text
    assert (await ended(control, one.headers["location"])).done == 1
    assert (await states(control, job))["4"] == ItemState.WAITING
    group = await control.post(f"/jobs/{job.id}/retry", "k2", json={"filter": {"outcome": ["invalid"]}, "expect": 2})
    assert (await ended(control, group.headers["location"])).done == 2
    found = await states(control, job)
    assert {key for key, state in found.items() if state == "waiting"} == {"1", "2", "4"}
    assert (await control.post(f"/jobs/{job.id}/retry", None, json={})).status_code == 400
    both = {"items": ["1"], "filter": {"outcome": ["ok"]}}
    assert (await control.post(f"/jobs/{job.id}/retry", "k3", json=both)).status_code == 422
    listed = (await control.get(f"/jobs/{job.id}/batches")).json()
    assert [batch["matched"] for batch in listed] == [2, 1]


async def test_the_same_retry_sent_twice_is_one(control: Controller) -> None:
    job = await job_of(control, "1")
    await end(control, job, _1="invalid")
    first = await control.post(f"/jobs/{job.id}/retry", "k", json={"filter": {"outcome": ["invalid"]}})
    await ended(control, first.headers["location"])
    await end(control, job, _1="invalid")
    again = await control.post(f"/jobs/{job.id}/retry", "k", json={"filter": {"outcome": ["invalid"]}})
    assert again.content == first.content
    assert (await states(control, job))["1"] != "waiting", "it was not tried a second time"


async def test_a_key_that_is_used_again_after_its_time_is_another_retry(control: Controller) -> None:
    job, other = await job_of(control, "1"), await job_of(control, "1", "2")
    answers = []
    for each in (job, other, job):
        await end(control, each, _1="invalid")
        answers.append(await control.post(f"/jobs/{each.id}/retry", "nightly", json={}))
        assert (await ended(control, answers[-1].headers["location"])).done == 1
        assert (await states(control, each))["1"] == ItemState.WAITING
        await control.context.database[KEYS].delete_one({"_id": "nightly"})  # as MongoDB does after a day
    assert len({answer.headers["location"] for answer in answers}) == 3


async def test_a_retry_that_breaks_off_is_the_same_when_it_is_sent_again(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await job_of(control, "1")
    await end(control, job, _1="invalid")
    begin = Batches.begin

    async def break_off(*given: Any, **more: Any) -> ActionBatch:
        await begin(*given, **more)
        raise RuntimeError("it is killed here")

    with monkeypatch.context() as patched:
        patched.setattr(Batches, "begin", break_off)
        with pytest.raises(RuntimeError):
            await control.post(f"/jobs/{job.id}/retry", "k", json={})
    assert (await control.post(f"/jobs/{job.id}/retry", "k", json={})).status_code == 202
    assert len((await control.get(f"/jobs/{job.id}/batches")).json()) == 1


async def test_a_batch_of_a_controller_that_died_is_ended_by_another_and_does_no_more(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await job_of(control, *"123")
    await end(control, job, _1="invalid", _2="invalid")
    database, jobs = control.context.database, control.context.jobs
    dead = Batches(database, jobs)
    monkeypatch.setattr(dead, "_work", lambda batch: None)
    which = ItemFilter(outcome="invalid")
    batch = await dead.begin(BatchAction.RETRY, job.id, 2, "Ann", now(), which=which)
    await asyncio.sleep(0.005)
    await end(control, job, _3="invalid")  # after it was asked for
    await database["job_items"].update_one({"job": job.id, "key": "3"}, {"$set": {"updated_at": now()}})
    long_ago = now() - timedelta(seconds=batches.SILENT_S + 1)
    await database[batches.BATCHES].update_one({"_id": batch.id}, {"$set": {"beat_at": long_ago}})
    done = await ended(control, f"/batches/{batch.id}")
    assert (done.state, done.done) == (BatchState.DONE, 2)
    assert {key for key, state in (await states(control, job)).items() if state == "waiting"} == {"1", "2"}


async def test_a_batch_that_cannot_be_read_keeps_no_other_from_its_end(control: Controller) -> None:
    job, rows = await job_of(control, "1"), control.context.database[batches.BATCHES]
    await end(control, job, _1="invalid")
    long_ago = now() - timedelta(seconds=batches.SILENT_S + 1)
    await rows.insert_one({"_id": "odd", "state": "running", "beat_at": long_ago})
    async with asyncio.timeout(60):
        while (await rows.find_one({"_id": "odd"}) or {})["beat_at"] == long_ago:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        dead = Batches(control.context.database, control.context.jobs)
        dead._work = lambda batch, **_: None  # type: ignore[method-assign]
        batch = await dead.begin(BatchAction.RETRY, job.id, 1, "Ann", now())
        await rows.update_one({"_id": batch.id}, {"$set": {"beat_at": long_ago}})
        assert (await ended(control, f"/batches/{batch.id}")).done == 1


async def test_what_waits_in_a_job_is_skipped_though_the_controller_dies_when_it_has_cancelled_it(
    control: Controller,
) -> None:
    job, whole = await job_of(control, "1", "2"), await job_of(control, "1")
    assert await control.context.jobs.begin_cancelling(job.id) == 2
    next_one = asyncio.create_task(Batches(control.context.database, control.context.jobs).run())
    async with asyncio.timeout(60):
        while set((await states(control, job)).values()) != {"skipped"}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    next_one.cancel()
    assert await states(control, whole) == {"1": "waiting"}
    [batch] = (await control.get(f"/jobs/{job.id}/batches")).json()
    assert (batch["action"], batch["matched"], batch["by"]) == ("cancel", 2, "")


async def test_items_are_found_by_filters_page_by_page_and_one_with_its_attempts(control: Controller) -> None:
    job = await job_of(control, *"1234567")
    await end(control, job, _1="invalid", _2="invalid", _3="gone", _4="ok")
    seen, after = [], ""
    while True:
        answer = await control.get(f"/jobs/{job.id}/items", params={"limit": 3, "after": after})
        page = answer.json()
        seen += [row["item"]["key"] for row in page["items"]]
        after = page["next"]
        if not after:
            break
    assert seen == list("1234567")

    async def keys(**query: object) -> list[str]:
        found = await control.get(f"/jobs/{job.id}/items", params=query)
        assert found.status_code == 200, found.text
        return [row["item"]["key"] for row in found.json()["items"]]

    assert await keys(outcome="invalid") == ["1", "2"]
    assert await keys(outcome=["invalid", "ok"]) == ["1", "2", "4"]
    assert await keys(state=["active"]) == ["5", "6", "7"]
    assert await keys(text="BECAUSE OF GONE") == ["3"]
    assert await keys(site="elm.example", kind="parcel", state="active", text="6") == ["6"]
    assert await keys(kind="owner") == []
    report = reader(ItemReport)((await control.get(f"/jobs/{job.id}/item", params={"name": "1"})).content)
    assert [past.outcome for past in report.item.history] == ["invalid"]
    assert (await control.get(f"/jobs/{job.id}/item", params={"name": report.item.id})).status_code == 200
    assert (await control.get(f"/jobs/{job.id}/item", params={"name": "none"})).status_code == 404
    assert (await control.get(f"/jobs/{job.id}/items", params={"site": "other.example"})).status_code == 422
    assert (await control.get(f"/jobs/{job.id}/items", params={"state": "lost"})).status_code == 422


async def test_a_page_of_items_that_are_looked_for_may_be_empty_and_yet_not_the_last(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_SEARCHED", 3)
    job = await job_of(control, *"abcdefgz")
    pages, after = [], ""
    while after is not None:
        answer = await control.get(f"/jobs/{job.id}/items", params={"text": "z", "after": after})
        pages.append([each["item"]["key"] for each in answer.json()["items"]])
        after = answer.json()["next"]
    assert pages == [[], [], ["z"]]


async def test_the_manifest_has_a_row_for_each_item(control: Controller) -> None:
    job = await job_of(control, *"123")
    lines = (await control.get(f"/jobs/{job.id}/manifest")).text.splitlines()
    assert len(lines) == 3
    table = await control.get(f"/jobs/{job.id}/manifest", params={"format": "csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert table.text.startswith("_id,kind,key")
    assert len(table.text.splitlines()) == 4
    assert (await control.get(f"/jobs/{job.id}/collections")).json() == {"names": []}
    assert (await control.get(f"/jobs/{job.id}/export/manifest")).status_code == 404
    assert (await control.get(f"/jobs/{job.id}/export/..%2Ftokens")).status_code == 404
    assert (await control.get(f"/jobs/{job.id}/manifest", params={"format": "parquet"})).status_code == 422


async def test_an_export_looks_through_no_other_collection(control: Controller, mongodb: Database[Any]) -> None:
    job = await job_of(control, "1")
    provenance = {"url": PAGE.url, "fetched_at": PAGE.fetched_at, "spider": "parcels", "crawl": "another"}
    mongodb["posts"].insert_one({"_id": "a", "provenance": provenance})
    mongodb["profiles"].insert_one({"_id": "a", "provenance": provenance | {"crawl": job.id}})
    mongodb.command("profile", 2)
    answer = await control.get(f"/jobs/{job.id}/export/profiles")
    mongodb.command("profile", 0)
    assert [json.loads(line)["_id"] for line in answer.text.splitlines()] == ["a"]
    looked_through = set(mongodb["system.profile"].distinct("ns", {"op": "query"}))
    assert f"{mongodb.name}.profiles" in looked_through
    assert f"{mongodb.name}.posts" not in looked_through


async def test_who_waits_is_told_when_the_job_has_ended(control: Controller) -> None:
    job = await job_of(control, "1")
    late = await control.get(f"/jobs/{job.id}/wait", params={"timeout_s": 0})
    assert late.json()["state"] == "open"
    waiting = asyncio.create_task(control.get(f"/jobs/{job.id}/wait", params={"timeout_s": 30}))
    await end(control, job, _1="ok")
    await control.context.jobs.ledger.finish(job.id)
    assert (await waiting).json()["state"] == "finished"
    assert (await control.get(f"/jobs/{job.id}/wait", params={"timeout_s": 61})).status_code == 422


async def test_each_action_leaves_a_line_that_says_who_and_how_it_ended(control: Controller) -> None:
    job = await job_of(control, "1")
    await control.post(f"/jobs/{job.id}/pause", None)
    await control.post("/jobs/none/pause", None)
    lines = await control.context.audit.latest(10)
    assert [(line.action, line.target, line.status, line.name) for line in lines] == [
        ("pause_job", f"{PREFIX}/jobs/none/pause", 404, "a operateer"),
        ("pause_job", f"{PREFIX}/jobs/{job.id}/pause", 200, "a operateer"),
    ]


async def test_nobody_waits_at_a_page_until_a_large_job_is_counted(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "SMALL", 2)
    job, jobs = await job_of(control, *"12345"), control.context.jobs
    await jobs.ledger.counting.count(job.id)
    await end(control, job, _1="gone")
    await jobs.ledger.jobs.update_one({"_id": job.id}, {"$set": {"count_due_at": now() - timedelta(days=1)}})
    seen = await jobs.report(job.id, wait=False)
    assert seen.states == {ItemState.WAITING: 5}, "what was counted before"
    while (seen := await jobs.report(job.id, wait=False)).states == {ItemState.WAITING: 5}:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert seen.states == {ItemState.ACTIVE: 4, ItemState.DONE: 1}

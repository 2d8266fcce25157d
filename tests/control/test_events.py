"""Events: whoever listens is told of every change, also of those between two connections."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from harvester.control.events import JobChange
from harvester.control.routes import events
from harvester.wire import reader
from tests.control.serving import Controller, listening
from tests.control.test_app import job_of


@pytest.fixture
async def url(control: Controller) -> AsyncIterator[str]:
    async with listening(control.app) as url:
        yield url


@asynccontextmanager
async def heard(control: Controller, url: str, **headers: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Events as they come: id and data; or a comment."""
    async with (
        httpx2.AsyncClient(base_url=url, headers=control.headers() | headers, timeout=60) as http,
        http.stream("GET", "/api/v1/events") as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")

        async def each() -> AsyncIterator[dict[str, Any]]:
            event: dict[str, Any] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if line:
                    event[name or "comment"] = value
                elif event:
                    yield event
                    event = {}

        yield each()


async def test_who_listens_is_told_how_jobs_are_and_then_of_each_change(control: Controller, url: str) -> None:
    job = await job_of(control, "1", "2")
    async with heard(control, url) as events:
        first = await anext(events)
        assert first["event"] == "job"
        change = reader(JobChange)(first["data"].encode())
        assert (change.id, change.state) == (job.id, "open")
        await control.context.jobs.pause(job.id, "lunch")
        while (event := await anext(events)) and json.loads(event["data"])["state"] != "paused":
            pass
    await control.context.jobs.resume(job.id)
    async with heard(control, url, **{"Last-Event-ID": event["id"]}) as events:
        again = await anext(events)
        assert json.loads(again["data"])["state"] == "open"
        assert again["id"] != event["id"]
    for id_of_another in ("0-1", "x", f"{event['id'].partition('-')[0]}-999999"):
        async with heard(control, url, **{"Last-Event-ID": id_of_another}) as events:
            assert json.loads((await anext(events))["data"])["id"] == job.id
    await control.context.jobs.ledger.claim(job, 2, "worker")


async def test_who_listens_when_the_last_one_goes_is_told_of_changes_too(control: Controller) -> None:
    job = await job_of(control, "1")
    first, second = control.context.events.listen(), control.context.events.listen()
    await anext(first)
    await first.aclose()  # type: ignore[attr-defined]
    await anext(second)
    await control.context.jobs.pause(job.id)
    async with asyncio.timeout(60):
        while (await anext(second)).change.state != "paused":
            pass
    await second.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("after", ["", "of-another-start-1"])
async def test_who_listens_to_a_job_that_has_ended_is_told_so(control: Controller, after: str) -> None:
    job = await job_of(control, "1")
    await job_of(control, "2")
    await control.context.jobs.cancel(job.id)
    events = control.context.events.listen(job.id, after)
    async with asyncio.timeout(60):
        event = await anext(events)
    assert (event.change.id, event.change.state, event.change.states) == (job.id, "cancelled", {"skipped": 1})
    await events.aclose()  # type: ignore[attr-defined]


async def test_a_quiet_stream_says_that_it_lives(
    control: Controller, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 1)
    async with heard(control, url) as stream:
        assert "comment" in await anext(stream)


async def test_listeners_are_bounded_and_of_a_job_that_there_is(
    control: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await control.get("/events", params={"job": "none"})).status_code == 404
    monkeypatch.setattr(events, "MOST_LISTENERS", 0)
    busy = await control.get("/events")
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "30")


async def test_who_names_the_etag_is_not_sent_the_same_again(control: Controller) -> None:
    job = await job_of(control, "1")
    first = await control.get(f"/jobs/{job.id}")
    await control.context.jobs.ledger.counting.count(job.id)
    first = await control.get("/jobs")
    tag = first.headers["etag"]
    same = await control.http.get("/api/v1/jobs", headers=control.headers() | {"If-None-Match": f'"other", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    await control.context.jobs.pause(job.id)
    changed = await control.http.get("/api/v1/jobs", headers=control.headers() | {"If-None-Match": tag})
    assert (changed.status_code, changed.headers["etag"] == tag) == (200, False)


async def test_spiders_say_what_arguments_they_take(control: Controller) -> None:
    names = (await control.get("/spiders")).json()["names"]
    assert "parcels" in names
    spider = (await control.get("/spiders/parcels")).json()
    assert spider["kinds"][0] == "parcel"
    assert "county" in spider["arguments"]["properties"]
    assert (await control.get("/spiders/none")).status_code == 404

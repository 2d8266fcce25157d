"""What is done over HTTP while a worker is killed: it holds, and no item is lost by it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from pydantic import SecretStr
from pymongo.database import Database
from redis.asyncio import Redis

from harvester.config import Config
from harvester.control.app import PREFIX
from harvester.control.tokens import Scope
from harvester.frontier.store import Frontier
from tests.control.serving import Controller, controller
from tests.control.test_acting import ended
from tests.crawling import Answer
from tests.jobs.running import FINISHED, Runs, Tree, jobs, records, states
from tests.jobs.test_crawls import check_finished

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

Document = dict[str, Any]
PAGES = 150
SLOW_S = 0.2


class SlowTree(Tree):
    """So that there is something at work when something is done."""

    async def answer(self, path: str, number: int) -> Answer:
        await asyncio.sleep(SLOW_S)
        return await super().answer(path, number)


class Work(NamedTuple):
    """A job that two workers are at."""

    control: Controller
    runs: Runs
    tree: SlowTree
    mongodb: Database[Document]
    job: str

    async def put(self, path: str, body: Document) -> httpx2.Response:
        headers = self.control.headers(Scope.OPERATE)
        return await self.control.http.put(f"{PREFIX}{path}", json=body, headers=headers)

    async def hold(self, state: str) -> httpx2.Response:
        return await self.put(f"/sites/tree/{self.tree.name}/breaker", {"state": state, "reason": "a test"})

    def row(self) -> Document:
        found = self.mongodb["jobs"].find_one({"_id": self.job})
        assert found
        return found


class Action(NamedTuple):
    """Something that is done, how it is seen that it was, and how it is undone, if the work would not go on else."""

    do: Callable[[Work], Awaitable[httpx2.Response]]
    holds: Callable[[Work], Awaitable[bool]]
    undo: Callable[[Work], Awaitable[httpx2.Response]] | None = None
    before: Callable[[Work], Awaitable[httpx2.Response]] | None = None


async def pause(work: Work) -> httpx2.Response:
    return await work.control.post(f"/jobs/{work.job}/pause", None, json={"reason": "lunch"})


async def resume(work: Work) -> httpx2.Response:
    return await work.control.post(f"/jobs/{work.job}/resume", None)


async def cancel(work: Work) -> httpx2.Response:
    return await work.control.post(f"/jobs/{work.job}/cancel", None)


async def retry(work: Work) -> httpx2.Response:
    body = {"items": [f"{work.tree.url}/page/1"], "expect": 1}
    answer = await work.control.post(f"/jobs/{work.job}/retry", "again", json=body)
    assert (await ended(work.control, answer.headers["location"])).done == 1
    return answer


async def add(work: Work) -> httpx2.Response:
    return await work.control.post(f"/jobs/{work.job}/items", None, json={"items": [f"{work.tree.url}/page/{PAGES}0"]})


async def prioritise(work: Work) -> httpx2.Response:
    return await work.put(f"/jobs/{work.job}/priority", {"priority": 7})


async def schedule(work: Work) -> httpx2.Response:
    body = {"name": "nightly", "spider": "tree", "cron": "30 2 * * *", "arguments": {"urls": work.tree.url}}
    return await work.control.post("/schedules", None, json=body)


async def is_paused(work: Work) -> bool:
    return (work.row()["state"], work.row()["pause_reason"]) == ("paused", "lunch")


async def is_open(work: Work) -> bool:
    return str(work.row()["state"]) == "open"


async def is_cancelled(work: Work) -> bool:
    return str(work.row()["state"]) == "cancelled"


async def is_waiting_again(work: Work) -> bool:
    item = work.mongodb["job_items"].find_one({"job": work.job, "key": f"{work.tree.url}/page/1"})
    return bool(item and (item["state"] in ("waiting", "active") or work.tree.count("/page/1") > 1))


async def is_added(work: Work) -> bool:
    return work.mongodb["job_items"].count_documents({"job": work.job, "key": f"{work.tree.url}/page/{PAGES}0"}) == 1


async def is_first(work: Work) -> bool:
    return int(work.row()["priority"]) == 7


async def is_held(work: Work) -> bool:
    answer = await work.control.get("/sites", params={"left_alone": True})
    return [site["state"] for site in answer.json()["sites"]] == ["held"]


async def is_scheduled(work: Work) -> bool:
    return (await work.control.get("/schedules/nightly")).status_code == 200


ACTIONS = {
    "pause": Action(pause, is_paused, undo=resume),
    "resume": Action(resume, is_open, before=pause),
    "cancel": Action(cancel, is_cancelled),
    "retry": Action(retry, is_waiting_again),
    "add": Action(add, is_added),
    "priority": Action(prioritise, is_first),
    "hold": Action(lambda work: work.hold("held"), is_held, undo=lambda work: work.hold("closed")),
    "schedule": Action(schedule, is_scheduled),
}


@pytest.fixture
async def work(
    tmp_path: Path,
    mongodb_uri: str,
    own_redis: str,
    mongodb: Database[Document],
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Work]:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "tests.jobs.settings")
    here = config.model_copy(update={"redis_url": SecretStr(own_redis)})
    async with (
        SlowTree(PAGES) as tree,
        Runs(tmp_path, mongodb_uri=mongodb_uri, redis_url=own_redis, database=mongodb.name) as runs,
        controller(here) as control,
    ):
        for _ in range(2):
            await runs.start(urls=tree.url)
        await runs.until(lambda: states(mongodb).get("done", 0) > PAGES // 10)
        (job,) = jobs(mongodb)
        yield Work(control, runs, tree, mongodb, job)


@pytest.mark.parametrize("name", ACTIONS)
async def test_what_is_done_while_a_worker_is_killed_holds_and_no_item_is_lost(
    work: Work, own_redis: str, name: str
) -> None:
    action, runs, mongodb = ACTIONS[name], work.runs, work.mongodb
    if action.before:
        (await action.before(work)).raise_for_status()
    acting = asyncio.ensure_future(action.do(work))
    struck, other = runs.processes
    await runs.kill(struck)
    (await acting).raise_for_status()
    assert await action.holds(work), runs.said
    if name == "cancel":
        await runs.end(other)
        assert set(states(mongodb)) <= {"done", "skipped"}
        async with Redis.from_url(own_redis) as redis:
            status = await Frontier(redis, "tree", mongodb.name).status()
        assert (status.balanced, status.items, status.ready) == (True, 0, 0)
        return
    if action.undo:
        await runs.end(other)
        assert await action.holds(work), runs.said
        (await action.undo(work)).raise_for_status()
    assert await runs.run(urls=work.tree.url) == FINISHED, runs.said
    if name == "add":
        added = {f"{work.tree.url}/{kind}/{PAGES}0" for kind in ("page", "behind", "pair")}
        assert records(mongodb) == work.tree.records() | added
        assert states(mongodb) == {"done": 2 * PAGES + 2}
        return
    await check_finished(mongodb, work.tree, own_redis)
    if name == "retry":
        assert work.tree.count("/page/1") > 1

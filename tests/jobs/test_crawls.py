"""Jobs worked off by real crawls, against a site on loopback, with whatever may happen to them."""

import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.database import Database
from redis.asyncio import Redis

from harvester.breaker.breakers import SUSPICIOUS
from harvester.frontier.start_list import StartList
from harvester.frontier.store import Frontier
from harvester.items import Found
from harvester.jobs.control import Control
from harvester.jobs.documents import NOT_GIVEN
from harvester.jobs.ledger import CHUNK
from harvester.outcomes import POLICIES, Outcome
from tests.chaos.servers import Valkey
from tests.crash.mongod import Mongod
from tests.crawling import LONGEST_S
from tests.jobs.conftest import Ledgers, nowhere
from tests.jobs.running import FINISHED, LEFT, Holding, Runs, Tree, jobs, records, states
from tests.jobs.test_ledger import claim, end

Document = dict[str, Any]
PAGES, WINDOW = 40, 30


@pytest.fixture
async def runs(tmp_path: Path, mongodb_uri: str, own_redis: str, mongodb: Database[Document]) -> AsyncIterator[Runs]:
    async with Runs(tmp_path, mongodb_uri=mongodb_uri, redis_url=own_redis, database=mongodb.name) as runs:
        yield runs


async def check_finished(mongodb: Database[Document], tree: Tree, redis_url: str, spider: str = "tree") -> None:
    """All is harvested, every item is done, and nothing is left in the frontier."""
    assert records(mongodb) == tree.records()
    assert states(mongodb) == {"done": 2 * tree.pages}
    assert set(jobs(mongodb).values()) == {"finished"}
    async with Redis.from_url(redis_url) as redis:
        status = await Frontier(redis, spider, mongodb.name).status()
    assert status.balanced
    assert (status.items, status.ready, status.leased, status.dead) == (0, 0, 0, 0)


async def test_a_job_is_worked_off_and_begun_anew_by_the_next_run(
    runs: Runs, mongodb: Database[Document], own_redis: str
) -> None:
    async with Tree(PAGES) as tree:
        assert await runs.run(urls=tree.url) == FINISHED, runs.said
        await check_finished(mongodb, tree, own_redis)
        assert tree.count("/page/1") == 1
        assert await runs.run(urls=tree.url) == FINISHED, runs.said
        assert tree.count("/page/1") == tree.count("/behind/1") == 2
    assert len(jobs(mongodb)) == 2
    item = mongodb["job_items"].find_one({"key": f"{tree.url}/page/14"})
    assert item
    assert (item["depth"], item["stage"], item["outcome"], item["attempts"]) == (3, "seen from behind", "ok", 1)
    assert item["counts"] == {"requests": 2, "records": 2, "new": 2, "rejected": 0}


async def test_a_standing_job_looks_at_what_is_due_and_at_what_its_arguments_name_now(
    runs: Runs, mongodb: Database[Document]
) -> None:
    items = mongodb["job_items"]

    async def asked(tree: Tree, number: int, times: int) -> None:
        """Has the page be due, and waits until it was asked for so many times and looked at."""
        key = f"{tree.url}/page/{number}"
        items.update_one({"key": key}, {"$set": {"due_at": datetime.now(UTC) - timedelta(seconds=1)}})
        await runs.until(lambda: len((items.find_one({"key": key}) or {"looks": ()})["looks"]) == times)
        assert tree.count(f"/page/{number}") == times

    def states() -> dict[str, str]:
        return {row["key"].rpartition("/")[2]: row.get("reason") or row["state"] for row in items.find()}

    async with Tree(20) as tree:
        assert await runs.run("standing_tree", urls=tree.url, first="1,2,3") == FINISHED, runs.said
        assert f"{min(item['due_at'] for item in items.find()):%Y-%m-%d %H:%M}" in runs.said
        looks = {row["key"].rpartition("/")[2]: row["looks"][0] for row in items.find()}
        assert looks["1"]["found"] == 4, "itself, and three pages below it"
        assert (looks["2"]["changed"], looks["2"]["cost"]) == (True, 0.5)
        assert await runs.run("standing_tree", urls=tree.url, first="2,3,4") == FINISHED, runs.said
        assert [tree.count(f"/page/{number}") for number in (1, 2, 3, 4)] == [1, 1, 1, 1]
        assert states() == {"1": "removed", "2": "waiting", "3": "waiting", "4": "waiting"}
        worker = await runs.work()
        await asked(tree, 3, 2)
        await asked(tree, 2, 2)
        worker.terminate()
        await worker.wait()
    assert len(jobs(mongodb)) == 1
    third = items.find_one({"key": f"{tree.url}/page/3"})
    assert third
    assert [look["found"] for look in third["looks"]][1:] == [0], "all was known"


async def test_a_job_has_the_records_of_an_undisturbed_one_however_often_its_workers_are_killed(
    runs: Runs, mongodb: Database[Document], own_redis: str
) -> None:
    async with Tree(PAGES) as tree:
        for asked in (1, 30, 70):
            process = await runs.start(urls=tree.url)
            await runs.until(lambda asked=asked: len(tree.arrivals) >= asked)  # type: ignore[misc]
            await runs.kill(process)
        assert await runs.run(urls=tree.url) == FINISHED, runs.said
        await check_finished(mongodb, tree, own_redis)
    assert len(jobs(mongodb)) == 1


async def test_two_workers_with_two_feeders_share_a_job_and_one_may_die(
    runs: Runs, mongodb: Database[Document], own_redis: str
) -> None:
    async with Tree(3 * PAGES) as tree:
        first, second = await runs.start(urls=tree.url), await runs.start(urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) >= PAGES)
        await runs.kill(second)
        third = await runs.start(urls=tree.url)
        assert [await runs.end(first), await runs.end(third)] == [FINISHED, FINISHED], runs.said
        await check_finished(mongodb, tree, own_redis)
    assert len(jobs(mongodb)) == 1


async def test_a_run_goes_on_when_redis_has_lost_everything(
    runs: Runs, mongodb: Database[Document], own_redis: str
) -> None:
    async with Tree(2 * PAGES) as tree:
        process = await runs.start(urls=tree.url)
        for asked in (30, 100):
            await runs.until(lambda asked=asked: len(tree.arrivals) >= asked)  # type: ignore[misc]
            async with Redis.from_url(own_redis) as redis:
                await redis.flushdb()
        assert await runs.end(process) == FINISHED, runs.said
        await check_finished(mongodb, tree, own_redis)
    assert "fed again" in runs.said


@pytest.mark.slow
async def test_a_run_goes_on_with_a_redis_that_has_lost_its_files_and_so_does_one_that_starts_then(
    tmp_path: Path, mongodb_uri: str, mongodb: Database[Document], free_port: int
) -> None:
    (tmp_path / "valkey").mkdir()
    with Valkey(tmp_path / "valkey", free_port) as valkey:
        variables = {"mongodb_uri": mongodb_uri, "redis_url": valkey.uri, "database": mongodb.name}
        async with Runs(tmp_path, **variables) as runs, Holding(2 * PAGES, first=120) as tree:
            process = await runs.start(urls=tree.url)
            await runs.until(lambda: len(tree.arrivals) >= 50)
            valkey.lose()
            await runs.until(lambda: len(tree.arrivals) > 120)
            await runs.kill(process)
            valkey.lose()
            tree.goes_on.set()
            assert await runs.run(urls=tree.url) == FINISHED, runs.said
            await check_finished(mongodb, tree, valkey.uri)


async def test_a_run_goes_on_when_mongodb_comes_back(tmp_path: Path, own_redis: str, free_port: int) -> None:
    (tmp_path / "mongod").mkdir()
    with Mongod(tmp_path / "mongod", free_port) as server:
        async with Runs(tmp_path, mongodb_uri=server.uri, redis_url=own_redis) as runs, Tree(2 * PAGES) as tree:
            process = await runs.start(urls=tree.url)
            await runs.until(lambda: len(tree.arrivals) >= 60)
            server.end(signal.SIGKILL)
            server.start()
            assert await runs.end(process) == FINISHED, runs.said
            with MongoClient[Document](server.uri, tz_aware=True) as client:
                await check_finished(client["harvester"], tree, own_redis)


async def test_an_item_that_fails_for_a_passing_reason_is_tried_again_by_its_policy(
    runs: Runs, mongodb: Database[Document]
) -> None:
    async with Tree(30) as tree:
        tries = 1 + POLICIES[Outcome.SERVER_ERROR].retries
        tree.bad = lambda path, number: {
            "/behind/2": 503 if number < 2 * tries else 0,
            "/page/30": 503,
            "/page/29": 404,
        }.get(path, 0)
        assert await runs.run(urls=tree.url) == FINISHED, runs.said
        assert tree.count("/page/2") == 3  # an attempt asks for all of the item anew
        assert tree.count("/page/30") == 3 * tries
        lost = {f"{tree.url}/{kind}/{number}" for kind in ("page", "behind", "pair") for number in (29, 30)}
        assert records(mongodb) == tree.records() - lost
        items = {row["key"]: row for row in mongodb["job_items"].find()}
    healed, failed, gone = (items[f"{tree.url}/page/{number}"] for number in (2, 30, 29))
    assert (healed["state"], healed["attempts"], healed["failures"]) == ("done", 3, 2)
    assert [each["outcome"] for each in healed["history"]] == ["server_error", "server_error", "ok"]
    assert (failed["state"], failed["attempts"], failed["outcome"]) == ("failed", 3, "server_error")
    assert "503" in failed["reason"]
    assert (gone["state"], gone["outcome"], gone["attempts"]) == ("done", "not_found", 1)
    assert states(mongodb) == {"done": 29 + 28, "failed": 1}


async def test_never_more_items_are_asked_for_than_wanted_and_the_nearest_first(
    runs: Runs, mongodb: Database[Document]
) -> None:
    async with Tree(PAGES) as tree:
        assert await runs.run(urls=tree.url, most=10) == FINISHED, runs.said
        pages = [int(arrival.path.rpartition("/")[2]) for arrival in tree.arrivals if arrival.path.startswith("/page/")]
    assert sorted(pages) == list(range(1, 5)) + sorted(pages)[4:]
    assert len(pages) == 10
    assert max(pages) <= 13  # of the next step, and of none farther
    found = mongodb["job_items"].count_documents({"kind": "page"})
    assert states(mongodb) == {"done": 20, "skipped": found - 10}


async def test_a_small_job_that_comes_later_waits_for_no_large_one(
    runs: Runs, mongodb: Database[Document], mongodb_uri: str
) -> None:
    runs._environment |= {"WINDOW": str(WINDOW), "HARVESTER_REQUESTS_PER_SECOND": "50"}
    async with Tree(0) as tree, AsyncMongoClient[Document](mongodb_uri, tz_aware=True) as client:
        ledger = Ledgers(client[mongodb.name]).another()
        await ledger.make_indexes()
        opened: dict[str, str] = {}
        for scope, numbers in (("large", range(1000, 1300)), ("small", range(1, 11))):
            job, _ = await ledger.open_job("tree", scope, arguments={"urls": tree.url})
            await ledger.add(job.id, (Found("page", f"{tree.url}/page/{number}") for number in numbers), nowhere)
            opened[scope] = job.id
            if scope == "large":
                process = await runs.start(job="all")
                await runs.until(lambda: len(tree.arrivals) >= WINDOW)
        asked = len(tree.arrivals)
        await runs.until(lambda: jobs(mongodb)[opened["small"]] == "finished")
        assert len(tree.arrivals) - asked < 400  # of 750
        assert jobs(mongodb)[opened["large"]] == "open"
        await runs.kill(process)


async def test_a_site_that_is_left_alone_holds_up_no_other_and_its_items_wait_unspent(
    tmp_path: Path, mongodb_uri: str, mongodb: Database[Document], own_redis: str
) -> None:
    async with Tree(PAGES) as well, Tree(PAGES) as refusing:
        refusing.bad = lambda path, number: 403
        sites = tmp_path / "sites"
        sites.mkdir()
        rules = "refusals_in_a_row = 2\nopen_seconds = 0.5\nmost_open_seconds = 0.5\nprobes = 1"
        for name, site, at_once in (("well", well, 16), ("refusing", refusing, 1)):
            (sites / f"{name}.toml").write_text(
                f'[{name}]\nhosts = ["{site.name}"]\n[{name}.breaker]\n{rules}\n'
                f"[{name}.politeness]\nconcurrency = {at_once}\n"
            )
        variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
        first = ",".join(map(str, range(1, 2 * PAGES)))  # those above are no pages of the tree, but have records
        async with Runs(tmp_path, **variables, sites_dir=str(sites)) as runs:
            process = await runs.start(urls=f"{refusing.url},{well.url}", first=first)
            await runs.until(lambda: well.records() <= records(mongodb))
            assert mongodb["job_items"].count_documents({"site": "refusing", "state": "done"}) == 0
            assert len(refusing.arrivals) < PAGES  # it is asked by few
            spent = mongodb["job_items"].count_documents({"site": "refusing", "failures": {"$gt": 0}})
            assert spent <= SUSPICIOUS  # those that it refused, one after the other, before it was left alone
            refusing.bad = lambda path, number: 0
            assert await runs.end(process) == FINISHED, runs.said
            assert well.records() | refusing.records() <= records(mongodb)
    assert set(states(mongodb)) == {"done"}


async def test_a_run_that_ends_early_says_what_waits_until_when_and_why_and_the_same_command_goes_on(
    tmp_path: Path, mongodb_uri: str, mongodb: Database[Document], own_redis: str
) -> None:
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name, "deferred_seconds": "0"}
    async with Runs(tmp_path, **variables) as runs, Tree(4) as tree:
        tree.bad = lambda path, number: 503 if path == "/page/4" else 0
        assert await runs.run("patient_tree", urls=tree.url) == LEFT, runs.said
        item = mongodb["job_items"].find_one({"key": f"{tree.url}/page/4"})
        assert item
        assert (item["state"], item["outcome"]) == ("waiting", "server_error")
        assert f"{item['due_at']:%Y-%m-%d %H:%M:%S} UTC" in runs.said
        assert "1 server_error: HTTP 503" in runs.said
        tree.bad = lambda path, number: 0
        assert await runs.run("patient_tree", urls=tree.url) == FINISHED, runs.said
        await check_finished(mongodb, tree, own_redis, "patient_tree")


async def test_a_run_ends_when_its_job_is_paused_or_cancelled_and_a_named_job_goes_on(
    runs: Runs, mongodb: Database[Document], own_redis: str, mongodb_uri: str
) -> None:
    async with Tree(600) as tree, AsyncMongoClient[Document](mongodb_uri, tz_aware=True) as client:
        control = Control(Ledgers(client[mongodb.name]).another())
        process = await runs.start(urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) >= 20)
        (job,) = jobs(mongodb)
        assert await control.pause(job, "\x1b[2Jwater\npipe")
        assert await runs.end(process) == LEFT
        assert "\\x1b[2Jwater\\npipe" in runs.said
        assert states(mongodb)["waiting"]
        assert await control.resume(job)
        process = await runs.start(job=job)
        await runs.until(lambda: len(tree.arrivals) >= 60)
        await control.cancel(job)
        assert await runs.end(process) == 130
        assert set(states(mongodb)) == {"done", "skipped"}
        assert await runs.run(job=job) == 130
        assert await runs.run(job="tree-none") == 2
        assert "'tree-none'" in runs.said
        assert await runs.run(job=job, urls=tree.url) == 2


async def test_databases_that_share_a_redis_and_one_that_was_emptied_have_jobs_of_their_own(
    runs: Runs, mongodb: Database[Document], mongodb_uri: str, own_redis: str, tmp_path: Path
) -> None:
    """None waits for attempts that the frontier takes for those of another."""
    other_name = f"{mongodb.name}-2"
    variables = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": other_name}
    (tmp_path / "other").mkdir()
    async with Tree(20) as tree, Runs(tmp_path / "other", **variables) as others:
        processes = [await each.start(urls=tree.url) for each in (runs, others)]
        assert [await runs.end(process) for process in processes] == [FINISHED, FINISHED], runs.said + others.said
        await check_finished(mongodb, tree, own_redis)
        await check_finished(mongodb.client[other_name], tree, own_redis)
        for name in ("jobs", "job_items", "leaves"):
            mongodb[name].drop()
        assert await runs.run(urls=tree.url) == FINISHED, runs.said
        await check_finished(mongodb, tree, own_redis)
        assert tree.count("/page/1") == 3
    mongodb.client.drop_database(other_name)
    assert "nobody's hands" not in runs.said + others.said


async def test_what_a_killed_process_had_is_the_next_ones_at_once(
    tmp_path: Path, mongodb: Database[Document], mongodb_uri: str, own_redis: str
) -> None:
    """On the same machine it is known that the process has ended: nobody waits until its leases end."""
    servers = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Tree(PAGES) as tree, Runs(tmp_path, **servers, lease_seconds=str(2 * LONGEST_S)) as runs:
        process = await runs.start(urls=tree.url)
        await runs.until(lambda: len(tree.arrivals) >= 20)
        await runs.kill(process)
        assert await runs.run(urls=tree.url) == FINISHED, runs.said
        await check_finished(mongodb, tree, own_redis)


async def test_one_process_works_at_all_jobs_of_its_spider(
    runs: Runs, mongodb: Database[Document], own_redis: str
) -> None:
    async with Tree(20) as tree:
        for first in ("1", "2"):
            process = await runs.start(urls=tree.url, first=first)
            await runs.until(lambda first=first: tree.count(f"/page/{first}") > 0)  # type: ignore[misc]
            await runs.kill(process)
        assert await runs.run(job="all") == FINISHED, runs.said
        assert records(mongodb) == tree.records()
    assert list(jobs(mongodb).values()) == ["finished", "finished"]


@pytest.mark.slow
async def test_a_job_whose_giver_was_killed_is_named_and_is_finished_when_the_same_command_has_given_the_rest(
    tmp_path: Path, mongodb: Database[Document], mongodb_uri: str, own_redis: str
) -> None:
    """Others do what there is, wait for nobody, and leave the job open: no item is done twice."""
    given, rest = "".join(f"{number}\n" for number in range(CHUNK)), "the last\n"
    keys = tmp_path / "keys"
    os.mkfifo(keys)
    servers = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Runs(tmp_path, **servers, deferred_seconds="0") as runs:
        with keys.open("r+b", buffering=0) as pipe:  # whoever reads it waits for the rest
            pipe.write(given.encode())
            giver = await runs.start("listed", keys=keys)
            await runs.until(lambda: mongodb["job_items"].count_documents({}) == CHUNK)
            await runs.kill(giver)
        ((job, _),) = jobs(mongodb).items()
        items = mongodb["job_items"]
        begun = {item["key"] for item in items.find({"state": "active"})}
        assert await runs.run("listed", job="all") == FINISHED, runs.said
        assert states(mongodb) == {"done": CHUNK}
        assert jobs(mongodb) == {job: "open"}
        assert runs.said.count(NOT_GIVEN) == 1
        assert await runs.run("listed", job=job) == LEFT, runs.said
        told = runs.said.count(NOT_GIVEN)
        assert told > 1
        assert await runs.end(await runs.work()) == FINISHED, runs.said
        assert runs.said.count(NOT_GIVEN) == told + 1
        keys.unlink()
        keys.write_text(given + rest)
        assert await runs.run("listed", keys=keys) == FINISHED, runs.said
    assert jobs(mongodb) == {job: "finished"}
    assert states(mongodb) == {"done": CHUNK + 1}
    assert {item["key"] for item in items.find({"attempts": {"$ne": 1}})} <= begun


async def test_a_run_at_a_job_that_was_given_nothing_waits_for_its_items_no_longer_than_for_others(
    tmp_path: Path, mongodb: Database[Document], mongodb_uri: str, own_redis: str
) -> None:
    servers = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with AsyncMongoClient[Document](mongodb_uri, tz_aware=True) as client:
        ledger = Ledgers(client[mongodb.name]).another()
        job = (await ledger.open_job("tree", "of a submission", arguments={"urls": "http://site.example"})).job
    async with Runs(tmp_path, **servers, deferred_seconds="1") as runs:
        assert await runs.end(await runs.start(job=job.id), 30) == LEFT, runs.said
        assert job.id in runs.said.rpartition("\nWhy\n")[2]


async def test_entries_of_a_killed_worker_are_done_once_though_others_have_finished_their_job_before_they_come_again(
    tmp_path: Path, mongodb: Database[Document], mongodb_uri: str, own_redis: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    servers = {"mongodb_uri": mongodb_uri, "redis_url": own_redis, "database": mongodb.name}
    async with Runs(tmp_path, **servers) as runs, Redis.from_url(own_redis) as redis:
        await StartList(redis, "served", mongodb.name).push(["one-a", "one-b", "two-1"])
        with pipe.open("r+b", buffering=0):  # whoever reads it waits
            worker = await runs.start("served", pipe=pipe)
            await runs.until(lambda: len(jobs(mongodb)) == 2)
            await runs.kill(worker)
        (job,) = mongodb["jobs"].distinct("_id", {"fed": {"$gt": 0}})
        async with AsyncMongoClient[Document](mongodb_uri, tz_aware=True) as client:
            ledger = Ledgers(client[mongodb.name]).another()
            await end(ledger, await claim(ledger, job, 10))
            assert await ledger.finish(job)
        pipe.unlink()
        pipe.write_text("on")
        assert await runs.run("served", pipe=pipe) == FINISHED, runs.said
    assert len(jobs(mongodb)) == 2
    assert set(jobs(mongodb).values()) == {"finished"}
    assert sorted(item["key"] for item in mongodb["job_items"].find()) == ["1", "a", "b"]
    assert mongodb["job_items"].count_documents({"attempts": 1}) == 3

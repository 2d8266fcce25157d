"""What an exchange costs does not depend on how many sites are left alone, and all of them come back."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import time
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from redis.asyncio import Redis

from harvester.breaker.breakers import Breakers
from harvester.frontier import admin
from harvester.frontier.messages import Done, Exchange, Leased, Operation, Release, Requeue
from harvester.frontier.store import Frontier
from harvester.outcomes import Outcome, Verdict
from harvester.sites import Site, policy_of
from harvester.sites.breaker import SiteBreaker
from tests.breaker.worker import QUICK
from tests.frontier.pushes import push

LONG = QUICK.model_copy(update={"open_seconds": 600.0, "most_open_seconds": 600.0})
FEW, MANY = 200, 2000


class Crowd:
    """A worker at many sites, with one request or more of each in the frontier."""

    def __init__(self, frontier: Frontier, sites: int, breaking: SiteBreaker = LONG, name: str = "worker-1") -> None:
        self.frontier = frontier
        self.name = name
        self.sites = [Site(name=f"s{n}", hosts=(f"s{n}",), breaker=breaking) for n in range(sites)]
        self.breakers = Breakers()

    def see(self, site: Site, outcome: Outcome, times: int = 1, probe: int = 0) -> None:
        for _ in range(times):
            self.breakers.add_try(site, Verdict(outcome, f"it was {outcome}"), policy_of(site, outcome), probe)

    async def exchange(self, operations: Sequence[Operation] = (), wanted: int = 0) -> Exchange:
        told = await self.frontier.exchange(self.name, operations, wanted, 1000, self.breakers.take())
        self.breakers.hear(told.shut, anew=told.anew)
        return told

    async def until_told(self) -> None:
        """Exchanges until it has told what it saw, and knows of all changes."""
        while (await self.exchange()).shut or self.breakers.urgent_since is not None:
            pass

    async def are_left_alone(self, each: int = 1) -> None:
        """One site after the other refuses."""
        for first in range(0, len(self.sites), 250):
            rows = range(first, min(first + 250, len(self.sites)))
            await self.exchange([push(n * each + i, site=f"s{n}") for n in rows for i in range(each)])
        for site in self.sites:
            self.see(site, Outcome.BLOCKED, 5)
        await self.until_told()

    async def make_due(self) -> None:
        """The time for which the sites are left alone is over."""
        names = await self.frontier._redis.zrange(self.frontier.prefix + "shut", 0, -1)
        await self.frontier._redis.zadd(self.frontier.prefix + "shut", dict.fromkeys(names, 1), xx=True)


@asynccontextmanager
async def _frontier(redis: Redis) -> AsyncIterator[Frontier]:
    frontier = Frontier(redis, f"test-{uuid4().hex[:12]}")
    yield frontier
    await frontier.drop()


async def _calls(redis: Redis) -> Counter[str]:
    stats = await redis.info("commandstats")
    return Counter({name: row["calls"] for name, row in stats.items() if name != "cmdstat_info"})


async def _costs(redis: Redis, sites: int) -> dict[str, Counter[str]]:
    """The commands of exchanges of several kinds while so many sites are left alone."""
    async with _frontier(redis) as frontier:
        crowd = Crowd(frontier, sites)
        await crowd.are_left_alone(each=2)
        costs: dict[str, Counter[str]] = {}

        async def measure(kind: str, operations: Sequence[Operation] = (), wanted: int = 0) -> list[Leased]:
            before = await _calls(redis)
            told = await crowd.exchange(operations, wanted)
            costs[kind] = await _calls(redis) - before
            return told.leased

        await measure("nothing else is left")
        await crowd.exchange([push(-n, site="fine") for n in range(1, 10)])
        held = await measure("leases", wanted=5)
        again = Requeue(held[0].id, b"", "", "s3", 0, "timeout", "slow")
        await measure("ends of leases", [again, Done(held[1].id), Release(held[2].id)], wanted=1)
        crowd.see(crowd.sites[7], Outcome.BLOCKED)
        await measure("a report")
        await crowd.make_due()
        await measure("many may be tried again", wanted=20)
        assert (await frontier.status()).balanced
        before = await _calls(redis)
        await frontier._run("status")
        after = await _calls(redis)
        costs["status, before it looks at lines in parts"] = Counter({"ZCARD": (after - before)["cmdstat_zcard"]})
        return costs


async def test_a_script_costs_the_same_however_many_sites_are_left_alone(redis: Redis) -> None:
    few, many = await _costs(redis, FEW), await _costs(redis, MANY)
    random = 2  # breakers that a report looks at, whether they may be forgotten
    assert few["a report"].total() == pytest.approx(many["a report"].total(), abs=random)
    del few["a report"], many["a report"]
    assert few == many


async def test_status_reads_lines_in_parts_and_notices_a_request_that_is_in_none(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "CHUNK", 3)
    crowd = Crowd(frontier, 7)
    await crowd.are_left_alone(each=2)
    await crowd.exchange([push(-n, site=f"fine{n}") for n in range(1, 9)])
    status = await frontier.status()
    parked, ready = {"ready": 0, "parked": 2, "leased": 0}, {"ready": 1, "parked": 0, "leased": 0}
    assert status.sites == {f"s{n}": parked for n in range(7)} | {f"fine{n}": ready for n in range(1, 9)}
    assert (status.parked, status.ready, len(status.breakers), status.balanced) == (14, 8, 7, True)
    await frontier._redis.zrem(f"{frontier.prefix}ready:\0fine1", "-1")
    assert not (await frontier.status()).balanced


async def test_all_sites_of_a_crawl_are_left_alone_and_come_back(frontier: Frontier) -> None:
    """As in an outage of the worker's own; what happens to each is spread over exchanges."""
    crowd, other = Crowd(frontier, 700), Crowd(frontier, 0, name="worker-2")
    await crowd.are_left_alone(each=3)
    status = await frontier.status()
    assert (status.parked, status.ready, len(status.breakers)) == (2100, 0, 700)
    assert {breaker.state for breaker in status.breakers.values()} == {"open"}
    await other.until_told()
    assert other.breakers._shut.keys() == crowd.breakers._shut.keys() == status.breakers.keys()
    await crowd.make_due()
    count = 0
    while await frontier._redis.zcard(frontier.prefix + "shut"):
        leased = (await crowd.exchange(wanted=128)).leased
        count += len(leased)
        done: list[Operation] = []
        for lease in leased:
            crowd.see(crowd.sites[int(lease.site[1:])], Outcome.OK, probe=lease.probe)
            done.append(Done(lease.id))
        await crowd.exchange(done)
    await crowd.until_told()
    await other.until_told()
    status = await frontier.status()
    assert (status.breakers, status.parked, status.ready, status.done) == ({}, 0, 2100 - count, count)
    assert status.balanced
    assert crowd.breakers._shut == other.breakers._shut == {}


async def test_breakers_of_the_version_before_go_on(frontier: Frontier) -> None:
    crowd = Crowd(frontier, 2)
    await crowd.exchange([push(n, site=f"s{n % 2}") for n in range(4)])
    now_ms = int(time() * 1000)
    bucket = now_ms // 30_000
    record: dict[str, Any] = dict.fromkeys(("opens", "trial", "granted", "good", "blank"), 0)
    record |= {"state": "closed", "since": now_ms, "heard": now_ms, "rules": LONG.rules(), "said": "HTTP 403"}
    record |= {"window": [[bucket - 1, 0, 0, []], [bucket, 4, 4, {"blocked": 4}]], "bad": {"blocked": True}, "died": []}
    record |= {"kinds": {"page": [1, {"title": 1}, {}]}, "drift": [1, 0, 0, 50, 3], "lost": []}
    record |= {"refusals": 4, "failures": 4, "cause": ""}
    opened = {**record, "state": "open", "cause": "ratio", "opened": now_ms, "due": now_ms + 600_000, "opens": 1}
    keys = {"s0": msgspec.msgpack.encode(record), "s1": msgspec.msgpack.encode(opened)}
    await frontier.set_breaker("s1", LONG.rules(), "open", "a person")
    await frontier._redis.hset(frontier.prefix + "breakers", mapping=keys)
    assert (await frontier.status()).breakers["s1"].cause == "ratio"
    crowd.see(crowd.sites[0], Outcome.BLOCKED)
    await crowd.exchange()
    breakers = (await frontier.status()).breakers
    assert {name: breaker.cause for name, breaker in breakers.items()} == {"s0": "refusals", "s1": "ratio"}
    await crowd.make_due()
    await crowd.exchange()
    leased = (await crowd.exchange(wanted=9)).leased
    assert {lease.site for lease in leased} == {"s0", "s1"}
    for lease in leased:
        crowd.see(crowd.sites[int(lease.site[1:])], Outcome.OK, probe=lease.probe)
    await crowd.exchange([Done(lease.id) for lease in leased])
    assert (await frontier.status()).breakers == {}


async def test_a_worker_that_knows_more_than_redis_begins_anew(frontier: Frontier) -> None:
    crowd = Crowd(frontier, 3)
    await crowd.are_left_alone()
    await frontier._redis.delete(frontier.prefix + "changes")
    await crowd.exchange()
    assert crowd.breakers._shut == {}


async def test_sites_whose_breakers_are_lost_are_asked_again(frontier: Frontier) -> None:
    crowd = Crowd(frontier, 3)
    await crowd.are_left_alone()
    await frontier._redis.delete(frontier.prefix + "breakers")
    crowd.see(crowd.sites[0], Outcome.OK)
    await crowd.make_due()
    await crowd.until_told()
    status = await frontier.status()
    assert (status.ready, status.parked, status.balanced) == (3, 0, True)
    assert crowd.breakers._shut == {}


async def test_requests_of_a_job_with_any_name_are_parked_and_come_back(frontier: Frontier) -> None:
    jobs, rules = ("a\0b", "a:1", "\1a", "\n{*}"), LONG.rules()
    await frontier.exchange("worker-1", [push(n, job=job, site="s") for job in jobs for n in range(2)], wanted=1)
    await frontier.set_breaker("s", rules, "open", "a person")
    assert (await frontier.status()).sites["s"] == {"ready": 0, "parked": 7, "leased": 1}
    await frontier.set_breaker("s", rules, "closed", "a person")
    await frontier.leave("worker-1")
    told = await frontier.exchange("worker-1", wanted=9, operations=())
    await frontier.exchange("worker-1", [Done(lease.id) for lease in told.leased])
    status = await frontier.status()
    assert (status.done, status.balanced) == (8, True)
    counts = {job: (each["done"], each["ready"], each["parked"]) for job, each in status.jobs.items()}
    assert counts == dict.fromkeys(jobs, (2, 0, 0))
    assert await frontier._redis.hgetall(frontier.prefix + "held:worker-1") == {}

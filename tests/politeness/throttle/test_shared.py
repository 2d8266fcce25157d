"""All workers together ask a host no faster than it allows, nor more at once, nor while it says wait.

The workers are processes that know nothing of each other but the address of Redis. What counts is the host's own log.
"""

import asyncio
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from redis import Redis

from tests.chaos.servers import Valkey
from tests.crawling import Answer, Crawled, Plan, Site, crawl, until
from tests.politeness.throttle.workers import SETTINGS, Workers, times
from tests.ports import free_port

AT_ONCE, PER_SECOND = 3, 20
QUICK, SLOW = 80, 24
"""Requests of each worker to each of the hosts."""
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


class Gated(Site):
    """It answers when both workers are there, so that they work at the same time. `takes` is how long it then takes."""

    def __init__(self, door: Site, takes: float = 0.0) -> None:
        super().__init__()
        self._door = door
        self._takes = takes
        self._under_way: Counter[str] = Counter()
        self.served_both = False
        """Whether requests of both workers were under way at the same time."""

    async def answer(self, path: str, number: int) -> Answer:
        name = path[1]
        self._under_way[name] += 1
        self.served_both |= self._under_way["a"] > 0 and self._under_way["b"] > 0
        await until(lambda: len({arrival.path for arrival in self._door.arrivals}) == 2)
        await asyncio.sleep(self._takes)
        self._under_way[name] -= 1
        return Answer()


class Shared:
    """Two workers ask the same hosts at the same time."""

    def __init__(self) -> None:
        self.door = Site()
        self.quick, self.slow = Gated(self.door), Gated(self.door, 0.25)
        self.crawled: list[Crawled] = []
        self.keys_left: dict[str, int] = {}

    async def run(self, folder: Path, redis_url: str) -> None:
        limits = {"concurrent_per_host": str(AT_ONCE), "requests_per_second": str(PER_SECOND), "redis_url": redis_url}
        async with self.door, self.quick, self.slow, Workers(folder, **limits) as workers:
            for name in ("a", "b"):
                await workers.add(name, {self.door: 1, self.quick: QUICK, self.slow: SLOW})
            self.crawled = await workers.end_all()
        with Redis.from_url(redis_url) as redis:
            for site in (self.quick, self.slow):
                for key in redis.keys(f"harvester:{{{site.name}}}:*"):
                    self.keys_left[key.decode()] = redis.pttl(key)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Shared:
    shared = Shared()
    asyncio.run(shared.run(tmp_path_factory.mktemp("shared"), redis_url))
    return shared


@pytest.mark.slow
def test_every_worker_gets_all_its_answers(shared: Shared) -> None:
    for crawled in shared.crawled:
        assert [result.status for result in crawled.results] == [200] * (1 + QUICK + SLOW)
        assert crawled.stats["finish_reason"] == "finished"


def test_workers_together_are_not_faster_than_one_may_be(shared: Shared) -> None:
    """Each would be done in 4 s by itself. What had its slot before the second one came is not counted."""
    begin = max(times(shared.door))
    assert times(shared.quick)[-1] - begin > 1.2 * QUICK / PER_SECOND


def test_workers_together_have_no_more_requests_under_way_than_one_may_have(shared: Shared) -> None:
    assert shared.slow.most_at_once == AT_ONCE
    assert shared.quick.most_at_once <= AT_ONCE


def test_no_worker_takes_all_permits(shared: Shared) -> None:
    assert shared.slow.served_both


def test_keys_of_a_host_expire(shared: Shared) -> None:
    """And of a run that has ended no permits are left."""
    turns = {f"harvester:{{{site.name}}}:turns" for site in (shared.quick, shared.slow)}
    assert set(shared.keys_left) == turns
    assert all(0 < milliseconds <= 120_000 for milliseconds in shared.keys_left.values())


async def test_a_pause_told_to_one_worker_is_kept_by_all(tmp_path: Path, own_redis: str) -> None:
    class Refusing(Gated):
        """When both are at work and no permit is free, it asks for a pause; it answers the others when that is known.

        So what the others do next, they do after one worker was told. Which one was told does not matter.
        """

        said_at = 0.0

        async def answer(self, path: str, number: int) -> Answer:
            await super().answer(path, number)
            if times(self, "a") and times(self, "b"):
                await until(lambda: self.said_at > 0 or self.at_once == AT_ONCE)
                if not self.said_at:
                    self.said_at = time.monotonic()
                    return Answer(429, headers={"Retry-After": "4"})
                await until(lambda: bool(redis.hget(f"harvester:{{{self.name}}}:turns", "silent_until") != b"0"))
            return Answer()

    limits = {"concurrent_per_host": str(AT_ONCE), "requests_per_second": str(PER_SECOND), "redis_url": own_redis}
    with Redis.from_url(own_redis) as redis:
        async with Site() as door, Refusing(door, 0.05) as site, Workers(tmp_path, **limits) as workers:
            for name in ("a", "b"):
                await workers.add(name, {door: 1, site: 60})
            crawled = await workers.end_all()
    for name in ("a", "b"):
        later = [at for at in times(site, name) if at > site.said_at]
        assert len(later) > 10
        assert later[0] - site.said_at >= 4
    assert all(re.search(rf"{site.name} .*\b\d s\b", each.log) for each in crawled)


async def test_permits_of_a_killed_worker_come_back(tmp_path: Path, own_redis: str) -> None:
    class Holding(Site):
        """It never answers worker a."""

        async def answer(self, path: str, number: int) -> Answer:
            if path.startswith("/a/"):
                await asyncio.sleep(3600)
            return Answer()

    with Redis.from_url(own_redis) as redis:
        async with (
            Holding() as site,
            Workers(tmp_path, concurrent_per_host="2", requests_per_second="50", redis_url=own_redis) as workers,
        ):
            await workers.add("a", {site: 5})
            await until(lambda: len(times(site, "a")) == 2)
            await workers.add("b", {site: 5})
            await until(lambda: redis.hlen(f"harvester:{{{site.name}}}:places") == 2)
            assert not times(site, "b")
            workers.send("a", signal.SIGKILL)
            crawled = await workers.end("b")
    assert [result.status for result in crawled.results] == [200] * 5
    assert len(times(site, "a")) == 2


async def test_without_redis_nobody_asks_and_with_it_all_go_on(tmp_path: Path) -> None:
    """What had its slot before may still go: that of a second, for who was alone then."""
    with Valkey(tmp_path / "valkey", free_port()) as server:
        limits = {"concurrent_per_host": "2", "requests_per_second": str(PER_SECOND), "redis_url": server.uri}
        async with Site() as door, Gated(door) as site, Workers(tmp_path, **limits) as workers:
            for name in ("a", "b"):
                await workers.add(name, {door: 1, site: QUICK})
            await until(lambda: bool(times(site, "a") and times(site, "b")))
            server.end(signal.SIGKILL)
            count = len(site.arrivals)
            await asyncio.sleep(3)  # without Redis they could all have gone by then
            assert len(site.arrivals) - count < 2 * PER_SECOND
            server.start()
            crawled = await workers.end_all()
    for each in crawled:
        assert [result.status for result in each.results] == [200] * (1 + QUICK)
        assert re.search("WARNING: Redis ", each.log)
        assert re.search("INFO: Redis ", each.log)
    assert site.most_at_once <= 2


async def test_end_of_the_run_is_not_kept_waiting_by_redis(tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey", free_port()) as server:
        limits = {"concurrent_per_host": "2", "requests_per_second": "20", "redis_url": server.uri}
        async with Site() as site, Workers(tmp_path, **limits) as workers:
            await workers.add("a", {site: 500})
            await until(lambda: len(site.arrivals) > 5)
            server.end(signal.SIGKILL)
            workers.send("a", signal.SIGINT)
            crawled = await workers.end("a")
    assert crawled.stats["finish_reason"] == "shutdown"
    assert {result.error for result in crawled.results if result.status != 200} <= {"RunEnding"}


async def test_a_redis_that_refuses_the_login_ends_the_run(tmp_path: Path, own_redis: str) -> None:
    """Nobody is asked meanwhile."""
    async with Site() as site:
        plan = Plan([f"{site.url}/{number}" for number in range(3)], settings=SETTINGS)
        crawled = await crawl(plan, tmp_path, redis_url=own_redis.replace("//:", "//nobody:wrong"))
    assert crawled.stats["finish_reason"] == "service_error"
    assert crawled.stats["harvester/exit_code"] == 3
    assert "Redis refuses harvester" in crawled.log
    assert not site.arrivals


async def test_servers_of_ones_own_are_asked_without_redis(tmp_path: Path) -> None:
    async with Site() as site:
        plan = Plan([f"{site.url}/{number}" for number in range(50)], settings=SETTINGS)
        crawled = await crawl(plan, tmp_path, requests_per_second="0", redis_url=f"redis://127.0.0.1:{free_port()}/0")
    assert [result.status for result in crawled.results] == [200] * 50
    assert "Redis" not in crawled.log

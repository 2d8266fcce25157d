"""What a chain of requests is promised, by workers that share a frontier in Redis."""

import ast
import asyncio
import os
import re
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from harvester.frontier.store import Frontier
from tests.crawling import until
from tests.forking import Forked, fork
from tests.identities.county import County, Seen
from tests.identities.entries import AGREE, ANN, FORM, enter
from tests.identities.spiders import DETAILS, OTHERS
from tests.root import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and locks of files")

LONGEST_S = 240


class Chains:
    """The workers of one crawl of chains, which has a database of Redis for itself."""

    def __init__(self, county: County, folder: Path, redis_url: str, variables: dict[str, str]) -> None:
        self.redis_url = redis_url
        self._county = county
        self._folder = folder
        own = {name: value for name, value in os.environ.items() if not name.startswith("HARVESTER_")}
        own["HARVESTER_ALLOW_PRIVATE_HOSTS"] = "true"
        self._environment = own | {"PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "tests.identities.settings"}
        self._environment |= {"REDIS_URL": redis_url, "HARVESTER_LEASE_SECONDS": "2", "HARVESTER_MIN_RECORDS": "0"}
        self._environment |= {f"HARVESTER_{name.upper()}": value for name, value in variables.items()}

    async def start(self, chains: int, other: str = "") -> Forked:
        arguments = ["crawl", "chains", "-a", f"url={self._county.url}", "-a", f"chains={chains}"]
        arguments += ["-a", f"other={other}"] if other else []
        return await fork("scrapy", *arguments, cwd=self._folder, env=self._environment)

    async def end(self, process: Forked) -> tuple[str, dict[str, Any]]:
        """Its log and its stats."""
        _, log = await process.end(LONGEST_S)
        assert process.returncode == 0, log[-5000:]
        dumped = re.search(r"Dumping Scrapy stats:\n(\{.*?\})\n", log, re.DOTALL)
        assert dumped, log[-5000:]
        return log, ast.literal_eval(
            re.sub(r"datetime\.datetime\([^)]*\)", "None", dumped[1]).replace("tzinfo=None)", "")
        )

    async def run(self, chains: int, workers: int = 1) -> list[tuple[str, dict[str, Any]]]:
        processes = [await self.start(chains) for _ in range(workers)]
        return list(await asyncio.gather(*[self.end(process) for process in processes]))


def assert_one_at_a_time(jars: dict[str, list[Seen]]) -> None:
    for requests in jars.values():
        for first, second in pairwise(requests):
            assert first.ended <= second.began


def assert_strictly_serial(jars: dict[str, list[Seen]]) -> None:
    """In each jar one request at a time, and no chain between two requests of another."""
    assert_one_at_a_time(jars)
    for requests in jars.values():
        queries = [query_of(seen) for seen in requests]
        changes = [query for query, before in zip(queries, [None, *queries], strict=False) if query != before]
        assert len(changes) == len(set(changes)), changes


def query_of(seen: Seen) -> str:
    found = re.search(r"q=(\w+)", seen.path)
    assert found
    return found[1]


def told(crawls: list[tuple[str, dict[str, Any]]], name: str) -> int:
    return sum(stats.get(name, 0) for _, stats in crawls)


async def test_chains_are_strictly_serial_in_their_cookie_jars(county: County, folder: Path, own_redis: str) -> None:
    county.slow_s = 0.01
    variables = enter(county, folder, AGREE, count=3)
    crawls = await Chains(county, folder, own_redis, variables).run(chains=20)
    assert told(crawls, "chains/right") == 20 * DETAILS
    assert told(crawls, "chains/wrong") == 0
    jars = merged(county)
    assert len(jars) == county.agreements == 3
    assert_strictly_serial(jars)


def merged(county: County) -> dict[str, list[Seen]]:
    """The searches and details of each jar, in order."""
    jars: dict[str, list[Seen]] = {}
    for prefix in ("/search", "/detail"):
        for jar, seen in county.by_jar(prefix).items():
            jars.setdefault(jar, []).extend(seen)
    return {jar: sorted(seen, key=lambda each: each.began) for jar, seen in jars.items()}


async def test_two_workers_keep_a_cookie_jar_serial_together(county: County, folder: Path, own_redis: str) -> None:
    county.slow_s = 0.01
    variables = enter(county, folder, AGREE, count=2)
    crawls = await Chains(county, folder, own_redis, variables).run(chains=12, workers=2)
    assert told(crawls, "chains/right") >= 12 * DETAILS  # each worker has started all chains
    assert told(crawls, "chains/wrong") == 0
    assert county.agreements == 2
    assert_one_at_a_time(merged(county))


async def test_chain_whose_session_ended_is_told_so_and_begins_anew(
    county: County, folder: Path, own_redis: str
) -> None:
    county.ends_after = "/detail?q=q3&index=1"
    crawled = await Chains(county, folder, own_redis, enter(county, folder, AGREE, count=2)).run(8)
    assert told(crawled, "chains/session_expired") in (1, 2)
    assert county.count_of("/search?q=q3") == 2
    assert told(crawled, "chains/wrong") == 0
    details = {seen.path for seen in county.seen if seen.path.startswith("/detail")}
    assert len(details) == 8 * DETAILS
    assert county.agreements == 4


@pytest.mark.slow
async def test_worker_killed_in_the_midst_of_chains_leaves_them_to_the_next(
    county: County, folder: Path, own_redis: str
) -> None:
    county.slow_s = 0.05
    variables = enter(county, folder, AGREE, count=2, more="chain_idle_s = 60")
    chains = Chains(county, folder, own_redis, variables)
    process = await chains.start(8)
    await until(lambda: county.count("/detail") >= 4)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    crawled = await chains.run(8)
    assert told(crawled, "chains/wrong") == 0
    assert len({seen.path for seen in county.seen if seen.path.startswith("/detail")}) == 8 * DETAILS
    assert county.agreements == 2  # the next worker goes on in the same jars


async def test_refused_login_ends_the_run_and_leaves_its_work_queued_unspent(
    county: County, folder: Path, own_redis: str
) -> None:
    variables = enter(county, folder, FORM) | ANN | {"session_county_password": "wrong-horse"}
    async with County() as other:
        process = await Chains(county, folder, own_redis, variables).start(8, other=other.url)
        _, log = await process.end(LONGEST_S)
        assert other.count("/cookie") == OTHERS  # work for other sites is done before
    assert process.returncode == 5, log[-3000:]
    assert re.search("HARVESTER_SESSION_COUNTY_USER .*HARVESTER_SESSION_COUNTY_PASSWORD", log)
    assert county.logins == [("ann", False)]
    assert county.count("/search") == 0
    async with AsyncRedis.from_url(own_redis) as redis:
        status = await Frontier(redis, "chains").status()
    assert status.balanced
    assert (status.ready + status.waiting, status.done, status.dead) == (8, OTHERS, 0)


async def test_run_whose_sessions_can_no_longer_be_kept_ends_and_the_next_goes_on_with_all_that_is_left(
    county: County, folder: Path, own_redis: str
) -> None:
    county.slow_s = 0.05
    chains = Chains(county, folder, own_redis, enter(county, folder, AGREE, "chain_idle_s = 3", count=1))
    process = await chains.start(8)
    await until(lambda: county.count("/detail") >= 2)
    in_the_way = folder / "state" / "sessions" / "county.1.json.new"
    await until(lambda: made(in_the_way))
    _, log = await process.end(LONGEST_S)
    assert process.returncode == 4, log[-3000:]
    assert re.search(r"ERROR.*county\.1\.json", log)
    assert "Traceback" not in log, log
    async with AsyncRedis.from_url(own_redis) as redis:
        status = await Frontier(redis, "chains").status()
    assert (status.balanced, status.dead) == (True, 0)
    in_the_way.rmdir()
    await chains.run(8)
    assert len({seen.path for seen in county.seen if seen.path.startswith("/detail")}) == 8 * DETAILS


def made(folder: Path) -> bool:
    """False: a file of this name is being written."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


async def test_no_secret_is_sent_to_redis_logged_or_counted(county: County, folder: Path, own_redis: str) -> None:
    chains = Chains(county, folder, own_redis, enter(county, folder, AGREE, count=2))
    with Redis.from_url(own_redis, socket_timeout=LONGEST_S) as redis, redis.monitor() as monitor:
        process = await chains.start(8)
        commands = asyncio.create_task(asyncio.to_thread(heard, monitor))
        log, stats = await chains.end(process)
        with Redis.from_url(own_redis) as other:
            other.ping()
            other.echo(END)
        said = await commands
    assert "identity_chain" in said
    assert "chains/leaked" not in stats
    assert len(county.secrets) > 8
    for secret in county.secrets:
        assert secret not in said
        assert secret not in log
        assert secret not in str(stats)


END = "that-was-all"


def heard(monitor: Any) -> str:
    """Every command that Redis got, until END."""
    said = []
    while END not in (command := str(monitor.next_command()["command"])):
        said.append(command)
    return "\n".join(said)

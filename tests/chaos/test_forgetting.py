"""A Redis that forgets in the midst of a crawl: workers say so, and nobody calls the crawl complete."""

import signal
import sys
import time
from pathlib import Path

import pytest
from redis import Redis

from harvester.exceptions import FrontierLost
from tests.chaos.crawl import Crawl, crawl
from tests.chaos.workers import Worker
from tests.forking import run

LONGEST_S = 120


def _ended(*workers: Worker) -> list[int]:
    """Exit codes of workers that are to end by themselves."""
    return [worker.process.wait(LONGEST_S) for worker in workers]


def _reaches(disturbed: Crawl, pages: int) -> None:
    deadline = time.monotonic() + LONGEST_S
    while disturbed.site.progress().pages < pages:
        assert time.monotonic() < deadline, disturbed.workers.said
        time.sleep(0.05)


def _begin_anew(disturbed: Crawl) -> None:
    workers = disturbed.workers
    harvester = Path(sys.executable).with_name("harvester")
    command = (str(harvester), "frontier", "forget", "tree", "--all", "--yes")
    ran = run(*command, cwd=workers.folder, env=workers.environment, within_s=LONGEST_S)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_a_redis_that_is_flushed_is_noticed_by_workers_and_by_those_that_follow(tmp_path: Path) -> None:
    with (
        crawl(150, tmp_path, "tests.chaos.settings") as disturbed,
        Redis.from_url(disturbed.servers.redis.uri) as redis,
    ):
        workers = disturbed.workers
        pair = workers.start(), workers.start()
        _reaches(disturbed, 60)
        for each in pair:
            assert each.process.poll() is None, workers.said
        redis.flushall()
        assert _ended(*pair) == [FrontierLost.exit_code] * 2, workers.said
        assert "frontier forget tree --all" in workers.said
        put_back = disturbed.status()
        assert put_back.ready > 0, "what the workers had"
        assert put_back.balanced

        redis.flushall()
        assert _ended(workers.start()) == [FrontierLost.exit_code], "nobody was there to notice"
        assert "unfinished" in workers.said
        assert "complete" not in workers.said

        _begin_anew(disturbed)
        assert _ended(workers.start()) == [0], workers.said
        assert disturbed.stored() == disturbed.expected(), workers.said
        assert disturbed.status().balanced

        redis.flushall()
        assert _ended(workers.start()) == [0], "a crawl that was finished may be forgotten"


def test_a_redis_without_a_log_is_refused_or_accepted_and_its_end_is_noticed(tmp_path: Path) -> None:
    with (
        crawl(150, tmp_path, "tests.chaos.settings") as disturbed,
        Redis.from_url(disturbed.servers.redis.uri) as redis,
    ):
        redis.config_set("appendonly", "no")
        workers = disturbed.workers
        assert _ended(workers.start()) == [3]
        assert "appendonly yes" in workers.said
        assert "HARVESTER_REDIS_MAY_FORGET" in workers.said
        workers.environment["HARVESTER_REDIS_MAY_FORGET"] = "yes"
        worker = workers.start()
        _reaches(disturbed, 60)
        disturbed.servers.redis.end(signal.SIGKILL)
        disturbed.servers.redis.start()
        assert _ended(worker) == [FrontierLost.exit_code], workers.said
        assert "complete" not in workers.said

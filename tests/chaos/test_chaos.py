"""Workers and servers are killed at random moments, and the crawl ends as if nobody had touched it."""

import os
import sys
from pathlib import Path

import pytest

from tests.chaos.crawl import crawl
from tests.chaos.killing import Plan
from tests.chaos.storm import Disk, Storm, Storming
from tests.sandbox.web import Web

KILLS = Plan(pages=500, workers=3, worker_kills=3, redis_kills=1, mongodb_kills=1)
SHORT = Storm(worker=1, redis=1, mongodb=1, drain=1, full_disk=1, zombie=1, clock_back=0)
LONG = Storm(worker=30, redis=4, mongodb=5, drain=4, full_disk=4, zombie=2, clock_back=1)
"""To set the clock back, Redis is killed once more."""
ENTRIES = ("/page/", "/missing/", "/check/")
"""Begin the addresses that are answered once for each time a request is delivered."""


@pytest.mark.timeout(1800)
def test_nothing_is_lost_when_workers_redis_and_mongodb_are_killed(tmp_path: Path) -> None:
    with crawl(KILLS.pages, tmp_path, "tests.chaos.settings") as disturbed:
        killed = disturbed.disturbed(KILLS)
        status, tree = disturbed.status(), disturbed.site.tree
        asked_again = status.queued - tree.filtered() - tree.unfiltered()  # unfiltered, by a page done twice
        answered_again = sum(count - 1 for path, count in disturbed.site.log().items() if path.startswith(ENTRIES))
        print(f"{killed}, {status.redelivered} redelivered, {asked_again} asked again, {answered_again} answered again")

        assert tuple(killed.times.values()) == KILLS[2:5], "some kills did not strike"
        assert disturbed.stored() == disturbed.expected(), disturbed.workers.said
        assert status.balanced
        assert status.done == status.queued == status.seen - tree.moved()
        assert status.done_by_outcome["not_found"] == tree.filtered() - tree.pages
        assert 0 < status.redelivered <= killed.in_flight
        assert 0 <= asked_again <= status.redelivered
        assert answered_again <= status.redelivered + asked_again


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a disk of its own, to fill it up")
@pytest.mark.parametrize(
    ("pages", "storm"),
    [
        pytest.param(200, SHORT, id="short", marks=[pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]),
        pytest.param(20_000, LONG, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(5400)]),
    ],
)
def test_a_crawl_in_a_storm_ends_as_if_undisturbed(tmp_path: Path, pages: int, storm: Storm) -> None:
    """Of pages linked at random, with redirects, errors and slow pages; some workers may open few files.

    No page is given up, however often it was under way when its worker was killed: test_poison.py tests that bound.
    """
    web = Web(pages)
    deliveries = str(sum(storm))
    with (
        Disk(tmp_path / "disk", 64) as disk,
        crawl(
            web,
            tmp_path,
            "tests.chaos.settings",
            HARVESTER_DATA_DIR=str(disk.folder / "data"),
            HARVESTER_MAX_DELIVERIES=deliveries,
        ) as crawled,
    ):
        crawled.workers.poor_each = 3
        plan = Plan(pages, workers=3, worker_kills=0)
        killing = Storming(storm, disk, plan, *crawled[:3], crawled.pending, crawled.held_by)
        killed = killing.run()
        status = crawled.status()
        print(killed, status, sep="\n")
        assert killed.times == storm._asdict(), "some strikes did not come"
        assert crawled.stored() == crawled.expected(), crawled.workers.said
        assert status.balanced
        assert {letter.url for letter in crawled.dead()} == {crawled.site.url + path for path in web.all_broken()}
        assert status.done + status.dead == status.queued
        assert set(crawled.workers.failures) <= {3}, "what a worker says that is started while a server is away"

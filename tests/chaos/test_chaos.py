"""Workers and servers are killed at random moments, and the crawl ends as if nobody had touched it."""

from pathlib import Path

import pytest

from tests.chaos.crawl import crawl
from tests.chaos.killing import Plan

SHORT = Plan(pages=1_500, workers=3, worker_kills=6, redis_kills=1, mongodb_kills=1)
LONG = Plan(pages=30_000, workers=4, worker_kills=30, redis_kills=3, mongodb_kills=3)
ENTRIES = ("/page/", "/missing/", "/check/")
"""Begin the addresses that are answered once for each time a request is delivered."""


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(SHORT, id="short", marks=pytest.mark.timeout(1800)),
        pytest.param(LONG, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(3600)]),
    ],
)
def test_nothing_is_lost_when_workers_redis_and_mongodb_are_killed(tmp_path: Path, plan: Plan) -> None:
    with crawl(plan.pages, tmp_path, "tests.chaos.settings") as disturbed:
        killed = disturbed.disturbed(plan)
        status, tree = disturbed.status(), disturbed.site.tree
        asked_again = status.queued - tree.filtered() - tree.unfiltered()  # unfiltered, by a page done twice
        answered_again = sum(count - 1 for path, count in disturbed.site.log().items() if path.startswith(ENTRIES))
        print(f"{killed}, {status.redelivered} redelivered, {asked_again} asked again, {answered_again} answered again")

        assert killed[:3] == (plan.worker_kills, plan.redis_kills, plan.mongodb_kills), "some kills did not strike"
        assert disturbed.stored() == disturbed.expected(), disturbed.workers.said
        assert status.balanced
        assert status.done == status.queued == status.seen
        assert status.done_by_outcome["not_found"] == tree.filtered() - tree.pages
        assert 0 < status.redelivered <= killed.in_flight
        assert 0 <= asked_again <= status.redelivered
        assert answered_again <= status.redelivered + asked_again

"""Workers and servers are killed at random moments, and the crawl ends as if nobody had touched it."""

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.crawl import crawl
from tests.chaos.killing import Plan

SHORT = Plan(pages=3_000, workers=3, worker_kills=8, redis_kills=1, mongodb_kills=1)
LONG = Plan(pages=30_000, workers=4, worker_kills=30, redis_kills=3, mongodb_kills=3)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(3600)]),
    ],
)
def test_nothing_is_lost_when_workers_redis_and_mongodb_are_killed(tmp_path: Path, plan: Plan) -> None:
    with crawl(plan.pages, tmp_path, "tests.chaos.settings") as disturbed:
        killed = disturbed.disturbed(plan)
        status, tree = disturbed.status(), disturbed.site.tree
        answered = Counter(disturbed.site.log())
        twice = sum(count - 1 for path, count in answered.items() if path.startswith(("/page/", "/missing/")))
        print(f"{killed}; {status.redelivered} redelivered, {twice} fetched twice; {status}")
        assert killed[:3] == plan[2:5], "not all of the kills struck"
        assert disturbed.stored() == disturbed.expected(), disturbed.workers.said

        assert status.balanced
        assert (status.ready, status.waiting, status.leased) == (0, 0, 0)
        assert (status.skipped_by_outcome, status.dead_by_outcome) == ({}, {})
        assert status.seen == tree.filtered()
        assert 0 <= status.queued - tree.filtered() - tree.unfiltered() <= killed.in_flight
        assert 0 < status.redelivered <= killed.in_flight
        assert twice <= killed.in_flight

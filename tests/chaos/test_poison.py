"""A page that kills every process which reads it is given up, and only that page."""

from pathlib import Path

import pytest

from tests.chaos.crawl import crawl
from tests.chaos.killing import Plan
from tests.sandbox.tree import Tree

POISON = 50
DELIVERIES = 2


@pytest.mark.timeout(1800)
def test_a_request_that_keeps_killing_workers_is_a_dead_letter_and_no_other_is(tmp_path: Path) -> None:
    plan = Plan(pages=150, workers=1, worker_kills=0)
    limits = {"HARVESTER_LEASE_SECONDS": "2", "HARVESTER_MAX_DELIVERIES": str(DELIVERIES)}
    with crawl(plan.pages, tmp_path, "tests.chaos.settings", POISON, **limits) as poisoned:
        poisoned.disturbed(plan)
        status = poisoned.status()
        print(status, poisoned.workers.failures)
        lost = below(poisoned.site.tree, POISON)
        expected = {key: each for key, each in poisoned.expected().items() if each["page"] not in lost}
        assert status.dead_by_outcome == {"worker_lost": 1}
        assert poisoned.workers.failures == [-9] * (DELIVERIES + 1)
        assert poisoned.stored() == expected
        assert status.balanced


def below(tree: Tree, page: int) -> list[int]:
    """The page, and those that are found only through it."""
    return [page, *(found for child in tree.children(page) for found in below(tree, child))]

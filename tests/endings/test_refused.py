"""A site that refuses most items ends the run as refused, also when it answers at other addresses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from harvester.jobs.documents import Counted, ItemState
from harvester.jobs.host_faults import refused
from harvester.outcomes import Outcome
from tests.jobs.running import LEFT, Runs, Tree, states

PAGES = 12
NO_BREAKER = '[tree]\nhosts = ["127.0.0.1"]\n[tree.breaker]\nenabled = false\n'


def refuses_all_but_one(path: str, number: int) -> int:
    return 403 if path.startswith("/behind/") and path != "/behind/1" else 0


@pytest.mark.parametrize("spider", ["tree", "patient_tree"])
async def test_an_endpoint_that_refuses_nearly_all_ends_the_run_as_refused(
    spider: str, runs: Runs, mongodb: Database[dict[str, Any]], tmp_path: Path
) -> None:
    """Whether the items have failed for good, or are to be tried again."""
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "tree.toml").write_text(NO_BREAKER)
    runs._environment["HARVESTER_SITES_DIR"] = str(tmp_path / "sites")
    async with Tree(PAGES) as tree:
        tree.bad = refuses_all_but_one
        assert await runs.run(spider, urls=tree.url) == LEFT, runs.said
    assert states(mongodb)["done"] == PAGES + 1
    [run] = mongodb["runs"].find()
    assert (run["state"], run["finish_reason"], run["exit_code"]) == ("failed", "blocked", LEFT)
    assert "given up" in runs.said
    last = " ".join(runs.said.rpartition("\nWhy\n")[2].split())
    for named in (tree.name, f"{PAGES - 1} of {PAGES} pages", "HTTP 403 no"):
        assert named in run["message"]
        assert named in last
    assert ("harvester jobs retry tree-" in last) is (spider == "tree")


def counted(*rows: tuple[str, ItemState, Outcome | str, int]) -> Sequence[Counted]:
    return [Counted(kind, state, "", str(outcome), items) for kind, state, outcome, items in rows]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            counted(("account", ItemState.FAILED, "blocked", 24), ("account", ItemState.DONE, "ok", 1)),
            "24 of 25 accounts",
        ),
        (counted(("account", ItemState.WAITING, "challenge", 3), ("seed", ItemState.DONE, "ok", 9)), "3 of 3 accounts"),
        (counted(("account", ItemState.FAILED, "blocked", 12), ("account", ItemState.DONE, "ok", 13)), ""),
        (counted(("account", ItemState.SKIPPED, "policy_denied", 25), ("account", ItemState.DONE, "ok", 1)), ""),
        (counted(("account", ItemState.FAILED, "gone", 25), ("account", ItemState.WAITING, "", 25)), ""),
        ((), ""),
    ],
)
def test_a_run_counts_as_refused_when_most_items_of_a_kind_are(counts: Sequence[Counted], said: str) -> None:
    stats = MemoryStatsCollector(get_crawler())
    stats.set_value("harvester/errors/timeout/fine.example", 90)
    stats.set_value("harvester/errors/blocked/site.example", 24)
    found = refused(stats, counts)
    assert bool(found) == bool(said)
    if found:
        assert found.reason == "blocked"
        for named in ("site.example", said, "blocked"):
            assert named in found.said

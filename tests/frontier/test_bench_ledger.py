"""The tables of docs/capacity.md on jobs follow from the measurements that stand in it."""

import pytest

from tests.bench.ledger import constants, documented, jobs, shards, workers
from tests.root import ROOT

PAGE = (ROOT / "docs" / "capacity.md").read_text("utf-8")
MEASURED = documented(PAGE)


@pytest.mark.parametrize(
    "part",
    [constants(MEASURED), jobs(MEASURED), workers(MEASURED), shards(MEASURED)],
    ids=["constants", "jobs", "workers", "shards"],
)
def test_the_page_says_what_follows_from_its_measurements_of_jobs(part: str) -> None:
    """To renew it: make capacity"""
    assert part in PAGE

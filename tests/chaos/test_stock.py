"""The same killings with scrapy-redis as it comes: it loses pages, so the test of the frontier can fail."""

from pathlib import Path

import pytest

from tests.chaos.crawl import crawl
from tests.chaos.killing import Plan

STOCK = "tests.chaos.stock_settings"


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [0, 3])
def test_scrapy_redis_finds_all_unless_a_worker_is_killed(tmp_path: Path, kills: int) -> None:
    plan = Plan(pages=400, workers=2, worker_kills=kills)
    with crawl(plan.pages, tmp_path, STOCK, program="tests.chaos.stock_crawl") as stock:
        killed = stock.disturbed_on_stock(plan)
        expected, found = stock.expected(), stock.stored()
        print(f"{killed.times['worker']} kills: {len(expected) - len(found)} of {len(expected)} records lost")
        assert (killed.times["worker"] == 0) == (kills == 0)
        assert (found == expected) == (kills == 0), stock.workers.said

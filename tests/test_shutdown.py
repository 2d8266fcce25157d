"""A run that ends for a reason ends once, and for that reason."""

import asyncio
import re

import pytest
from scrapy import Spider, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.test import get_crawler

from harvester import shutdown
from harvester.exceptions import ServiceError
from harvester.shutdown import close, end, is_ending, stop
from tests.jobs.spiders import TreeSpider
from tests.root import ROOT


@pytest.fixture
def crawler() -> Crawler:
    """Its engine has no spider: it has none yet, or has none any more."""
    crawler: Crawler = get_crawler(Spider)
    crawler.spider = Spider.from_crawler(crawler, name="any")
    crawler.engine = ExecutionEngine(crawler, lambda _: None)
    return crawler


async def test_to_close_a_spider_that_is_closed_already_is_no_error(crawler: Crawler) -> None:
    await close(crawler, "storage_error")


async def test_a_start_that_fails_when_the_run_has_ended_closes_nothing(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(spider: TreeSpider) -> None:
        raise ServiceError("MongoDB is away")

    monkeypatch.setattr(TreeSpider, "_work", fail)
    spider = TreeSpider.from_crawler(crawler, urls="http://127.0.0.1:1")
    assert [each async for each in spider.start()] == []
    assert crawler.stats.get_value("harvester/exit_code") == ServiceError.exit_code


async def test_an_idle_spider_is_left_to_the_end_that_has_begun(crawler: Crawler) -> None:
    def asked_to_stay() -> bool:
        told = crawler.signals.send_catch_log(signals.spider_idle, dont_log=DontCloseSpider)
        return any(isinstance(answer.value, DontCloseSpider) for _, answer in told)

    assert not asked_to_stay()
    end(crawler, "storage_error", exit_code=4)
    assert asked_to_stay()
    assert is_ending(crawler)
    assert crawler.stats.get_value("harvester/exit_code") == 4


async def test_a_task_that_loses_a_cancellation_is_stopped_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As asyncio.wait_for does when what it waited for is there in the same moment."""
    monkeypatch.setattr(shutdown, "AGAIN_S", 0.01)
    lost = 0

    async def go_on() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1
                if lost > 1:
                    raise

    task = asyncio.create_task(go_on())
    await asyncio.sleep(0)
    await stop(task, None)
    assert task.cancelled()
    assert lost == 2


def test_a_run_that_an_error_ends_has_the_reason_of_that_error_and_of_no_other() -> None:
    """Its name says what may be typed next: after some nothing can be continued."""
    ends = re.compile(r"\bend\(\s*self\.\w+,\s*([^,]+),\s*([a-z]\w*)\.exit_code\b")
    found = [
        (path.name, reason, error)
        for path in (ROOT / "harvester").rglob("*.py")
        for reason, error in ends.findall(path.read_text("utf-8"))
    ]
    assert len(found) > 8
    assert [each for each in found if each[1] not in (f"{each[2]}.finish_reason", f"_reason({each[2]})")] == [
        ("job.py", "ended.reason", "ended")
    ]

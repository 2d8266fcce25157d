"""A run that ends for a reason ends once, and for that reason."""

import pytest
from scrapy import Spider, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.utils.test import get_crawler

from harvester.shutdown import close, end, is_ending


@pytest.fixture
def crawler() -> Crawler:
    """Its engine has no spider: it has none yet, or has none any more."""
    crawler: Crawler = get_crawler(Spider)
    crawler.spider = Spider.from_crawler(crawler, name="any")
    crawler.engine = ExecutionEngine(crawler, lambda _: None)
    return crawler


async def test_to_close_a_spider_that_is_closed_already_is_no_error(crawler: Crawler) -> None:
    await close(crawler, "storage_error")


async def test_an_idle_spider_is_left_to_the_end_that_has_begun(crawler: Crawler) -> None:
    def asked_to_stay() -> bool:
        told = crawler.signals.send_catch_log(signals.spider_idle, dont_log=DontCloseSpider)
        return any(isinstance(answer.value, DontCloseSpider) for _, answer in told)

    assert not asked_to_stay()
    end(crawler, "storage_error", exit_code=4)
    assert asked_to_stay()
    assert is_ending(crawler)
    assert crawler.stats.get_value("harvester/exit_code") == 4

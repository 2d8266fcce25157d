"""What the log and the stats say of a site's pace."""

import logging

import pytest
from scrapy import Spider
from scrapy.utils.test import get_crawler

from harvester.config import Config
from harvester.politeness.throttle import Throttle
from tests.numbers import numbers_of


def test_the_log_says_once_that_a_site_is_asked_more_slowly_and_once_that_it_is_not(
    caplog: pytest.LogCaptureFixture, redis_url: str
) -> None:
    """However often its pace goes up and down; the stat goes with it."""
    crawler = get_crawler(Spider)
    throttle = Throttle(crawler, Config(redis_url=redis_url, requests_per_second=8))
    with caplog.at_level(logging.INFO, "harvester.politeness"):
        for _ in range(5):
            for _ in range(3):
                throttle.timed_out("api.example")
            assert crawler.stats.get_value("harvester/interval/api.example") > 0.125
            pace = throttle._pace("api.example")
            for _ in range(20):
                pace.slowdown.answered(0.1)
            throttle._show_pace("api.example")
            assert crawler.stats.get_value("harvester/interval/api.example") == 0.125
    assert all(message.startswith("api.example ") for message in caplog.messages)
    assert [numbers_of(message) for message in caplog.messages] == [[0.281, 0.125], [0.125]]
    assert crawler.stats.get_value("harvester/limit/api.example") == 8

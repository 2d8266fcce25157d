"""A spider of Scrapy hears within half a minute of a host that cannot be reached; harvester's own wait."""

import time

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, DownloadConnectionRefusedError
from scrapy.utils.test import get_crawler

from harvester.exceptions import LocalFault
from harvester.frontier.attempts import UNREACHED_S
from harvester.internal_meta import LEASE, UNREACHED_SINCE
from harvester.middlewares.outcome import OutcomeMiddleware
from harvester.outcomes import verdict_of
from harvester.spiders.base import HarvesterSpider

ERRORS = [CannotResolveHostError("no such host"), DownloadConnectionRefusedError("closed")]


def crawler_of(kind: type[Spider], **settings: object) -> Crawler:
    crawler = get_crawler(settings_dict=settings)
    crawler.spider = kind.__new__(kind)  # its class is all that counts
    return crawler


def asked(seconds_ago: float) -> Request:
    return Request("http://shop.example/", meta={LEASE: "1", UNREACHED_SINCE: time.time() - seconds_ago})


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("is_local", [False, True], ids=["the host", "this machine"])
async def test_a_host_is_given_up_when_it_could_not_be_reached_for_so_long(error: Exception, is_local: bool) -> None:
    for kind, seconds, is_tried_again in (
        (Spider, 0.0, True),
        (Spider, UNREACHED_S + 1, False),
        (HarvesterSpider, UNREACHED_S + 1, True),
    ):
        failed = type(error)(*error.args)
        if is_local:
            failed.local_fault = LocalFault("no host can be reached")  # type: ignore[attr-defined]
        again = await OutcomeMiddleware(crawler_of(kind)).process_exception(asked(seconds), failed)
        assert (again is not None) == is_tried_again, (kind, seconds)
        if not is_tried_again:
            assert verdict_of(failed).outcome in ("dns", "network"), "the machine is not blamed any more"


async def test_the_tries_that_a_project_sets_come_first() -> None:
    outcomes = OutcomeMiddleware(crawler_of(Spider, RETRY_TIMES=1))
    assert await outcomes.process_exception(asked(UNREACHED_S + 1), ERRORS[0]) is not None

"""What is kept from being sent goes back into the frontier before a middleware of a project hears of it."""

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError
from scrapy.utils.test import get_crawler

from harvester.exceptions import LocalFault
from harvester.internal_meta import LEASE, NOT_BEFORE, PARKED
from harvester.middlewares.breaker import BreakerGate
from harvester.shutdown import RunEnding


@pytest.fixture
def gate() -> BreakerGate:
    return BreakerGate(get_crawler(settings_dict={"SCHEDULER": "harvester.frontier.scheduler.Scheduler"}))


@pytest.mark.parametrize(("error", "key"), [(RunEnding("over"), PARKED), (LocalFault("no files"), NOT_BEFORE)])
def test_a_leased_request_goes_back(error: Exception, key: str, gate: BreakerGate) -> None:
    again = gate.process_exception(Request("http://shop.example/", meta={LEASE: "1"}), error)
    assert again is not None
    assert key in again.meta
    assert gate.process_exception(Request("http://shop.example/"), error) is None, "who waits for it must hear"


def test_what_a_download_failed_with_goes_on(gate: BreakerGate) -> None:
    failed = DownloadTimeoutError("late")
    failed.local_fault = LocalFault("no network")  # type: ignore[attr-defined]
    assert gate.process_exception(Request("http://shop.example/", meta={LEASE: "1"}), failed) is None

"""What a run says that leaves items behind names who kept it from its work, and asks only what is to be asked."""

import pytest
from scrapy.utils.test import get_crawler

from harvester.jobs.host_faults import Blame, blame


def said(outcome: str, reason: str, pages: int = 0) -> Blame:
    stats = get_crawler().stats
    stats.set_value(f"harvester/errors/{outcome}/api.example", 3)
    stats.set_value(f"harvester/said/{outcome}/api.example", reason)
    stats.set_value("harvester/pages", pages)
    found = blame(stats, "-a service=...")
    assert found
    return found


def test_after_a_dead_proxy_nobody_is_asked_about_the_address_of_the_site() -> None:
    found = said("proxy", "the proxy 127.0.0.1:1 cannot be reached")
    assert found.reason == "unreachable"
    assert "api.example" in found.said
    assert "127.0.0.1:1" in found.said
    assert "-a service=..." not in found.said


@pytest.mark.parametrize(
    ("outcome", "reason", "asks_for_the_address"),
    [("blocked", "blocked", False), ("dns", "unreachable", True), ("layout_changed", "unusable", True)],
)
def test_the_host_that_failed_most_is_named(outcome: str, reason: str, asks_for_the_address: bool) -> None:
    found = said(outcome, "why")
    assert found.reason == reason
    assert "api.example" in found.said
    assert "(why)" in found.said
    assert ("-a service=..." in found.said) is asks_for_the_address

"""How fast a site is asked follows from what it says and how it answers. No clock: only order and ratios count."""

import random
from typing import Any

import pytest
from scrapy.settings import Settings

from harvester.addon import Addon
from harvester.config import Config
from harvester.parsers.web.rate_limits import ReportedQuota
from harvester.politeness.pace import HEADROOM, LONGEST_PACE_S, Pace, Slowdown
from harvester.politeness.throttle import as_the_project_sets
from harvester.sites.politeness import Limits, Politeness

EVERY_S = 0.125


def fed(*latencies: float, before: int = 50, usual: float = 0.2) -> Slowdown:
    slowdown = Slowdown()
    for latency in [usual] * before + list(latencies):
        slowdown.answered(latency)
    return slowdown


def test_a_site_that_answers_as_usual_is_not_slowed() -> None:
    slowdown = Slowdown()
    dice = random.Random(7)
    for _ in range(2000):
        slowdown.answered(dice.uniform(0.15, 0.4))
        assert slowdown.factor == 1


def test_single_slow_answers_count_nothing() -> None:
    slowdown = fed()
    for number in range(1000):
        slowdown.answered(30.0 if number % 4 == 0 else 0.2)
        assert slowdown.factor == 1


def test_the_slower_the_answers_the_slower_the_requests_up_to_a_bound() -> None:
    factors = [fed(*[0.2 * times] * 9).factor for times in (1, 2, 4, 6, 9, 100)]
    assert factors[:2] == [1, 1]
    assert factors == sorted(factors)
    assert 1 < factors[2] < factors[3] < factors[4] <= Slowdown.MOST
    assert factors[5] == Slowdown.MOST


def test_it_recovers_when_the_answers_do() -> None:
    slowdown = fed(*[4.0] * 20)
    assert slowdown.factor == Slowdown.MOST
    for _ in range(9):
        slowdown.answered(0.2)
    assert slowdown.factor == 1


def test_what_stays_slow_becomes_usual() -> None:
    assert fed(*[1.0] * 1000).factor == 1


def test_differences_between_quick_answers_count_nothing() -> None:
    assert fed(*[0.09] * 20, usual=0.002).factor == 1


def test_failures_slow_down_until_answers_come_again() -> None:
    slowdown = fed()
    factors = []
    for _ in range(10):
        slowdown.failed()
        factors.append(slowdown.factor)
    assert factors == sorted(factors)
    assert factors[0] > 1
    assert factors[-1] == Slowdown.MOST
    for _ in range(20):
        slowdown.answered(0.2)
    assert slowdown.factor == 1


def test_a_few_broken_pages_do_not_slow_a_site_for_long() -> None:
    slowdown = fed()
    for number in range(1000):
        slowdown.failed() if number % 10 == 0 else slowdown.answered(0.2)
    assert slowdown.factor < 2


def pace(every_s: float = EVERY_S) -> Pace:
    return Pace(Limits(every_s, 4))


def interval(of: Pace, now: float = 0.0) -> float:
    return of.limits_at(now).interval_s


def test_nothing_makes_requests_quicker_than_configured() -> None:
    site = pace(2.0)
    site.crawl_delay_s = 0.5
    site.heed([ReportedQuota(1000, 60, 900, 30)], 0)
    assert interval(site) == 2.0


def test_a_crawl_delay_slows_down() -> None:
    site = pace()
    site.crawl_delay_s = 3.0
    assert interval(site) == 3.0
    site.crawl_delay_s = 0.0
    assert interval(site) == EVERY_S


def test_a_slow_site_is_slowed_up_to_a_minute_unless_configured_slower() -> None:
    for every_s, most in ((EVERY_S, EVERY_S * Slowdown.MOST), (20.0, LONGEST_PACE_S), (100.0, 100.0)):
        site = pace(every_s)
        for _ in range(20):
            site.slowdown.failed()
        assert interval(site) == most


def test_a_policy_that_is_slower_slows_down_and_is_forgotten_when_no_longer_told() -> None:
    site = pace()
    assert site.heed([ReportedQuota(100, 60, 99, 60), ReportedQuota(500, 3600)], 0) == 0
    assert interval(site) == 3600 / 500
    assert interval(site, 3599) == 3600 / 500
    assert interval(site, 3601) == EVERY_S


def test_a_policy_in_another_unit_says_nothing_of_requests() -> None:
    site = pace()
    assert site.heed([ReportedQuota(10, 60, 5, 60, "bytes", "content-bytes")], 0) == 0
    assert site.heed([ReportedQuota(4, None, 0, None, "at once", "concurrent-requests")], 0) == 0
    assert interval(site) == EVERY_S


@pytest.mark.parametrize(
    ("most", "left", "is_exhausted"),
    [
        (3000, 0, True),
        (3000, 5, True),
        (3000, 6, False),
        (3000, 2999, False),
        (30, 3, True),
        (30, 4, False),
        (10, 1, True),
        (10, 2, False),
        (1, 0, True),
        (1, 1, False),
        (None, 0, True),
        (None, 6, False),
        (3000, None, False),
        (3000, -1, True),
    ],
)
def test_the_rest_of_a_window_is_waited_for_when_almost_nothing_of_it_is_left(
    most: float | None, left: float | None, is_exhausted: bool
) -> None:
    assert pace().heed([ReportedQuota(most, None, left, 90)], 0) == (90 if is_exhausted else 0)


def test_an_exhausted_window_lasts_until_its_reset_or_for_its_length() -> None:
    assert pace().heed([ReportedQuota(100, 60, 0)], 0) == 60
    assert pace().heed([ReportedQuota(100, None, 0)], 0) == 0
    assert pace().heed([ReportedQuota(100, 60, 0, 20), ReportedQuota(900, 3600, 0, 400)], 0) == 400


def test_few_that_are_left_are_spread_over_the_rest_of_the_window() -> None:
    site = pace()
    assert site.heed([ReportedQuota(1000, None, 105, 100)], 0) == 0
    assert interval(site) == 1.0
    assert interval(site, 100.0) == EVERY_S, "the window has ended"
    site.heed([ReportedQuota(1000, None, 990, 100)], 0)
    assert interval(site) == EVERY_S, "there is more again"


def test_a_window_is_used_to_its_end_and_never_run_dry() -> None:
    """A client that does what its pace says, beside a server that counts."""
    site, now, left, ends, asked_late = pace(), 0.0, 200, 100.0, 0
    while now < ends:
        left -= 1
        asked_late += now > 0.8 * ends
        if wait_s := site.heed([ReportedQuota(200, None, left, ends - now)], now):
            now += wait_s
        now += interval(site, now)
    assert 0 <= left <= HEADROOM + 1
    assert asked_late > 10


def test_limits_of_an_entry_and_of_the_configuration() -> None:
    config = Config(requests_per_second=8, concurrent_per_host=4)
    assert Politeness().limits(config) == Limits(0.125, 4)
    assert Politeness(requests_per_second=2, concurrency=1).limits(config) == Limits(0.5, 1)
    assert Politeness(requests_per_second=2, delay_s=3).limits(config) == Limits(3, 4)
    assert Politeness(window_requests=30, window_s=60).limits(config) == Limits(2, 4, 30, 60)
    assert Politeness(requests_per_second=5, window_requests=30, window_s=60).limits(config) == Limits(0.2, 4, 30, 60)
    assert Politeness(requests_per_second=0).limits(config) == Limits(0, 16)
    own = Config(requests_per_second=0)
    assert Politeness().limits(own) == Limits(0, 16)
    assert Politeness(concurrency=2).limits(own) == Limits(0, 2)
    assert Politeness(delay_s=1).limits(own) == Limits(1, 4)
    assert Politeness(requests_per_second=0, window_requests=9, window_s=1).limits(own).interval_s > 0


@pytest.mark.parametrize("half", [{"window_requests": 3}, {"window_s": 3}])
def test_half_a_window_is_refused(half: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"window_requests.*window_s"):
        Politeness(**half)


@pytest.mark.parametrize(
    ("given", "priority", "limits"),
    [
        ({"DOWNLOAD_DELAY": 2}, "project", Limits(2, 4)),
        ({"DOWNLOAD_DELAY": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}, "spider", Limits(2, 1)),
        ({"CONCURRENT_REQUESTS_PER_DOMAIN": 32}, "cmdline", Limits(0.125, 32)),
        ({"DOWNLOAD_DELAY": 2, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}, "addon", Limits(0.125, 4)),
        ({}, "project", Limits(0.125, 4)),
    ],
)
def test_limits_that_a_project_sets_as_for_scrapy(given: dict[str, Any], priority: str, limits: Limits) -> None:
    config = Config(requests_per_second=8, concurrent_per_host=4)
    settings = Settings()
    settings.setmodule("harvester.settings")
    Addon.update_pre_crawler_settings(settings)
    settings.setdict(given, priority)
    assert Politeness().limits(as_the_project_sets(config, settings)) == limits
    assert Politeness(requests_per_second=1, concurrency=2).limits(as_the_project_sets(config, settings)) == Limits(
        1, 2
    )

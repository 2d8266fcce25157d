"""A host is asked no faster than allowed, and not at all while it says wait; told from the host's own log."""

import asyncio
import os
import re
import signal
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.crawling import Answer, Arrival, Crawled, Plan, Site, crawl, end, start, until

AT_ONCE, PER_SECOND = 3, 20
SILENCE_S = 1.0
FULL = Answer(200, headers={"RateLimit-Limit": "100", "RateLimit-Remaining": "80", "RateLimit-Reset": "300"})


class Refusing(Site):
    """It answers the first request, once as many as may be under way have come, with a wish to be left alone.

    The others under way are held back until the pause is over. So every permit is taken when the wish is heard, and
    nothing can be on its way: whatever comes next was sent after it.
    """

    def __init__(self, status: int = 429, **headers: str) -> None:
        super().__init__()
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.said_at = 0.0
        self.until = 0.0
        """On the wall clock, when the wish names a time."""

    async def answer(self, path: str, number: int) -> Answer:
        place = len(self.arrivals)
        if place > AT_ONCE:
            return FULL
        await until(lambda: len(self.arrivals) >= AT_ONCE)
        if place == 1:
            self.said_at = time.monotonic()
            return Answer(self.status, headers=self.wish())
        await until(lambda: len(self.arrivals) > AT_ONCE)
        return FULL

    def wish(self) -> dict[str, str]:
        return self.headers

    @property
    def later(self) -> list[Arrival]:
        """What came after the wish."""
        return self.arrivals[AT_ONCE:]


class RefusingUntil(Refusing):
    """It names the end of the pause: as an HTTP date in Retry-After, or as an epoch in RateLimit-Reset."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name_of_header = name

    def wish(self) -> dict[str, str]:
        self.until = float(int(time.time()) + 4)  # whole seconds, between three and four from now
        is_date = self.name_of_header == "Retry-After"
        return {self.name_of_header: formatdate(self.until, usegmt=True) if is_date else str(int(self.until))}


class Stubborn(Site):
    """It refuses all of the first requests, and the first one after the pause, without saying for how long."""

    async def answer(self, path: str, number: int) -> Answer:
        place = len(self.arrivals)
        if place <= AT_ONCE + 1:
            await until(lambda: len(self.arrivals) >= AT_ONCE)
            return Answer(429)
        await until(lambda: len(self.arrivals) > 2 * AT_ONCE)  # no good answer before the second pause is over
        return FULL


class Slow(Site):
    """It answers none before as many have come as are allowed at once, and takes its time: more would gather."""

    async def answer(self, path: str, number: int) -> Answer:
        await until(lambda: len(self.arrivals) >= AT_ONCE)
        await asyncio.sleep(0.3)
        return FULL


class Quick(Site):
    """It answers at once. The last third waits until another host has asked for a pause."""

    def __init__(self, other: Refusing) -> None:
        super().__init__()
        self.other = other

    async def answer(self, path: str, number: int) -> Answer:
        if len(self.arrivals) > 20:
            await until(lambda: self.other.said_at > 0)
        return Answer()


class Ran:
    """One crawl of many hosts: none knows of the others."""

    def __init__(self) -> None:
        self.in_seconds = Refusing(Retry_After="2")
        self.unavailable = Refusing(503, Retry_After=str(int(SILENCE_S)))
        self.calm, self.bandwidth = Refusing(420, Retry_After="2"), Refusing(509)
        self.in_words = Refusing(Retry_After="when we feel like it", RateLimit_Reset="1")
        self.unstated, self.at_once = Refusing(), Refusing(Retry_After="0")
        self.exhausted = Refusing(200, RateLimit_Limit="100", RateLimit_Remaining="0", RateLimit_Reset="1")
        self.date, self.epoch = RefusingUntil("Retry-After"), RefusingUntil("RateLimit-Reset")
        self.slow, self.quick, self.stubborn = Slow(), Quick(self.in_seconds), Stubborn()

    async def run(self, folder: Path, redis_url: str) -> None:
        sites = [site for site in vars(self).values() if isinstance(site, Site)]
        for site in sites:
            await site.__aenter__()
        urls = [f"{site.url}/{number}" for number in range(10) for site in sites]
        urls += [f"{self.quick.url}/{number}" for number in range(10, 31)]
        plan = Plan(
            urls,
            settings={"CONCURRENT_REQUESTS": 200, "HARVESTER_BACKOFF_FACTOR": 0.001},
            patches={"harvester.politeness.throttle.UNSTATED_WAIT_S": SILENCE_S},
        )
        limits = {"concurrent_per_host": str(AT_ONCE), "requests_per_second": str(PER_SECOND), "redis_url": redis_url}
        self.asked = len(urls)
        self.crawled: Crawled = await crawl(plan, folder, **limits)
        for site in sites:
            await site.__aexit__(None, None, None)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Ran:
    ran = Ran()
    asyncio.run(ran.run(tmp_path_factory.mktemp("throttle"), redis_url))
    return ran


def test_every_request_is_answered_in_the_end(ran: Ran) -> None:
    assert [result.status for result in ran.crawled.results] == [200] * ran.asked
    assert ran.crawled.stats["finish_reason"] == "finished"


def test_never_more_requests_at_once_than_allowed(ran: Ran) -> None:
    assert ran.slow.most_at_once == AT_ONCE
    assert ran.in_seconds.most_at_once <= AT_ONCE


def test_not_faster_than_allowed(ran: Ran) -> None:
    """As seen from robots.txt on, which was answered before the first of them got its slot."""
    times = [arrival.at for arrival in ran.quick.arrivals]
    assert len(times) == 31
    assert all(at >= ran.quick.robots_at + number / PER_SECOND for number, at in enumerate(times))


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        *[("in_seconds", 2), ("unavailable", 1), ("in_words", 1), ("unstated", 1), ("at_once", 1), ("exhausted", 1)],
        *[("calm", 2), ("bandwidth", 1)],
    ],
)
def test_nothing_is_sent_for_as_long_as_the_host_asked_for(ran: Ran, name: str, seconds: int) -> None:
    site: Refusing = getattr(ran, name)
    assert len(site.later) >= 10 - AT_ONCE
    assert site.later[0].at - site.said_at >= seconds
    assert re.search(rf"{site.name} .*\b{seconds} s\b", ran.crawled.log)


def test_refusals_in_a_row_double_the_pause_but_not_those_under_way_at_once(ran: Ran) -> None:
    lines = [line for line in ran.crawled.log.splitlines() if f"{ran.stubborn.name} asks" in line]
    assert [line.rpartition("wait ")[2] for line in lines] == ["1 s", "2 s"]


@pytest.mark.parametrize("name", ["date", "epoch"])
def test_nothing_is_sent_before_the_time_that_the_host_named(ran: Ran, name: str) -> None:
    site: RefusingUntil = getattr(ran, name)
    offset = time.time() - time.monotonic()
    assert site.later[0].at + offset >= site.until - 0.05  # as far as the two clocks agree


def test_after_the_pause_requests_are_spaced_as_before(ran: Ran) -> None:
    over_at = ran.in_seconds.said_at + 2
    assert all(each.at >= over_at + number / PER_SECOND for number, each in enumerate(ran.in_seconds.later))


def test_one_host_s_pause_is_no_other_s(ran: Ran) -> None:
    begin, end_ = ran.in_seconds.said_at, ran.in_seconds.later[0].at
    assert [arrival for arrival in ran.quick.arrivals if begin < arrival.at < end_]


def test_the_wait_is_shown_to_those_who_watch(ran: Ran) -> None:
    stats = ran.crawled.stats
    waiting = {name for name in stats if name.startswith("harvester/waiting/")}
    quiet = {f"harvester/waiting/{site.name}" for site in (ran.slow, ran.quick)}
    assert len(waiting) == 11
    assert not waiting & quiet
    assert all(stats[name] > 1_700_000_000 for name in waiting)


@pytest.mark.parametrize("ending", ["SIGINT", "close_spider"])
@pytest.mark.skipif(os.name != "posix", reason="signals")
async def test_end_of_the_run_is_not_kept_waiting_by_a_host(tmp_path: Path, own_redis: str, ending: str) -> None:
    """And what waits neither fails nor is sent: it stays queued for a later run."""

    class Closing(Site):
        async def answer(self, path: str, number: int) -> Answer:
            await until(lambda: len(paused.arrivals) == 1)
            return FULL

    async with Site({"/0": [Answer(429, headers={"Retry-After": "3000"})]}) as paused, Closing() as other:
        urls = [f"{paused.url}/{number}" for number in range(20)]
        closing_url = f"{other.url}/last" if ending == "close_spider" else None
        plan = Plan([*urls, *([closing_url] if closing_url else [])], closing_url, {"ROBOTSTXT_OBEY": False})
        limits = {"concurrent_per_host": "1", "requests_per_second": "20", "redis_url": own_redis}
        process = await start(plan, tmp_path, **limits)
        if ending == "SIGINT":
            await until(lambda: len(paused.arrivals) == 1)
            process.send_signal(signal.SIGINT)
        crawled = await end(process)
    assert crawled.stats["finish_reason"] == ("shutdown" if ending == "SIGINT" else "enough")
    assert [arrival.path for arrival in paused.arrivals] == ["/0"]
    assert {result.error for result in crawled.results if result.url in urls} <= {"RunEnding"}
    counted = {name for name in crawled.stats if name.startswith("harvester/outcomes/")}
    assert counted <= {"harvester/outcomes/rate_limited", "harvester/outcomes/ok"}

"""A name is looked up once for all who ask, and remembered; what is remembered is bounded and goes stale.

The resolver that is counted is a stub: the system's cannot be pointed at a name server of a test's own without root.
"""

import asyncio
import socket
import threading
from pathlib import Path

import pytest
from scrapy.statscollectors import StatsCollector
from scrapy.utils.test import get_crawler

from harvester.download import dns
from harvester.download.dns import Address, CachingResolver
from tests.crawling import Plan, Site, crawl

INET = socket.AF_INET


class Names:
    """A resolver of the test's own: knows names that begin with `here`, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gate = threading.Event()
        """Until it is set, names that begin with `here-slow` have no answer."""

    def __call__(self, host: str, family: socket.AddressFamily) -> list[Address]:
        self.asked.append(host)
        if host.startswith("here-slow"):
            assert self.gate.wait(240)
        if host.startswith("here"):
            return [(INET, "127.0.0.1"), (INET, "127.0.0.2")]
        raise socket.gaierror(socket.EAI_AGAIN if host.startswith("busy") else socket.EAI_NONAME, "no")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    monkeypatch.setattr(dns, "SLOW_S", 0.02)
    return Names()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the cache goes by."""
    now = [1000.0]
    monkeypatch.setattr(dns, "monotonic", lambda: now[0])
    return now


def stats() -> StatsCollector:
    return get_crawler().stats


async def test_all_who_ask_for_a_name_share_one_look_up(names: Names) -> None:
    resolver = CachingResolver(stats(), names)
    asking = [asyncio.create_task(resolver.resolve("here-slow", port)) for port in range(50)]
    while not names.asked:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    asking[0].cancel()  # and one who gives up does not take it from the others
    await asyncio.sleep(0)
    names.gate.set()
    answers = await asyncio.gather(*asking[1:])
    assert [answer[0]["port"] for answer in answers] == list(range(1, 50))
    assert {found["host"] for answer in answers for found in answer} == {"127.0.0.1", "127.0.0.2"}
    assert names.asked == ["here-slow"]
    await resolver.close()


async def test_a_name_is_remembered_for_a_while(names: Names, clock: list[float]) -> None:
    resolver = CachingResolver(stats(), names)
    for _ in range(3):
        await resolver.resolve("here")
    assert len(names.asked) == 1
    clock[0] += dns.KNOWN_S + 1
    await resolver.resolve("here")
    assert len(names.asked) == 2
    await resolver.close()


@pytest.mark.parametrize(("name", "remembered_s"), [("absent", dns.ABSENT_S), ("busy", dns.FAILED_S)])
async def test_a_failure_is_remembered_for_a_short_while(
    names: Names, clock: list[float], name: str, remembered_s: float
) -> None:
    resolver = CachingResolver(stats(), names)
    for passed_s, times in ((0.0, 1), (remembered_s / 2, 1), (remembered_s, 2)):
        clock[0] += passed_s
        with pytest.raises(socket.gaierror):
            await resolver.resolve(name)
        assert len(names.asked) == times
    await resolver.close()


async def test_what_is_remembered_is_bounded(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "MOST_NAMES", 10)
    resolver = CachingResolver(stats(), names)
    for number in range(30):
        await resolver.resolve(f"here-{number}")
    await resolver.resolve("here-29")
    assert len(names.asked) == 30
    await resolver.resolve("here-0")
    assert len(names.asked) == 31
    await resolver.close()


async def test_slow_names_do_not_hold_up_others(names: Names) -> None:
    resolver = CachingResolver(stats(), names)
    slow = [asyncio.create_task(resolver.resolve(f"here-slow-{number}")) for number in range(3 * dns.AT_ONCE)]
    await asyncio.sleep(0)
    assert await resolver.resolve("here")
    assert not any(task.done() for task in slow)
    names.gate.set()
    await asyncio.gather(*slow)
    await resolver.close()


async def test_a_look_up_has_its_whole_time_however_long_it_waited_for_others(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dns, "LONGEST_S", 0.1)
    monkeypatch.setattr(dns, "MOST_SLOW", 0)
    resolver = CachingResolver(stats(), names)
    slow = [asyncio.create_task(resolver.resolve(f"here-slow-{number}")) for number in range(dns.AT_ONCE)]
    await asyncio.sleep(0)
    last = asyncio.create_task(resolver.resolve("here"))
    given_up = await asyncio.gather(*slow, return_exceptions=True)
    assert all(isinstance(error, socket.gaierror) for error in given_up)
    assert not last.done()
    assert "here" not in names.asked
    names.gate.set()
    assert await last
    await resolver.close()


async def test_a_look_up_that_was_given_up_is_not_begun_again_beside_it_and_counts_when_it_ends(
    names: Names, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dns, "LONGEST_S", 0.1)
    resolver = CachingResolver(stats(), names)
    for _ in range(3):
        with pytest.raises(socket.gaierror, match="no answer"):
            await resolver.resolve("here-slow")
        clock[0] += dns.FAILED_S + 1
    names.gate.set()
    while resolver._slow:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert await resolver.resolve("here-slow")
    assert names.asked == ["here-slow"]
    await resolver.close()


async def test_a_fault_of_a_look_up_is_a_failure_and_holds_up_nobody(names: Names) -> None:
    def faulty(host: str, family: socket.AddressFamily) -> list[Address]:
        raise RuntimeError("out of threads")

    resolver = CachingResolver(stats(), faulty)
    for number in range(2 * dns.AT_ONCE):
        with pytest.raises(socket.gaierror, match="out of threads"):
            await resolver.resolve(f"{number}")
    await resolver.close()


async def test_a_look_up_that_ends_as_its_time_is_over_has_ended_in_time(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    Futures = set["asyncio.Future[object]"]

    async def wait(told: list["asyncio.Future[object]"], timeout: float) -> tuple[Futures, Futures]:
        """As asyncio's, which goes on when the time is over, before anything else that follows from an end."""
        names.gate.set()
        while not told[0].done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        return set(told), set()

    monkeypatch.setattr(asyncio, "wait", wait)
    resolver = CachingResolver(stats(), names)
    assert await resolver.resolve("here-slow")
    with pytest.raises(socket.gaierror):
        await resolver.resolve("absent")
    await resolver.close()


async def test_a_thread_that_cannot_be_started_is_a_failure_and_holds_up_nobody(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver = CachingResolver(stats(), names)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", start)
        for number in range(2 * dns.AT_ONCE):
            with pytest.raises(OSError, match="can't start new thread"):
                await resolver.resolve(f"here-{number}")
    assert await resolver.resolve("here")
    await resolver.close()


async def test_a_look_up_without_an_answer_ends(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns, "LONGEST_S", 0.05)
    resolver = CachingResolver(stats(), names)
    with pytest.raises(socket.gaierror, match="no answer"):
        await resolver.resolve("here-slow")
    names.gate.set()
    await resolver.close()


async def test_a_crawl_looks_a_name_up_once_and_tells_of_one_that_is_not_there(tmp_path: Path) -> None:
    """With the system's own resolver."""
    async with Site() as site:
        port = site.name.rpartition(":")[2]
        pages = [f"http://localhost:{port}/{number}" for number in range(40)]
        lost = "http://nobody.invalid/"
        settings = {"HARVESTER_BACKOFF_FACTOR": 0.01, "ROBOTSTXT_OBEY": False}
        crawled = await crawl(Plan([*pages, lost], settings=settings), tmp_path, requests_per_second="0")
    assert [crawled.of(page)[0].status for page in pages] == [200] * 40
    assert crawled.of(lost)[0].outcome == "dns"
    assert crawled.stats["harvester/dns/lookups"] <= 2 + crawled.stats["harvester/dns/failures"]

"""A fault of this machine is told from one of a site, by what else can be reached, and the crawl pauses for it."""

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, DownloadConnectionRefusedError
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from harvester.download import dns, local_health
from harvester.download.local_health import LocalHealth, domain_of
from harvester.exceptions import LocalFault
from harvester.frontier.store import Frontier
from harvester.internal_meta import LOCAL_ATTEMPTS
from tests.crawling import LONGEST_S, Answer, Site, until
from tests.forking import fork
from tests.listening import close
from tests.root import ROOT

REFUSED = DownloadConnectionRefusedError("refused")
UNKNOWN = CannotResolveHostError("Temporary failure in name resolution")


class Host(Site):
    """A site at an address of its own, which can be away for a while. Loopback has millions."""

    def __init__(self, address: str, answers: dict[str, list[Answer]] | None = None) -> None:
        super().__init__(answers)
        self.address, self.port = address, 0

    async def __aenter__(self) -> "Host":
        await self.come()
        return self

    async def come(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.address, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.name = f"{self.address}:{self.port}"
        self.url = f"http://{self.name}"

    async def go(self) -> None:
        await close(self._server)


@pytest.fixture
async def hosts() -> AsyncIterator[list[Host]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Host(f"127.0.{os.getpid() % 200}.{number}")) for number in (2, 3, 4)]


class Patient(Spider):
    """Waits for hosts as harvester's own spiders do."""

    name = "patient"
    WAITS_OUT_FAULTS = True


class Engine:
    running = True

    def pause(self) -> None: ...

    def unpause(self) -> None: ...


@pytest.fixture
def crawler(monkeypatch: pytest.MonkeyPatch) -> Crawler:
    """One whose machine is looked at again at once, and that does not end."""

    async def no_pause(*_: Any) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(local_health, "pause", no_pause)
    monkeypatch.setattr(local_health, "TRUST_S", 0.0)
    crawler = get_crawler()
    crawler.engine = Engine()  # type: ignore[assignment]
    crawler.spider = Patient()
    return crawler


def answered(ours: LocalHealth, *hosts: Host) -> None:
    for host in hosts:
        request = Request(host.url)
        ours.answered(request, Response(host.url, request=request))


async def fail(ours: LocalHealth, request: Request, error: Exception) -> LocalFault | None:
    """A request leaves and fails at once."""
    return await ours.failed(request, error, time.monotonic())


async def test_a_host_is_to_blame_while_another_can_be_reached_and_this_machine_when_none_can(
    crawler: Crawler, hosts: list[Host]
) -> None:
    ours = LocalHealth(crawler)
    answered(ours, *hosts)
    await hosts[0].go()
    await hosts[1].go()
    assert await fail(ours, Request(hosts[0].url), REFUSED) is None
    await hosts[2].go()
    fault = await fail(ours, Request(hosts[0].url), REFUSED)
    assert fault
    assert not fault.counts
    assert hosts[1].address in str(fault)
    assert ours.is_sick
    with pytest.raises(LocalFault):
        ours.asks(Request(hosts[1].url))
    assert crawler.stats.get_value("harvester/waiting_for/this machine") == 1
    assert crawler.stats.get_value("harvester/local/alone") == 1
    await hosts[1].come()
    await until(lambda: not ours.is_sick)
    assert crawler.stats.get_value("harvester/waiting_for/this machine") == 0
    assert await fail(ours, Request(hosts[0].url), REFUSED) is None


async def test_what_left_before_the_machine_was_well_again_and_fails_afterwards_blames_no_site(
    crawler: Crawler, hosts: list[Host]
) -> None:
    ours = LocalHealth(crawler)
    answered(ours, *hosts)
    left_at = ours.asks(Request(hosts[0].url))
    for host in hosts:
        await host.go()
    assert await fail(ours, Request(hosts[0].url), REFUSED)
    for host in hosts:
        await host.come()
    await until(lambda: not ours.is_sick)
    assert await ours.failed(Request(hosts[0].url), REFUSED, left_at)
    assert await fail(ours, Request(hosts[0].url), REFUSED) is None


@pytest.mark.parametrize("proxy", ["127.0.0.1:8080", "http://ann:hunter2@127.0.0.1:8080"])
def test_a_proxy_may_be_named_without_a_scheme(crawler: Crawler, proxy: str) -> None:
    assert LocalHealth(crawler).asks(Request("http://a.example/", meta={"proxy": proxy})) > 0


async def test_fewer_than_three_unrelated_hosts_can_tell_nothing(crawler: Crawler, hosts: list[Host]) -> None:
    ours = LocalHealth(crawler)
    answered(ours, *hosts[:2])
    for host in hosts:
        await host.go()
    same = [Request(f"http://{name}.county.example:1/") for name in ("www", "api", "data")]
    for request in (Request(hosts[0].url), Request(hosts[1].url)):
        assert await fail(ours, request, REFUSED) is None
    only = LocalHealth(crawler)
    for request in same:
        assert await fail(only, request, REFUSED) is None
    assert domain_of("www.county.co.uk") == domain_of("gis.county.co.uk") == "county.co.uk"


async def test_hosts_that_never_answered_are_blamed_after_some_tries(crawler: Crawler, hosts: list[Host]) -> None:
    """Else a crawl of nothing but dead hosts would never end."""
    ours = LocalHealth(crawler)
    requests = [Request(host.url) for host in hosts]
    assert [await fail(ours, request, REFUSED) for request in requests[:2]] == [None, None]
    tries = 0
    while fault := await fail(ours, requests[2], REFUSED):
        assert fault.counts
        tries += 1
        requests[2].meta[LOCAL_ATTEMPTS] = tries
        await until(lambda: not ours.is_sick)
    assert tries == local_health.MOST_DOUBTS


async def test_hosts_that_never_answered_are_blamed_at_once_by_a_spider_of_scrapy(
    crawler: Crawler, hosts: list[Host]
) -> None:
    crawler.spider = Spider("impatient")
    ours = LocalHealth(crawler)
    requests = [Request(host.url) for host in hosts]
    assert [await fail(ours, request, REFUSED) for request in requests] == [None] * 3


async def test_name_servers_that_are_gone_are_a_fault_of_this_machine_and_a_name_that_is_none_is_not(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"one.example", "two.example"}

    def ask(host: str, family: socket.AddressFamily) -> list[dns.Address]:
        if host not in known:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, "192.0.2.1")]

    monkeypatch.setattr(dns, "ask_system", ask)
    ours = LocalHealth(crawler)
    for name in known:
        request = Request(f"http://{name}/")
        ours.answered(request, Response(request.url, request=request))
    absent = Request("http://absent.example.org/")
    assert await fail(ours, absent, UNKNOWN) is None
    known.clear()
    assert await fail(ours, absent, UNKNOWN)
    known.add("two.example")
    await until(lambda: not ours.is_sick)


async def test_a_way_to_one_host_that_this_machine_lacks_pauses_nothing(crawler: Crawler, hosts: list[Host]) -> None:
    ours = LocalHealth(crawler)
    answered(ours, *hosts[1:])
    fault = await fail(ours, Request(hosts[0].url), OSError(errno.ENETUNREACH, "Network is unreachable"))
    assert fault
    assert fault.counts
    assert not ours.is_sick


def test_with_too_many_files_open_no_name_is_said_to_be_none() -> None:
    """The system says so, since it can read neither its file of hosts nor ask a server."""
    code = """
import errno, os, resource, socket
from harvester.download.dns import ask_system
socket.getaddrinfo("localhost", None)
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
while True:
    try:
        os.open(os.devnull, os.O_RDONLY)
    except OSError:
        break
try:
    ask_system("no-such-host.invalid", socket.AF_INET)
except OSError as error:
    assert error.errno == errno.EMFILE, error
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def frontier(redis_url: str) -> AsyncIterator[Frontier]:
    async with Redis.from_url(redis_url) as redis:
        frontier = Frontier(redis, f"test-{uuid4().hex[:12]}")
        yield frontier
        await frontier.drop()


class Worker:
    """A worker of the frontier as a process, which may have so many files open."""

    def __init__(
        self, folder: Path, frontier: Frontier, redis_url: str, urls: list[str], files: int = 1024, **settings: Any
    ) -> None:
        self._given = [str(files), frontier.spider, "", " ".join(urls), json.dumps(settings)]
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "SCRAPY_SETTINGS_MODULE": "harvester.settings"}
        self._environment |= {
            "HARVESTER_REDIS_URL": redis_url,
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "yes",
        }
        self._log = folder / "log"

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8")

    async def __aenter__(self) -> Self:
        with self._log.open("wb") as log:
            folder = self._log.parent
            limited, environment = "tests.download.limited", self._environment
            self._process = await fork(limited, *self._given, cwd=folder, env=environment, log=log.fileno())
        return self

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self) -> tuple[str, list[str], dict[str, Any]]:
        """Finish reason, addresses of what was collected, stats."""
        out, _ = await asyncio.wait_for(self._process.communicate(), LONGEST_S)
        assert self._process.returncode == 0, self.log
        reason, items, stats = json.loads(out)
        return reason, items, stats

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Unplugged(Host):
    """Breaks off what it has not answered when it goes; before that it answers `/first` alone."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.breaks = asyncio.Event()
        self.is_back = False

    async def answer(self, path: str, number: int) -> Answer:
        if path == "/first" or self.is_back:
            return Answer()
        await self.breaks.wait()
        return Answer(silent=True)


async def test_a_crawl_whose_hosts_are_all_away_waits_and_blames_none(
    tmp_path: Path, frontier: Frontier, redis_url: str
) -> None:
    hosts = [Unplugged(f"127.0.{os.getpid() % 200}.{number}") for number in (2, 3, 4)]
    async with AsyncExitStack() as stack:
        for host in hosts:
            await stack.enter_async_context(host)
        urls = [f"{host.url}/{page}" for page in ("first", *range(30)) for host in hosts]
        worker = Worker(tmp_path, frontier, redis_url, urls, HARVESTER_BACKOFF_FACTOR=0.05)
        async with worker:
            await until(lambda: all(host.at_once >= 10 for host in hosts))
            for host in hosts:
                await host.go()
            for host in hosts:
                host.breaks.set()
            await until(lambda: "from this machine" in worker.log)
            worker.send(signal.SIGSTOP)  # one that is back before the others would tell it to blame them
            for host in hosts:
                host.is_back = True
                await host.come()
            worker.send(signal.SIGCONT)
            reason, items, stats = await worker.end()
    assert reason == "finished", worker.log
    assert sorted(items) == sorted(urls)
    assert stats["harvester/local/alone"]
    assert [name for name in stats if name.startswith("harvester/errors/")] == []
    status = await frontier.status()
    assert (status.done, status.dead, status.retried) == (len(urls), 0, 0)


async def test_a_worker_that_may_open_64_files_is_slow_and_blames_no_site(
    tmp_path: Path, frontier: Frontier, redis_url: str
) -> None:
    host = Host(f"127.0.{os.getpid() % 200}.9")
    async with host:
        urls = [f"{host.url}/{number}" for number in range(150)]
        async with Worker(tmp_path, frontier, redis_url, urls, files=64) as worker:
            reason, items, _ = await worker.end()
    assert reason == "finished", worker.log
    assert sorted(items) == sorted(urls)
    assert "64 files open" in worker.log
    status = await frontier.status()
    assert (status.done, status.dead, status.retried) == (150, 0, 0)

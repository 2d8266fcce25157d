"""`make bench`: items of a job, beside the same pages in plain Scrapy.

    python -m tests.bench.items [rounds]

Each item is a page with one record. Plain Scrapy has the addresses in memory and writes JSON lines; harvester claims
the items from MongoDB, asks for their pages by the frontier, stores and stages the records, and writes down how each
item ended. Both sides take turns in each round, each in a process of its own. There is no target: the figures are those
that docs/performance.md has.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

from pymongo import AsyncMongoClient, MongoClient
from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import Response
from scrapy.settings import Settings

from harvester.config import Config
from harvester.items import Found, Record
from harvester.jobs.documents import JobItem
from harvester.jobs.ledger import Ledger
from harvester.spiders.job import JobSpider
from harvester.stores import servers
from tests.bench.crawl import settings_of
from tests.bench.servers import ROOT, module, own_redis

ROUNDS, ITEMS = 3, 5000
LONGEST_S = 600
"""For one side of a round."""
PLAIN: dict[str, Any] = {
    "LOG_LEVEL": "INFO",  # at its default every page and item is printed
    "TELNETCONSOLE_ENABLED": False,  # a port that another run may hold
    "REMOTE_CONTROL_ENABLED": False,  # likewise
    "ROBOTSTXT_OBEY": True,
    "FEEDS": {"records.jsonl": {"format": "jsonlines", "overwrite": True}},
}


class Page(Record, frozen=True, kw_only=True, gc=False):
    """The record of a page."""

    KIND = "bench_page"
    COLLECTION = "bench_pages"
    KEY = ("number",)

    number: int
    title: str
    price: float
    in_stock: bool


class Items(JobSpider):
    """A page for each item, whose key is its address."""

    name = "bench_items"
    ITEM_KINDS = ("page",)

    def requests_of(self, items: Sequence[JobItem]) -> Iterable[Request]:
        for item in items:
            yield Request(item.key)

    def parse(self, response: Response) -> Iterator[Page]:
        """The page's record."""
        row = json.loads(response.body)["record"]
        number = row.pop("id")
        yield Page(number=number, **row, raw=response.body, provenance=self.provenance(response))


class Plain(Spider):
    """The same pages."""

    name = "plain"
    site: str

    async def start(self) -> AsyncIterator[Request]:
        for address in addresses(self.site, ITEMS):
            yield Request(address)

    def parse(self, response: Response) -> Iterator[Any]:
        yield json.loads(response.body)["record"]


class Measured(NamedTuple):
    """One side of a round."""

    items: int
    cpu: float
    """Seconds of the crawling process, from the spider's start to its end."""
    seconds: float

    @classmethod
    def by(cls, words: Sequence[str], folder: Path, module: str = "tests.bench.items", **variables: str) -> Self:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
        )
        if done.returncode or not done.stdout:
            sys.exit(f"{words} failed:\n{done.stderr[-4000:]}")
        return cls(**json.loads(done.stdout.strip().splitlines()[-1]))


class Clock:
    """Prints how many pages there were and what they took."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _opened(self) -> None:
        self._cpu, self._at = time.process_time(), time.monotonic()

    def _closed(self) -> None:
        items = self._crawler.stats.get_value("response_received_count") - 1  # robots.txt, or the 404 for it
        took = {"cpu": time.process_time() - self._cpu, "seconds": time.monotonic() - self._at}
        print(json.dumps({"items": items, **took}), flush=True)


def addresses(site: str, number: int) -> Iterator[str]:
    return (f"{site}/page/{each}" for each in range(number))


async def open_job(uri: str, database: str, keys: Iterable[str]) -> str:
    """A job of the spider `bench_items` with these items."""

    async def at_once(operation: Any) -> Any:
        return await operation()

    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        ledger = Ledger(client[database], at_once)
        await ledger.make_indexes()
        job, _ = await ledger.open_job(Items.name, os.urandom(8).hex())
        await ledger.add(job.id, (Found("page", key) for key in keys), lambda _: "")
        return job.id


def crawl(side: str, argument: str) -> None:
    """In this process."""
    settings = settings_of("harvester") if side == "items" else Settings(PLAIN)
    settings["EXTENSIONS"] = {**settings["EXTENSIONS"], Clock: 1}
    process = AsyncCrawlerProcess(settings)
    process.crawl(Plain, site=argument) if side == "plain" else process.crawl(Items, job=argument)
    process.start()


def main(rounds: int = ROUNDS) -> int:
    measured: dict[str, list[Measured]] = {"plain Scrapy": [], "harvester": []}
    database = f"bench-{os.getpid()}-items"
    with ExitStack() as stack:
        uri = servers.mongodb_uri(Config())
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="harvester-bench-")))
        variables = {"MONGODB_URI": uri, "REDIS_URL": stack.enter_context(own_redis()), "HARVESTER_DATABASE": database}
        variables |= {"HARVESTER_ALLOW_PRIVATE_HOSTS": "true", "HARVESTER_REQUESTS_PER_SECOND": "0"}
        site = f"http://127.0.0.1:{stack.enter_context(module('tests.bench.links', str(ITEMS)))[1][0]}"
        client = stack.enter_context(MongoClient[dict[str, Any]](uri))
        for _ in range(rounds):
            measured["plain Scrapy"].append(Measured.by(["plain", site], folder, REDIS_URL=variables["REDIS_URL"]))
            job = asyncio.run(open_job(uri, database, addresses(site, ITEMS)))
            measured["harvester"].append(Measured.by(["items", job], folder, **variables))
            done = client[database]["job_items"].count_documents({"job": job, "state": "done"})
            assert done == client[database]["bench_pages"].count_documents({}) == ITEMS
            client.drop_database(database)
    print(f"\nItems of a job ({ITEMS} items of a page each, median of {rounds} rounds)")
    print(f"  {'':30}{'a second':>12}{'a CPU second':>14}")
    rates = {}
    for side, rows in measured.items():
        assert all(row.items == ITEMS for row in rows), rows
        rates[side] = statistics.median(row.items / row.cpu for row in rows)
        print(f"  {side:30}{statistics.median(row.items / row.seconds for row in rows):12.0f}{rates[side]:14.0f}")
    print(f"  ratio of CPU seconds {rates['harvester'] / rates['plain Scrapy']:.2f}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] in (["plain"], ["items"]):
        crawl(*sys.argv[1:])
    else:
        sys.exit(main(*map(int, sys.argv[1:])))

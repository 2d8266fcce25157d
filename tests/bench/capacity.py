"""`make capacity`: what a crawl of a given size needs, computed from what is measured here.

    python -m tests.bench.capacity

Measures what a page and a request cost, and prints the tables of docs/capacity.md, to be pasted there.
"""

import asyncio
import re
import secrets
import sys
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from statistics import median

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from scrapy import Request, Spider

from harvester.config import Config
from harvester.frontier.codec import encode
from harvester.frontier.messages import Push
from harvester.frontier.store import Frontier
from harvester.stores import servers
from tests.bench.frontier import PER_SECOND, POLITE_PAGES, SITES, Bench
from tests.bench.seen import Measured as Seen
from tests.bench.seen import Ours
from tests.bench.servers import own_redis, redis_memory

SIZES = (10**6, 10**8, 10**9)
"""Pages of a crawl."""
DAYS = (1, 7, 30)
"""In which it is to end."""
QUEUED = 0.1
"""Share of the pages that are known and not yet fetched, at the worst moment."""
LOAD = 0.7
"""Share of a core that a worker, or Redis, should use in the long run."""
QUEUED_MEASURED, SEEN_MEASURED = 100_000, 1_000_000
CRAWLS = 3


@dataclass(frozen=True)
class Measured:
    """What a page costs."""

    seen_bytes: float
    """Redis memory of a page that is done."""
    queued_bytes: float
    """Redis memory of a request that is ready or waiting."""
    pages_per_cpu_second: float
    """Of one worker that crawls politely: small pages with a record each."""
    redis_ms: float
    """Redis's CPU for a page, from its push to its end."""
    round_trips: float
    """To Redis, for a page."""
    redis_bytes: float
    """Sent to Redis and back for a page, with the links that a page has."""


MEANINGS = (
    "bytes in Redis of a page that is done",
    "bytes in Redis of a request that is ready or waiting",
    "pages a worker process handles for each second of CPU",
    "ms of Redis's CPU for each page",
    "round trips to Redis for each page",
    "bytes between worker and Redis for each page",
)
"""Of the fields of Measured, in the page."""


def measure() -> Measured:
    """Takes about two minutes."""
    with ExitStack() as stack:
        bench = Bench(stack, servers.mongodb_uri(Config()))
        crawls = [bench.crawl("harvester", 0, POLITE_PAGES, SITES, PER_SECOND) for _ in range(CRAWLS)]
    queued = asyncio.run(bytes_queued())
    with own_redis() as url, Redis.from_url(url) as client:
        seen = Seen(client, Ours(client).add, SEEN_MEASURED).bytes
    return Measured(
        round(seen, 1),
        round(queued),
        round(median(crawl.pages_per_cpu_second for crawl in crawls)),
        round(median(crawl.redis_cpu_ms_per_page for crawl in crawls), 2),
        round(median(crawl.round_trips_per_page for crawl in crawls), 2),
        round(median(crawl.redis_bytes_per_page for crawl in crawls)),
    )


async def bytes_queued() -> float:
    """Of a request that is ready."""
    with own_redis() as url, Redis.from_url(url) as info:
        async with AsyncRedis.from_url(url) as redis:
            frontier = Frontier(redis, "capacity")
            await frontier.exchange("worker", [])
            empty = redis_memory(info)
            for _ in range(QUEUED_MEASURED // 1000):
                await frontier.exchange("worker", [push() for _ in range(1000)])
            return (redis_memory(info) - empty) / QUEUED_MEASURED


def push() -> Push:
    """A request as a crawl of web pages has them."""
    url = f"https://www.example.org/catalogue/{secrets.token_hex(12)}/index.html?page={secrets.randbelow(100)}"
    payload = encode(Request(url, cb_kwargs={"depth": 3}), Spider("capacity"))
    return Push(secrets.randbits(64) - 2**63, payload, secrets.token_hex(8), url, site="www.example.org")


def constants(measured: Measured) -> str:
    """The table of what was measured."""
    lines = ["| Measured | |", "|---|---:|"]
    lines += [f"| {meaning} | {value:g} |" for meaning, value in zip(MEANINGS, astuple(measured), strict=True)]
    return "\n".join(lines) + "\n"


def memory(measured: Measured) -> str:
    """The table of what Redis must hold."""
    lines = [
        f"| Pages | seen | {QUEUED:.0%} of them queued | together | all of them queued at once |",
        "|---:|---:|---:|---:|---:|",
    ]
    for pages in SIZES:
        seen, queued = pages * measured.seen_bytes, pages * measured.queued_bytes
        cells = (seen, queued * QUEUED, seen + queued * QUEUED, seen + queued)
        lines.append(f"| {pages:,} | " + " | ".join(map(in_bytes, cells)) + " |")
    return "\n".join(lines) + "\n"


def speed(measured: Measured) -> str:
    """The table of what a crawl needs that is to end in time."""
    lines = [
        f"| Pages | in days | requests/s | workers | Redis cores | sites at {PER_SECOND}/s |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for pages in SIZES:
        for days in DAYS:
            rate = pages / days / 86400
            workers = -(-rate // (measured.pages_per_cpu_second * LOAD))
            busy = rate * measured.redis_ms / 1000
            sites = -(-rate // PER_SECOND)
            lines.append(
                f"| {pages:,} | {days} | {rate:,.{int(rate < 10)}f} | {workers:,.0f} | {busy:.2f} | {sites:,.0f} |"
            )
    return "\n".join(lines) + "\n"


def one_site() -> str:
    """The table of how long one site takes, which no number of workers shortens."""
    lines = [f"| Pages of one site | days at {PER_SECOND} requests/s |", "|---:|---:|"]
    lines += [f"| {pages:,} | {pages / PER_SECOND / 86400:,.1f} |" for pages in SIZES]
    return "\n".join(lines) + "\n"


def documented(text: str) -> Measured:
    """What the page says was measured."""
    values = dict(re.findall(r"^\| (.+) \| ([0-9.]+) \|$", text, re.MULTILINE))
    return Measured(*(float(values[meaning]) for meaning in MEANINGS))


def most(measured: Measured) -> str:
    """What one Redis core allows."""
    pages = LOAD * 1000 / measured.redis_ms
    workers = pages / (measured.pages_per_cpu_second * LOAD)
    return f"One Redis core at {LOAD:.0%}: {pages:,.0f} pages a second, {workers:,.0f} workers\n"


def in_bytes(number: float) -> str:
    """1,234,567 -> 1.2 MB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number / 1e6:,.0f} MB"


def main() -> int:
    measured = measure()
    print(constants(measured), memory(measured), speed(measured), one_site(), most(measured), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

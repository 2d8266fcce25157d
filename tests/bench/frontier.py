"""`make bench`: harvester's frontier beside stock scrapy-redis, on one Redis, over the same pages.

    python -m tests.bench.frontier [rounds]

Three sides take turns in each round, each in a process of its own, without and with 5 ms added to every round trip to
Redis: see tests/bench/crawl.py. None of them keeps the records. harvester, which does, also crawls politely: several
processes of stock scrapy-redis cannot do that together. Exit code 1 when the frontier misses one of the targets below.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import redis

from harvester.config import Config
from harvester.stores import servers
from tests.bench.servers import ROOT, Proxy, module, own_redis, redis_cpu

ROUNDS = 3
PAGES = 3000
SLOW_PAGES = 600
"""Of the sides that are slow when Redis is far away, with the delay."""
LONGEST_S = 600
"""For one crawl."""
DELAY_MS = 5.0
PAIRS, PAIR_PAGES = 8, 8000
"""Crawls by which the frontier is slowed by the delay: one without and one with it, in turns first. Each takes some
seconds, in which the machine does much else: a median of so many repeats where one of three short ones did not."""
SITES, PER_SECOND, POLITE_PAGES = 20, 8, 2000
"""Of the polite crawl: sites, requests a second for each by default, pages."""
SIDES = ("stock", "tuned", "frontier")
LEAST_CPU_RATIO = 1.5
MOST_SLOWER = 0.05
MOST_ROUND_TRIPS = 0.3


@dataclass
class Crawl:
    """One measured crawl."""

    pages: int
    cpu: float
    seconds: float
    round_trips: int
    redis_cpu: float
    redis_bytes: int

    @property
    def pages_per_cpu_second(self) -> float:
        return self.pages / self.cpu

    @property
    def pages_per_second(self) -> float:
        return self.pages / self.seconds

    @property
    def round_trips_per_page(self) -> float:
        return self.round_trips / self.pages

    @property
    def redis_cpu_ms_per_page(self) -> float:
        return self.redis_cpu / self.pages * 1000

    @property
    def redis_bytes_per_page(self) -> float:
        return self.redis_bytes / self.pages


class Bench:
    """Crawls a side with a delay; the servers are shared."""

    def __init__(self, stack: ExitStack, mongodb_uri: str) -> None:
        url = stack.enter_context(own_redis())
        self._redis = stack.enter_context(redis.Redis.from_url(url))
        port = str(self._redis.connection_pool.connection_kwargs["port"])
        self._proxy = Proxy(*stack.enter_context(module("tests.bench.proxy", port)))
        self._sites = {
            pages: stack.enter_context(module("tests.bench.links", str(pages), str(SITES)))[1]
            for pages in (PAGES, SLOW_PAGES, PAIR_PAGES, POLITE_PAGES)
        }
        self._folder = Path(stack.enter_context(TemporaryDirectory(prefix="harvester-bench-")))
        self._environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "REDIS_URL": self._proxy.url,
            "MONGODB_URI": mongodb_uri,
            "HARVESTER_DATABASE": f"bench-{os.getpid()}-tree",
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
        }

    def round_trip_ms(self, delay_ms: float) -> float:
        """What the proxy really makes of a delay."""
        self._proxy.counts(delay_ms)
        return self._proxy.round_trip_ms()

    def crawl(self, side: str, delay_ms: float, pages: int, sites: int = 1, per_second: float = 0) -> Crawl:
        """From an empty Redis to the last page."""
        addresses = ",".join(f"http://127.0.0.1:{port}" for port in self._sites[pages][:sites])
        self._redis.flushall()
        self._proxy.counts(delay_ms)
        cpu = redis_cpu(self._redis)
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.crawl", side, addresses],
            cwd=self._folder,
            env=self._environment | {"HARVESTER_REQUESTS_PER_SECOND": str(per_second)},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
        )
        if done.returncode or not done.stdout:
            sys.exit(f"{side} failed:\n{done.stderr[-4000:]}")
        cpu = redis_cpu(self._redis) - cpu
        measured = json.loads(done.stdout.strip().splitlines()[-1])
        assert measured["pages"] == measured["records"] == pages, (side, measured, done.stderr[-4000:])
        counts = self._proxy.counts()
        passed = counts["bytes_to_redis"] + counts["bytes_from_redis"]
        return Crawl(pages, measured["cpu"], measured["seconds"], counts["round_trips"], cpu, passed)


def main(rounds: int = ROUNDS) -> int:
    near: dict[str, list[Crawl]] = {side: [] for side in SIDES}
    far: dict[str, list[Crawl]] = {side: [] for side in SIDES}
    pairs: list[dict[float, Crawl]] = []
    with ExitStack() as stack:
        bench = Bench(stack, servers.mongodb_uri(Config()))
        print(f"round trip to Redis: {bench.round_trip_ms(0):.2f} ms, delayed {bench.round_trip_ms(DELAY_MS):.2f} ms")
        for number in range(1, rounds + 1):
            for side in SIDES:
                near[side].append(bench.crawl(side, 0, PAGES))
                far[side].append(bench.crawl(side, DELAY_MS, PAGES if side == "frontier" else SLOW_PAGES))
            said = (
                f"{side} {near[side][-1].pages_per_second:.0f} and {far[side][-1].pages_per_second:.0f}"
                for side in SIDES
            )
            print(f"round {number}, pages a second at 0 and {DELAY_MS:.0f} ms: {', '.join(said)}", flush=True)
        for number in range(PAIRS):
            delays = (0, DELAY_MS) if number % 2 else (DELAY_MS, 0)
            pairs.append({delay: bench.crawl("frontier", delay, PAIR_PAGES) for delay in delays})
            quick, slow = (pairs[-1][delay].pages_per_second for delay in (0, DELAY_MS))
            print(f"pair {number + 1}, pages a second: frontier {quick:.0f} and {slow:.0f}", flush=True)
        polite = bench.crawl("harvester", 0, POLITE_PAGES, SITES, PER_SECOND)
    failed = report(near, far, pairs)
    print(
        f"harvester politely, {SITES} sites at {PER_SECOND} requests a second each: "
        f"{polite.pages_per_second:.0f} pages a second, {polite.pages_per_cpu_second:.0f} for each second of CPU, "
        f"{polite.round_trips_per_page:.2f} round trips and {polite.redis_cpu_ms_per_page:.3f} ms of Redis a page"
    )
    return failed


def report(near: dict[str, list[Crawl]], far: dict[str, list[Crawl]], pairs: list[dict[float, Crawl]]) -> int:
    """Prints the table; 1 when a target is missed."""

    def row(label: str, value: Callable[[str], float], form: str) -> None:
        print(f"  {label:44}" + "".join(f"{format(value(side), form):>12}" for side in SIDES))

    def median(of: dict[str, list[Crawl]], name: str) -> Callable[[str], float]:
        return lambda side: statistics.median(getattr(crawl, name) for crawl in of[side])

    def slower(side: str) -> float:
        both = list(zip(near[side], far[side], strict=True))
        if side == "frontier":
            both = [(pair[0], pair[DELAY_MS]) for pair in pairs]
        return 1 - statistics.median(b.pages_per_second / a.pages_per_second for a, b in both)

    print(f"\nThe frontier beside stock scrapy-redis ({PAGES} small pages, median of {len(near['stock'])} rounds)")
    print(f"  {'':44}{'stock':>12}{'stock, tuned':>14}{'frontier':>12}")
    row("pages for each second of CPU", median(near, "pages_per_cpu_second"), ".0f")
    row("pages a second", median(near, "pages_per_second"), ".0f")
    row(f"pages a second, round trips {DELAY_MS:.0f} ms longer", median(far, "pages_per_second"), ".0f")
    row("  slower by", slower, ".1%")
    row("round trips to Redis for each page", median(near, "round_trips_per_page"), ".2f")
    row(f"  with {DELAY_MS:.0f} ms", median(far, "round_trips_per_page"), ".2f")
    row("Redis's own CPU for each page, ms", median(near, "redis_cpu_ms_per_page"), ".3f")
    ratio = statistics.median(
        ours.pages_per_cpu_second / stock.pages_per_cpu_second
        for ours, stock in zip(near["frontier"], near["stock"], strict=True)
    )
    trips = max(crawl.round_trips_per_page for crawl in near["frontier"] + far["frontier"])
    print(f"  pages for each second of CPU, beside stock: {ratio:.2f} (at least {LEAST_CPU_RATIO} is wanted)")
    print(f"  slower by {slower('frontier'):.1%} (median of {len(pairs)} pairs; at most {MOST_SLOWER:.0%} is wanted)")
    print(f"  at most {trips:.2f} round trips a page (at most {MOST_ROUND_TRIPS} is wanted)")
    return int(ratio < LEAST_CPU_RATIO or slower("frontier") > MOST_SLOWER or trips > MOST_ROUND_TRIPS)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

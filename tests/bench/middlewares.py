"""What harvester's downloader middlewares cost beside Scrapy's default ones, over the same local pages.

    python -m tests.bench.middlewares [<side> <addresses of the sites> <pages of each>]

Without arguments it measures all sides in turn. Handler, event loop and bounds on concurrency are the same on all.

scrapy     Scrapy's default middlewares with their default settings, requests in memory
frontier   the same with requests in the frontier
harvester  harvester's middlewares, requests in the frontier: without it, the breaker would be off

harvester's share their turns through a Redis, with a limit that is never reached. Their own cost is that of `harvester`
without that of `frontier`; it is set beside all that `scrapy` costs.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings

from tests.bench.servers import ROOT, own_redis
from tests.sandbox.street_plan import HousePlan
from tests.sandbox.street_process import Street

SITES, PAGES, ROUNDS = 8, 250, 3
SIDES = ("scrapy", "frontier", "harvester")
TARGET = 1.25
SAME = {
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "ITEM_PIPELINES_BASE": {},
    "SPIDER_MIDDLEWARES_BASE": {
        "harvester.middlewares.lease.LeaseMiddleware": 10,
        "harvester.middlewares.httperror.HttpErrorMiddleware": 50,
    },
    "EXTENSIONS_BASE": {},
    "LOG_LEVEL": "WARNING",
}
READ_BY_DEFAULT_ONES = (
    "DOWNLOADER_MIDDLEWARES_BASE",
    "USER_AGENT",
    "ROBOTSTXT_OBEY",
    "COOKIES_ENABLED",
    "REDIRECT_MAX_TIMES",
    "DOWNLOAD_TIMEOUT",
)
"""Settings that are at Scrapy's own defaults where the middlewares are."""


class Pages(Spider):
    """Asks for all pages of all sites, and does nothing with them."""

    name = "bench_middlewares"
    sites: str
    pages: str

    async def start(self) -> AsyncIterator[Any]:
        self.cpu_began = time.process_time()
        self.read = 0
        for page in range(int(self.pages)):
            for site in self.sites.split(","):
                yield Request(f"{site}/page/{page}")

    def parse(self, response: Response) -> None:
        self.read += response.status == 200

    def closed(self, reason: str) -> None:
        cpu = time.process_time() - self.cpu_began
        print(json.dumps({"pages": self.read, "cpu": cpu, "reason": reason}), flush=True)


def settings_of(side: str) -> Settings:
    """The settings of a side."""
    from harvester import settings as module

    defaults = Settings()
    settings = Settings()
    settings.setmodule(module, priority="project")
    settings.setdict(SAME, priority="cmdline")
    if side != "harvester":
        settings.setdict({name: defaults[name] for name in READ_BY_DEFAULT_ONES}, priority="cmdline")
    if side == "scrapy":
        settings.set("SCHEDULER", defaults["SCHEDULER"], priority="cmdline")
    if side == "frontier":  # harvester's are left out on purpose
        off = {"harvester.middlewares.throttle.ThrottleMiddleware": None}
        settings.set("DOWNLOADER_MIDDLEWARES", off, priority="cmdline")
    return settings


def measured(side: str, street: Street, uri: str, folder: Path) -> float:
    """Milliseconds of CPU a page."""
    with redis.Redis.from_url(uri) as client:
        client.flushall()  # else all pages were seen
    sites = ",".join(street.url(name) for name in street.plans)
    command = [sys.executable, "-m", "tests.bench.middlewares", side, sites, str(PAGES)]
    environment = os.environ | {
        "REDIS_URL": uri,
        "HARVESTER_REQUESTS_PER_SECOND": "5000",
        "HARVESTER_CONCURRENT_PER_HOST": "16",
        "HARVESTER_SITES_DIR": str(folder / "sites"),
        "HARVESTER_STATE_DIR": str(folder / "state"),
    }
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(done.stderr[-4000:])
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert (told["pages"], told["reason"]) == (SITES * PAGES, "finished"), f"{told}\n{done.stderr[-4000:]}"
    return float(told["cpu"] / told["pages"] * 1000)


def main() -> int:
    """Prints the measurement; 1 when harvester's cost more than TARGET."""
    plans = [HousePlan(f"site-{number}", pages=PAGES) for number in range(SITES)]
    with TemporaryDirectory() as folder, Street(plans, Path(folder) / "street") as street, own_redis() as uri:
        street.register(Path(folder) / "sites")
        ratios = []
        for number in range(ROUNDS):
            cpu = {side: measured(side, street, uri, Path(folder)) for side in SIDES}
            ratios.append((cpu["scrapy"] + cpu["harvester"] - cpu["frontier"]) / cpu["scrapy"])
            said = ", ".join(f"{side} {each:.3f} ms" for side, each in cpu.items())
            print(f"round {number + 1}: {said} a page", flush=True)
    ratio = statistics.median(ratios)
    print(f"\nCPU a page with the downloader middlewares ({SITES * PAGES} pages, median of {ROUNDS} rounds)")
    print(f"  harvester's beside Scrapy's default ones {ratio:.2f} (at most {TARGET} is wanted)")
    return int(ratio > TARGET)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(main())
    _, _side, _sites, _pages = sys.argv
    process = AsyncCrawlerProcess(settings_of(_side))
    process.crawl(Pages, sites=_sites, pages=_pages)
    process.start()

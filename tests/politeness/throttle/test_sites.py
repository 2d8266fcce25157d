"""What a site's entry, its robots.txt and its answers say holds for all workers; told from the site's own log."""

import asyncio
import os
import re
import time
from pathlib import Path

import msgspec
import pytest

from harvester.settings import DOWNLOADER_MIDDLEWARES
from tests.crawling import Answer, Plan, Site, crawl, until
from tests.forking import fork
from tests.politeness.throttle.workers import SETTINGS, Workers, most_within, times
from tests.root import ROOT

QUICK = {"concurrent_per_host": "4", "requests_per_second": "50"}
"""What the configuration allows where an entry says nothing."""


def entry(folder: Path, name: str, sites: list[Site], *lines: str) -> str:
    """Writes a site's entry; returns HARVESTER_SITES_DIR."""
    hosts = ", ".join(f'"{site.name}"' for site in sites)
    (folder / "sites").mkdir(exist_ok=True)
    text = "\n".join([f"[{name}]", f"hosts = [{hosts}]", f"[{name}.politeness]", *lines, ""])
    (folder / "sites" / f"{name}.toml").write_text(text, encoding="utf-8")
    return str(folder / "sites")


def in_order(*sites: Site) -> list[float]:
    return sorted(arrival.at for site in sites for arrival in site.arrivals)


async def test_no_window_of_a_site_ever_holds_more_than_its_entry_allows(tmp_path: Path, own_redis: str) -> None:
    """Wherever it begins; with two workers, and over all hosts of the site together."""
    most, window_s, each = 12, 3.0, 7
    async with Site() as one, Site() as other, Site() as free:
        sites_dir = entry(tmp_path, f"w{one.name.rpartition(':')[2]}", [one, other], f"window_requests = {most}",
                          f"window_s = {window_s}", "requests_per_second = 25")  # fmt: skip
        async with Workers(tmp_path, redis_url=own_redis, sites_dir=sites_dir, **QUICK) as workers:
            for name in ("a", "b"):
                await workers.add(name, {one: each, other: each, free: 3 * each})
            crawled = await workers.end_all()
    for told in crawled:
        assert [result.status for result in told.results] == [200] * 5 * each
    together = in_order(one, other)
    assert len(together) == 4 * each
    assert most_within(together, window_s) <= most
    assert free.arrivals[-1].at < together[-1], "and nobody else was held back"


async def test_hosts_of_one_site_share_its_rate_and_its_permits(tmp_path: Path, own_redis: str) -> None:
    class Slow(Site):
        async def answer(self, path: str, number: int) -> Answer:
            at_once.append(one.at_once + other.at_once)
            await asyncio.sleep(0.2)
            return Answer()

    at_once: list[int] = []
    async with Slow() as one, Slow() as other:
        name = f"r{one.name.rpartition(':')[2]}"
        sites_dir = entry(tmp_path, name, [one, other], "requests_per_second = 10", "concurrency = 2")
        urls = [f"{site.url}/{number}" for number in range(12) for site in (one, other)]
        crawled = await crawl(
            Plan(urls, settings=SETTINGS), tmp_path, redis_url=own_redis, sites_dir=sites_dir, **QUICK
        )
    assert [result.status for result in crawled.results] == [200] * 24
    together = in_order(one, other)
    assert together[-1] - together[0] > 1.5  # each of them by itself would take 1.1 s
    assert max(at_once) == 2


async def test_an_entry_may_free_a_site_of_one_s_own(tmp_path: Path) -> None:
    """It needs no Redis then."""
    async with Site() as site:
        sites_dir = entry(tmp_path, "own", [site], "requests_per_second = 0")
        plan = Plan([f"{site.url}/{number}" for number in range(50)], settings=SETTINGS)
        crawled = await crawl(plan, tmp_path, redis_url="redis://127.0.0.1:9/0", sites_dir=sites_dir, **QUICK)
    assert [result.status for result in crawled.results] == [200] * 50


@pytest.mark.parametrize(("obeys", "per_second"), [(True, "50"), (False, "50"), (True, "0")])
async def test_a_crawl_delay_that_one_worker_knows_is_kept_by_all(
    tmp_path: Path, redis_url: str, obeys: bool, per_second: str
) -> None:
    """At most one request in its time, by whichever worker; also at a site that has no rate of its own."""
    delay_s = 0.5

    class Told(Site):
        """All begin together."""

        async def answer(self, path: str, number: int) -> Answer:
            await until(lambda: len(door.arrivals) == 2)
            return Answer()

    async with Site() as door, Told() as site:
        sites_dir = entry(tmp_path, site.name.replace("127.0.0.1:", "d"), [site], f"obey_crawl_delay = {obeys}".lower())
        limits = {"concurrent_per_host": "4", "requests_per_second": per_second}
        async with Workers(tmp_path, redis_url=redis_url, sites_dir=sites_dir, **limits) as workers:
            knowing = {
                "DOWNLOADER_MIDDLEWARES": {
                    **DOWNLOADER_MIDDLEWARES,
                    "tests.politeness.throttle.knowing.CrawlDelays": 100,
                },
                "CRAWL_DELAYS": {site.name.replace("127.0.0.1:", "d"): delay_s},
            }
            await workers.add("a", {door: 1, site: 6}, knowing)
            both = per_second == "0"  # without a rate nothing is shared until a worker knows of the delay
            await workers.add("b", {door: 1, site: 6}, knowing if both else {})
            await workers.end_all()
    together = in_order(site)
    assert len(together) == 12
    began = max(times(site, "a")[0], times(site, "b")[0])
    later = [at for at in together if at >= began]
    if obeys:
        assert later[-1] - began > 0.5 * (len(later) - 1) * delay_s
        assert together[-1] - together[0] > 0.8 * 5 * delay_s
    else:
        assert most_within(together, delay_s) > 2


@pytest.mark.soak  # it compares times; tests/politeness/throttle/test_pace.py has the same of a clock that can be set
async def test_a_site_that_answers_slower_is_asked_less_often_and_then_as_before(
    tmp_path: Path, redis_url: str
) -> None:
    """One that says nothing of limits: quick, then slow, then quick again."""

    class Tiring(Site):
        async def answer(self, path: str, number: int) -> Answer:
            if 40 <= len(self.arrivals) < 80:
                await asyncio.sleep(1.0)
            return Answer()

    async with Tiring() as site:
        plan = Plan([f"{site.url}/{number}" for number in range(140)], settings=SETTINGS)
        limits = {"concurrent_per_host": "32", "requests_per_second": "20", "redis_url": redis_url}
        crawled = await crawl(plan, tmp_path, **limits)
    assert len(site.arrivals) == 140
    at = [arrival.at for arrival in site.arrivals]
    quick, slow, again = at[39] - at[20], at[89] - at[70], at[139] - at[120]
    assert slow > 2 * quick
    assert slow > 2 * again
    assert len(re.findall(rf"{site.name} .*\b0\.05 s\b", crawled.log)) >= 2, "that it goes slower, and as fast again"


async def test_what_a_site_says_slows_down_before_it_has_to_refuse(tmp_path: Path, own_redis: str) -> None:
    """It allows 20 requests in 4 seconds, counted in windows that begin whenever they do, and says so as draft 11."""
    most, window_s = 20, 4

    class Counting(Site):
        refused = 0
        begun_at = 0.0
        used = 0

        async def answer(self, path: str, number: int) -> Answer:
            now = time.monotonic()
            if now - self.begun_at >= window_s:
                self.begun_at, self.used = now, 0
            self.used += 1
            left, reset_s = max(0, most - self.used), int(self.begun_at + window_s - now) + 1
            headers = {
                "RateLimit-Policy": f'"default";q={most};w={window_s}',
                "RateLimit": f'"default";r={left};t={reset_s}',
            }
            self.refused += self.used > most
            return Answer(429 if self.used > most else 200, headers=headers)

    async with Counting() as site:
        plan = Plan([f"{site.url}/{number}" for number in range(50)], settings=SETTINGS)
        crawled = await crawl(plan, tmp_path, redis_url=own_redis, **QUICK)
    assert [result.status for result in crawled.results] == [200] * 50
    assert site.refused == 0
    assert crawled.stats[f"harvester/interval/{site.name}"] >= window_s / most


async def test_plain_scrapy_asks_on_where_harvester_pauses(tmp_path: Path, own_redis: str) -> None:
    """The same spider at the same site, which asks for a pause of three seconds."""
    pause_s = 3

    class Refusing(Site):
        said_at = 0.0

        async def answer(self, path: str, number: int) -> Answer:
            if not self.said_at:
                self.said_at = time.monotonic()
                return Answer(429, headers={"Retry-After": str(pause_s)})
            return Answer()

        @property
        def during(self) -> int:
            """Requests that came while it wanted none."""
            return sum(self.said_at < arrival.at < self.said_at + pause_s for arrival in self.arrivals)

    urls = [f"/{number}" for number in range(20)]
    async with Refusing() as site:
        plan = Plan([site.url + url for url in urls], settings=SETTINGS)
        limits = {"concurrent_per_host": "1", "requests_per_second": "20", "redis_url": own_redis}
        crawled = await crawl(plan, tmp_path, **limits)
    assert [result.status for result in crawled.results] == [200] * 20
    assert site.during == 0
    assert len(site.arrivals) == 21

    async with Refusing() as plain:
        told = msgspec.json.encode(Plan([plain.url + url for url in urls])).decode()
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = await fork("tests.politeness.throttle.plain", told, cwd=tmp_path, env=environment)
        _, log = await process.end(240)
        assert process.returncode == 0, log
    assert plain.during > 0

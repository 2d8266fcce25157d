"""A small crawl of a Scrapy project: the whole command, beside plain Scrapy.

100 pages with a record each, `scrapy crawl small -O small.jsonl` with and without harvester's line in the settings.
Wall time and CPU are those of the whole command, with MongoDB and Redis up. Then once without them: the
command has private ones started.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.bench.servers import module, own_redis
from tests.crash.mongod import Mongod
from tests.ports import free_port

PAGES, ROUNDS = 100, 7
MOST_TIMES = 1.3
"""What a small crawl may take of wall time and of CPU, in times of plain Scrapy's: 700 modules more are loaded."""
MOST_MORE_S = 2.5
"""What it may take more where its servers are not up."""
SPIDER = """
from scrapy import Request, Spider


class Small(Spider):
    name = "small"

    async def start(self):
        yield Request("http://127.0.0.1:PORT/page/0")

    def parse(self, response):
        page = response.json()
        yield page["record"]
        for link in page["links"]:
            yield response.follow(link)
"""
LINE = 'ADDONS = {"harvester.Addon": 500}\n'


class Took(NamedTuple):
    """Seconds of one command."""

    wall: float
    cpu: float


def crawl(folder: Path, environment: dict[str, str]) -> Took:
    """Runs the command, which must give all pages."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    scrapy = Path(sys.executable).with_name("scrapy")
    done = subprocess.run(
        [scrapy, "crawl", "small", "-O", "small.jsonl"], cwd=folder, env=environment, capture_output=True, text=True
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or len((folder / "small.jsonl").read_text().splitlines()) != PAGES:
        sys.exit(done.stderr[-4000:])
    return Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def make_project(folder: Path, port: int, line: str) -> Path:
    """Writes the project into the folder, which it makes."""
    folder.mkdir()
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    (folder / "settings.py").write_text(
        f'SPIDER_MODULES = ["small"]\nLOG_LEVEL = "INFO"\nROBOTSTXT_OBEY = True\n{line}'
    )
    (folder / "small.py").write_text(SPIDER.replace("PORT", str(port)))
    return folder


def main() -> int:
    """Prints the measurement; 1 when a target is missed."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("HARVESTER_", "SCRAPY_"))}
    alone = given | {"HARVESTER_REQUESTS_PER_SECOND": "0", "HARVESTER_ALLOW_PRIVATE_HOSTS": "true"}
    with (
        TemporaryDirectory(prefix="harvester-bench-") as name,
        module("tests.bench.links", str(PAGES)) as (_, (port,)),
        own_redis() as redis_url,
        Mongod(Path(name), free_port()) as mongod,
    ):
        plain, ours = (make_project(Path(name) / each, port, LINE * (each == "ours")) for each in ("plain", "ours"))
        with_servers = alone | {"HARVESTER_REDIS_URL": redis_url, "HARVESTER_MONGODB_URI": mongod.uri}
        rounds = [(crawl(plain, given), crawl(ours, with_servers)) for _ in range(ROUNDS)]
        fresh = make_project(Path(name) / "fresh", port, LINE)
        first = crawl(fresh, alone)
    wall, cpu = (statistics.median(pair[1][part] / pair[0][part] for pair in rounds) for part in (0, 1))
    usual = statistics.median(pair[1].wall for pair in rounds)
    print(f"\nA crawl of {PAGES} pages, the whole command (median of {ROUNDS} rounds)")
    for title, place in (("plain Scrapy", 0), ("harvester", 1)):
        taken = [statistics.median(pair[place][part] for pair in rounds) for part in (0, 1)]
        print(f"  {title:13} {taken[0]:5.2f} s, {taken[1]:5.2f} s of CPU")
    print(f"  times {wall:.2f} and {cpu:.2f} (at most {MOST_TIMES} are wanted)")
    print(f"  {first.wall - usual:.2f} s more where private servers have to start (at most {MOST_MORE_S})")
    return int(max(wall, cpu) > MOST_TIMES or first.wall - usual > MOST_MORE_S)


if __name__ == "__main__":
    sys.exit(main())

"""`make bench`: harvester beside plain Scrapy and beside stock scrapy-redis.

    python -m tests.bench [posts] [items] [parcels] [frontier] [seen] [middlewares] [parked] [recheck] [small]

posts        pages for each second of CPU, over the same local pages of 100 posts
items        see items.py
parcels      see parcels.py
frontier     see frontier.py
seen         see seen.py; a tenth of the number that `make seen` adds
middlewares  see middlewares.py
parked       see parked.py
recheck      see recheck.py; about five minutes of CPU
small        see small.py

CPU time is the crawling process's own, user and system, from its first request to its last record; servers run in
processes of their own. Exit code 1 when harvester misses a target.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pymongo

from harvester.config import Config
from harvester.stores import servers
from tests.bench import frontier, items, middlewares, parcels, parked, recheck, seen, small
from tests.bench.pages import did_of

ACCOUNTS, PAGES, ROUNDS = 20, 30, 3
TARGET = 2.5
ROOT = Path(__file__).parents[2]


def plain(service: str, folder: Path) -> float:
    """Pages a CPU second of a plain spider."""
    output = folder / "plain.jsonl"
    command = [sys.executable, "-m", "tests.bench.plain", service, str(ACCOUNTS), str(PAGES), str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert sum(1 for _ in output.open()) == ACCOUNTS * PAGES * 100
    output.unlink()
    measured = json.loads(done.stdout)
    return float(measured["pages"] / measured["cpu"])


def harvester(service: str, folder: Path, database: str) -> float:
    """Pages a CPU second of the spider `bluesky`, its pages typed, cleaned, validated, staged and in MongoDB."""
    seeds = ",".join(did_of(account) for account in range(ACCOUNTS))
    arguments = ["collect=posts", "depth=0", "media=no", "honour_opt_outs=no", f"service={service}", f"seeds={seeds}"]
    command = [sys.executable, "-m", "tests.bench.measured", *arguments]
    environment = os.environ | {
        "HARVESTER_DATABASE": database,
        "HARVESTER_REQUESTS_PER_SECOND": "0",
        "HARVESTER_DATA_DIR": str(folder / database),
    }
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(done.stderr[-4000:])
    measured = json.loads(done.stdout.strip().splitlines()[-1])
    assert measured["posts"] == ACCOUNTS * PAGES * 100, measured
    return float(ACCOUNTS * PAGES / measured["cpu"])


def posts() -> int:
    """Prints the measurement of posts; 1 when harvester is not TARGET times as fast."""
    config = Config()
    uri = servers.mongodb_uri(config)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.pages", str(PAGES)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert server.stdout
        service = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        results: dict[str, list[float]] = {"plain": [], "harvester": []}
        with tempfile.TemporaryDirectory() as folder:
            os.environ["MONGODB_URI"] = uri
            for number in range(ROUNDS):
                results["plain"].append(plain(service, Path(folder)))
                results["harvester"].append(harvester(service, Path(folder), f"bench-{os.getpid()}-{number}"))
                plain_now, harvester_now = results["plain"][-1], results["harvester"][-1]
                print(f"round {number + 1}: plain Scrapy {plain_now:.0f}, harvester {harvester_now:.0f}")
    finally:
        server.terminate()
        server.wait()
        drop(uri)
    ratio = statistics.median(a / b for a, b in zip(results["harvester"], results["plain"], strict=True))
    print(f"\nPages of 100 posts for each second of CPU ({ACCOUNTS * PAGES} pages, median of {ROUNDS} rounds)")
    print(f"  plain Scrapy, JSON lines only                             {statistics.median(results['plain']):6.1f}")
    print(f"  harvester: typed, cleaned, validated, staged, in MongoDB  {statistics.median(results['harvester']):6.1f}")
    print(f"  ratio {ratio:.2f} (at least {TARGET} is wanted)")
    return int(ratio < TARGET)


def drop(uri: str) -> None:
    """Removes this bench's databases."""
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(uri) as client:
        for name in client.list_database_names():
            if name.startswith(f"bench-{os.getpid()}-"):
                client.drop_database(name)


def some_seen() -> int:
    """The measurement of seen fingerprints, with fewer."""
    return seen.main(seen.COUNT // 10)


MEASUREMENTS = {
    "posts": posts,
    "items": items.main,
    "parcels": parcels.main,
    "frontier": frontier.main,
    "seen": some_seen,
    "middlewares": middlewares.main,
    "parked": parked.main,
    "recheck": recheck.main,
    "small": small.main,
}


if __name__ == "__main__":
    sys.exit(max([MEASUREMENTS[name]() for name in sys.argv[1:] or MEASUREMENTS]))

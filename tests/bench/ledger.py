"""`make capacity`: what jobs of a given size need of MongoDB, and many workers of both servers.

    python -m tests.bench.ledger

Measures what an item costs in MongoDB from its submission to its end, and prints the tables of docs/capacity.md, to be
pasted there.
"""

import asyncio
import math
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from harvester.config import Config
from harvester.control.metrics import exposition
from harvester.items import Found
from harvester.jobs.ledger import Ledger
from harvester.jobs.transitions import Ended
from harvester.monitors.history import HEARTBEAT_SECONDS
from harvester.stores import mongodb, servers

ITEMS = 500_000
"""Their keys are in no order, as those of real sites."""
JOB_SIZES = (10**6, 10**7, 10**8)
"""Items of a job."""
WORKERS = (10, 100, 1000)
_SPREAD = 0x9E3779B1
"""Any odd number: no two products are the same modulo a power of two."""
SCRAPES, BEATS = 10, 1000
LOAD = 0.7
"""Share of a core that MongoDB should use for one job, in the long run."""


@dataclass(frozen=True)
class Measured:
    """What an item costs in MongoDB, and what looking costs."""

    disk_bytes: float
    """On the disk, compressed."""
    index_bytes: float
    """Of its indexes, likewise."""
    submit_ms: float
    """MongoDB's CPU from an empty job to one with the item."""
    harvest_ms: float
    """From claiming it to writing down how it ended."""
    count_ms: float
    """Of counting a thousand items: each looks at a job's counts when they are old."""
    scrape_ms: float
    """CPU of the controller and of both servers, for one answer to Prometheus."""
    beat_ms: float
    """Of a run that says that it is alive."""


MEANINGS = (
    "bytes of an item in MongoDB, on the disk",
    "bytes of its indexes",
    "ms of MongoDB's CPU to submit an item",
    "ms of MongoDB's CPU to claim an item and write down how it ended",
    "ms of MongoDB's CPU to count a thousand items",
    "ms of CPU for an answer to Prometheus",
    "ms of MongoDB's CPU for a worker's sign of life",
)


async def measure() -> Measured:
    with TemporaryDirectory() as folder:
        config = Config(state_dir=Path(folder), data_dir=Path(folder) / "data")
        database = mongodb.connect(config)
        try:
            mongod = psutil.Process((await database.client.admin.command("serverStatus"))["pid"])
            return await _measure(config, database, mongod)
        finally:
            await mongodb.disconnect(database)
            servers.leave()


async def _measure(config: Config, database: Any, mongod: psutil.Process) -> Measured:
    ledger = Ledger(database, _at_once)
    await ledger.make_indexes()
    job = (await ledger.open_job("bench_ledger", "a")).job
    before = _cpu(mongod)
    found = _found(ITEMS)
    while chunk := list(islice(found, 1000)):
        await ledger.add(job.id, chunk, lambda _: "example.com")
    submitted = _cpu(mongod)
    known = await ledger.job(job.id)
    assert known
    while items := await ledger.claim(known, 1000, "bench"):
        counts = {"requests": 1, "records": 1, "new": 1}
        await ledger.apply([(item.id, Ended(item.attempts, "ok", counts=counts)) for item in items])
    harvested = _cpu(mongod)
    await ledger.counting.count(job.id)
    counted = _cpu(mongod)
    await database.client.admin.command("fsync")
    about = await database.command("collStats", "job_items")
    return Measured(
        disk_bytes=about["storageSize"] / ITEMS,
        index_bytes=about["totalIndexSize"] / ITEMS,
        submit_ms=1000 * (submitted - before) / ITEMS,
        harvest_ms=1000 * (harvested - submitted) / ITEMS,
        count_ms=1000 * (counted - harvested) / (ITEMS / 1000),
        scrape_ms=await _scrape_ms(config, database, mongod),
        beat_ms=await _beat_ms(database, mongod),
    )


async def _scrape_ms(config: Config, database: Any, mongod: psutil.Process) -> float:
    before = time.process_time() + _cpu(mongod)
    for _ in range(SCRAPES):
        await exposition(config, database)
    return 1000 * (time.process_time() + _cpu(mongod) - before) / SCRAPES


async def _beat_ms(database: Any, mongod: psutil.Process) -> float:
    run = {"spider": "bench", "state": "running", "counts": {f"kind_{number}": number for number in range(20)}}
    before = _cpu(mongod)
    for number in range(BEATS):
        beat = {"_id": f"run-{number % 100}", **run, "heartbeat_at": datetime.now(UTC)}
        await database["runs"].replace_one({"_id": beat["_id"]}, beat, upsert=True)
    return 1000 * (_cpu(mongod) - before) / BEATS


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _found(number: int) -> Iterator[Found]:
    for each in range(number):
        key = f"https://example.com/parcels/{each * _SPREAD % 2**32:012d}"
        yield Found("page", key, {"address": key})


async def _at_once(operation: Any) -> Any:
    return await operation()


def constants(measured: Measured) -> str:
    """What was measured."""
    lines = ["| Measured of jobs | |", "|---|---:|"]
    lines += [f"| {meaning} | {value:g} |" for meaning, value in zip(MEANINGS, astuple(measured), strict=True)]
    return "\n".join(lines) + "\n"


def jobs(measured: Measured) -> str:
    """What a job of each size takes."""
    lines = [
        "| Items of a job | on the disk | indexes | CPU of MongoDB to submit | to harvest | to count | most items/s |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for items in JOB_SIZES:
        cells = (
            in_bytes(items * (measured.disk_bytes + measured.index_bytes)),
            in_bytes(items * measured.index_bytes),
            in_time(items * measured.submit_ms / 1000),
            in_time(items * measured.harvest_ms / 1000),
            in_time(items * measured.count_ms / 1e6),
            f"{LOAD * 1000 / measured.harvest_ms:,.0f}",
        )
        lines.append(f"| {items:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def workers(measured: Measured) -> str:
    """What so many workers cost though nothing is due."""
    lines = ["| Workers | signs of life a second | MongoDB cores for them | connections |", "|---:|---:|---:|---:|"]
    for number in WORKERS:
        beats = number / HEARTBEAT_SECONDS
        lines.append(f"| {number:,} | {beats:,.0f} | {beats * measured.beat_ms / 1000:.3f} | {number * 4:,} |")
    return "\n".join(lines) + "\n"


def shards(measured: Measured) -> str:
    """How many servers a job of the largest size needs, to end in a month or a day."""
    lines = ["| Items | in days | items/s | MongoDB shards |", "|---:|---:|---:|---:|"]
    for items in (*JOB_SIZES, 10 * JOB_SIZES[-1]):
        for days in (1, 30):
            rate = items / days / 86_400
            needed = max(1, math.ceil(rate * measured.harvest_ms / 1000 / LOAD))
            lines.append(f"| {items:,} | {days} | {rate:,.1f} | {needed} |")
    return "\n".join(lines) + "\n"


def documented(text: str) -> Measured:
    """What a page says was measured."""
    table = text.partition("| Measured of jobs | |")[2].partition("\n\n")[0]
    return Measured(*map(float, re.findall(r"\| ([\d.e+-]+) \|$", table, re.MULTILINE)))


def in_bytes(number: float) -> str:
    """As 1.2 GB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:,.0f} B"


def in_time(seconds: float) -> str:
    """As 1.2 h."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def rounded(measured: Measured) -> Measured:
    """To three digits: more say nothing."""
    return Measured(*(float(f"{value:.3g}") for value in astuple(measured)))


def main() -> int:
    measured = rounded(asyncio.run(measure()))
    print(constants(measured), jobs(measured), workers(measured), shards(measured), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The control room beside a job of a million items that two workers harvest.

    python -m tests.bench.control [items]

The items are sent in one upload. While two workers work at them, the overview and the page of the job are asked for
again and again, the list of items with filters; and the workers' items a second are counted in turns with five open
pages, in one Chromium that gives way to all else, and without. Exit code 1 when a figure misses what TARGETS has.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx2
import psutil
from pymongo import MongoClient

from harvester.config import Config
from harvester.stores import servers
from tests.bench.servers import own_redis
from tests.control.browsing import ControlRoom, chromium, logged_in
from tests.crash.harvest import Document, Harvest
from tests.sandbox.process import Sandbox

ITEMS = 1_000_000
LOOKS = 100
"""At each page."""
WINDOW_S, WINDOWS = 30.0, 4
"""In which items are counted, with pages and without."""
PAGES = 5
TARGETS = {"upload_s": 120.0, "memory_mb": 150.0, "page_ms": 300.0, "filter_ms": 500.0, "slower": 0.05}


class Bench:
    """Prints each figure, and remembers whether one misses its target."""

    def __init__(self) -> None:
        self.missed = False

    def tell(self, what: str, figure: float, unit: str, target: str) -> None:
        most = TARGETS[target]
        self.missed = self.missed or figure > most
        print(f"{what}: {figure:,.2f} {unit} (at most {most:g} wanted)", flush=True)


def accounts(path: Path, site: Sandbox, number: int) -> None:
    with path.open("w") as file:
        file.writelines(f"{site.did(each)}\n" for each in range(number))


@contextmanager
def peak_mb(pid: int) -> Iterator[list[float]]:
    """The most memory that a process has within the block, beyond what it had at first."""
    process, ended = psutil.Process(pid), threading.Event()
    before = most = process.memory_info().rss
    found: list[float] = []

    def look() -> None:
        nonlocal most
        while not ended.wait(0.05):
            most = max(most, process.memory_info().rss)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        ended.set()
        looking.join()
        found.append((most - before) / 1e6)


def submit(bench: Bench, room: ControlRoom, http: httpx2.Client, path: Path, service: str) -> str:
    """In one upload; the job."""
    wanted = {"collect": "profiles", "honour_opt_outs": "no", "media": "no", "service": service}
    query = {"spider": "bluesky", "argument": [f"{name}={value}" for name, value in wanted.items()]}
    headers = {"Idempotency-Key": "bench", "Content-Type": "text/plain"}
    with peak_mb(room.pid) as there, peak_mb(os.getpid()) as here, path.open("rb") as file:
        began = time.monotonic()
        answer = http.post("/api/v1/jobs/upload", params=query, headers=headers, content=file)
        took_s = time.monotonic() - began
    answer.raise_for_status()
    bench.tell("one upload", took_s, "s", "upload_s")
    bench.tell("memory of the controller meanwhile", there[0], "MB more", "memory_mb")
    bench.tell("memory of the client meanwhile", here[0], "MB more", "memory_mb")
    return str(answer.json()["job"])


def look(bench: Bench, http: httpx2.Client, job: str) -> None:
    """At pages and filters, one after the other."""
    pages = {"the overview": "/", "the job's page": f"/jobs/{job}", "the job in the API": f"/api/v1/jobs/{job}"}
    items = f"/api/v1/jobs/{job}/items"
    filters = {
        "items by state": f"{items}?state=waiting",
        "items by outcome": f"{items}?outcome=not_found",
        "items by a text that many hold": f"{items}?text=did:plc",
        "items by a text that none holds": f"{items}?text=nobody",
        "failed items by a text that none holds": f"{items}?state=failed&text=nobody",
        "items by a site that none is of": f"{items}?site=none.example",
        "items by their key": f"{items[:-1]}?name=did:plc:none",
    }
    for target, paths in (("page_ms", pages), ("filter_ms", filters)):
        for what, path in paths.items():
            taken = []
            for _ in range(LOOKS):
                began = time.perf_counter()
                answer = http.get(path)
                taken.append(1000 * (time.perf_counter() - began))
                assert answer.status_code in (200, 404), (path, answer.status_code)
            taken.sort()
            said = f"{what}: median {median(taken):,.0f} ms, at most {taken[-1]:,.0f} ms, 95 %"
            bench.tell(said, taken[LOOKS * 95 // 100], "ms", target)


async def slow_down(bench: Bench, room: ControlRoom, mongodb: MongoClient[Document], database: str, job: str) -> None:
    """Items a second with pages and without, in turns. To count a million items would slow them, too."""
    profiles = mongodb[database]["profiles"]
    rates: dict[bool, list[float]] = {False: [], True: []}

    async def rate() -> float:
        before, began = profiles.estimated_document_count(), time.monotonic()
        await asyncio.sleep(WINDOW_S)
        return (profiles.estimated_document_count() - before) / (time.monotonic() - began)

    for _ in range(WINDOWS):
        rates[False].append(await rate())
        async with chromium() as browser, logged_in(browser, room.url, room.token) as person:
            pages = [person.page, *[await person.page.context.new_page() for _ in range(PAGES - 1)]]
            for each, path in zip(pages, ("/", f"/jobs/{job}", "/sites", "/workers", f"/jobs/{job}"), strict=True):
                await each.goto(f"{room.url}{path}")
                await each.wait_for_function("window.did_handshake")
            give_way()
            rates[True].append(await rate())
    without, with_pages = median(rates[False]), median(rates[True])
    print(f"{without:,.0f} items a second, {with_pages:,.0f} with {PAGES} open pages; in turns:", end=" ")
    print(", ".join(f"{a:,.0f} {b:,.0f}" for a, b in zip(rates[False], rates[True], strict=True)))
    bench.tell("share that open pages cost", 1 - with_pages / without, "", "slower")


def give_way() -> None:
    """The browser's processes have what others leave of the processor: people's browsers are on other machines."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "chrom" in process.name():
                process.nice(19)


def main(number: int) -> int:
    bench, database = Bench(), f"bench-{os.getpid()}-control"
    with ExitStack() as stack:
        uri = servers.mongodb_uri(Config())
        redis = stack.enter_context(own_redis())
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="harvester-bench-")))
        site = stack.enter_context(Sandbox(accounts=number, posts=5, forked=False))
        mongodb = stack.enter_context(MongoClient[Document](uri))
        stack.callback(mongodb.drop_database, database)
        variables = {
            "HARVESTER_MONGODB_URI": uri,
            "HARVESTER_REDIS_URL": redis,
            "HARVESTER_DATABASE": database,
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "SCRAPY_SETTINGS_MODULE": "harvester.settings",
        }
        room = stack.enter_context(ControlRoom(folder, variables, forked=False))
        http = stack.enter_context(httpx2.Client(base_url=room.url, timeout=600))
        http.headers["Authorization"] = f"Bearer {room.token}"
        accounts(folder / "accounts.txt", site, number)
        job = submit(bench, room, http, folder / "accounts.txt", site.url)
        workers = [Harvest(site, folder / name, uri, database, variables) for name in ("one", "two")]
        for worker in workers:
            worker.command = ["crawl", "bluesky", "-a", f"job={job}"]
            process = worker.start()
            stack.callback(process.wait)
            stack.callback(process.kill)
        while mongodb[database]["profiles"].estimated_document_count() < 1000:
            time.sleep(0.5)
        http.cookies = asyncio.run(login(room))
        look(bench, http, job)
        asyncio.run(slow_down(bench, room, mongodb, database, job))
    return int(bench.missed)


async def login(room: ControlRoom) -> dict[str, str]:
    """What a browser is known by."""
    async with chromium() as browser, logged_in(browser, room.url, room.token) as person:
        [cookie] = await person.page.context.cookies()
        return {cookie["name"]: cookie["value"]}


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ITEMS))

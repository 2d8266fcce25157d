"""Runs of the spider `tree`, each a process `scrapy crawl tree`, and the site that they crawl."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymongo.database import Database

from tests.crawling import LONGEST_S, Answer, Site
from tests.forking import Forked, fork
from tests.root import ROOT

FINISHED, LEFT = 0, 7
"""Exit codes."""


class Tree(Site):
    """A tree of so many pages, each of which names up to three below it."""

    def __init__(self, pages: int) -> None:
        super().__init__()
        self.pages = pages
        self.bad: Callable[[str, int], int] = lambda path, number: 0
        """Path, and how often it was asked for before -> the status with which it is answered, 0: well."""

    async def answer(self, path: str, number: int) -> Answer:
        if status := self.bad(path, number):
            return Answer(status, b'{"error":"no"}')
        what, _, numbers = path.strip("/").partition("/")
        below = []
        if what == "page":
            below = [n for n in range(3 * int(numbers) - 1, 3 * int(numbers) + 2) if n <= self.pages]
        return Answer(body=json.dumps({"below": below}).encode())

    def records(self) -> set[str]:
        """Keys of all that is to be harvested."""
        kinds = ("page", "behind", "pair")
        return {f"{self.url}/{kind}/{number}" for kind in kinds for number in range(1, self.pages + 1)}


class Holding(Tree):
    """A tree that answers the first so many requests, and the others once it may."""

    def __init__(self, pages: int, first: int = 0) -> None:
        super().__init__(pages)
        self.first = first
        self.goes_on = asyncio.Event()

    async def __aexit__(self, *raised: Any) -> None:
        self.goes_on.set()
        await super().__aexit__(*raised)

    async def answer(self, path: str, number: int) -> Answer:
        if len(self.arrivals) > self.first:
            await self.goes_on.wait()
        return await super().answer(path, number)


class Runs:
    """`async with Runs(...) as runs`: none of its processes outlives the block."""

    def __init__(self, folder: Path, settings: str = "tests.jobs.settings", **variables: str) -> None:
        self._folder = folder
        self._log = folder / "log"
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCRAPY_SETTINGS_MODULE": settings,
            "HARVESTER_ALLOW_PRIVATE_HOSTS": "true",
            "HARVESTER_REQUESTS_PER_SECOND": "0",
            "HARVESTER_LEASE_SECONDS": "2",
            "HARVESTER_MAX_DELIVERIES": "100",
            "HARVESTER_STATE_DIR": str(folder / "state"),
            "HARVESTER_DATA_DIR": str(folder / "data"),
            "NO_PROXY": "127.0.0.1",
            **{f"HARVESTER_{name.upper()}": value for name, value in variables.items()},
        }
        self.processes: list[Forked] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def start(self, spider: str = "tree", **arguments: object) -> Forked:
        return await self._begin("scrapy", "crawl", spider, *_given(arguments))

    async def work(self, *words: str, **arguments: object) -> Forked:
        """`harvester worker`."""
        return await self._begin("tests.worker.command", "worker", *words, *_given(arguments))

    async def _begin(self, *words: str) -> Forked:
        with self._log.open("ab") as log:
            process = await fork(*words, cwd=self._folder, env=self._environment, log=log.fileno())
        self.processes.append(process)
        return process

    async def end(self, process: Forked, within_s: float = LONGEST_S) -> int:
        """Its exit code, when it has ended by itself."""
        try:
            async with asyncio.timeout(within_s):
                return await process.wait()
        except TimeoutError:
            await process.abort()
            raise AssertionError(f"it has not ended after {within_s} s:\n{self.said[-9000:]}") from None

    async def run(self, spider: str = "tree", **arguments: object) -> int:
        """A whole run; its exit code."""
        return await self.end(await self.start(spider, **arguments))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something to become true while a process runs."""
        async with asyncio.timeout(LONGEST_S):
            while not condition():
                assert any(process.returncode is None for process in self.processes), self.said
                await asyncio.sleep(0.01)

    async def kill(self, process: Forked) -> None:
        process.kill()
        await process.wait()

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")


def _given(arguments: Mapping[str, object]) -> list[str]:
    return [word for name, value in arguments.items() for word in ("-a", f"{name}={value}")]


def records(mongodb: Database[dict[str, Any]]) -> set[str]:
    """Keys of what is harvested."""
    return {row["_id"] for row in mongodb["leaves"].find({}, {"_id": 1})}


def states(mongodb: Database[dict[str, Any]]) -> dict[str, int]:
    """State -> items of all jobs."""
    rows = mongodb["job_items"].aggregate([{"$group": {"_id": "$state", "n": {"$sum": 1}}}])
    return {row["_id"]: row["n"] for row in rows}


def jobs(mongodb: Database[dict[str, Any]]) -> dict[str, str]:
    """Job -> state."""
    return {row["_id"]: row["state"] for row in mongodb["jobs"].find()}
